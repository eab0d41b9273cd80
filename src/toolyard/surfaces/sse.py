"""Server-sent events: encode what a `Reader` yields as bytes, and stream it until a filter says that it is over.

A stream pulls. While a client reads slowly nothing is read for it; its `Reader` is only a position in a shared ring,
and catches up from the log when the ring has moved on. So a slow client costs no memory and misses no entry.
"""

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec
from litestar.response import Stream

from toolyard.codec import encode
from toolyard.core.commands import Start
from toolyard.core.cursor import Cursor
from toolyard.core.errors import ToolyardError
from toolyard.core.events import Entry, RunEnded, RunStarted, RunSuspended, TextAppended
from toolyard.engine.readers import Published, Reader
from toolyard.engine.service import Service
from toolyard.surfaces.errors import build_error_response
from toolyard.surfaces.event_stream import EventStream
from toolyard.surfaces.stream_objects import ObjectEncoder

HEARTBEAT_S = 15.0
MAX_PRIMING_ENTRIES = 1000
"""How many entries before a cursor are read, so that the encoder knows the tool names of calls that are open there."""
NO_HEADERS: Mapping[str, str] = {}
STREAM_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}

PAUSE_EVENTS = (RunEnded, RunSuspended)

Render = Callable[[Published, Cursor], bytes]


async def build_object_render_at(service: Service, conversation: str, after: Cursor) -> Render:
    """Return a render function for a stream of objects that starts after a cursor."""
    return build_object_render(await prime_encoder(service, conversation, after))


async def prime_encoder(service: Service, conversation: str, after: Cursor) -> ObjectEncoder:
    """Return an encoder that has already seen the entries before a cursor, for a stream that resumes there."""
    objects = ObjectEncoder()
    if after.seq:
        for entry in await service.read_entries(
            conversation, after=max(0, after.seq - MAX_PRIMING_ENTRIES), until=after.seq
        ):
            objects.encode(entry)
    return objects


def build_object_render(encoder: ObjectEncoder) -> Render:
    def render(item: Published, cursor: Cursor) -> bytes:
        if isinstance(item, TextAppended):  # the hot path: bytes only, without a dict
            content = msgspec.json.encode(item.text)
            return b'id: %b\ndata: {"type":"text.delta","content":%b}\n\n' % (str(cursor).encode(), content)
        objects = encoder.encode(item)
        return b"".join(_iter_events([msgspec.json.encode(body) for body in objects], cursor)) if objects else b""

    return render


def render_entry(item: Published, cursor: Cursor) -> bytes:
    """Encode an entry as it is stored in the log, or a fleeting event by itself."""
    return b"id: %b\ndata: %b\n\n" % (str(cursor).encode(), encode(item))


def _iter_events(bodies: Sequence[bytes], cursor: Cursor) -> Iterator[bytes]:
    """Yield one event per object. Only the last one has the id of the entry that they were made from.

    A client that disconnects in between resumes before the entry, and receives all of its objects again.
    """
    for number, body in enumerate(bodies, 1):
        id_line = b"id: %b\n" % str(cursor).encode() if number == len(bodies) else b""
        yield b"%bdata: %b\n\n" % (id_line, body)


class StreamFilter(Protocol):
    """Decides which items of a stream are shown, and when the stream is over."""

    @property
    def over(self) -> bool: ...

    def accepts(self, item: Published) -> bool: ...


class RunStreamFilter:
    """Accepts the items of one run until it ends or waits; without a run id, every item, without end."""

    def __init__(self, run_id: str = "") -> None:
        self._run_id = run_id
        self._started = not run_id
        self.over = False

    def accepts(self, item: Published) -> bool:
        if not self._run_id:
            return True
        # Fleeting events carry no run id. Runs of a conversation follow one another, so those that come after this
        # run's start are its own.
        if not isinstance(item, Entry):
            return self._started
        if item.run != self._run_id:
            return False
        self._started = self._started or isinstance(item.event, RunStarted)
        self.over = isinstance(item.event, PAUSE_EVENTS)
        return True


async def stream_events(
    reader: Reader, render: Render, stream_filter: StreamFilter, correlation_id: str
) -> AsyncGenerator[bytes, None]:
    """Yield the rendered items that the filter accepts, with a heartbeat comment where nothing happens."""
    try:
        while not stream_filter.over:
            batch = await reader.read_batch(HEARTBEAT_S)
            pieces: list[bytes] = [] if batch else [b": heartbeat\n\n"]
            for item, cursor in batch:
                # A batch may reach beyond the end of the run: its other items belong to the next one.
                if not stream_filter.over and stream_filter.accepts(item):
                    pieces.append(render(item, cursor))
            if body := b"".join(pieces):
                yield body
    except ToolyardError as error:
        # The status line is long sent, so the error is an event. It has no id: a client resumes from the last one that
        # had, and loses nothing by the failure.
        _, error_body, _ = build_error_response(error, correlation_id)
        body = {
            "type": "error",
            "error": error_body.error,
            "error_type": error_body.error_type,
            "correlation_id": correlation_id,
        }
        yield b"data: %b\n\n" % msgspec.json.encode(body)
    finally:
        reader.detach()


async def start_and_stream(service: Service, conversation: str, start: Start, headers: Mapping[str, str]) -> Stream:
    """Start a run and stream it. An error of the start is raised here, before the response has begun."""
    # Follow first: an entry that is written between the two calls would be missing from the stream otherwise.
    reader = await service.follow(conversation, include_argument_deltas=False)
    try:
        await service.submit(conversation, start)
    except BaseException:
        reader.detach()
        raise
    render = build_object_render(ObjectEncoder())
    return build_stream_response(
        stream_events(reader, render, RunStreamFilter(start.run_id), start.correlation_id), headers
    )


def build_stream_response(pieces: AsyncGenerator[bytes, None], headers: Mapping[str, str] = NO_HEADERS) -> Stream:
    return EventStream(pieces, media_type="text/event-stream", headers={**STREAM_HEADERS, **headers})
