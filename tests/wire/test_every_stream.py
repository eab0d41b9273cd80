"""Every stream of every dialect is read to what it holds, in whatever packets it comes, from a real server as well.

The Messages streams have a suite of their own: there the provider's own calls count among the calls.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolyard.core.conversation.events import ModelDelta, TurnEnded, TurnFailed
from toolyard.core.ports import Model, ModelRequest
from toolyard.models import chat as openai_chat
from toolyard.models import gemini
from toolyard.models import responses as openai_responses
from wire import gemini_streams, responses_streams, streams, strict_gemini, strict_responses
from wire.checks import check_offsets, check_turn, expect_failed
from wire.local import events_of, open_model, request, serving, streaming
from wire.reply_bytes import FailingStream, Stream


@dataclass(frozen=True)
class StreamWire:
    name: str
    from_wire: Callable[[Iterable[bytes], ModelRequest], list[ModelDelta | TurnEnded | TurnFailed]]
    build_model: Callable[[str, str], Model]
    """By base URL and provider."""
    path: str
    streams: Sequence[Stream]
    failing: Sequence[FailingStream]
    provider: str = "openai"

    def read(self, *packets: bytes) -> list[ModelDelta | TurnEnded | TurnFailed]:
        return self.from_wire(packets, request(model=strict_gemini.MODEL))


WIRES = (
    StreamWire(
        "chat",
        openai_chat.from_wire,
        lambda url, provider: openai_chat.OpenAIChat(base_url=url, provider=provider),
        "/chat/completions",
        streams.STREAMS,
        streams.FAILING,
    ),
    StreamWire(
        "responses",
        openai_responses.from_wire,
        lambda url, provider: openai_responses.OpenAIResponses(base_url=url, provider=provider),
        strict_responses.PATH,
        responses_streams.STREAMS,
        responses_streams.FAILING,
    ),
    StreamWire(
        "gemini",
        gemini.from_wire,
        lambda url, provider: gemini.Gemini(base_url=url, model=strict_gemini.MODEL, provider=provider),
        strict_gemini.path_of(),
        gemini_streams.STREAMS,
        gemini_streams.FAILING,
        "gemini",
    ),
)
each_stream = pytest.mark.parametrize(
    ("wire", "stream"),
    [
        pytest.param(wire, recording, id=f"{wire.name}: {recording.name}")
        for wire in WIRES
        for recording in wire.streams
    ],
)
each_failing = pytest.mark.parametrize(
    ("wire", "stream"),
    [
        pytest.param(wire, recording, id=f"{wire.name}: {recording.name}")
        for wire in WIRES
        for recording in wire.failing
    ],
)


@each_stream
def test_a_stream_is_read_to_what_it_holds(wire: StreamWire, stream: Stream) -> None:
    events = wire.read(stream.body)
    check_turn(stream, events)
    check_offsets(events)


@each_stream
def test_a_stream_that_arrives_byte_by_byte_gives_the_same_events(wire: StreamWire, stream: Stream) -> None:
    assert wire.read(*(bytes([byte]) for byte in stream.body)) == wire.read(stream.body)


@each_failing
def test_a_reply_that_fails_says_why(wire: StreamWire, stream: FailingStream) -> None:
    problem = expect_failed(wire.read(stream.body)).problem
    assert (problem.error_type, stream.says in problem.error) == (stream.error_type, True), problem


@each_stream
async def test_a_stream_from_a_real_server_is_read_the_same(wire: StreamWire, stream: Stream) -> None:
    async with (
        serving(streaming([stream.body], stream.content_type), wire.path) as base_url,
        open_model(wire.build_model(base_url, wire.provider)) as model,
    ):
        assert await events_of(model, request(model=strict_gemini.MODEL)) == wire.read(stream.body)


@each_failing
async def test_a_failure_from_a_real_server_is_told_with_its_request_id(
    wire: StreamWire, stream: FailingStream
) -> None:
    async with (
        serving(streaming([stream.body], stream.content_type), wire.path) as base_url,
        open_model(wire.build_model(base_url, "acme")) as model,
    ):
        problem = expect_failed(await events_of(model, request())).problem
    assert (problem.error_type, stream.says in problem.error) == (stream.error_type, True)
    assert (problem.details["request_id"], problem.details["provider"]) == ("req_7", "acme")


SHORT = [(wire, stream) for wire in WIRES for stream in (*wire.streams, *wire.failing) if len(stream.body) < 20_000]
cuts = st.lists(st.integers(min_value=0, max_value=20_000), max_size=12)


@settings(deadline=None, max_examples=300)
@given(chosen=st.sampled_from(SHORT), cuts=cuts, crlf=st.booleans())
def test_any_split_into_packets_gives_the_same_events(
    chosen: tuple[StreamWire, Stream | FailingStream], cuts: list[int], crlf: bool
) -> None:
    wire, stream = chosen
    framed = stream.body.replace(b"\n", b"\r\n") if crlf and b"\r" not in stream.body else stream.body
    places = sorted({0, len(framed), *(cut % (len(framed) + 1) for cut in cuts)})
    assert wire.read(*(framed[start:stop] for start, stop in pairwise(places))) == wire.read(framed)
