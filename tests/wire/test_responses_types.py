"""Our Responses bodies are what the official SDK's request types say, and the check refuses nonsense."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

from toolyard.core.settings.models.options import Options
from toolyard.core.tools.definition import Tool
from toolyard.models.responses import from_wire, to_wire
from wire.checks import expect_ended
from wire.everything import ADD, CLOSED_OBJECT, CODE, EMPTY_OBJECT, FILES, HISTORY, WEB_SEARCH
from wire.local import offer, request, user
from wire.responses_bytes import CITED_TEXT, MODEL, SEARCH, build_reasoning, events, text
from wire.responses_bytes import CODE as RAN_CODE
from wire.responses_bytes import FILES as RAN_FILES
from wire.sdk_types import mismatches
from wire.strict_responses import faults_of

REPLY_EVENTS = events(
    build_reasoning("Hm."),
    SEARCH,
    build_reasoning(id="rs_2"),
    RAN_CODE,
    RAN_FILES,
    CITED_TEXT,
    text("So.", phase="final_answer"),
)
SEALED_ITEMS = [
    user("search", "u9"),
    *expect_ended(from_wire(REPLY_EVENTS, request(model=MODEL))).items,
]
EVERYTHING = request(
    [*HISTORY, *SEALED_ITEMS, user("go on", "u10")],
    system="You help.",
    tools=offer(ADD, Tool(name="now"), WEB_SEARCH, CODE, FILES),
)
BODY = json.loads(to_wire(EVERYTHING, MODEL))
Body = dict[str, Any]


def type_mismatches(body: object) -> list[str]:
    return mismatches(body, ResponseCreateParamsStreaming)


@pytest.mark.parametrize(
    ("options", "model", "expected"),
    [
        (Options(max_tokens=900, temperature=0.2), MODEL, {"max_output_tokens": 900, "temperature": 0.2}),
        (Options(thinking="low"), MODEL, {"reasoning": {"effort": "low", "summary": "auto"}}),
        (Options(thinking=30_000), MODEL, {"reasoning": {"effort": "high", "summary": "auto"}}),
        (Options(thinking="low"), "gpt-4o", {}),
        (
            Options(top_p=0.9, output_schema=EMPTY_OBJECT),
            MODEL,
            {
                "top_p": 0.9,
                "text": {"format": {"type": "json_schema", "name": "answer", "strict": True, "schema": CLOSED_OBJECT}},
            },
        ),
    ],
)
def test_how_a_model_is_to_answer_is_said_in_the_provider_s_words(options: Options, model: str, expected: Body) -> None:
    plain, body = (json.loads(to_wire(request([user("hi")], options=choice), model)) for choice in (Options(), options))
    assert type_mismatches(body) == []
    assert body == {**plain, **expected}


@pytest.mark.parametrize("choice", ["auto", "none", "required", "add", "web_search"])
def test_a_body_with_everything_in_it_fits_the_types_and_a_strict_provider(choice: str) -> None:
    model_request = request(
        [*HISTORY, *SEALED_ITEMS, user("go on", "u10")],
        system="You help.",
        tools=offer(ADD, WEB_SEARCH, CODE, FILES),
        tool_choice=choice,
    )
    body = to_wire(model_request, MODEL)
    assert (type_mismatches(json.loads(body)), faults_of(body)) == ([], [])
    kinds = {item.get("type", "message") for item in json.loads(body)["input"]}
    assert kinds == {
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
        "web_search_call",
        "code_interpreter_call",
        "file_search_call",
    }


def test_a_body_with_next_to_nothing_in_it_fits_the_types() -> None:
    assert type_mismatches(json.loads(to_wire(request([user("hi")])))) == []


def find_item(body: Body, kind: str) -> Body:
    return next(item for item in body["input"] if item.get("type") == kind)


def set_extra(body: Body) -> None:
    body["input"][0]["id"] = "x"


def set_top_level_extra(body: Body) -> None:
    body["messages"] = []


def drop_needed(body: Body) -> None:
    del find_item(body, "function_call")["arguments"]


def set_wrong_type(body: Body) -> None:
    find_item(body, "function_call")["arguments"] = {"a": 1}


def set_wrong_role(body: Body) -> None:
    body["input"][0]["role"] = "tool"


def set_wrong_part(body: Body) -> None:
    body["input"][2]["content"][1] = {"type": "image_url", "image_url": {"url": "https://example.org"}}


def drop_summary(body: Body) -> None:
    del find_item(body, "reasoning")["summary"]


def set_wrong_summary(body: Body) -> None:
    find_item(body, "reasoning")["summary"] = ["Hm."]


def set_wrong_action(body: Body) -> None:
    find_item(body, "web_search_call")["action"]["engine"] = "x"


def set_unknown_choice(body: Body) -> None:
    body["tool_choice"] = "sometimes"


def set_chat_tool(body: Body) -> None:
    body["tools"][0] = {"type": "function", "function": {"name": "add", "parameters": {}}}


def set_blocked(body: Body) -> None:
    body["tools"][2]["filters"]["blocked_domains"] = ["a"]


def set_unknown_include(body: Body) -> None:
    body["include"].append("everything")


@pytest.mark.parametrize(
    "spoil",
    [
        set_extra,
        set_top_level_extra,
        drop_needed,
        set_wrong_type,
        set_wrong_role,
        set_wrong_part,
        drop_summary,
        set_wrong_summary,
        set_wrong_action,
        set_unknown_choice,
        set_chat_tool,
        set_blocked,
        set_unknown_include,
    ],
)
def test_nonsense_does_not_fit_the_types(spoil: Callable[[Body], None]) -> None:
    """A negative control for each kind of mistake that the walker must see."""
    body = copy.deepcopy(BODY)
    assert type_mismatches(body) == []
    spoil(body)
    assert type_mismatches(body) != []
