"""Every Messages stream is read to what it holds: by us always, by the official SDK where it can."""

import json
from collections import defaultdict
from itertools import pairwise

import pytest
from anthropic import AsyncAnthropic
from anthropic.types import MessageParam, ServerToolUseBlock, ToolUseBlock
from hypothesis import given, settings
from hypothesis import strategies as st

from toolyard.core.conversation.events import (
    ArgumentsAppended,
    ModelDelta,
    ReasoningAppended,
    TextAppended,
    TurnEnded,
    TurnFailed,
)
from toolyard.core.conversation.history import History
from toolyard.core.items import Call, Citation, ModelText, Reasoning, Result, Usage
from toolyard.core.model_failures import HOSTED_CALL, INTERRUPTED
from toolyard.models.messages import Anthropic, from_wire
from wire.local import events_of, open_model, request, serving, streaming, user
from wire.messages_streams import (
    CITATION,
    FAILING,
    SEARCH_RESULTS,
    STREAMS,
    encode_error,
    encode_search,
    encode_search_result,
)
from wire.reply_bytes import FailingStream, Stream
from wire.strict_messages import (
    encode_block,
    encode_end,
    encode_start,
    encode_text,
    encode_thinking,
    encode_tool_use,
    signature_of,
)

Events = list[ModelDelta | TurnEnded | TurnFailed]
each_stream = pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
each_failing = pytest.mark.parametrize("stream", FAILING, ids=lambda stream: stream.name)


def expect_ended(events: Events) -> TurnEnded:
    assert isinstance(events[-1], TurnEnded), events[-1]
    assert not any(isinstance(event, TurnEnded | TurnFailed) for event in events[:-1])
    return events[-1]


def turn_of(*packets: bytes) -> TurnEnded:
    return expect_ended(from_wire(packets, request()))


def calls_of(turn: TurnEnded) -> list[Call]:
    return [item for item in turn.items if isinstance(item, Call)]


def text_of(turn: TurnEnded) -> str:
    return "".join(item.text for item in turn.items if isinstance(item, ModelText))


def join_text(events: Events) -> str:
    """The text as it was streamed; each delta starts at the byte where the one before it in its stream ended."""
    offsets: defaultdict[object, int] = defaultdict(int)
    for event in events:
        if isinstance(event, TextAppended | ReasoningAppended | ArgumentsAppended):
            key = (type(event), event.index if isinstance(event, ArgumentsAppended) else 0)
            assert event.offset == offsets[key]
            offsets[key] += len(event.text.encode())
    return "".join(event.text for event in events if isinstance(event, TextAppended))


@each_stream
def test_a_stream_is_read_to_what_it_holds(stream: Stream) -> None:
    events = from_wire([stream.body], request())
    turn, calls = expect_ended(events), calls_of(expect_ended(events))
    assert text_of(turn) == stream.text == join_text(events)
    assert "".join(item.text for item in turn.items if isinstance(item, Reasoning)) == stream.reasoning
    assert [(call.tool, call.arguments) for call in calls] == list(stream.calls)
    assert turn.finish == stream.finish
    for number, call in enumerate(calls):
        assert stream.unreadable.get(number, "") in call.unreadable
        assert bool(call.unreadable) == (number in stream.unreadable)
    if stream.ids is not None:
        assert [call.provider_id for call in calls] == list(stream.ids)
    assert len({item.id for item in turn.items}) == len(turn.items)


cuts = st.lists(st.integers(min_value=0, max_value=4_000), max_size=12)


@settings(deadline=None)
@given(stream=st.sampled_from([*STREAMS, *FAILING]), cuts=cuts)
def test_any_split_into_packets_gives_the_same_events(stream: Stream | FailingStream, cuts: list[int]) -> None:
    body = stream.body
    places = sorted({0, len(body), *(cut % (len(body) + 1) for cut in cuts)})
    packets = [body[start:stop] for start, stop in pairwise(places)]
    assert from_wire(packets, request()) == from_wire([body], request())
    assert from_wire([bytes([byte]) for byte in body], request()) == from_wire([body], request())


@each_failing
async def test_a_failure_from_a_real_server_says_why_and_under_which_id(stream: FailingStream) -> None:
    async with (
        serving(streaming([stream.body], stream.content_type), "/messages") as base_url,
        open_model(Anthropic(base_url=base_url)) as model,
    ):
        last = (await events_of(model, request([user("hi")])))[-1]
    assert isinstance(last, TurnFailed)
    assert (last.problem.error_type, stream.says in last.problem.error) == (stream.error_type, True), last
    assert last.problem.details["request_id"] in ("req_7", "req_s")
    assert last.problem.details["provider"] == "anthropic"


@each_stream
async def test_a_stream_from_a_real_server_is_read_the_same(stream: Stream) -> None:
    async with (
        serving(streaming([stream.body], stream.content_type), "/messages") as base_url,
        open_model(Anthropic(base_url=base_url)) as model,
    ):
        assert await events_of(model, request()) == from_wire([stream.body], request())


@pytest.mark.parametrize("stream", [stream for stream in STREAMS if stream.sdk], ids=lambda stream: stream.name)
async def test_the_official_sdk_reads_the_same_text_thoughts_calls_and_usage(stream: Stream) -> None:
    text, thinking, calls, usage = await read_by_sdk(stream.body)
    ours = turn_of(stream.body)
    assert text == stream.text
    assert thinking == stream.reasoning
    assert calls == list(stream.calls)
    assert usage == ours.usage


async def test_the_official_sdk_sees_a_difference_so_the_comparison_can_fail() -> None:
    """A negative control."""
    text, _, calls, usage = await read_by_sdk(
        encode_start() + encode_text(0, "b") + encode_tool_use(1, "x", "now") + encode_end("tool_use")
    )
    ours = turn_of(encode_start(input_tokens=3) + encode_text(0, "a") + encode_end())
    assert text != text_of(ours) and calls != calls_of(ours) and usage != ours.usage


async def read_by_sdk(body: bytes) -> tuple[str, str, list[tuple[str, object]], Usage]:
    """As the SDK's own accumulator puts it together."""
    handler = serving(streaming([body]), "/messages")
    async with handler as base_url, AsyncAnthropic(base_url=base_url.removesuffix("/v1"), api_key="none") as client:
        hi: MessageParam = {"role": "user", "content": "hi"}
        async with client.messages.stream(model="m", max_tokens=1, messages=[hi]) as stream:
            message = await stream.get_final_message()
    sdk_usage = message.usage
    cache_reads, cache_writes = sdk_usage.cache_read_input_tokens or 0, sdk_usage.cache_creation_input_tokens or 0
    usage = Usage(
        input_tokens=sdk_usage.input_tokens + cache_reads + cache_writes,
        output_tokens=sdk_usage.output_tokens,
        cached_tokens=cache_reads,
        cache_writes_5m=cache_writes,
    )
    blocks = message.content
    return (
        "".join(block.text for block in blocks if block.type == "text"),
        "".join(block.thinking for block in blocks if block.type == "thinking"),
        [(block.name, block.input) for block in blocks if isinstance(block, ToolUseBlock | ServerToolUseBlock)],
        usage,
    )


def test_usage_counts_what_was_read_from_the_cache_and_written_to_it() -> None:
    first = encode_start(input_tokens=3, cache_read_input_tokens=100, cache_creation_input_tokens=20)
    turn = turn_of(first + encode_text(0, "a") + encode_end(output_tokens=7))
    assert turn.usage == Usage(input_tokens=123, output_tokens=7, cached_tokens=100, cache_writes_5m=20)
    assert turn.model == "strict-1"
    again = turn_of(first + encode_text(0, "a") + encode_end(output_tokens=7, input_tokens=5))
    assert again.usage.input_tokens == 125


def test_thinking_is_kept_with_its_signature_and_what_is_hidden_is_kept_too() -> None:
    hidden = encode_block(1, {"type": "redacted_thinking", "data": "hidden_1"})
    omitted = encode_block(2, {"type": "thinking", "thinking": "", "signature": "sig_x"})
    first, second, third, _ = turn_of(
        encode_start(), encode_thinking(0, "Hm"), hidden, omitted, encode_text(3, "a"), encode_end()
    ).items
    assert isinstance(first, Reasoning) and isinstance(second, Reasoning) and isinstance(third, Reasoning)
    assert (first.provider, first.text, first.signature) == ("anthropic", "Hm", signature_of("Hm"))
    assert (second.text, second.signature) == ("", "redacted_thinking:hidden_1")
    assert (third.text, third.signature) == ("", "sig_x")


def test_a_search_is_a_call_that_ran_at_the_provider_with_its_result_and_the_text_cites_it() -> None:
    stream = next(stream for stream in STREAMS if stream.name.startswith("a search with"))
    first, call, result, text = turn_of(stream.body).items
    assert isinstance(first, ModelText) and isinstance(call, Call) and isinstance(result, Result)
    assert (call.ran_at, call.tool, call.arguments) == ("anthropic", "web_search", {"query": "so?"})
    assert (result.call_id, result.outcome, result.ran_at) == (call.id, "ok", "anthropic")
    assert json.loads(result.content) == [{"url": "https://a.org", "title": "A", "page_age": None}]
    assert result.seal is not None and "enc_1" in result.seal.data and "enc_1" not in result.content
    assert isinstance(text, ModelText) and text.text == "They say: it is so."
    quote = CITATION["cited_text"]
    assert text.citations == (Citation(start=10, end=18, url="https://a.org", title="A", quote=quote),)


def test_a_search_that_failed_says_so() -> None:
    stream = next(stream for stream in STREAMS if stream.name == "a search that failed")
    _, result, _ = turn_of(stream.body).items
    assert isinstance(result, Result) and result.error is not None
    assert (result.outcome, result.error.details) == ("error", {"code": "max_uses_exceeded"})


def test_code_that_ran_at_the_provider_is_a_call_of_code_execution() -> None:
    content: dict[str, object] = {"type": "bash_code_execution_result", "stdout": "3\n", "stderr": "", "return_code": 0}
    result = encode_block(
        1, {"type": "bash_code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": content}
    )
    call = encode_tool_use(0, "srvtoolu_1", "bash_code_execution", '{"command": "expr 1 + 2"}', kind="server_tool_use")
    turn = turn_of(encode_start(), call, result, encode_text(2, "3"), encode_end())
    ran, came, _ = turn.items
    assert isinstance(ran, Call) and isinstance(came, Result)
    assert (ran.tool, ran.ran_at) == ("code_execution", "anthropic") and '"stdout":"3\\n"' in came.content
    assert turn.usage.tool_uses == {"code_execution": 1}, "Anthropic counts its searches only"


def test_a_search_that_the_provider_paused_gets_its_result_in_the_next_turn() -> None:
    model_request = request([user("so?")])
    paused_turn = expect_ended(from_wire([encode_start() + encode_search(0) + encode_end("pause_turn")], model_request))
    (call,) = paused_turn.items
    assert paused_turn.finish == "paused" and isinstance(call, Call) and call.ran_at == "anthropic"
    history = History([user("so?"), call])
    turn = expect_ended(
        from_wire(
            [
                encode_start()
                + encode_search_result(0, "srvtoolu_1", SEARCH_RESULTS)
                + encode_text(1, "Yes.")
                + encode_end()
            ],
            request(history),
        )
    )
    result, _ = turn.items
    assert isinstance(result, Result) and result.call_id == call.id and turn.finish == "stop"


def test_an_error_in_the_stream_names_the_request() -> None:
    (failure,) = [
        e
        for e in from_wire([encode_start() + encode_error("overloaded_error")], request())
        if isinstance(e, TurnFailed)
    ]
    assert failure.problem.details == {"type": "overloaded_error", "request_id": "req_s"}


def test_what_comes_after_the_end_is_not_read() -> None:
    assert turn_of(encode_start() + encode_text(0, "a") + encode_end() + b"data: garbage\n\n").finish == "stop"


def test_a_stream_that_breaks_off_in_a_search_says_that_the_provider_had_begun_it() -> None:
    failed = from_wire([encode_start() + encode_search(0)], request())[-1]
    assert isinstance(failed, TurnFailed) and failed.problem.details == {HOSTED_CALL: True, INTERRUPTED: True}
