"""Server-sent events: what a reader hands out, as bytes, each event whole in one piece. It does not know any route."""

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
"""How many entries before a reader's place are looked at, so that it knows the names of the calls in flight."""
NO_HEADERS: Mapping[str, str] = {}
STREAM_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}

PAUSE_EVENTS = (RunEnded, RunSuspended)

Render = Callable[[Published, Cursor], bytes]


async def build_object_render_at(service: Service, conversation: str, after: Cursor) -> Render:
    """The render of our objects for a reader that begins at that place."""
    return build_object_render(await prime_encoder(service, conversation, after))


async def prime_encoder(service: Service, conversation: str, after: Cursor) -> ObjectEncoder:
    """Objects that know what was shown before that place."""
    objects = ObjectEncoder()
    if after.seq:
        for entry in await service.read_entries(
            conversation, after=max(0, after.seq - MAX_PRIMING_ENTRIES), until=after.seq
        ):
            objects.encode(entry)
    return objects


def build_object_render(encoder: ObjectEncoder) -> Render:
    def render(item: Published, cursor: Cursor) -> bytes:
        if isinstance(item, TextAppended):  # the hot path: nothing is built but the bytes
            content = msgspec.json.encode(item.text)
            return b'id: %b\ndata: {"type":"text.delta","content":%b}\n\n' % (str(cursor).encode(), content)
        made = encoder.encode(item)
        return b"".join(_iter_events([msgspec.json.encode(one) for one in made], cursor)) if made else b""

    return render


def render_entry(item: Published, cursor: Cursor) -> bytes:
    """The log's own entries; a fleeting event stands by itself."""
    return b"id: %b\ndata: %b\n\n" % (str(cursor).encode(), encode(item))


def _iter_events(bodies: Sequence[bytes], cursor: Cursor) -> Iterator[bytes]:
    """An event of several objects has its id on the last one: a reader that leaves in between gets it whole again."""
    for number, body in enumerate(bodies, 1):
        place = b"id: %b\n" % str(cursor).encode() if number == len(bodies) else b""
        yield b"%bdata: %b\n\n" % (place, body)


class StreamFilter(Protocol):
    """What of a stream is shown, and when it is over."""

    @property
    def over(self) -> bool: ...

    def accepts(self, item: Published) -> bool: ...


class RunStreamFilter:
    """Lets through what belongs to one run, until it ends or waits; no run means everything, for ever."""

    def __init__(self, run_id: str = "") -> None:
        self._run_id = run_id
        self._started = not run_id
        self.over = False

    def accepts(self, item: Published) -> bool:
        if not self._run_id:
            return True
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
    """Everything that the reader hands out and that passes, with a heartbeat where nothing happens."""
    try:
        while not stream_filter.over:
            batch = await reader.read_batch(HEARTBEAT_S)
            pieces: list[bytes] = [] if batch else [b": heartbeat\n\n"]
            for item, cursor in batch:
                if not stream_filter.over and stream_filter.accepts(item):
                    pieces.append(render(item, cursor))
            if body := b"".join(pieces):
                yield body
    except ToolyardError as error:
        _, told, _ = build_error_response(error, correlation_id)
        body = {"type": "error", "error": told.error, "error_type": told.error_type, "correlation_id": correlation_id}
        yield b"data: %b\n\n" % msgspec.json.encode(body)
    finally:
        reader.detach()


async def start_and_stream(service: Service, conversation: str, start: Start, headers: Mapping[str, str]) -> Stream:
    """Start a run and stream it. What refuses the start is answered before the stream begins."""
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
