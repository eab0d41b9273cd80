"""The request contract, over every wire: whatever the history, a strict provider takes the body, and a turn costs
what it adds."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from models.hard_schemas import HARD
from toolyard.core.conversation.history import History
from toolyard.core.items import (
    Call,
    FilePart,
    ImagePart,
    Item,
    ModelText,
    Part,
    Reasoning,
    Result,
    Seal,
    SystemText,
    TextPart,
    UserMessage,
)
from toolyard.core.ports import ModelRequest
from toolyard.core.tools.definition import Tool
from toolyard.models import chat as openai_chat
from toolyard.models import gemini
from toolyard.models import messages as anthropic
from toolyard.models import responses as openai_responses
from toolyard.models.shared.encode_cache import NO_RESULT, EncodeCache
from wire import strict_chat, strict_gemini, strict_messages, strict_responses
from wire.local import NOW, offer, request, user

MARK = b',"cache_control":{"type":"ephemeral"}'
MODEL = {
    "anthropic": "claude-sonnet-4-5",
    "openai_chat": "m",
    "openai_responses": "gpt-5-mini",
    "gemini": "gemini-3-flash",
}


@dataclass(frozen=True)
class RequestWire:
    name: str
    to_wire: Callable[[ModelRequest, str], bytes]
    faults_of: Callable[[bytes], list[str]]

    def encode_body(self, model_request: ModelRequest) -> bytes:
        """Without what marks a place to cache up to: the one thing that may differ."""
        return self.to_wire(model_request, MODEL[self.name]).replace(MARK, b"")


WIRES = [
    RequestWire("openai_chat", openai_chat.to_wire, strict_chat.faults_of),
    RequestWire("openai_responses", openai_responses.to_wire, strict_responses.faults_of),
    RequestWire("anthropic", anthropic.to_wire, strict_messages.faults_of),
    RequestWire("gemini", gemini.to_wire, strict_gemini.faults_of),
]
each_wire = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)


def call(id: str, tool: str = "add", ran_at: str = "", seal: Seal | None = None, **arguments: object) -> Call:
    return Call(id=id, at=NOW, tool=tool, arguments=arguments, ran_at=ran_at, seal=seal)


def result(call_id: str, content: str = "3", ran_at: str = "", seal: Seal | None = None) -> Result:
    return Result(
        id=f"{call_id}.result",
        at=NOW,
        call_id=call_id,
        tool="add",
        outcome="ok",
        content=content,
        ran_at=ran_at,
        seal=seal,
    )


def text(id: str, content: str = "ok", seal: Seal | None = None) -> ModelText:
    return ModelText(id=id, at=NOW, text=content, seal=seal)


def turns(count: int) -> list[Item]:
    items: list[Item] = []
    for n in range(count):
        items += [user(f"question {n}", f"u{n}"), call(f"c{n}", a=n), result(f"c{n}"), text(f"t{n}")]
    return items


seals = st.sampled_from(
    [
        None,
        Seal(provider="acme", data="x"),
        Seal(provider="openai", data='{"type":'),
        Seal(provider="gemini:m", data="?"),
        Seal(provider="anthropic", data='{"name":'),
    ]
)
ids = st.sampled_from(["c1", "c2", "c3"])
names = st.sampled_from(["add", "", "a.b/c", "3d-print", "x" * 80, "计算"])
places = st.sampled_from(["", "", "openai", "anthropic", "gemini", "acme"])
words = st.sampled_from(["", "yes", "a\ud83d"])
URLS = ["https://example.org/b", "https://example.org/a.png", "data:image/png;base64,AA==", "data:,x%20y"]
IMAGES = [ImagePart(url=url) for url in URLS[1:3]]
FILES = [FilePart(url=url, name=name) for url in URLS for name in ("", "b.pdf")]
TEXTS = [TextPart(text=text) for text in ("", "yes", "a\ud83d")]
parts = st.sampled_from([*TEXTS, *IMAGES, *FILES])


def message(message_parts: list[Part]) -> UserMessage:
    return UserMessage(id="u", at=NOW, parts=tuple(message_parts))


def reasoning(provider: str, signature: str) -> Reasoning:
    return Reasoning(id="r", at=NOW, text="hm", provider=provider, signature=signature)


anything = st.one_of(
    st.builds(call, ids, names, places, seals),
    st.builds(result, ids, words, places, seals),
    st.builds(text, st.just("t"), words, seals),
    st.builds(message, st.lists(parts, max_size=3)),
    st.sampled_from([SystemText(id="s", at=NOW, text=part.text) for part in TEXTS]),
    st.builds(
        reasoning,
        st.sampled_from(["", "openai", "gemini", "acme"]),
        st.sampled_from(["", "{", '{"model":"gpt-5-mini","id":"rs_1","encrypted_content":"sealed:gpt-5-mini:rs_1"}']),
    ),
)


def drop_repeated_ids(items: list[Item]) -> list[Item]:
    """As any history of ours: an id is its own, also the provider's."""
    seen_ids: set[str] = set()
    fresh: list[Item] = []
    for item in items:
        key = item.id if isinstance(item, Call) else getattr(item, "signature", "")
        if key and (key in seen_ids or seen_ids.add(key)):
            continue
        fresh.append(item)
    return fresh


histories = st.lists(anything, max_size=14).map(drop_repeated_ids)
TOOLS = offer(Tool(name="add", parameters={"type": "object", "properties": {"a": {"type": "integer"}}}))


@each_wire
@settings(deadline=None)
@given(items=histories)
def test_whatever_the_history_a_strict_provider_takes_the_body(wire: RequestWire, items: list[Item]) -> None:
    body = wire.encode_body(request([user("hi"), *items], tools=TOOLS))
    assert wire.faults_of(body) == [], body


@each_wire
@settings(deadline=None)
@given(items=histories, lengths=st.lists(st.integers(0, 14), max_size=5))
def test_a_body_is_the_same_whatever_was_kept_from_earlier_turns(
    wire: RequestWire, items: list[Item], lengths: list[int]
) -> None:
    memo: dict[str, object] = {}
    history = History()
    for end in sorted({*(length % (len(items) + 1) for length in lengths), len(items)}):
        history = history.plus(items[len(history) : end])
        if len(history):
            assert wire.encode_body(request(history, memo=memo)) == wire.encode_body(request(items[:end]))


@pytest.mark.parametrize(
    "wire", [wire for wire in WIRES if wire.name in ("anthropic", "gemini")], ids=lambda wire: wire.name
)
@settings(deadline=None)
@given(items=histories)
def test_a_history_that_does_not_begin_with_the_user_is_taken_too(wire: RequestWire, items: list[Item]) -> None:
    assert wire.faults_of(wire.encode_body(request(items))) == []


@each_wire
def test_our_ids_are_sent_and_never_the_provider_s(wire: RequestWire) -> None:
    same = [Call(id=f"c{n}", at=NOW, tool="add", arguments={}, provider_id="call_0") for n in (1, 2)]
    assert b"call_0" not in wire.encode_body(request([user("hi"), same[0], result("c1"), same[1], result("c2")]))


@each_wire
def test_a_call_without_a_result_gets_a_stand_in_and_a_result_without_its_call_is_left_out(wire: RequestWire) -> None:
    body = wire.encode_body(
        request([user("hi"), result("c9", "lost"), call("c1"), user("and?", "u2"), result("c1", "late")])
    )
    assert wire.faults_of(body) == []
    assert NO_RESULT.encode() in body and b"lost" not in body and b"late" not in body


def get_encode_cache(memo: dict[str, object]) -> EncodeCache:
    (encoded,) = memo.values()
    assert isinstance(encoded, EncodeCache)
    return encoded


@each_wire
def test_a_turn_encodes_only_what_it_adds(wire: RequestWire) -> None:
    memo: dict[str, object] = {}
    history = History([*turns(250), user("last", "u_last")])
    wire.encode_body(request(history, memo=memo))
    assert get_encode_cache(memo).encodes == 1_001
    for n in range(10):
        history = history.plus((call(f"n{n}"), result(f"n{n}")))
        wire.encode_body(request(history, memo=memo))
    assert get_encode_cache(memo).encodes == 1_001 + 20


@each_wire
def test_an_offer_is_encoded_once(wire: RequestWire) -> None:
    properties: dict[str, object] = {"a": {"type": "integer"}}
    tools = offer(Tool(name="add", parameters={"type": "object", "properties": properties}))
    first = wire.encode_body(request([user("hi")], tools=tools))
    properties["changed"] = {"type": "integer"}
    assert wire.encode_body(request([user("hi")], tools=tools)) == first
    assert wire.encode_body(request([user("hi")], tools=offer(*tools.tools))) != first


def parse_messages(body: bytes) -> list[Any]:
    decoded = json.loads(body)
    return next(decoded[name] for name in ("messages", "input", "contents") if name in decoded)


@each_wire
def test_each_body_begins_with_the_bytes_of_the_one_before(wire: RequestWire) -> None:
    """System, tools and all prior messages, over a long run: what a provider has cached stays valid."""
    memo: dict[str, object] = {}
    history = History([user("hi")])
    before = wire.encode_body(request(history, system="s", tools=TOOLS, tool_choice="required", memo=memo))
    for n in range(60):
        history = history.plus((text(f"t{n}"), call(f"c{n}"), call(f"d{n}"))).plus((result(f"c{n}"), result(f"d{n}")))
        if n % 10 == 9:
            history = history.plus((text(f"e{n}"), user("more", f"u{n}")))
        body = wire.encode_body(request(history, system="s", tools=TOOLS, memo=memo))
        end = before.rindex(b"]}]" if wire.name in ("anthropic", "gemini") else b"]", 0, before.rindex(b',"tool'))
        assert body.startswith(before[:end])
        assert parse_messages(body)[: len(parse_messages(before))] == parse_messages(before)
        before = body


@each_wire
def test_a_new_system_text_does_not_cost_the_history(wire: RequestWire) -> None:
    memo: dict[str, object] = {}
    history = History([*turns(10), user("last", "u_last")])
    wire.encode_body(request(history, system="one", memo=memo))
    changed = wire.encode_body(request(history, system="two", memo=memo))
    assert get_encode_cache(memo).encodes == 41
    assert changed == wire.encode_body(request(history, system="two"))


@each_wire
def test_a_history_that_was_cut_back_is_encoded_anew(wire: RequestWire) -> None:
    memo: dict[str, object] = {}
    short = History([user("hi")])
    longer = short.plus([text("t"), user("more", "u2")])
    wire.encode_body(request(longer, memo=memo))
    assert wire.encode_body(request(short, memo=memo)) == wire.encode_body(request([user("hi")]))


@each_wire
@pytest.mark.parametrize("tools", [(), (Tool(name="dream", venue="provider"),)])
def test_without_tools_neither_tools_nor_a_choice_are_sent(wire: RequestWire, tools: tuple[Tool, ...]) -> None:
    body = json.loads(wire.encode_body(request([user("hi")], tools=offer(*tools), tool_choice="required")))
    assert not body.keys() & {"tools", "tool_choice", "toolConfig"}


@each_wire
@pytest.mark.parametrize("name", HARD)
def test_a_tool_is_offered_whatever_its_schema(wire: RequestWire, name: str) -> None:
    body = wire.encode_body(request([user("hi")], tools=offer(Tool(name="hard", parameters=HARD[name]))))
    assert wire.faults_of(body) == []
    assert b'"hard"' in body


@each_wire
def test_what_a_tool_says_to_people_is_sent_to_no_model(wire: RequestWire) -> None:
    plain = Tool(name="add", description="Add an item.")
    spoken = replace(plain, examples=("add {item}",), propose=("we need {item}",), says=("Added {item}.",))
    bodies = [wire.encode_body(request([user("hi")], tools=offer(tool))) for tool in (plain, spoken)]
    assert bodies[0] == bodies[1]
