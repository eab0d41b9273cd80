"""Our request bodies are what the official SDK's request types say, and the check refuses nonsense."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

from toolyard.core.items import (
    Call,
    FilePart,
    ImagePart,
    Item,
    ModelText,
    Reasoning,
    Result,
    SystemText,
    TextPart,
    UserMessage,
)
from toolyard.core.tools import Tool
from toolyard.models.openai_chat import to_wire
from wire.local import NOW, offer, request, user
from wire.sdk_types import mismatches

ADD = Tool(name="add", description="Add.", parameters={"type": "object", "properties": {"a": {"type": "integer"}}})
PARTS = (
    TextPart(text="look"),
    ImagePart(url="https://example.org/a.png"),
    ImagePart(url="data:image/png;base64,AA=="),
    FilePart(url="data:application/pdf;base64,AA==", name="a.pdf"),
    FilePart(url="https://example.org/b.pdf"),
)
HISTORY: list[Item] = [
    user("hi"),
    SystemText(id="s1", at=NOW, text="be brief"),
    UserMessage(id="u2", at=NOW, parts=PARTS),
    Reasoning(id="r1", at=NOW, text="hm", provider="openai"),
    ModelText(id="t1", at=NOW, text="I add."),
    Call(id="c1", at=NOW, tool="add", arguments={"a": 1}),
    Call(id="c2", at=NOW, tool="no such.tool", arguments={}, unreadable="cut off"),
    Result(id="c1.result", at=NOW, call_id="c1", tool="add", outcome="ok", content="3"),
    Result(id="c2.result", at=NOW, call_id="c2", tool="no such.tool", outcome="error", content="no"),
    Call(id="c3", at=NOW, tool="add", arguments={}),
]
BODY = json.loads(to_wire(request(HISTORY, system="You help.", tools=offer(ADD, Tool(name="now")))))
Body = dict[str, Any]


def wrong(body: object) -> list[str]:
    return mismatches(body, CompletionCreateParamsStreaming)


@pytest.mark.parametrize("choice", ["auto", "none", "required", "add"])
def test_a_body_with_everything_in_it_fits_the_types(choice: str) -> None:
    asked = request(HISTORY, system="You help.", tools=offer(ADD), tool_choice=choice)
    assert wrong(json.loads(to_wire(asked))) == []


def test_a_body_with_next_to_nothing_in_it_fits_the_types() -> None:
    assert wrong(json.loads(to_wire(request([user("hi")])))) == []


def set_extra(body: Body) -> None:
    body["messages"][0]["id"] = "x"


def set_deep_extra(body: Body) -> None:
    body["messages"][4]["tool_calls"][0]["function"]["tool"] = "x"


def drop_needed(body: Body) -> None:
    del body["messages"][4]["tool_calls"][0]["function"]["arguments"]


def set_wrong_type(body: Body) -> None:
    body["messages"][4]["tool_calls"][0]["function"]["arguments"] = {"a": 1}


def set_wrong_role(body: Body) -> None:
    body["messages"][1]["role"] = "robot"


def set_wrong_part(body: Body) -> None:
    body["messages"][3]["content"][1] = {"type": "image_url", "image_url": "https://example.org"}


def set_unknown_choice(body: Body) -> None:
    body["tool_choice"] = "sometimes"


def set_top_level_extra(body: Body) -> None:
    body["memo"] = {}


def set_not_streaming(body: Body) -> None:
    body["stream"] = 1


def set_bad_tool(body: Body) -> None:
    body["tools"][0]["parameters"] = {}


@pytest.mark.parametrize(
    "spoil",
    [
        set_extra,
        set_deep_extra,
        drop_needed,
        set_wrong_type,
        set_wrong_role,
        set_wrong_part,
        set_unknown_choice,
        set_top_level_extra,
        set_not_streaming,
        set_bad_tool,
    ],
)
def test_nonsense_does_not_fit_the_types(spoil: Callable[[Body], None]) -> None:
    """A negative control for each kind of mistake that the walker must see."""
    body = copy.deepcopy(BODY)
    assert wrong(body) == []
    spoil(body)
    assert wrong(body) != []
