"""Tools with hard schemas: every wire offers them all, no strict provider refuses one, and right calls are read."""

import asyncio
import json
from collections.abc import Callable

import pytest

from models.dialect_rules import openai_faults
from toolyard.core.items import Call
from toolyard.core.ports import Model
from toolyard.core.tools import Tool
from toolyard.models import anthropic, gemini, openai_chat, openai_responses
from toolyard.models.gemini import Gemini
from toolyard.models.openai_responses import OpenAIResponses
from wire import gemini_bytes, responses_bytes, strict_chat, strict_gemini, strict_messages, strict_responses
from wire.checks import calls_of, ended
from wire.hard_schemas import SCHEMAS
from wire.local import events_of, offer, opened, request, user
from wire.strict import Strict

TOOLS = [Tool(name=name, description=f"Takes {name}.", parameters=schema) for name, schema in SCHEMAS.items()]


def chat_faults(body: bytes) -> list[str]:
    tools = json.loads(body)["tools"]
    found = [fault for tool in tools for fault in openai_faults(tool["function"]["parameters"])]
    return [*strict_chat.faults_of(body), *found]


WIRES: dict[str, tuple[Callable[..., bytes], str, Callable[[bytes], list[str]]]] = {
    "chat": (openai_chat.to_wire, "m", chat_faults),
    "responses": (openai_responses.to_wire, responses_bytes.MODEL, strict_responses.faults_of),
    "messages": (anthropic.to_wire, "claude", strict_messages.faults_of),
    "gemini": (gemini.to_wire, strict_gemini.MODEL, strict_gemini.faults_of),
}


@pytest.mark.parametrize("wire", WIRES)
def test_every_tool_is_offered_and_none_is_refused(wire: str) -> None:
    to_wire, model, faults_of = WIRES[wire]
    body = to_wire(request([user("hi")], tools=offer(*TOOLS)), model)
    assert faults_of(body) == []
    assert all(f'"Takes {tool.name}.' in body.decode() for tool in TOOLS)


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("wire", WIRES)
def test_each_tool_is_taken_alone(wire: str, name: str) -> None:
    to_wire, model, faults_of = WIRES[wire]
    assert (
        faults_of(to_wire(request([user("hi")], tools=offer(Tool(name=name, parameters=SCHEMAS[name]))), model)) == []
    )


RIGHT: dict[str, dict[str, object]] = {
    "closed": {"a": 1},
    "recursive": {"root": {"name": "a", "children": [{"name": "b", "children": []}]}},
    "tuple": {"at": [1, 2.5]},
    "map": {"env": {"PATH": "/bin"}},
    "choices": {"a": None, "b": "one"},
    "docs": {"edits": [{"oldText": "面粉", "newText": "🥛"}], "dryRun": True},
    "odd_keys": {"key with spaces": "a", "schlüssel": "b"},
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_call_is_read_as_it_was_written(name: str) -> None:
    async def read(model: Model, server: Strict) -> Call:
        asked = request([user("hi")], tools=offer(*TOOLS))
        (call,) = calls_of(ended(await events_of(model, asked)))
        assert server.refusals == []
        return call

    async def run() -> None:
        gpt = strict_responses.strict_responses(responses_bytes.asks((name, RIGHT[name])))
        google = strict_gemini.strict_gemini(gemini_bytes.asks((name, RIGHT[name])))
        async with gpt.serving() as url, opened(OpenAIResponses(base_url=url, model=responses_bytes.MODEL)) as model:
            one = await read(model, gpt)
        async with google.serving() as url, opened(Gemini(base_url=url, model=strict_gemini.MODEL)) as model:
            other = await read(model, google)
        for call in (one, other):
            assert (call.tool, call.arguments, call.unreadable) == (name, RIGHT[name], "")

    asyncio.run(run())
