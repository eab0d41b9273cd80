"""Tools with hard schemas: every wire offers them all, and no strict provider refuses one."""

import json
from collections.abc import Callable

import pytest

from models.schema_dialects.dialect_rules import openai_faults
from toolyard.core.tools.definition import Tool
from toolyard.models import chat as openai_chat
from toolyard.models import gemini
from toolyard.models import messages as anthropic
from toolyard.models import responses as openai_responses
from wire import responses_bytes, strict_chat, strict_gemini, strict_messages, strict_responses
from wire.hard_schemas import SCHEMAS
from wire.local import offer, request, user

TOOLS = [Tool(name=name, description=f"Takes {name}.", parameters=schema) for name, schema in SCHEMAS.items()]


def chat_faults(body: bytes) -> list[str]:
    tools = json.loads(body)["tools"]
    schema_faults = [fault for tool in tools for fault in openai_faults(tool["function"]["parameters"])]
    return [*strict_chat.faults_of(body), *schema_faults]


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


@pytest.mark.parametrize("name", ["map_alone", "anything_alone", "patterns_alone"])
def test_a_tool_that_takes_what_it_does_not_name_is_offered_with_parameters(name: str) -> None:
    tool = Tool(name=name, parameters=SCHEMAS[name])
    body = json.loads(gemini.to_wire(request([user("hi")], tools=offer(tool)), strict_gemini.MODEL))
    (declaration,) = body["tools"][0]["functionDeclarations"]
    expected_schema = {"type": "string"} if name == "map_alone" else True
    assert declaration["parametersJsonSchema"]["additionalProperties"] == expected_schema
