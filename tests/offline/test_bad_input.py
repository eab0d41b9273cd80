"""Whatever is said, whatever a schema is and whatever a tool returns: it ends in a sentence or a call, and soon."""

import asyncio
from time import process_time

import msgspec
import pytest

from offline.talk import LOCAL_NOW, OfflineConversation
from toolyard import Limits, Tool, Yard, tool
from toolyard.core.items import Call, Result, TextPart, UserMessage, result_id
from toolyard.core.tools.templates import fill_examples

MAX_TURN_S = 2.0
"""Generous: a turn takes a few milliseconds of CPU; what loops or backtracks takes for ever."""

MESSAGES = {
    "empty": "",
    "spaces": " \t\n\u3000",
    "marks": "?!。。''\"\"“”《》",
    "a megabyte": "set the level to 2, " * 52_000,
    "a megabyte without a space": "a" * 1_000_000,
    "a megabyte of Chinese": "把第三个删了" * 170_000,
    "quotation marks": '"' * 2_000,
    "courtesies": "please " * 280,
    "a list": "set " + ", ".join(map(str, range(400))),
    "to to to": "from to " * 250,
    "binary": bytes(range(256)).decode("latin-1") * 8,
    "nulls": "set\0level\0to\0002",
    "lone surrogates": "set \ud800 level \udfff to 2",
    "other planes": "😀 delete 𝟟 😀 \U0010ffff",
    "marks upon marks": "e" + "\u0301" * 1_500,
    "right to left": "\u202eset level\u202c 2",
    "a huge number": f"set the level to {'9' * 400}",
    "only digits": "1" * 2_000,
    "no date": "2026-13-45 at 99:99 in 99999999 years",
    "dates": "tomorrow at 3pm or " * 100,
    "a template": "set {level} to {} {0} %s %(x)s",
    "a path": "/" * 1_900,
    "an address": "a@" * 900,
    "a link": "http://" + "a." * 900,
}


def properties(**schemas: object) -> dict[str, object]:
    return {"type": "object", "properties": schemas, "required": list(schemas)}


def nest_schema(depth: int) -> dict[str, object]:
    schema: dict[str, object] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"level": schema}, "required": ["level"], "anyOf": [schema]}
    return schema


SCHEMAS: dict[str, dict[str, object]] = {
    "nothing": {},
    "a circle": properties(level={"$ref": "#/$defs/A"}) | {"$defs": {"A": {"$ref": "#/$defs/A"}}},
    "a circle of unions": properties(level={"$ref": "#/$defs/A"})
    | {"$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}] * 3}}},
    "no such reference": properties(level={"$ref": "#/$defs/B"}),
    "a reference elsewhere": properties(level={"$ref": "https://example.org/schema"}),
    "choices of any kind": properties(level={"enum": [1, 2.5, None, True, "x", {"a": 1}, [1], "", " "]}),
    "huge choices": properties(level={"enum": [f"level {number}" for number in range(20_000)]}),
    "a list of choices": properties(level={"type": "array", "items": {"enum": ["red", "blue"]}}),
    "a list of lists": properties(level={"type": "array", "items": {"type": "array"}}),
    "several types": properties(level={"type": ["string", "null"]}, times={"type": ["integer", "null"]}),
    "no pattern": properties(level={"type": "string", "pattern": "(["}),
    "a huge pattern": properties(level={"type": "string", "pattern": r"^\d{99999999999}$"}),
    "a slow pattern": properties(level={"type": "string", "pattern": r"^(a+)+$"}),
    "a slower pattern": properties(level={"type": "string", "pattern": r"^(?=(a+)+b)(a|a)*\1$"}),
    "days": properties(d={"type": "string", "format": "date"}, level={"type": "string", "format": "time"}),
    "odd formats": properties(level={"type": "string", "format": 7}, x={"type": "string", "format": ["date"]}),
    "no schemas": {"type": "object", "properties": {"x": True, "y": None, "level": {"enum": "abc"}}, "required": "x"},
    "wrong types": {"type": 5, "properties": [], "required": {"level": True}},
    "bounds that are none": properties(level={"type": "integer", "minimum": "x", "maximum": {}}),
    "a thousand": properties(**{f"p{number}": {"type": "string"} for number in range(1_000)}, level={"type": "string"}),
    "deep": properties(level=nest_schema(40)),
    "odd names": properties(**{"": {"type": "string"}, "le vel{}": {"type": "string"}, "级别": {"type": "integer"}}),
    "huge descriptions": properties(level={"type": "string", "description": "level " * 20_000}),
}
EXAMPLES = (
    "set the level to {level}",
    "把级别设为{level}",
    "{level}",
    "set {level} {level} {level}",
    "{level}{level}",
    "",
)


def build_tool(schema: dict[str, object], *, read_only: bool = False) -> Tool:
    return Tool(
        name="set_level", description="Set a level. 设置级别", parameters=schema, examples=EXAMPLES, read_only=read_only
    )


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_any_message_to_a_tool_of_any_schema_ends_in_a_sentence_or_a_call(schema: dict[str, object]) -> None:
    talk = OfflineConversation(build_tool(schema))
    talk.say("hello")
    for name, message in MESSAGES.items():
        began = process_time()
        for text in (message, "1", "2", "yes"):
            step = talk.say(text)
            assert step.text or step.calls, name
            assert "Traceback" not in step.text
            assert len(step.text) < 20_000
        assert process_time() - began < 4 * MAX_TURN_S, name


def test_an_example_of_any_schema_is_shown_without_a_slot() -> None:
    for name, schema in SCHEMAS.items():
        examples = fill_examples(build_tool(schema))
        assert len(examples) == len(EXAMPLES), name
        assert not any("{level}" in example for example in examples), name


def nest_brackets(depth: int) -> str:
    return "[" * depth + "]" * depth


RESULTS = {
    "nothing": "",
    "null": "null",
    "deep": nest_brackets(900),
    "too deep": nest_brackets(100_000),
    "deep objects": '{"a":' * 500 + "1" + "}" * 500,
    "wide": msgspec.json.encode([{f"column {at}": at for at in range(2_000)}] * 50).decode(),
    "many": msgspec.json.encode([{"code": at, "name": "x" * 500} for at in range(5_000)]).decode(),
    "odd keys": '[{"":1,"|":"a|b\\n\\n# c","{}":null,"\\u0000":true,"code":{}}, {"code":[1]}, 5, null, []]',
    "mixed": '[1,"a",null,{"b":[{}]},[[]],1e400,-0.0]',
    "no JSON": '{"a": [1, 2',
    "binary": "\x00\x01\xff" * 100,
    "huge numbers": '{"n": 123456789012345678901234567890, "x": 1e308}',
    "a megabyte": "x" * 1_000_000,
    "HTML": "<script>alert(1)</script>" * 50,
}


@tool(read_only=True, examples=["look for {query}"])
def look(query: str) -> str:
    "Look for something."
    return RESULTS[query]


@tool(examples=["take {code} off the shelf"], sources={"code": "look"})
def take(code: str) -> str:
    "Take something."
    return "taken"


@pytest.mark.parametrize("name", RESULTS)
def test_any_result_is_told_in_a_sentence(name: str) -> None:
    talk = OfflineConversation(look, take)
    for message in (f'look for "{name}"', f'take "{name}" off the shelf'):
        began = process_time()
        step = talk.say(message)
        assert process_time() - began < MAX_TURN_S
        assert talk.ran_calls[0] == ("look", {"query": name})
        assert step.text and "Traceback" not in step.text and len(step.text) < 1_100_000
        assert not step.text.startswith(("{", "["))


def test_results_that_nobody_called_for_are_passed_over() -> None:
    talk = OfflineConversation(look, take)
    for items in (
        [Result(id="result_1", at=0.0, call_id="call_1", tool="gone", outcome="ok", content="[]")],
        [
            UserMessage(id="item_1", at=0.0, parts=(TextPart(text="hm"),)),
            Call(id="call_1", at=0.0, tool="gone", arguments={}),
            Result(id=result_id("call_1"), at=0.0, call_id="call_1", tool="gone", outcome="ok", content="[]"),
        ],
    ):
        assert talk.planner.next_step(items, LOCAL_NOW).text


async def test_a_server_answers_all_of_it() -> None:
    limits = Limits(run_seconds=30)
    async with asyncio.timeout(60), Yard(tools=[look, take], model="toolyard:offline", limits=limits) as yard:
        for name in ("empty", "binary", "nulls", "a megabyte", "quotation marks"):
            assert await yard.ask(MESSAGES[name]), name
