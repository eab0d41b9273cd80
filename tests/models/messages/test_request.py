"""A Messages body: whatever the history, the provider takes it; what was said before stays byte for byte the same."""

import json
import sys
from types import FrameType
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

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
    UserMessage,
)
from toolyard.core.settings.models.options import Options
from toolyard.core.settings.web_search import UserLocation
from toolyard.core.tools.definition import ProviderOptions, Tool
from toolyard.models.messages import from_wire, to_wire
from toolyard.models.messages.history import HISTORY_OMITTED
from toolyard.models.messages.request import CONTINUE_TEXT
from toolyard.models.shared.encode_cache import NO_RESULT, EncodeCache
from wire.local import NOW, offer, request, user
from wire.messages_streams import CITATION, SEARCH_RESULTS, encode_cited_text, encode_search, encode_search_result
from wire.strict_messages import encode_end, encode_start, encode_text, encode_thinking, faults_of, signature_of

Json = dict[str, Any]
ADD = offer(Tool(name="add", description="Add."))
MARK = {"cache_control": {"type": "ephemeral"}}


def call(id: str, tool: str = "add", **arguments: object) -> Call:
    return Call(id=id, at=NOW, tool=tool, arguments=arguments, provider_id="call_0")


def result(call_id: str, content: str = "3", **more: Any) -> Result:
    plain_result = Result(id=f"{call_id}.result", at=NOW, call_id=call_id, tool="add", outcome="ok", content=content)
    return replace(plain_result, **more)


def text(id: str, content: str = "yes") -> ModelText:
    return ModelText(id=id, at=NOW, text=content)


def thinking(id: str, provider: str = "anthropic", signature: str | None = None) -> Reasoning:
    thinking_signature = signature_of("Hm") if signature is None else signature
    return Reasoning(id=id, at=NOW, text="Hm", provider=provider, signature=thinking_signature)


def strip_marks(value: Any) -> Any:
    if isinstance(value, list):
        return [strip_marks(element) for element in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {name: strip_marks(field) for name, field in cast("Json", value).items() if name != "cache_control"}
    return value


def body(*items: Item, **more: Any) -> Json:
    options: Json = {"tools": ADD, **more}
    wire_body = to_wire(request(items, **options))
    assert faults_of(wire_body) == []
    return json.loads(wire_body)


def messages(*items: Item) -> list[Json]:
    return strip_marks(body(*items)["messages"])


def blocks(*items: Item) -> list[list[str]]:
    """Roles and types of blocks, the user's first message left out."""
    return [
        [message["role"], *(block["type"] for block in message["content"])]
        for message in messages(user("hi"), *items)[1:]
    ]


def test_a_whole_turn_reads_as_the_provider_wants_it() -> None:
    sent = messages(
        user("hi"), thinking("r"), text("t", "I add."), call("c1", a=1), call("c2"), result("c1"), result("c2", "")
    )
    assert sent == [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm", "signature": signature_of("Hm")},
                {"type": "text", "text": "I add."},
                {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
                {"type": "tool_use", "id": "c2", "name": "add", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "3"},
                {"type": "tool_result", "tool_use_id": "c2"},
            ],
        },
    ]


@pytest.mark.parametrize(
    ("items", "sent"),
    [
        ([text("t"), user("more", "u2")], [["assistant", "text"], ["user", "text"]]),
        ([call("c"), user("stop", "u2")], [["assistant", "tool_use"], ["user", "tool_result", "text"]]),
        ([result("c"), text("t"), user("more", "u2")], [["assistant", "text"], ["user", "text"]]),
        ([text("a"), text("b"), user("more", "u2")], [["assistant", "text", "text"], ["user", "text"]]),
        ([text("a", " "), user("more", "u2")], []),
        ([thinking("r"), user("more", "u2")], []),
        ([text("t"), thinking("r"), user("more", "u2")], [["assistant", "text"], ["user", "text"]]),
        ([thinking("r", "openai"), text("t"), user("m", "u2")], [["assistant", "text"], ["user", "text"]]),
        ([thinking("r", signature=""), text("t"), user("m", "u2")], [["assistant", "text"], ["user", "text"]]),
        (
            [call("c"), result("c"), user("more", "u2")],
            [["assistant", "tool_use"], ["user", "tool_result", "text"]],
        ),
        (
            [call("p"), result("p", ran_at="openai"), text("t"), user("more", "u2")],
            [["assistant", "tool_use"], ["user", "tool_result"], ["assistant", "text"], ["user", "text"]],
        ),
        ([text("t")], [["assistant", "text"], ["user", "text"]]),
    ],
)
def test_a_history_is_mended(items: list[Item], sent: list[list[str]]) -> None:
    assert blocks(*items) == sent


def test_what_stands_in_for_what_is_missing() -> None:
    assert messages(text("t"), user("hi"))[0] == {
        "role": "user",
        "content": [{"type": "text", "text": HISTORY_OMITTED}],
    }
    assert messages(user("hi"), text("t"))[-1]["content"] == [{"type": "text", "text": CONTINUE_TEXT}]
    assert messages()[-1]["content"] == [{"type": "text", "text": CONTINUE_TEXT}]
    assert messages(user("hi"), call("c"), user("x", "u2"))[2]["content"][0] == {
        "type": "tool_result",
        "tool_use_id": "c",
        "content": NO_RESULT,
        "is_error": True,
    }
    assert messages(user("hi"), SystemText(id="s", at=NOW, text="Be brief."))[0]["content"][1] == {
        "type": "text",
        "text": "<system>\nBe brief.\n</system>",
    }


@pytest.mark.parametrize("outcome", ["error", "denied", "expired", "timeout", "cancelled", "unknown"])
def test_a_result_that_is_none_is_an_error(outcome: str) -> None:
    answer = messages(user("hi"), call("c"), result("c", outcome=outcome))[2]["content"][0]
    assert answer["is_error"] is True


def test_strange_ids_and_names_are_sent_as_the_provider_takes_them() -> None:
    _, call_message, result_message = messages(user("hi"), call("c.1/ä", "a.b c"), result("c.1/ä"))
    assert call_message["content"][0]["id"] == result_message["content"][0]["tool_use_id"] == "c_1__"
    assert call_message["content"][0]["name"].startswith("_a_b_c_")


def turn_items(*packets: bytes) -> tuple[Item, ...]:
    return from_wire(packets, request())[-1].items  # type: ignore[union-attr]


SEARCHING = turn_items(
    encode_start(),
    encode_thinking(0, "Hm"),
    encode_text(1, "I look."),
    encode_search(2),
    encode_search_result(3, "srvtoolu_1"),
    encode_text(4, "They say: "),
    encode_cited_text(5, "it is so"),
    encode_text(6, "."),
    encode_end(),
)


def test_what_the_providers_own_tools_came_to_goes_back_as_it_came() -> None:
    _, model_message, _ = messages(user("so?"), *SEARCHING, user("sure?", "u2"))
    assert model_message["content"][1:] == [
        {"type": "text", "text": "I look."},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "so?"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": SEARCH_RESULTS},
        {"type": "text", "text": "They say: "},
        {"type": "text", "text": "it is so", "citations": [CITATION]},
        {"type": "text", "text": "."},
    ]


def test_a_search_that_was_paused_stands_last_and_one_that_never_came_back_is_left_out() -> None:
    paused = turn_items(encode_start(), encode_text(0, "I look."), encode_search(1), encode_end("pause_turn"))
    assert blocks(*paused) == [["assistant", "text", "server_tool_use"]]
    assert blocks(*paused, user("never mind", "u2")) == [["assistant", "text"], ["user", "text"]]


def test_a_search_beside_a_call_of_ours_keeps_its_place() -> None:
    (_, searching) = turn_items(encode_start(), encode_text(0, "I look."), encode_search(1), encode_end("tool_use"))
    assert isinstance(searching, Call)
    search_result = replace(next(item for item in SEARCHING if isinstance(item, Result)), call_id=searching.id)
    sent = blocks(searching, call("c"), result("c"), search_result, text("t"), user("more", "u2"))
    assert sent[0] == ["assistant", "server_tool_use", "web_search_tool_result", "tool_use"]


def test_system_tools_and_messages_are_marked_at_four_places_at_most() -> None:
    memo: dict[str, object] = {}
    history = History([user("hi")])
    first = json.loads(to_wire(request(history, system="s", tools=ADD, memo=memo)))
    assert first["system"] == [{"type": "text", "text": "s", **MARK}]
    assert "cache_control" in first["tools"][-1]
    assert first["messages"][0]["content"][-1] == {"type": "text", "text": "hi", **MARK}
    for n in range(5):
        history = history.plus((call(f"c{n}"), call(f"d{n}"), result(f"c{n}"), result(f"d{n}")))
        sent = to_wire(request(history, system="s", tools=ADD, memo=memo))
        assert faults_of(sent) == [] and sent.count(b'"cache_control"') == 4
        sent_messages = json.loads(sent)["messages"]
        marked = [n for n, message in enumerate(sent_messages) if "cache_control" in message["content"][-1]]
        assert marked == [len(sent_messages) - 3, len(sent_messages) - 1]


def test_prior_elements_stay_byte_for_byte_the_same_but_for_the_marks() -> None:
    memo: dict[str, object] = {}
    mark = b',"cache_control":{"type":"ephemeral"}'
    history = History([user("hi")])
    before = to_wire(request(history, system="s", tools=ADD, memo=memo)).replace(mark, b"")
    for n in range(30):
        history = history.plus((thinking(f"r{n}"), text(f"t{n}"), call(f"c{n}"))).plus((result(f"c{n}"),))
        body = to_wire(request(history, system="s", tools=ADD, memo=memo)).replace(mark, b"")
        assert body.startswith(before[: before.rindex(b"]}],")])
        old, new = json.loads(before)["messages"], json.loads(body)["messages"]
        assert new[: len(old)] == old
        before = body


def marked(message: UserMessage) -> UserMessage:
    return replace(message, seal=Seal(provider="anthropic", data=json.dumps([MARK])))


def list_marked(sent: Json) -> list[str]:
    """Return the texts of the marked blocks."""
    blocks = [*sent.get("system", ()), *(block for message in sent["messages"] for block in message["content"])]
    return [block.get("text", block["type"]) for block in blocks if "cache_control" in block]


NATIVE = Seal(provider="anthropic", data='{"system":[{"text":"s","cache_control":{"type":"ephemeral","ttl":"1h"}}]}')


@pytest.mark.parametrize("native", [NATIVE, None], ids=["this client", "another client"])
def test_the_last_marks_of_a_client_are_kept_and_data_that_looks_like_a_mark_is_not_touched(
    native: Seal | None,
) -> None:
    """A history may hold marks of earlier requests, and be continued by a client of another API."""
    lookalike: Json = {"a": 1, **MARK, "text": ',"cache_control": {"type":"ephemeral"}', "nested": [MARK] * 3}
    schema: Json = {"type": "object", "properties": {"cache_control": {"type": "object"}}}
    tools = offer(Tool(name="add", description="Add.", parameters=schema))
    questions = [marked(user(f"q{n}", f"u{n}")) for n in range(6)]
    items = [questions[0], call("c", **lookalike), result("c", json.dumps(lookalike)), *questions[1:]]
    sent = body(*items, tools=tools, system="s", native=native)
    assert list_marked(sent) == (["s", "q3", "q4", "q5"] if native else ["q2", "q3", "q4", "q5"])
    use, answer = sent["messages"][1]["content"][0], sent["messages"][2]["content"][0]
    assert use["input"] == lookalike and json.loads(answer["content"]) == lookalike
    assert sent["tools"][0]["input_schema"]["properties"] == schema["properties"]


def test_a_mark_stays_beside_half_a_character() -> None:
    sent = body(marked(user("a\ud83d")), call("c", cache_control=MARK, half="\ud800"), result("c"), native=NATIVE)
    assert list_marked(sent) == ["a\ufffd"]
    assert sent["messages"][1]["content"][0]["input"] == {"cache_control": MARK, "half": "\ufffd"}


@pytest.mark.parametrize("mark", [{"type": "ephemeral", "scope": "x"}, {"type": "x"}, {"type": "ephemeral", "ttl": {}}])
def test_a_mark_that_the_provider_does_not_have_is_left_out(mark: Json) -> None:
    seal = Seal(provider="anthropic", data=json.dumps([{"cache_control": mark}]))
    assert list_marked(body(replace(user("hi"), seal=seal), native=NATIVE, system="s")) == ["s"]


def get_encode_cache(memo: dict[str, object]) -> EncodeCache:
    (cache,) = memo.values()
    assert isinstance(cache, EncodeCache)
    return cache


def test_a_turn_encodes_only_what_it_adds() -> None:
    memo: dict[str, object] = {}
    items: list[Item] = []
    for n in range(250):
        items += [user(f"question {n}", f"u{n}"), call(f"c{n}", a=n), result(f"c{n}"), text(f"t{n}")]
    history = History([*items, user("last", "u_last")])
    to_wire(request(history, memo=memo))
    assert get_encode_cache(memo).encodes == 1_001
    for n in range(10):
        history = history.plus((call(f"n{n}"), result(f"n{n}")))
        to_wire(request(history, memo=memo))
    assert get_encode_cache(memo).encodes == 1_001 + 20


def test_without_tools_a_history_with_calls_still_has_one_defined_and_none_is_chosen() -> None:
    sent = body(user("hi"), call("c"), result("c"), tools=offer(), tool_choice="none")
    assert [tool["name"] for tool in sent["tools"]] == ["none"] and sent["tool_choice"] == {"type": "none"}
    plain = body(user("hi"), tools=offer(), tool_choice="none")
    assert "tools" not in plain and "tool_choice" not in plain


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", {"type": "auto"}),
        ("none", {"type": "none"}),
        ("required", {"type": "any"}),
        ("add", {"type": "tool", "name": "add"}),
    ],
)
def test_a_choice_is_said_in_the_providers_words(choice: str, sent: Json) -> None:
    assert body(user("hi"), tool_choice=choice)["tool_choice"] == sent


def test_the_providers_own_tools_are_offered_in_its_own_form() -> None:
    where = UserLocation(city="Bonn", country="DE")
    options = ProviderOptions(
        max_uses=3, allowed_domains=("a.org", "b.org"), blocked_domains=("b.org",), user_location=where
    )
    tools = [
        Tool(name="web_search", venue="provider", options=options),
        Tool(name="code_execution", venue="provider"),
        Tool(name="file_search", venue="provider"),
    ]
    assert strip_marks(body(user("hi"), tools=offer(*tools))["tools"]) == [
        {
            "type": "web_search_20250305",
            "name": "web_search",
            "max_uses": 3,
            "user_location": {"type": "approximate", "city": "Bonn", "country": "DE"},
            "allowed_domains": ["a.org"],
        },
        {"type": "code_execution_20250825", "name": "code_execution"},
    ]
    only = Tool(name="web_search", venue="provider", options=ProviderOptions(blocked_domains=("b.org",)))
    assert body(user("hi"), tools=offer(only))["tools"][0]["blocked_domains"] == ["b.org"]
    nowhere = ProviderOptions(allowed_domains=("b.org",), blocked_domains=("b.org",))
    assert "tools" not in body(user("hi"), tools=offer(Tool(name="web_search", venue="provider", options=nowhere)))


def test_a_search_without_a_limit_gets_that_of_the_request_each_time() -> None:
    code = Tool(name="code_execution", venue="provider")
    limited = Tool(name="web_search", venue="provider", options=ProviderOptions(max_uses=3))
    for search, limits in ((Tool(name="web_search", venue="provider"), [None, 5, None]), (limited, [3, 3, 3])):
        tools = offer(search, code)
        sent = [body(user("hi"), tools=tools, default_tool_uses=uses)["tools"] for uses in (0, 5, 0)]
        assert [tool.get("max_uses") for tool, _ in sent] == limits
        assert not any("max_uses" in tool for _, tool in sent)


def thinks(*items: Item, **more: Any) -> bool:
    options: Json = {"tools": ADD, **more}
    wire_body = to_wire(request(items, **options, options=Options(max_tokens=4_000, thinking=2_000)))
    assert faults_of(wire_body) == []
    parsed_body = json.loads(wire_body)
    assert parsed_body["max_tokens"] == (6_000 if "thinking" in parsed_body else 4_000)
    return "thinking" in parsed_body


def test_the_model_thinks_unless_it_is_forced_or_began_without() -> None:
    assert thinks(user("hi"))
    assert thinks(user("hi"), thinking("r"), call("c"), result("c"))
    assert thinks(user("hi"), thinking("r"), call("c"), result("c"), call("d"), result("d"))
    assert not thinks(user("hi"), call("c"), result("c"))
    assert not thinks(user("hi"), thinking("r", "openai"), call("c"), result("c"))
    assert not thinks(user("hi"), call("c"), result("c"), user("more", "u2"))
    assert thinks(user("hi"), call("c"), result("c"), text("t"), user("more", "u2"))
    assert not thinks(user("hi"), tool_choice="required")


PNG = "iVBORw0KGgo="


def test_a_model_may_think_as_much_as_it_likes() -> None:
    sent = to_wire(request([user("hi")], options=Options(max_tokens=4_000, thinking="adaptive")))
    assert faults_of(sent) == []
    assert (json.loads(sent)["thinking"], json.loads(sent)["max_tokens"]) == ({"type": "adaptive"}, 4_000)


@pytest.mark.parametrize(
    ("part", "sent"),
    [
        (ImagePart(url="https://a.org/a.png"), {"type": "url", "url": "https://a.org/a.png"}),
        (ImagePart(url=f"data:image/png;base64,{PNG}"), {"type": "base64", "media_type": "image/png", "data": PNG}),
        (FilePart(url=f"data:image/jpeg;base64,{PNG}"), {"type": "base64", "media_type": "image/png", "data": PNG}),
        (
            FilePart(url="data:application/pdf;base64,JVBERi0xLjQ=", name="a.pdf"),
            {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQ="},
        ),
        (FilePart(url="https://a.org/a.PDF"), {"type": "url", "url": "https://a.org/a.PDF"}),
        (FilePart(url="data:,a%20b"), {"type": "text", "media_type": "text/plain", "data": "a b"}),
        (FilePart(url="data:text/csv;base64,YSxi"), {"type": "text", "media_type": "text/plain", "data": "a,b"}),
    ],
)
def test_images_and_files_are_sent_as_the_provider_takes_them(part: Part, sent: Json) -> None:
    (message,) = messages(UserMessage(id="u", at=NOW, parts=(part,)))
    assert message["content"][0]["source"] == sent


@pytest.mark.parametrize(
    "part",
    [
        ImagePart(url="http://a.org/a.png"),
        ImagePart(url="data:image/bmp;base64,AAAA"),
        ImagePart(url="data:image/png;base64,%%%"),
        FilePart(url="data:application/zip;base64,UEsDBP8=", name="a.zip"),
        FilePart(url="https://a.org/a.docx", name="a.docx"),
        FilePart(url="data:,"),
    ],
)
def test_what_the_provider_cannot_take_is_named_in_words(part: Part) -> None:
    (message,) = messages(UserMessage(id="u", at=NOW, parts=(part,)))
    assert message["content"][0]["type"] == "text"


def test_an_address_that_is_none_is_named_in_words() -> None:
    (message,) = messages(UserMessage(id="u", at=NOW, parts=(FilePart(url="https://[x/y.pdf", name="y"),)))
    assert message["content"] == [{"type": "text", "text": "[file y: https://[x/y.pdf]"}]


def test_the_work_for_a_search_without_a_result_does_not_grow_with_their_number() -> None:
    def count_calls(searches: int) -> int:
        items = [replace(NATIVE_CALL, id=f"c{number}", provider_id=f"srv_{number}") for number in range(searches)]
        calls = 0

        def count(frame: FrameType, event: str, argument: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            to_wire(request([user("hi"), *items, user("more", "u2")]))
        finally:
            sys.setprofile(None)
        return calls

    assert count_calls(400) <= 2.1 * count_calls(200)


def test_half_a_character_does_not_stop_a_request() -> None:
    sent = messages(user("hi"), call("c1", text="\ud800"), result("c1", "a\ud83d"))
    assert sent[1]["content"][0]["input"] == {"text": "\ufffd"}
    assert sent[2]["content"][0]["content"] == "a\ufffd"


def test_another_server_that_speaks_this_wire_gets_nothing_that_this_one_signed() -> None:
    items = [user("so?"), *SEARCHING, user("sure?", "u2")]
    memo: dict[str, object] = {}
    kinds = [
        [block["type"] for block in json.loads(to_wire(request(items, memo=memo), "m", name))["messages"][1]["content"]]
        for name in ("anthropic", "acme")
    ]
    assert "thinking" in kinds[0] and "web_search_tool_result" in kinds[0]
    assert kinds[1] == ["text", "tool_use"]


def test_seals_of_others_are_left_alone() -> None:
    foreign = replace(text("t", "so"), seal=Seal(provider="openai", data="[not ours"))
    assert messages(user("hi"), foreign, user("m", "u2"))[1]["content"] == [{"type": "text", "text": "so"}]


ids = st.sampled_from(["c1", "c2", "c3"])
NATIVE_CALL = next(item for item in SEARCHING if isinstance(item, Call))
NATIVE_RESULT = next(item for item in SEARCHING if isinstance(item, Result))
any_item: st.SearchStrategy[Item] = st.one_of(
    st.builds(call, ids, st.sampled_from(["add", "", "a.b"])),
    st.builds(result, ids),
    st.builds(text, st.just("t"), st.sampled_from(["", " ", "yes", "yes "])),
    st.builds(user, st.sampled_from(["hi", ""])),
    st.sampled_from([SystemText(id="s", at=NOW, text="s"), SystemText(id="s", at=NOW, text=" ")]),
    st.sampled_from([thinking("r"), thinking("r", "openai"), thinking("r", signature="")]),
    st.sampled_from([NATIVE_CALL, NATIVE_RESULT, SEARCHING[-1]]),
    st.sampled_from([replace(call("q"), ran_at="openai"), result("q", ran_at="openai")]),
)


def without_reused_ids(items: list[Item]) -> list[Item]:
    """As any history of ours: a call's id is its own."""
    seen: set[str] = set()
    return [item for item in items if not (isinstance(item, Call) and (item.id in seen or seen.add(item.id)))]


histories = st.lists(any_item, max_size=14).map(without_reused_ids)


@settings(max_examples=400)
@given(histories, st.booleans())
def test_whatever_the_history_the_provider_takes_the_body(items: list[Item], offered: bool) -> None:
    tools = ADD if offered else offer()
    assert faults_of(to_wire(request(items, tools=tools))) == []
    assert faults_of(to_wire(request(items, tools=tools, options=Options(thinking=2_000)))) == []


@given(histories, st.lists(st.integers(0, 14), max_size=5))
def test_a_body_is_the_same_whatever_was_kept_from_earlier_turns(items: list[Item], lengths: list[int]) -> None:
    memo: dict[str, object] = {}
    history = History()
    for end in sorted({*(length % (len(items) + 1) for length in lengths), len(items)}):
        history = history.plus(items[len(history) : end])
        sent = to_wire(request(history, memo=memo))
        assert faults_of(sent) == [] or not len(history)
        fresh = to_wire(request(items[:end]))
        assert strip_marks(msgspec.json.decode(sent)) == strip_marks(msgspec.json.decode(fresh))
