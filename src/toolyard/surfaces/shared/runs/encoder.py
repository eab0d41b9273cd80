"""Encodes what a `Reader` yields as the objects of this server's own stream: one run, all runs, or plain entries."""

from collections.abc import Mapping, Sequence

import msgspec
from litestar.response import Stream

from toolyard.codec import encode
from toolyard.core.conversation.commands import Start
from toolyard.core.conversation.cursor import Cursor
from toolyard.core.conversation.events import Entry, Published, RunSuspended, TextAppended
from toolyard.core.conversation.run_view import OpenRuns, RunView
from toolyard.core.errors import ToolyardError
from toolyard.engine.log.open_runs import is_at_rest, load_open_runs
from toolyard.engine.service import Service, StartedRun
from toolyard.surfaces.http.errors import build_error_response
from toolyard.surfaces.http.idempotency import REPLAYED_HEADERS
from toolyard.surfaces.http.request_context import HttpRequest
from toolyard.surfaces.http.sse import build_stream_response, encode_event, stream_events
from toolyard.surfaces.shared.runs.beginning import wait_for_beginning, wants_headers_at_once
from toolyard.surfaces.shared.runs.notices import NOTICE_SEPARATOR, RunNotices, build_notices
from toolyard.surfaces.shared.runs.stream_objects import StreamObject, build_notice, build_objects, build_wait


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
        if not isinstance(published, Entry):  # nothing to apply: the view is made of entries
            return encode_objects(published, cursor, self._view, self._notices) if self._view.is_active else b""
        view = self._view.apply(published)
        self.over = is_at_rest(self._view, published.seq, self._log_end)
        if view is not None and (self.over or not isinstance(published.event, RunSuspended)):
            objects = encode_objects(published, cursor, view, self._notices)
            return self._encode_wait_in_front(published) + objects if self._runs_in_front is not None else objects
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
    objects = build_objects(item, view, notices)
    return frame_objects(objects, cursor) if objects else b""


def frame_objects(objects: Sequence[StreamObject], cursor: Cursor) -> bytes:
    """Return one event per object, the last one with the id."""
    if not objects:
        return b""
    *others, last = [encode_event(stream_object) for stream_object in objects]
    return b"%bid: %b\n%b" % (b"".join(others), str(cursor).encode(), last)


async def start_and_stream(
    service: Service,
    request: HttpRequest,
    conversation: str,
    start: Start,
    headers: Mapping[str, str],
    *,
    is_new: bool = False,
) -> Stream:
    """Start a run and stream it, or the run that an earlier request with the same key has started.

    The id of a new conversation was made for this command.
    An error of the start is raised here, before the response has begun, and so is a failure before the model answers.
    """
    started = await service.runs.start(conversation, start, is_new=is_new, include_argument_deltas=False)
    try:
        # A conversation that the request has opened has no run in front.
        runs_in_front = None if is_new else await _load_runs_in_front(service, started)
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
    state = await service.conversations.view(started.conversation)
    if all(run.id != started.run_id for run in state.queue):
        return None
    return await load_open_runs(service.conversations, started.conversation, started.reader.cursor)
