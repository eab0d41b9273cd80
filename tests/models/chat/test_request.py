"""The request body: what each item becomes, what it costs, and that a strict provider takes whatever comes out."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.core.conversation.history import History
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
from toolyard.core.tools.definition import NAME_PATTERN, Tool
from toolyard.models.chat import to_wire
from toolyard.models.chat.request import CACHE_KEY
from toolyard.models.shared.encode_cache import NO_RESULT, EncodeCache
from wire.local import NOW, offer, request, user
from wire.strict_chat import faults_of


def call(id: str, tool: str = "add", **arguments: object) -> Call:
    return Call(id=id, at=NOW, tool=tool, arguments=arguments)


def result(call_id: str, content: str = "3") -> Result:
    return Result(id=f"{call_id}.result", at=NOW, call_id=call_id, tool="add", outcome="ok", content=content)


def text(id: str, content: str = "ok") -> ModelText:
    return ModelText(id=id, at=NOW, text=content)


def messages(*items: Item) -> list[dict[str, Any]]:
    body = to_wire(request([user("hi"), *items]))
    assert faults_of(body) == []
    return json.loads(body)["messages"][1:]


def test_the_whole_body_in_its_order() -> None:
    add = Tool(name="add", description="Add.", parameters={"type": "object"})
    body = to_wire(request([user("hi")], system="You help.", tools=offer(add), tool_choice="add"), "gpt")
    assert body == (
        b'{"model":"gpt","stream":true,"stream_options":{"include_usage":true},'
        b'"tools":[{"type":"function","function":{"name":"add","description":"Add.","parameters":'
        b'{"properties":{},"type":"object"}}}],'
        b'"messages":[{"role":"system","content":"You help."},{"role":"user","content":"hi"}],'
        b'"tool_choice":{"type":"function","function":{"name":"add"}}}'
    )


def test_what_the_model_said_in_one_turn_is_one_message() -> None:
    items = [
        Reasoning(id="r", at=NOW, text="hm"),
        text("t", "I add."),
        call("c1", a=1),
        call("c2"),
        result("c1", "one"),
        result("c2", "two"),
    ]
    assert messages(*items) == [
        {
            "role": "assistant",
            "content": "I add.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}},
                {"id": "c2", "type": "function", "function": {"name": "add", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
        {"role": "tool", "tool_call_id": "c2", "content": "two"},
    ]


def test_content_is_null_if_the_model_only_called() -> None:
    assert messages(call("c1"), result("c1"))[0]["content"] is None


def test_our_ids_are_sent_and_never_the_provider_s() -> None:
    same = [Call(id=f"c{n}", at=NOW, tool="add", arguments={}, provider_id="call_0") for n in (1, 2)]
    assert b"call_0" not in to_wire(request([user("hi"), same[0], result("c1"), same[1], result("c2")]))


def test_reasoning_alone_is_no_message() -> None:
    assert messages(Reasoning(id="r", at=NOW, text="hm")) == []


def test_a_call_without_a_result_gets_a_stand_in_wherever_it_is() -> None:
    sent = messages(call("c1"), call("c2"), result("c2"), user("and?", "u2"), result("c1"), call("c3"))
    answers = [(message["tool_call_id"], message["content"]) for message in sent if message["role"] == "tool"]
    assert answers == [("c1", NO_RESULT), ("c2", "3"), ("c3", NO_RESULT)]


def test_a_result_without_its_call_is_left_out() -> None:
    assert messages(result("c9"), text("t"), result("c8")) == [{"role": "assistant", "content": "ok"}]


@pytest.mark.parametrize("made_up", ["", "a.b/c d", "x" * 80, "计算", "\ud800"])
def test_a_name_that_no_provider_takes_is_sent_as_one_that_it_does(made_up: str) -> None:
    message = messages(call("c1", made_up), result("c1"))[0]
    assert NAME_PATTERN.fullmatch(message["tool_calls"][0]["function"]["name"])


def test_images_and_files_become_content_parts() -> None:
    parts = (
        TextPart(text="look"),
        ImagePart(url="https://example.org/a.png"),
        FilePart(url="data:application/pdf;base64,JVBERi0xLjQ=", name="a.pdf"),
        FilePart(url="data:,x"),
        FilePart(url="https://example.org/b.pdf", name="b.pdf"),
    )
    assert messages(UserMessage(id="u2", at=NOW, parts=parts))[0]["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0xLjQ=", "filename": "a.pdf"}},
        {"type": "text", "text": "[file without a name]\nx"},
        {"type": "text", "text": "[file b.pdf: https://example.org/b.pdf]"},
    ]


def test_half_a_character_does_not_stop_a_request() -> None:
    sent = messages(call("c1", text="\ud800"), result("c1", "a\ud83d \U0001f600 \\ud800"))
    assert sent[1]["content"] == "a\ufffd \U0001f600 \\ud800"
    assert json.loads(sent[0]["tool_calls"][0]["function"]["arguments"]) == {"text": "\ufffd"}


@pytest.mark.parametrize("tools", [(), (Tool(name="search", venue="provider"),)])
def test_without_tools_neither_tools_nor_a_choice_are_sent(tools: tuple[Tool, ...]) -> None:
    body = json.loads(to_wire(request([user("hi")], tools=offer(*tools), tool_choice="required")))
    assert body.keys() == {"model", "stream", "stream_options", "messages"}


def test_an_offer_is_encoded_once() -> None:
    """What was kept is used: the offer's tools are not looked at again, even if somebody changed them meanwhile."""
    properties: dict[str, object] = {}
    tools = offer(Tool(name="add", parameters={"type": "object", "properties": properties}))
    first = to_wire(request([user("hi")], tools=tools))
    properties["changed"] = {"type": "string"}
    assert to_wire(request([user("hi")], tools=tools)) == first
    assert to_wire(request([user("hi")], tools=offer(*tools.tools))) != first


def turns(count: int) -> list[Item]:
    items: list[Item] = []
    for n in range(count):
        items += [user(f"question {n}", f"u{n}"), call(f"c{n}", a=n), result(f"c{n}"), text(f"t{n}")]
    return items


def get_encode_cache(memo: dict[str, object]) -> EncodeCache:
    cache = memo[CACHE_KEY]
    assert isinstance(cache, EncodeCache)
    return cache


def test_a_turn_encodes_only_what_it_adds() -> None:
    memo: dict[str, object] = {}
    history = History([*turns(250), user("last", "u_last")])
    to_wire(request(history, memo=memo))
    assert get_encode_cache(memo).encodes == 1_001
    for n in range(10):
        history = history.plus((call(f"n{n}"), result(f"n{n}")))
        to_wire(request(history, memo=memo))
    assert get_encode_cache(memo).encodes == 1_001 + 20


def test_without_the_memo_everything_is_encoded_again() -> None:
    """A negative control: the count does count."""
    memo: dict[str, object] = {}
    to_wire(request(turns(250), memo=memo))
    to_wire(request(turns(250), memo=memo))
    assert get_encode_cache(memo).encodes == 1_000
    assert get_encode_cache(memo).root is not History(turns(1)).root


def test_each_body_begins_with_the_bytes_of_the_one_before() -> None:
    memo: dict[str, object] = {}
    tools = offer(Tool(name="add"))
    history = History([user("hi")])
    before = to_wire(request(history, system="s", tools=tools, tool_choice="required", memo=memo))
    for n in range(5):
        history = history.plus((text(f"t{n}"), call(f"c{n}"))).plus((result(f"c{n}"),))
        body = to_wire(request(history, system="s", tools=tools, memo=memo))
        assert body.startswith(before[: before.rindex(b"]")])
        before = body


def test_a_new_system_text_does_not_cost_the_history() -> None:
    memo: dict[str, object] = {}
    history = History([*turns(10), user("last", "u_last")])
    to_wire(request(history, system="one", memo=memo))
    changed = to_wire(request(history, system="two", memo=memo))
    assert get_encode_cache(memo).encodes == 41
    assert changed == to_wire(request(history, system="two"))


ids = st.sampled_from(["c1", "c2", "c3"])
any_item = st.one_of(
    st.builds(call, ids, st.sampled_from(["add", "", "a.b"])),
    st.builds(result, ids),
    st.builds(text, st.just("t"), st.sampled_from(["", "yes"])),
    st.builds(user, st.just("hi")),
    st.just(SystemText(id="s", at=NOW, text="s")),
    st.just(Reasoning(id="r", at=NOW, text="hm")),
)


def without_reused_ids(items: list[Item]) -> list[Item]:
    """As any history of ours: a call's id is its own."""
    seen: set[str] = set()
    fresh = [item for item in items if not (isinstance(item, Call) and (item.id in seen or seen.add(item.id)))]
    return [user("hi"), *fresh]


@given(st.lists(any_item, max_size=14).map(without_reused_ids))
def test_whatever_the_history_a_strict_provider_takes_the_body(items: list[Item]) -> None:
    assert faults_of(to_wire(request(items))) == []


@given(st.lists(any_item, max_size=14).map(without_reused_ids), st.lists(st.integers(0, 14), max_size=5))
def test_a_body_is_the_same_whatever_was_kept_from_earlier_turns(items: list[Item], lengths: list[int]) -> None:
    memo: dict[str, object] = {}
    history = History()
    for end in sorted({*(length % (len(items) + 1) for length in lengths), len(items)}):
        history = history.plus(items[len(history) : end])
        if len(history):
            assert to_wire(request(history, memo=memo)) == to_wire(request(items[:end]))


def test_a_history_that_was_cut_back_is_encoded_anew() -> None:
    memo: dict[str, object] = {}
    short = History([user("hi")])
    longer = short.plus([text("t"), user("more", "u2")])
    to_wire(request(longer, memo=memo))
    assert to_wire(request(short, memo=memo)) == to_wire(request([user("hi")]))
