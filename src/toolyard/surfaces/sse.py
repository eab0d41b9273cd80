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
from toolyard.surfaces.errors import error_body
from toolyard.surfaces.event_stream import EventStream
from toolyard.surfaces.stream_objects import Objects

HEARTBEAT_S = 15.0
PRIMED = 1000
"""How many entries before a reader's place are looked at, so that it knows the names of the calls in flight."""
EMPTY: Mapping[str, str] = {}
HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}

PAUSED = (RunEnded, RunSuspended)

Render = Callable[[Published, Cursor], bytes]


async def as_objects(service: Service, conversation: str, after: Cursor) -> Render:
    """The render of our objects for a reader that begins at that place."""
    return object_render(await primed(service, conversation, after))


async def primed(service: Service, conversation: str, after: Cursor) -> Objects:
    """Objects that know what was shown before that place."""
    objects = Objects()
    if after.seq:
        for entry in await service.entries(conversation, after=max(0, after.seq - PRIMED), until=after.seq):
            objects.of(entry)
    return objects


def object_render(objects: Objects) -> Render:
    def render(item: Published, cursor: Cursor) -> bytes:
        if isinstance(item, TextAppended):  # the hot path: nothing is built but the bytes
            content = msgspec.json.encode(item.text)
            return b'id: %b\ndata: {"type":"text.delta","content":%b}\n\n' % (str(cursor).encode(), content)
        made = objects.of(item)
        return b"".join(_events([msgspec.json.encode(one) for one in made], cursor)) if made else b""

    return render


def entry_render(item: Published, cursor: Cursor) -> bytes:
    """The log's own entries; a fleeting event stands by itself."""
    return b"id: %b\ndata: %b\n\n" % (str(cursor).encode(), encode(item))


def _events(bodies: Sequence[bytes], cursor: Cursor) -> Iterator[bytes]:
    """An event of several objects has its id on the last one: a reader that leaves in between gets it whole again."""
    for number, body in enumerate(bodies, 1):
        place = b"id: %b\n" % str(cursor).encode() if number == len(bodies) else b""
        yield b"%bdata: %b\n\n" % (place, body)


class Only(Protocol):
    """What of a stream is shown, and when it is over."""

    @property
    def over(self) -> bool: ...

    def passes(self, item: Published) -> bool: ...


class OneRun:
    """Lets through what belongs to one run, until it ends or waits; no run means everything, for ever."""

    def __init__(self, run_id: str = "") -> None:
        self._run_id = run_id
        self._begun = not run_id
        self.over = False

    def passes(self, item: Published) -> bool:
        if not self._run_id:
            return True
        if not isinstance(item, Entry):
            return self._begun
        if item.run != self._run_id:
            return False
        self._begun = self._begun or isinstance(item.event, RunStarted)
        self.over = isinstance(item.event, PAUSED)
        return True


async def stream(reader: Reader, render: Render, only: Only, correlation_id: str) -> AsyncGenerator[bytes, None]:
    """Everything that the reader hands out and that passes, with a heartbeat where nothing happens."""
    try:
        while not only.over:
            batch = await reader.batch(HEARTBEAT_S)
            pieces: list[bytes] = [] if batch else [b": heartbeat\n\n"]
            for item, cursor in batch:
                if not only.over and only.passes(item):
                    pieces.append(render(item, cursor))
            if body := b"".join(pieces):
                yield body
    except ToolyardError as error:
        _, told, _ = error_body(error, correlation_id)
        body = {"type": "error", "error": told.error, "error_type": told.error_type, "correlation_id": correlation_id}
        yield b"data: %b\n\n" % msgspec.json.encode(body)
    finally:
        reader.detach()


async def begun(service: Service, conversation: str, start: Start, headers: Mapping[str, str]) -> Stream:
    """Start a run and stream it. What refuses the start is answered before the stream begins."""
    reader = await service.follow(conversation, keen=False)
    try:
        await service.submit(conversation, start)
    except BaseException:
        reader.detach()
        raise
    render = object_render(Objects())
    return event_stream(stream(reader, render, OneRun(start.run_id), start.correlation_id), headers)


def event_stream(pieces: AsyncGenerator[bytes, None], headers: Mapping[str, str] = EMPTY) -> Stream:
    return EventStream(pieces, media_type="text/event-stream", headers={**HEADERS, **headers})
