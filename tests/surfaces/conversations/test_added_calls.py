"""Calls and results that a client adds by hand: they stay consistent, and no later request fails for them."""

import json

import pytest

from surfaces.api_client import ApiClient, Json, open_api_client
from toolyard import tool
from toolyard.core.conversation.history import find_faults
from toolyard.core.items import Call, Result
from toolyard.testing import Scripted, call, say


@tool
def list_directory(path: str) -> list[str]:
    """List the files of a directory."""
    return [path]


def build_calls_message(*ids: str, content: str | None = None) -> Json:
    """An assistant's message with calls, as the seed shows it."""
    function = {"name": "list_directory", "arguments": '{"path": "/docs"}'}
    calls = [{"id": call_id, "type": "function", "function": function} for call_id in ids]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def build_result_message(call_id: str, content: str = '{"files": []}') -> Json:
    return {"role": "tool", "content": content, "tool_call_id": call_id, "name": "list_directory"}


async def add_messages(http: ApiClient, path: str, *messages: Json) -> list[Json]:
    """Add messages and return them as they were answered."""
    return [(await http.post(f"{path}/messages", message, expect=201))["message"] for message in messages]


async def test_a_call_and_its_result_are_added_and_given_to_the_model() -> None:
    model = Scripted([say("ok")])
    async with open_api_client(model, tools=[list_directory]) as http:
        path = await http.create_conversation()
        user = {"role": "user", "content": "What files are in /docs?"}
        added = await add_messages(http, path, user, build_calls_message("call_123"), build_result_message("call_123"))
        assert await http.list_messages(path) == added
        assert added[1]["content"] is None
        (tool_call,) = added[1]["tool_calls"]
        assert (tool_call["id"], tool_call["type"]) == ("call_123", "function")
        assert json.loads(tool_call["function"]["arguments"]) == {"path": "/docs"}
        assert (added[2]["tool_call_id"], added[2]["name"]) == ("call_123", "list_directory")
        await http.post(f"{path}/chat", {"content": "go on"})
        history = list(model.requests[0].history)
        assert find_faults(history) == []
        assert [type(item) for item in history[1:3]] == [Call, Result]


async def test_the_results_of_several_calls_come_in_any_order() -> None:
    async with open_api_client([say("ok")], tools=[list_directory]) as http:
        path = await http.create_conversation()
        added = await add_messages(
            http,
            path,
            build_calls_message("a", "b", content="I look."),
            build_result_message("b"),
            build_result_message("a"),
        )
        assert (added[0]["content"], len(added[0]["tool_calls"])) == ("I look.", 2)
        await http.post(f"{path}/chat", {"content": "go on"})


@pytest.mark.parametrize(
    "message",
    [
        build_result_message("nowhere"),
        {"role": "tool", "content": "x"},
        {"role": "user", "content": "x", "tool_calls": build_calls_message("a")["tool_calls"]},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "assistant", "content": "", "tool_calls": None},
        {"role": "user", "content": None},
        build_calls_message("a", "a"),
        {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{"}}]},
        {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "[]"}}]},
        {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "no such name!"}}]},
        {"role": "assistant", "tool_calls": [{"id": "", "function": {"name": "f"}}]},
        build_calls_message(*(f"c{number}" for number in range(65))),
    ],
)
async def test_what_would_have_no_counterpart_or_cannot_be_read_is_422(message: Json) -> None:
    async with open_api_client() as http:
        path = await http.create_conversation()
        refused = await http.post(f"{path}/messages", message, expect=422)
        assert refused["details"]["fields"]
        assert await http.list_messages(path) == []


async def test_a_result_is_taken_once() -> None:
    async with open_api_client() as http:
        path = await http.create_conversation()
        await add_messages(http, path, build_calls_message("a"), build_result_message("a"))
        await http.post(f"{path}/messages", build_result_message("a"), expect=422)
        await add_messages(http, path, {"role": "user", "content": "x"})
        await http.post(f"{path}/messages", build_result_message("a"), expect=422)


@pytest.mark.parametrize("answered", [[], ["a"]])
async def test_a_chat_after_a_call_without_its_result_goes_on(answered: list[str]) -> None:
    model = Scripted([say("ok"), say("ok")])
    async with open_api_client(model) as http:
        path = await http.create_conversation()
        await add_messages(http, path, build_calls_message("a", "b"), *map(build_result_message, answered))
        done = await http.post(f"{path}/chat", {"content": "go on"})
        assert done["assistant_message"]["content"] == "ok"
        assert find_faults(model.requests[0].history) == []
        messages = await http.list_messages(path)
        assert [message["role"] for message in messages] == ["assistant", "tool", "tool", "user", "assistant"]
        result_content = json.loads(messages[2]["content"])
        assert (result_content["ok"], result_content["error_type"]) == (False, "cancelled")
        await http.post(f"{path}/messages", build_result_message("b"), expect=422)
        await http.post(f"{path}/chat", {"content": "and on"})


@pytest.mark.parametrize(
    "next_one", [{"role": "user", "content": "x"}, {"role": "system", "content": "x"}, build_calls_message("b")]
)
async def test_a_message_after_a_call_without_its_result_closes_it(next_one: Json) -> None:
    model = Scripted([say("ok")])
    async with open_api_client(model) as http:
        path = await http.create_conversation()
        await add_messages(http, path, build_calls_message("a"), next_one)
        assert [message["role"] for message in await http.list_messages(path)][:2] == ["assistant", "tool"]
        await http.post(f"{path}/chat", {"content": "go on"})
        assert find_faults(model.requests[0].history) == []


async def test_a_direct_call_after_a_call_without_its_result_goes_on() -> None:
    async with open_api_client(tools=[list_directory]) as http:
        path = await http.create_conversation()
        await add_messages(http, path, build_calls_message("a"))
        reply = await http.send_request(
            "POST", f"{path}/calls", {"tool": "list_directory", "arguments": {"path": "/x"}}
        )
        assert reply[0] == 202
        await http.read_until_done(path)
        assert [message["role"] for message in await http.list_messages(path)] == [
            "assistant",
            "tool",
            "assistant",
            "tool",
        ]


async def test_an_id_that_is_taken_gets_another_and_its_result_still_finds_it() -> None:
    model = Scripted([say("ok")])
    async with open_api_client(model) as http:
        path = await http.create_conversation()
        added = await add_messages(
            http,
            path,
            build_calls_message("a"),
            build_result_message("a", "1"),
            build_calls_message("a"),
            build_result_message("a", "2"),
        )
        first, second = added[0]["tool_calls"][0]["id"], added[2]["tool_calls"][0]["id"]
        assert first == "a" != second
        assert [added[1]["tool_call_id"], added[3]["tool_call_id"]] == [first, second]
        odd = await add_messages(http, path, build_calls_message("a id with spaces"))
        assert odd[0]["tool_calls"][0]["id"] != "a id with spaces"
        await add_messages(http, path, build_result_message("a id with spaces"))
        await http.post(f"{path}/chat", {"content": "go on"})
        assert find_faults(model.requests[0].history) == []


async def test_calls_without_a_text_join_the_assistants_text_before_them() -> None:
    async with open_api_client() as http:
        path = await http.create_conversation()
        added = await add_messages(
            http, path, {"role": "assistant", "content": "I look."}, build_calls_message("a"), build_result_message("a")
        )
        assert await http.list_messages(path) == added[1:]
        assert (added[1]["id"], added[1]["content"]) == (added[0]["id"], "I look.")


async def test_deleting_takes_calls_and_results_along() -> None:
    async with open_api_client() as http:
        path = await http.create_conversation()
        added = await add_messages(
            http, path, build_calls_message("a"), build_result_message("a"), build_calls_message("b")
        )
        await http.delete(f"{path}/messages/{added[2]['id']}")
        await http.delete(f"{path}/messages/{added[1]['id']}")
        assert await http.list_messages(path) == []


async def test_they_are_there_after_a_restart(tmp_path: object) -> None:
    store = f"sqlite:///{tmp_path}/x.db"
    paths: list[str] = []
    async with open_api_client(store=store) as http:
        paths.append(await http.create_conversation())
        await add_messages(http, paths[0], build_calls_message("a"))
    async with open_api_client(
        [call("list_directory", path="/"), say("ok")], tools=[list_directory], store=store
    ) as http:
        await add_messages(http, paths[0], build_result_message("a"))
        await http.post(f"{paths[0]}/chat", {"content": "go on"})


async def test_the_id_of_a_call_on_another_branch_is_not_used_again() -> None:
    async with open_api_client([], tools=[list_directory]) as http:
        path = await http.create_conversation()
        pair = (build_calls_message("call_1"), build_result_message("call_1"))
        first = await add_messages(http, path, *pair)
        await http.post(f"{path}/rewind", {"to": ""})
        second = await add_messages(http, path, *pair)
        assert first[0]["tool_calls"][0]["id"] == "call_1" != second[0]["tool_calls"][0]["id"]
        assert second[1]["tool_call_id"] == second[0]["tool_calls"][0]["id"]
