"""Tools of every type of the Responses API: the client's come back in their own items, others are left out by name."""

import json
import logging
from pathlib import Path

import pytest
from msgspec import Struct
from openai import BadRequestError

from surfaces.api_client import Json
from surfaces.openai.clients import Served, add_to_groceries, list_exchange, serve_script
from toolyard import tool
from toolyard.core.items import Call, ImagePart, Result
from toolyard.testing import Turn, call, say

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)
USER: Json = {"role": "user", "content": "Hello"}
LEFT_OUT = "toolyard.left_out_tools"


def define_function(name: str) -> Json:
    return {"type": "function", "name": name, "parameters": {"type": "object"}, "strict": False}


def define_namespace(name: str, *names: str) -> Json:
    return {"type": "namespace", "name": name, "description": "", "tools": [define_function(inner) for inner in names]}


class OwnTool(Struct, frozen=True, kw_only=True):
    """A tool of the client, the call that a model makes of it, and the items that stand for that call."""

    tool: Json
    turn: Turn
    item: Json
    output: Json
    """The item with the output, without the id of its call."""
    text: str
    """What the model reads."""
    choice: Json


OWN_TOOLS = {
    "namespace": OwnTool(
        tool=define_namespace("files", "read"),
        turn=call("files__read", path="a.txt"),
        item={"type": "function_call", "namespace": "files", "name": "read", "arguments": '{"path":"a.txt"}'},
        output={"type": "function_call_output", "output": "A"},
        text="A",
        choice={"type": "function", "name": "read", "namespace": "files"},
    ),
    "custom": OwnTool(
        tool={"type": "custom", "name": "patch", "description": "Patch a file."},
        turn=call("patch", input="*** Begin"),
        item={"type": "custom_tool_call", "name": "patch", "input": "*** Begin"},
        output={"type": "custom_tool_call_output", "output": "done"},
        text="done",
        choice={"type": "custom", "name": "patch"},
    ),
    "local_shell": OwnTool(
        tool={"type": "local_shell"},
        turn=call("local_shell", command=["ls"], working_directory="/tmp"),
        item={
            "type": "local_shell_call",
            "action": {"type": "exec", "env": {}, "command": ["ls"], "working_directory": "/tmp"},
        },
        output={"type": "local_shell_call_output", "output": '{"output": "a.txt"}'},
        text='{"output": "a.txt"}',
        choice={"type": "local_shell"},
    ),
    "shell": OwnTool(
        tool={"type": "shell", "environment": {"type": "local"}},
        turn=call("shell", commands=["ls"]),
        item={
            "type": "shell_call",
            "action": {"commands": ["ls"], "timeout_ms": None, "max_output_length": None},
        },
        output={
            "type": "shell_call_output",
            "output": [{"stdout": "a.txt", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
        },
        text='[{"stdout":"a.txt","stderr":"","outcome":{"type":"exit","exit_code":0}}]',
        choice={"type": "shell"},
    ),
    "apply_patch": OwnTool(
        tool={"type": "apply_patch"},
        turn=call("apply_patch", type="delete_file", path="a.txt"),
        item={"type": "apply_patch_call", "operation": {"type": "delete_file", "path": "a.txt"}},
        output={"type": "apply_patch_call_output", "status": "failed", "output": "no such file"},
        text="failed: no such file",
        choice={"type": "apply_patch"},
    ),
    "tool_search": OwnTool(
        tool={"type": "tool_search", "execution": "client", "parameters": {"type": "object"}},
        turn=call("tool_search", query="read"),
        item={"type": "tool_search_call", "execution": "client", "arguments": {"query": "read"}},
        output={
            "type": "tool_search_output",
            "execution": "client",
            "status": "completed",
            "tools": [define_namespace("files", "read")],
        },
        text="These tools can be called now: files__read",
        choice={"type": "tool_search"},
    ),
}


@pytest.fixture(params=OWN_TOOLS)
def own(request: pytest.FixtureRequest) -> OwnTool:
    return OWN_TOOLS[request.param]


async def respond(served: Served, input: object = "Hello", **fields: object) -> Json:
    return await served.client.responses.create(model="default", input=input, **fields)


def dump(item: Json) -> Json:
    return item.model_dump(by_alias=True, exclude_unset=True)


def assert_contains(item: Json, fields: Json) -> None:
    assert {key: item.get(key) for key in fields} == fields


async def test_a_tool_of_the_clients_own_comes_back_in_its_own_item(own: OwnTool) -> None:
    async with serve_script([own.turn, say("Done."), own.turn, say("Done.")]) as served:
        first = await respond(served, tools=[own.tool])
        [item] = map(dump, first.output)
        assert_contains(item, own.item)
        assert first.tools[0].type == own.tool["type"]
        assert LEFT_OUT not in first.metadata
        output = {**own.output, "call_id": item["call_id"]}
        stored = await respond(served, [output], tools=[own.tool], previous_response_id=first.id)
        assert stored.output_text == "Done."

        stateless = await respond(served, tools=[own.tool], store=False)
        [item] = map(dump, stateless.output)
        output = {**own.output, "call_id": item["call_id"]}
        last = await respond(served, [USER, item, output], tools=[own.tool], store=False)
        assert last.output_text == "Done."
    results = [item for index in (1, 3) for item in served.model.requests[index].history if isinstance(item, Result)]
    assert [result.content for result in results] == [own.text, own.text]


async def test_a_stream_has_the_item_of_the_tools_own_type(own: OwnTool) -> None:
    async with serve_script([own.turn]) as served:
        stream = await served.client.responses.create(model="default", input="Hello", tools=[own.tool], stream=True)
        events = [event async for event in stream]
    [started] = [event.item for event in events if event.type == "response.output_item.added"]
    [done] = [event.item for event in events if event.type == "response.output_item.done"]
    assert_contains(dump(done), own.item)
    assert (started.type, started.id) == (done.type, done.id)
    deltas = [event for event in events if event.type.endswith(".delta")]
    if own.item["type"] == "custom_tool_call":
        assert ([event.type for event in deltas], started.input) == (["response.custom_tool_call_input.delta"], "")
        [ended] = [event for event in events if event.type == "response.custom_tool_call_input.done"]
        assert (deltas[0].delta, ended.input) == ("*** Begin", "*** Begin")
    elif own.item["type"] != "function_call":
        assert deltas == []


async def test_a_tool_of_any_own_type_can_be_forced(own: OwnTool) -> None:
    async with serve_script([own.turn]) as served:
        fields = {"model": "default", "input": "Hello", "tools": [own.tool], "tool_choice": own.choice}
        answer = await served.client.responses.with_raw_response.create(**fields)
        assert json.loads(answer.text)["tool_choice"] == own.choice
    assert served.model.requests[0].tool_choice == own.turn.calls[0].tool


async def test_calls_of_all_kinds_are_found_again_after_a_restart(tmp_path: Path, own: OwnTool) -> None:
    store = f"sqlite:{tmp_path / 'store.db'}"
    async with serve_script([own.turn], store=store) as served:
        first = await respond(served, tools=[own.tool])
    async with serve_script([say("Done.")], store=store) as served:
        [item] = map(dump, (await served.client.responses.retrieve(first.id)).output)
        assert_contains(item, own.item)
        output = {**own.output, "call_id": item["call_id"]}
        answer = await respond(served, [output], tools=[own.tool], previous_response_id=first.id)
        assert answer.output_text == "Done."


async def test_the_input_items_of_a_response_are_of_the_clients_own_types(own: OwnTool) -> None:
    async with serve_script([say("Done.")]) as served:
        call_item, output = {**own.item, "call_id": "call_1"}, {**own.output, "call_id": "call_1"}
        answer = await respond(served, [USER, call_item, output, USER], tools=[own.tool])
        items = await served.client.responses.input_items.list(answer.id, order="asc")
        listed = [dump(item) for item in items.data]
    assert_contains(listed[1], call_item)
    assert (listed[2]["type"], listed[2]["call_id"]) == (own.output["type"], "call_1")


async def test_what_nobody_runs_is_left_out_and_named(caplog: pytest.LogCaptureFixture) -> None:
    tools: list[Json] = [
        {"type": "web_search"},
        {"type": "code_interpreter", "container": {"type": "auto"}},
        {"type": "file_search", "vector_store_ids": ["x"]},
        {"type": "image_generation"},
        {"type": "computer_use_preview", "display_width": 1, "display_height": 1, "environment": "browser"},
        {"type": "shell", "environment": {"type": "container_auto"}},
        {"type": "tool_search"},
        {"type": "telepathy", "name": "read_mind", "range": 7},
        define_function("take_photo"),
    ]
    left_out = ", ".join([*(tool["type"] for tool in tools[1:-1]), "web_search"])
    with caplog.at_level(logging.INFO, "toolyard.openai"):
        async with serve_script([say("Hi."), say("Hi.")], [add_to_groceries]) as served:
            answer = await respond(served, tools=tools, metadata={"a": "b"})
            assert answer.metadata == {"a": "b", LEFT_OUT: left_out}
            assert (await served.client.responses.retrieve(answer.id)).metadata[LEFT_OUT] == left_out
            again = await respond(served, tools=[define_function("take_photo")], metadata=answer.metadata)
            assert again.metadata == {"a": "b"}
    offered = [tool.name for tool in served.model.requests[0].offer.tools]
    assert sorted(offered) == ["add_to_groceries", "take_photo"]
    assert left_out in caplog.text


@pytest.mark.parametrize("tool_type", ["web_search", "code_interpreter", "telepathy"])
async def test_a_tool_that_nobody_runs_cannot_be_forced(tool_type: str) -> None:
    async with serve_script([]) as served:
        with pytest.raises(BadRequestError, match=f"no tool of the type '{tool_type}' can run here") as caught:
            await respond(served, tools=[{"type": tool_type}], tool_choice={"type": tool_type})
    assert caught.value.param == "tool_choice"


@tool(name="web_search")
def search_locally(query: str) -> str:
    """Search the web."""
    return f"found {query}"


@pytest.mark.parametrize("tool_type", ["web_search", "web_search_preview_2025_03_11"])
async def test_a_web_search_is_ours_where_there_is_one(tool_type: str) -> None:
    script = [call("web_search", query="milk"), say("Found.")]
    async with serve_script(script, [search_locally]) as served:
        choice = {"type": tool_type}
        answer = await respond(served, tools=[{"type": tool_type}], tool_choice=choice)
        assert (answer.output_text, answer.metadata) == ("Found.", {})
        assert served.model.requests[0].tool_choice == "web_search"


@pytest.mark.parametrize(
    ("tools", "param", "words"),
    [
        ([define_namespace("a", "b__c"), define_namespace("a__b", "c")], "tools.1.tools.0", "two tools are named"),
        ([define_function("a__b"), define_namespace("a", "b")], "tools.1.tools.0", "two tools are named"),
        ([{"type": "custom", "name": "shell"}, {"type": "shell"}], "tools.1", "two tools are named 'shell'"),
        ([define_namespace("add", "to_groceries")], "tools.0.tools.0", "the name of a tool of this server"),
        ([define_namespace("", "read")], "tools.0", "has no name"),
        ([{"type": "custom"}], "tools.0", "has no name"),
    ],
)
async def test_names_that_collide_are_refused(tools: list[Json], param: str, words: str) -> None:
    @tool
    def add__to_groceries(item: str) -> str:
        """Add an item."""
        return item

    async with serve_script([], [add__to_groceries]) as served:
        with pytest.raises(BadRequestError, match=words) as caught:
            await respond(served, tools=tools)
    assert caught.value.param == param


async def test_names_of_namespaces_that_no_model_takes_are_mapped_and_back() -> None:
    namespaces = [define_namespace("näme.space", "read/it"), define_namespace("x" * 60, "read", "write")]

    names: list[str] = []

    def play(request: Json) -> Turn:
        names.extend(tool.name for tool in request.offer.tools)
        return call(names[-1])

    async with serve_script(play) as served:
        answer = await respond(served, tools=namespaces)
    assert len(set(names)) == 3
    assert (answer.output[0].namespace, answer.output[0].name) == ("x" * 60, "write")


async def test_what_a_namespace_is_for_is_told_once() -> None:
    namespace = {**define_namespace("files", "read", "write"), "description": "The user's files."}
    async with serve_script([say("Hi.")]) as served:
        await respond(served, tools=[namespace])
    descriptions = [tool.description for tool in served.model.requests[0].offer.tools]
    assert descriptions == ["\n\nfiles: The user's files.", ""]


async def test_a_grammar_is_told_to_the_model() -> None:
    grammar = {"type": "grammar", "syntax": "lark", "definition": 'start: "x"'}
    async with serve_script([say("Hi.")]) as served:
        await respond(served, tools=[{"type": "custom", "name": "x", "description": "X.", "format": grammar}])
    [offered] = served.model.requests[0].offer.tools
    assert offered.description == 'X.\n\nThe input must match this lark grammar:\nstart: "x"'


async def test_tools_that_were_searched_for_can_be_called() -> None:
    own = OWN_TOOLS["tool_search"]
    async with serve_script([own.turn, call("files__read", path="a"), say("Done.")]) as served:
        first = await respond(served, tools=[own.tool], store=False)
        items = [USER, dump(first.output[0]), {**own.output, "call_id": first.output[0].call_id}]
        second = await respond(served, items, tools=[own.tool], store=False)
        assert (second.output[0].namespace, second.output[0].name) == ("files", "read")
        read = {"type": "function_call_output", "call_id": second.output[0].call_id, "output": "A"}
        last = await respond(served, [*items, dump(second.output[0]), read], tools=[own.tool], store=False)
    assert last.output_text == "Done."
    assert list_exchange(served.model.requests[-1].history)[2:] == ["files__read['a']", "files__read=A"]


async def test_tools_may_come_as_items() -> None:
    namespace = {"type": "namespace", "name": "functions", "description": "", "tools": [OWN_TOOLS["custom"].tool]}
    brought = {"type": "additional_tools", "role": "developer", "tools": [namespace, {"type": "web_search"}]}
    async with serve_script([call("functions__patch", input="x")]) as served:
        answer = await respond(served, [brought, USER, brought])
    [item] = map(dump, answer.output)
    assert_contains(item, {"type": "custom_tool_call", "namespace": "functions", "name": "patch", "input": "x"})
    assert answer.metadata == {LEFT_OUT: "web_search"}


async def test_items_of_all_kinds_are_taken_back_as_history() -> None:
    items: list[Json] = [USER]
    for number, own in enumerate(OWN_TOOLS.values()):
        items += [{**own.item, "call_id": f"call_{number}"}, {**own.output, "call_id": f"call_{number}"}]
    items += [
        {"type": "local_shell_call", "call_id": "call_a", "action": {"type": "exec", "command": ["ls"], "env": {}}},
        {"type": "local_shell_call_output", "id": "call_a", "output": "a.txt"},
        {"type": "computer_call", "call_id": "call_b", "action": {"type": "screenshot"}},
        {"type": "computer_call_output", "call_id": "call_b", "output": {"type": "x", "image_url": PIXEL}},
        {"type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "milk"}},
        {"type": "file_search_call", "id": "fs_1", "queries": ["milk"], "results": [{"text": "M"}]},
        {"type": "code_interpreter_call", "id": "ci_1", "code": "1", "outputs": None},
        {"type": "image_generation_call", "id": "ig_1", "result": PIXEL.partition(",")[2]},
        USER,
    ]
    async with serve_script([say("Hi.")]) as served:
        answer = await respond(served, items)
    assert answer.output_text == "Hi."
    history = served.model.requests[0].history
    calls = [item for item in history if isinstance(item, Call)]
    results = [item for item in history if isinstance(item, Result)]
    own_calls = [own.turn.calls[0] for own in OWN_TOOLS.values()]
    assert [item.tool for item in calls] == [
        *(scripted.tool for scripted in own_calls),
        *("local_shell", "computer", "web_search", "file_search", "code_interpreter", "image_generation"),
    ]
    assert [item.content for item in results] == [
        *(own.text for own in OWN_TOOLS.values()),
        *("a.txt", "[image]", "completed", '[{"text":"M"}]', "null", "[image]"),
    ]
    assert [item.arguments for item in calls[:2]] == [scripted.arguments for scripted in own_calls[:2]]


@pytest.mark.parametrize(
    "items",
    [
        [{"type": "image_generation_call", "id": "ig_1", "result": "<no image>"}],
        [
            {"type": "computer_call", "call_id": "call_b", "action": {"type": "screenshot"}},
            {"type": "computer_call_output", "call_id": "call_b", "output": {"image_url": "file:///etc/passwd"}},
        ],
    ],
)
async def test_an_image_of_a_history_must_be_one(items: list[Json]) -> None:
    async with serve_script([]) as served:
        with pytest.raises(BadRequestError, match="an image needs an address"):
            await respond(served, [USER, *items, USER])


@pytest.mark.parametrize("store", [True, False])
async def test_images_in_the_output_of_a_function_reach_the_model(store: bool) -> None:
    async with serve_script([call("take_photo"), say("Nice.")]) as served:
        tools = [define_function("take_photo")]
        first = await respond(served, tools=tools, store=store)
        content = [{"type": "input_text", "text": "Here:"}, {"type": "input_image", "image_url": PIXEL}]
        output = {"type": "function_call_output", "call_id": first.output[0].call_id, "output": content}
        previous = {"previous_response_id": first.id} if store else {}
        items = [output] if store else [USER, dump(first.output[0]), output]
        answer = await respond(served, items, tools=tools, store=store, **previous)
    assert answer.output_text == "Nice."
    [result] = [item for item in served.model.requests[-1].history if isinstance(item, Result)]
    assert (result.content, result.parts) == ("Here:\n[image]", (ImagePart(url=PIXEL),))


@pytest.mark.parametrize("store", [True, False])
async def test_an_output_that_comes_in_several_items_is_one_result(store: bool) -> None:
    own = OWN_TOOLS["custom"]
    async with serve_script([own.turn, say("Done.")]) as served:
        first = await respond(served, tools=[own.tool], store=store)
        outputs = [{**own.output, "output": text, "call_id": first.output[0].call_id} for text in ("soon", "done")]
        previous = {"previous_response_id": first.id} if store else {}
        items = outputs if store else [USER, dump(first.output[0]), *outputs]
        answer = await respond(served, items, tools=[own.tool], store=store, **previous)
    assert answer.output_text == "Done."
    assert list_exchange(served.model.requests[-1].history) == ["patch['*** Begin']", "patch=soon\ndone"]
