"""Every stream is read to the text and calls that it holds: by us always, by the official SDK where it can."""

import asyncio
import json
from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import AsyncOpenAI

from toolyard.core.items import Call, Usage
from toolyard.models.openai_chat import OpenAIChat, from_wire
from wire.checks import calls_of, check, check_offsets, ended, failed
from wire.local import NOW, events_of, request, serving, streaming
from wire.reply_bytes import DONE, STOP, TOOLS, Failing, Stream, chunk, piece, usage
from wire.streams import FAILING, STREAMS

each_stream = pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
each_failing = pytest.mark.parametrize("stream", FAILING, ids=lambda stream: stream.name)


@each_stream
def test_a_stream_is_read_to_what_it_holds(stream: Stream) -> None:
    events = list(from_wire([stream.body], request()))
    check(stream, events)
    check_offsets(events)


@each_stream
def test_a_stream_that_arrives_byte_by_byte_gives_the_same_events(stream: Stream) -> None:
    assert from_wire([bytes([byte]) for byte in stream.body], request()) == from_wire([stream.body], request())


@each_failing
def test_a_reply_that_fails_says_why(stream: Failing) -> None:
    problem = failed(list(from_wire([stream.body], request()))).problem
    assert problem.error_type == stream.error_type
    assert stream.says in problem.error


@each_stream
def test_a_stream_from_a_real_server_is_read_the_same(stream: Stream) -> None:
    async def run() -> None:
        async with serving(streaming([stream.body], stream.content_type)) as base_url:
            model = OpenAIChat(base_url=base_url)
            events = await events_of(model, request())
            await model.close()
        assert events == from_wire([stream.body], request())

    asyncio.run(run())


@each_failing
def test_a_failure_from_a_real_server_is_told_with_its_request_id(stream: Failing) -> None:
    async def run() -> None:
        async with serving(streaming([stream.body], stream.content_type)) as base_url:
            model = OpenAIChat(base_url=base_url, provider="acme")
            problem = failed(await events_of(model, request())).problem
            await model.close()
        assert (problem.error_type, stream.says in problem.error) == (stream.error_type, True)
        assert problem.details["request_id"] == "req_7"
        assert problem.details["provider"] == "acme"

    asyncio.run(run())


@pytest.mark.parametrize("stream", [stream for stream in STREAMS if stream.sdk], ids=lambda stream: stream.name)
def test_the_official_sdk_reads_the_same_text_and_calls(stream: Stream) -> None:
    text, calls = asyncio.run(read_by_sdk(stream))
    assert text == stream.text
    assert calls == list(stream.calls)


def test_the_official_sdk_misreads_a_shared_index_so_the_comparison_can_fail() -> None:
    """A negative control."""
    stream = next(stream for stream in STREAMS if stream.name == "two calls with one index")
    with pytest.raises(json.JSONDecodeError):
        asyncio.run(read_by_sdk(stream))


async def read_by_sdk(stream: Stream) -> tuple[str, list[tuple[str, dict[str, object]]]]:
    """The stream as a careful user of the SDK would put it together: by index, names as given, arguments joined."""
    text: list[str] = []
    names: dict[int, str] = {}
    arguments: defaultdict[int, str] = defaultdict(str)
    async with serving(streaming([stream.body])) as base_url, AsyncOpenAI(base_url=base_url, api_key="none") as client:
        chunks = await client.chat.completions.create(model="m", messages=[], stream=True)
        async for received in chunks:
            for choice in received.choices:
                text.append(choice.delta.content or "")
                for call in choice.delta.tool_calls or ():
                    assert call.function is not None
                    names[call.index] = call.function.name or names.get(call.index, "")
                    arguments[call.index] += call.function.arguments or ""
    return "".join(text), [(name, json.loads(arguments[index] or "{}")) for index, name in names.items()]


def test_usage_model_and_ids_are_taken_from_the_reply() -> None:
    body = chunk(content="a") + piece("now", "{}", index=0, id="call_0") + TOOLS + usage(9, 5, 4) + DONE
    turn = ended(list(from_wire([body], request())))
    assert turn.usage == Usage(input_tokens=9, output_tokens=5, cached_tokens=4)
    assert turn.model == "m-1"
    text, call = turn.items
    assert isinstance(call, Call)
    assert (call.id, call.provider_id, call.at, text.at) == ("call_2", "call_0", NOW, NOW)


def test_an_id_that_the_provider_uses_in_every_turn_is_never_ours() -> None:
    asked = request()
    body = piece("now", "{}", index=0, id="call_0") + TOOLS + DONE
    ids = [calls_of(ended(list(from_wire([body], asked))))[0].id for _ in range(2)]
    assert len(set(ids)) == 2
    assert "call_0" not in ids


def test_what_comes_after_the_end_is_not_read() -> None:
    events = list(from_wire([chunk(content="a") + STOP + DONE + b"data: garbage\n\n"], request()))
    assert ended(events).finish == "stop"


cuts = st.lists(st.integers(min_value=0, max_value=2_000), max_size=12)


@settings(deadline=None)
@given(
    stream=st.sampled_from([one for one in [*STREAMS, *FAILING] if len(one.body) < 4_000]),
    cuts=cuts,
    crlf=st.booleans(),
)
def test_any_split_into_packets_gives_the_same_events(stream: Stream | Failing, cuts: list[int], crlf: bool) -> None:
    framed = stream.body.replace(b"\n", b"\r\n") if crlf and b"\r" not in stream.body else stream.body
    places = sorted({0, len(framed), *(cut % (len(framed) + 1) for cut in cuts)})
    packets = [framed[start:stop] for start, stop in pairwise(places)]
    assert from_wire(packets, request()) == from_wire([framed], request())
