"""Our request bodies are what the official SDK's request types say, and the check refuses nonsense."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

from toolyard.core.settings.models.options import Options
from toolyard.core.tools.definition import Tool
from toolyard.models.chat import to_wire
from wire.everything import ADD, CLOSED_OBJECT, EMPTY_OBJECT, HISTORY
from wire.local import offer, request, user
from wire.sdk_types import mismatches

BODY = json.loads(to_wire(request(HISTORY, system="You help.", tools=offer(ADD, Tool(name="now")))))
Body = dict[str, Any]


def type_mismatches(body: object) -> list[str]:
    return mismatches(body, CompletionCreateParamsStreaming)


@pytest.mark.parametrize("choice", ["auto", "none", "required", "add"])
def test_a_body_with_everything_in_it_fits_the_types(choice: str) -> None:
    model_request = request(HISTORY, system="You help.", tools=offer(ADD), tool_choice=choice)
    assert type_mismatches(json.loads(to_wire(model_request))) == []


def test_a_body_with_next_to_nothing_in_it_fits_the_types() -> None:
    assert type_mismatches(json.loads(to_wire(request([user("hi")])))) == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (Options(), {}),
        (Options(max_tokens=900, temperature=0.2), {"max_completion_tokens": 900, "temperature": 0.2}),
        (Options(thinking="high"), {"reasoning_effort": "high"}),
        (Options(thinking=4_096), {"reasoning_effort": "medium"}),
        (Options(thinking="adaptive"), {}),
        (Options(top_p=0.9, stop=("END",), seed=7), {"top_p": 0.9, "stop": ["END"], "seed": 7}),
        (
            Options(output_schema=EMPTY_OBJECT),
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "answer", "strict": True, "schema": CLOSED_OBJECT},
                }
            },
        ),
    ],
)
def test_how_a_model_is_to_answer_is_said_in_the_provider_s_words(options: Options, expected: Body) -> None:
    plain, body = (json.loads(to_wire(request([user("hi")], options=choice))) for choice in (Options(), options))
    assert type_mismatches(body) == []
    assert body == {**plain, **expected}


@pytest.mark.parametrize(
    ("provider", "expected"),
    [
        ("dashscope", {"max_tokens": 900, "enable_thinking": True, "thinking_budget": 2_048}),
        ("deepseek", {"max_tokens": 900, "reasoning_effort": "low"}),
    ],
)
def test_other_providers_have_other_words_for_it(provider: str, expected: Body) -> None:
    options = Options(max_tokens=900, thinking="low")
    body = json.loads(to_wire(request([user("hi")], options=options), provider=provider))
    assert body.items() >= expected.items()
    assert "max_completion_tokens" not in body


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
    assert type_mismatches(body) == []
    spoil(body)
    assert type_mismatches(body) != []
