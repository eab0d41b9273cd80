"""Server-sent events: stream what a `Reader` yields as the bytes of a protocol.

Each stream protocol is a `StreamEncoder`. `stream_events` feeds it until it is over.

A stream pulls. While a client reads slowly nothing is read for it; its `Reader` is only a position in a shared ring,
and catches up from the log when the ring has moved on. So a slow client costs no memory and misses no entry.
"""

import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Protocol

import msgspec
from litestar.response import Stream

from toolyard.codec import encode
from toolyard.core.conversation.commands import Start
from toolyard.core.conversation.cursor import Cursor
from toolyard.core.conversation.events import Entry, Published, RunSuspended, TextAppended
from toolyard.core.conversation.run_view import OpenRuns, RunView
from toolyard.core.errors import ToolyardError
from toolyard.engine.log.open_runs import load_open_runs
from toolyard.engine.log.replayed_waits import is_at_rest
from toolyard.engine.service import Service, StartedRun
from toolyard.surfaces.errors import build_error_response
from toolyard.surfaces.event_stream import EventStream
from toolyard.surfaces.idempotency import REPLAYED_HEADERS
from toolyard.surfaces.request_context import HttpRequest
from toolyard.surfaces.run_beginning import wait_for_beginning, wants_headers_at_once
from toolyard.surfaces.run_notices import NOTICE_SEPARATOR, RunNotices, build_notices
from toolyard.surfaces.stream_objects import StreamObject, build_notice, build_objects, build_wait

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


class ObjectFraming:
    """The parts that streams of JSON objects have in common: nothing around the items, and an error as an object."""

    def opening(self) -> bytes:
        return b""

    def closing(self) -> bytes:
        return b""

    def failure(self, error: ToolyardError, correlation_id: str) -> bytes:
        # The status line is long sent, so the error is an event. It has no id: a client resumes from the last one that
        # had, and loses nothing by the failure.
        _, error_body, _ = build_error_response(error, correlation_id)
        return encode_event(
            {
                "type": "error",
                "error": error_body.error,
                "error_type": error_body.error_type,
                "correlation_id": correlation_id,
            }
        )


class ObjectEncoder(ObjectFraming):
    """Encodes all runs of a conversation as objects, without end."""

    over = False

    def __init__(self, runs: OpenRuns, notices: RunNotices) -> None:
        self._runs = runs
        self._notices = notices

    def item(self, published: Published, cursor: Cursor) -> bytes:
        view = self._runs.apply(published)
        if view is None:
            is_shown = isinstance(published, Entry) and not published.run  # an event of the conversation itself
            return encode_objects(published, cursor, RunView(run_id=""), self._notices) if is_shown else b""
        return encode_objects(published, cursor, view, self._notices)


class RunEncoder(ObjectFraming):
    """Encodes one run as objects, until it ends or waits."""

    def __init__(
        self, view: RunView, notices: RunNotices, log_end: int = 0, runs_in_front: OpenRuns | None = None
    ) -> None:
        """Start from the view. The log had `log_end` entries when it was opened: waits before that may be over.

        `runs_in_front` are those that a queued run waits for, as of where the reader starts.
        """
        self._view = view
        self._notices = notices
        self._log_end = log_end
        self._runs_in_front = runs_in_front
        self._described_wait = ("", 0)
        self.over = view.at_rest

    def item(self, published: Published, cursor: Cursor) -> bytes:
        view = self._view.apply(published)
        if not isinstance(published, Entry):
            return encode_objects(published, cursor, view, self._notices) if view is not None else b""
        self.over = is_at_rest(self._view, published.seq, self._log_end)
        if view is not None and (self.over or not isinstance(published.event, RunSuspended)):
            return self._encode_wait_in_front(published) + encode_objects(published, cursor, view, self._notices)
        if self.over:
            # Other runs were queued since this one was suspended: only now it is certain that it still waits.
            objects = build_wait(self._view, self._notices)
            for stream_object in objects:
                stream_object["correlation_id"] = published.correlation_id
            return frame_objects(objects, cursor)
        return self._encode_wait_in_front(published)

    def _encode_wait_in_front(self, entry: Entry) -> bytes:
        """Return what a run in front of this one waits for, once per wait, while this one is queued."""
        if self._runs_in_front is None:
            return b""
        self._runs_in_front.apply(entry)
        front = self._runs_in_front.front
        if self._view.status != "queued":
            self._runs_in_front = None
        elif front is not None and front.end is None and is_at_rest(front, entry.seq, self._log_end):
            wait = (front.run_id, front.waits)
            sentence = self._notices.describe_run_in_front(front)
            if wait != self._described_wait and sentence:
                self._described_wait = wait
                # Texts of this run follow.
                return b"".join(map(encode_event, build_notice("waiting", sentence + NOTICE_SEPARATOR, self._view)))
        return b""


class EntryEncoder(ObjectFraming):
    """Encodes entries as they are stored in the log, and fleeting events by themselves, without end."""

    over = False

    def item(self, published: Published, cursor: Cursor) -> bytes:
        return b"id: %b\ndata: %b\n\n" % (str(cursor).encode(), encode(published))


def encode_objects(item: Published, cursor: Cursor, view: RunView, notices: RunNotices) -> bytes:
    """Return one event per object of an item. Only the last one has the id of the entry that they were made from.

    A client that disconnects in between resumes before the entry, and receives all of its objects again.
    """
    if isinstance(item, TextAppended):  # the hot path: bytes only, without a dict
        content = msgspec.json.encode(item.text)
        return b'id: %b\ndata: {"type":"text.delta","content":%b}\n\n' % (str(cursor).encode(), content)
    return frame_objects(build_objects(item, view, notices), cursor)


def frame_objects(objects: Sequence[StreamObject], cursor: Cursor) -> bytes:
    """Return one event per object, the last one with the id."""
    *others, last = [encode_event(stream_object) for stream_object in objects] or [b""]
    return b"%bid: %b\n%b" % (b"".join(others), str(cursor).encode(), last) if last else b""


def encode_event(body: object) -> bytes:
    """Return an event without an id."""
    return b"data: %b\n\n" % msgspec.json.encode(body)


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
            hold.set(encoder.over and hold.waits())
            if encoder.over and not hold.is_on:
                break
            batch = await reader.read_batch(min(HEARTBEAT_S, hold.left_s) if hold.is_on else HEARTBEAT_S)
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


async def start_and_stream(
    service: Service, request: HttpRequest, conversation: str, start: Start, headers: Mapping[str, str]
) -> Stream:
    """Start a run and stream it, or the run that an earlier request with the same key has started.

    An error of the start is raised here, before the response has begun, and so is a failure before the model answers.
    """
    started = await service.start_run(conversation, start, include_argument_deltas=False)
    try:
        # A conversation that the request has opened has no run in front.
        runs_in_front = None if start.may_open else await _load_runs_in_front(service, started)
    except BaseException:
        started.reader.detach()
        raise
    if runs_in_front is None and not wants_headers_at_once(request):
        await wait_for_beginning(started.reader, started.run_id)
    notices = build_notices(service, request)
    encoder = RunEncoder(RunView(run_id=started.run_id), notices, started.reader.end, runs_in_front)
    if started.repeated:
        headers = {**headers, **REPLAYED_HEADERS}
    return build_stream_response(stream_events(started.reader, encoder, start.correlation_id), headers)


async def _load_runs_in_front(service: Service, started: StartedRun) -> OpenRuns | None:
    """Return the runs that the started one waits for as of where its reader starts; None if it is not queued."""
    state = await service.view(started.conversation)
    if all(run.id != started.run_id for run in state.queue):
        return None
    return await load_open_runs(service, started.conversation, started.reader.cursor)


def build_stream_response(pieces: AsyncGenerator[bytes, None], headers: Mapping[str, str] = NO_HEADERS) -> Stream:
    return EventStream(pieces, media_type="text/event-stream", headers={**STREAM_HEADERS, **headers})
