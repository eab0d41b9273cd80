"""Our Messages bodies are what the official SDK's request types say, and the check refuses nonsense."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from anthropic.types.message_create_params import MessageCreateParamsStreaming

from toolyard.core.conversation.events import TurnEnded
from toolyard.core.items import FilePart, ImagePart, Item, SystemText, TextPart, UserMessage
from toolyard.core.settings.models.options import Options
from toolyard.core.settings.web_search import UserLocation
from toolyard.core.tools.definition import ProviderOptions, Tool
from toolyard.models.messages import from_wire, to_wire
from wire.everything import CLOSED_OBJECT, EMPTY_OBJECT
from wire.local import NOW, offer, request, user
from wire.messages_streams import encode_cited_text, encode_search, encode_search_result
from wire.sdk_types import mismatches
from wire.strict_messages import encode_block, encode_end, encode_start, encode_thinking, encode_tool_use

Body = dict[str, Any]
PARTS = (
    TextPart(text="look"),
    ImagePart(url="https://example.org/a.png"),
    ImagePart(url="data:image/png;base64,AAAA"),
    FilePart(url="data:application/pdf;base64,JVBERi0xLjQ=", name="a.pdf"),
    FilePart(url="data:,text", name="a.txt"),
    FilePart(url="https://example.org/b.pdf"),
)
NOTHING: list[object] = []
ENABLED = {"type": "enabled"}
CODE_RESULT = {"type": "bash_code_execution_result", "stdout": "3", "stderr": "", "return_code": 0, "content": NOTHING}
TURN_ENDED = from_wire(
    [
        encode_start(),
        encode_thinking(0, "Hm"),
        encode_block(1, {"type": "redacted_thinking", "data": "hidden_1"}),
        encode_search(2),
        encode_search_result(3, "srvtoolu_1"),
        encode_tool_use(4, "srvtoolu_2", "bash_code_execution", '{"command": "x"}', kind="server_tool_use"),
        encode_block(
            5, {"type": "bash_code_execution_tool_result", "tool_use_id": "srvtoolu_2", "content": CODE_RESULT}
        ),
        encode_search(6, "srvtoolu_3"),
        encode_search_result(7, "srvtoolu_3", {"type": "web_search_tool_result_error", "error_code": "unavailable"}),
        encode_cited_text(8, "so"),
        encode_tool_use(9, "toolu_1", "add", '{"a": 1}'),
        encode_end("tool_use"),
    ],
    request(),
)[-1]
assert isinstance(TURN_ENDED, TurnEnded)
HISTORY: list[Item] = [
    user("hi"),
    SystemText(id="s1", at=NOW, text="be brief"),
    UserMessage(id="u2", at=NOW, parts=PARTS),
    *TURN_ENDED.items,
]
LOCATION = UserLocation(city="Bonn", region="NRW", country="DE", timezone="Europe/Berlin")
OPTIONS = ProviderOptions(max_uses=3, blocked_domains=("a.org",), user_location=LOCATION)
TOOLS = offer(
    Tool(name="add", description="Add.", parameters={"type": "object", "properties": {"a": {"type": "integer"}}}),
    Tool(name="web_search", venue="provider", options=OPTIONS),
    Tool(name="code_execution", venue="provider"),
)
BODY: Body = json.loads(to_wire(request(HISTORY, system="You help.", tools=TOOLS, options=Options(thinking=2_000))))


def type_mismatches(body: object) -> list[str]:
    return mismatches(body, MessageCreateParamsStreaming)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (Options(max_tokens=900, temperature=0.2), {"max_tokens": 900}),
        (Options(max_tokens=900, thinking=7), {"max_tokens": 1_924, "thinking": {**ENABLED, "budget_tokens": 1_024}}),
        (
            Options(max_tokens=900, thinking="low"),
            {"max_tokens": 2_948, "thinking": {**ENABLED, "budget_tokens": 2_048}},
        ),
        (Options(thinking="adaptive"), {"thinking": {"type": "adaptive"}}),
        (
            Options(stop=("END",), output_schema=EMPTY_OBJECT),
            {
                "stop_sequences": ["END"],
                "output_config": {"format": {"type": "json_schema", "schema": CLOSED_OBJECT}},
            },
        ),
    ],
)
def test_how_a_model_is_to_answer_is_said_in_the_provider_s_words(options: Options, expected: Body) -> None:
    plain, body = (json.loads(to_wire(request([user("hi")], options=choice))) for choice in (Options(), options))
    assert type_mismatches(body) == []
    assert body == {**plain, **expected}


@pytest.mark.parametrize(
    ("model", "options", "tokens"),
    [
        ("claude-sonnet-4-5", Options(), 16_384),
        ("claude-3-haiku-20240307", Options(), 4_096),
        ("claude-3-opus-latest", Options(), 4_096),
        ("anthropic.claude-3-sonnet-20240229-v1:0", Options(), 4_096),
        ("claude-3-5-haiku-latest", Options(), 8_192),
        ("claude-3-7-sonnet-latest", Options(), 16_384),
        ("claude-3-haiku-20240307", Options(max_tokens=5_000), 5_000),
        ("claude-sonnet-4-5", Options(thinking="high"), 40_960),
        ("claude-opus-4-1-20250805", Options(thinking="high"), 32_000),
        ("claude-opus-4-20250514", Options(thinking="high"), 32_000),
        ("claude-opus-4-5", Options(thinking="high"), 40_960),
        ("claude-opus-4-1", Options(max_tokens=20_000, thinking="high"), 44_576),
    ],
)
def test_an_answer_may_have_what_its_model_gives_unless_it_is_set(model: str, options: Options, tokens: int) -> None:
    assert json.loads(to_wire(request([user("hi")], options=options), model))["max_tokens"] == tokens


@pytest.mark.parametrize("choice", ["auto", "none", "required", "add", "web_search"])
def test_a_body_with_everything_in_it_fits_the_types(choice: str) -> None:
    options = Options(thinking=2_000)
    model_request = request(HISTORY, system="You help.", tools=TOOLS, tool_choice=choice, options=options)
    assert type_mismatches(json.loads(to_wire(model_request))) == []


def test_a_body_with_next_to_nothing_in_it_fits_the_types() -> None:
    assert type_mismatches(json.loads(to_wire(request([user("hi")])))) == []


def block_of(body: Body, kind: str) -> Body:
    return next(block for message in body["messages"] for block in message["content"] if block["type"] == kind)


def test_every_kind_of_block_is_there() -> None:
    kinds = {block["type"] for message in BODY["messages"] for block in message["content"]}
    assert kinds == {
        "text", "image", "document", "thinking", "redacted_thinking", "tool_use", "tool_result", "server_tool_use",
        "web_search_tool_result", "bash_code_execution_tool_result",
    }  # fmt: skip


def set_extra(body: Body) -> None:
    body["messages"][0]["id"] = "x"


def set_deep_extra(body: Body) -> None:
    block_of(body, "tool_use")["tool"] = "x"


def drop_needed(body: Body) -> None:
    del block_of(body, "tool_use")["input"]


def drop_signature(body: Body) -> None:
    del block_of(body, "thinking")["signature"]


def set_wrong_type(body: Body) -> None:
    block_of(body, "tool_use")["input"] = "{}"


def set_wrong_role(body: Body) -> None:
    body["messages"][1]["role"] = "robot"


def set_wrong_part(body: Body) -> None:
    block_of(body, "image")["source"] = "https://example.org"


def set_wrong_citation(body: Body) -> None:
    cites = [b for m in body["messages"] for b in m["content"] if b.get("citations")]
    cites[0]["citations"][0]["file_id"] = "x"


def set_unknown_choice(body: Body) -> None:
    body["tool_choice"] = {"type": "sometimes"}


def set_top_level_extra(body: Body) -> None:
    body["memo"] = {}


def set_bad_tool(body: Body) -> None:
    body["tools"][1]["max_uses"] = "3"


def set_bad_mark(body: Body) -> None:
    body["system"][0]["cache_control"] = {"type": "for ever"}


@pytest.mark.parametrize(
    "spoil",
    [
        set_extra,
        set_deep_extra,
        drop_needed,
        drop_signature,
        set_wrong_type,
        set_wrong_role,
        set_wrong_part,
        set_wrong_citation,
        set_unknown_choice,
        set_top_level_extra,
        set_bad_tool,
        set_bad_mark,
    ],
)
def test_nonsense_does_not_fit_the_types(spoil: Callable[[Body], None]) -> None:
    """A negative control for each kind of mistake that the walker must see."""
    body = copy.deepcopy(BODY)
    assert type_mismatches(body) == []
    spoil(body)
    assert type_mismatches(body) != []
