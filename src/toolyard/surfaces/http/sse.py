"""Server-sent events: stream what a `Reader` yields as the bytes of a protocol.

Each stream protocol is a `StreamEncoder`. `stream_events` feeds it until it is over.

A stream pulls. While a client reads slowly nothing is read for it; its `Reader` is only a position in a shared ring,
and catches up from the log when the ring has moved on. So a slow client costs no memory and misses no entry.
"""

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Protocol

import msgspec
from litestar.response import Stream

from toolyard.core.conversation.cursor import Cursor
from toolyard.core.conversation.events import Published
from toolyard.core.errors import ToolyardError
from toolyard.surfaces.http.event_stream import EventStream

HEARTBEAT_S = 15.0
NO_HEADERS: Mapping[str, str] = {}
STREAM_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


class BatchReader(Protocol):
    """Reads a conversation: a `Reader`, or what stands in for one."""

    async def read_batch(self, timeout_s: float | None = None) -> list[tuple[Published, Cursor]]: ...

    def detach(self) -> None: ...


class StreamEncoder(Protocol):
    """Encodes what a reader yields as the bytes of one stream protocol. Pure.

    An encoder can start anywhere: with a view folded from the entries up to a cursor (`load_open_runs`) it encodes the
    items after the cursor to the same bytes as an encoder that has seen all of them.
    """

    @property
    def over(self) -> bool:
        """Return whether the stream has nothing more to say. Later items are not encoded."""
        ...

    def opening(self) -> bytes:
        """Return what comes before the first item."""
        ...

    def item(self, published: Published, cursor: Cursor) -> bytes:
        """Return the bytes of an item; empty if the protocol does not show it. The cursor is the place after it."""
        ...

    def closing(self) -> bytes:
        """Return what comes after the last item, once the stream is over."""
        ...

    def failure(self, error: ToolyardError, correlation_id: str) -> bytes:
        """Return the last bytes of a stream that the server cannot continue."""
        ...


class Hold:
    """The time for which an answer is held back while its run waits for a person, in all waits together."""

    def __init__(self, seconds: float, waits: Callable[[], bool] = lambda: False) -> None:
        """Hold a stream that is over while `waits` is true."""
        self._left_s = seconds
        self._since: float | None = None
        self.waits = waits

    @property
    def is_on(self) -> bool:
        return self._since is not None

    @property
    def left_s(self) -> float:
        running_s = time.monotonic() - self._since if self._since is not None else 0.0
        return max(0.0, self._left_s - running_s)

    def set(self, waits: bool) -> None:
        """Begin or end to hold. Nothing is held once the time is used up."""
        if self._since is not None:
            self._left_s, self._since = self.left_s, None
        if waits and self._left_s > 0:
            self._since = time.monotonic()


async def stream_events(
    reader: BatchReader, encoder: StreamEncoder, correlation_id: str, hold: Hold | None = None
) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of the stream until it is over, with a heartbeat comment where nothing happens.

    An encoder that is over because its run waits goes on once the run does: `hold` says how long it is given for that.
    """
    hold = hold or Hold(0.0)
    try:
        if opening := encoder.opening():
            yield opening
        while True:
            wait_s = HEARTBEAT_S
            if encoder.over or hold.is_on:
                hold.set(encoder.over and hold.waits())
                if encoder.over and not hold.is_on:
                    break
                wait_s = min(HEARTBEAT_S, hold.left_s) if hold.is_on else HEARTBEAT_S
            batch = await reader.read_batch(wait_s)
            pieces: list[bytes] = [] if batch else [b": heartbeat\n\n"]
            for item, cursor in batch:
                # A batch may reach beyond the end of the run: its other items belong to the next one.
                if encoder.over and not hold.waits():
                    break
                pieces.append(encoder.item(item, cursor))
            if body := b"".join(pieces):
                yield body
        if closing := encoder.closing():
            yield closing
    except ToolyardError as error:
        yield encoder.failure(error, correlation_id)
    finally:
        reader.detach()


def encode_event(body: object) -> bytes:
    """Return an event without an id."""
    return b"data: %b\n\n" % msgspec.json.encode(body)


def build_stream_response(pieces: AsyncGenerator[bytes, None], headers: Mapping[str, str] = NO_HEADERS) -> Stream:
    return EventStream(pieces, media_type="text/event-stream", headers={**STREAM_HEADERS, **headers})
