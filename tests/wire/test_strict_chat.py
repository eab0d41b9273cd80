"""The strict server does refuse what it says it refuses, and takes what is in order."""

import json

import pytest
from openai import AsyncOpenAI, BadRequestError
from openai.types.chat import ChatCompletionMessageParam

from wire.strict import refuses
from wire.strict_chat import StrictChat, asks, faults_of, says

Message = dict[str, object]


def body(*messages: Message, **more: object) -> bytes:
    return json.dumps({"model": "m", "stream": True, "messages": messages, **more}).encode()


def build_calls(*ids: str, name: str = "add", arguments: str = "{}") -> Message:
    calls = [{"id": id, "type": "function", "function": {"name": name, "arguments": arguments}} for id in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(id: str) -> Message:
    return {"role": "tool", "tool_call_id": id, "content": "3"}


def tool(name: str) -> Message:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}


def build_tool(**schema: object) -> Message:
    return {"type": "function", "function": {"name": "add", "parameters": schema}}


HI: Message = {"role": "user", "content": "hi"}
NAMED_CHOICE = {"type": "function", "function": {"name": "add"}}


@pytest.mark.parametrize(
    "good",
    [
        body(HI),
        body({"role": "system", "content": "s"}, HI, build_calls("a", "b"), result("b"), result("a"), HI),
        body(
            HI,
            build_calls("a"),
            result("a"),
            build_calls("b"),
            result("b"),
            tools=[tool("add")],
            tool_choice=NAMED_CHOICE,
        ),
        body({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}),
    ],
)
def test_what_is_in_order_is_taken(good: bytes) -> None:
    assert faults_of(good) == []


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (b"{", "truncated"),
        (body(), "length >= 1"),
        (body(HI, temperature_=1), "unknown field `temperature_`"),
        (body({**HI, "id": "u1"}), "unknown field `id`"),
        (body({"role": "robot", "content": "hi"}), "robot"),
        (body(HI, build_calls("a")), "has no result"),
        (body(HI, build_calls("a"), HI, result("a")), "has no result before"),
        (body(HI, build_calls("a", "b"), result("a"), HI), "call 'b' has no result"),
        (body(HI, result("a")), "does not follow its call"),
        (body(HI, build_calls("a"), result("a"), result("a")), "does not follow its call"),
        (body(HI, build_calls("a"), result("a"), HI, result("a")), "does not follow its call"),
        (body(HI, build_calls("a", "a"), result("a"), result("a")), "used twice"),
        (body(HI, build_calls("a"), result("a"), build_calls("a"), result("a")), "used twice"),
        (body(HI, build_calls("a", arguments='{"x":'), result("a")), "not JSON"),
        (body(HI, build_calls("a", arguments="[]"), result("a")), "not an object"),
        (body(HI, build_calls("a", name="a.b"), result("a")), "bad tool name 'a.b'"),
        (body(HI, build_calls("a", name=""), result("a")), "bad tool name ''"),
        (body(HI, {"role": "assistant", "content": None}), "needs content"),
        (body(HI, {"role": "assistant", "content": None, "tool_calls": []}), "length >= 1"),
        (body(HI, tools=[]), "length >= 1"),
        (body(HI, tools=[tool("x" * 65)]), "bad tool name"),
        (body(HI, tools=[tool("add"), tool("add")]), "used twice"),
        (body(HI, tool_choice="auto"), "needs tools"),
        (body(HI, tools=[build_tool(type="object")]), "missing properties"),
        (body(HI, tools=[build_tool(type="object", properties={}, anyOf=[])]), "anyOf"),
        (body(HI, tools=[build_tool(type="object", properties={"a": {"type": "array"}})]), "missing items"),
        (body(HI, tools=[tool("sub")], tool_choice=NAMED_CHOICE), "not offered"),
    ],
)
def test_what_is_not_in_order_is_refused(bad: bytes, says: str) -> None:
    assert says in "; ".join(faults_of(bad))


async def test_it_answers_by_script_and_refuses_with_400_so_that_the_official_sdk_agrees() -> None:
    strict = StrictChat(says("Hel", "lo"), asks(("add", {"a": 1})), refuses(403, "no"))
    async with strict.serving() as base_url, AsyncOpenAI(base_url=base_url, api_key="k", max_retries=0) as client:
        hi: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hi"}]
        stream = await client.chat.completions.create(model="m", messages=hi, stream=True)
        read = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
        assert "".join(read) == "Hello"
        orphan: ChatCompletionMessageParam = {"role": "tool", "tool_call_id": "x", "content": ""}
        with pytest.raises(BadRequestError, match="does not follow its call"):
            await client.chat.completions.create(model="m", messages=[orphan], stream=True)
    assert len(strict.bodies) == 2
    assert len(strict.refusals) == 1
    assert len(strict.replies) == 2
