"""The response to an application's request: as JSON, or as a stream that ends with the same answer."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Mapping

import msgspec

from toolyard.core.cursor import Cursor
from toolyard.core.errors import Refused
from toolyard.core.events import Entry, RunEnded, RunSuspended
from toolyard.engine.readers import Published, Reader
from toolyard.engine.service import Service
from toolyard.surfaces.app_chat.run_tracker import AppAnswer, RunTracker
from toolyard.surfaces.sse import MAX_PRIMING_ENTRIES, NO_HEADERS, build_object_render, prime_encoder, stream_events


class AppResponse:
    """Follows a conversation until the tracker has an answer. It is the `StreamFilter` of its own stream."""

    def __init__(
        self, service: Service, conversation: str, reader: Reader, tracker: RunTracker, timeout_s: float
    ) -> None:
        self.conversation = conversation
        self.tracker = tracker
        self.overridden: list[str] = []
        self.headers: Mapping[str, str] = NO_HEADERS
        self._service = service
        self._reader = reader
        self._start_cursor = reader.cursor
        self._last_seen_seq = reader.cursor.seq
        self._timeout_s = timeout_s
        self._answer_sent = False

    async def perform(self, action: Awaitable[None]) -> None:
        """Await the request's action; if it fails, detach the reader, since no response will."""
        try:
            await action
        except BaseException:
            self._reader.detach()
            raise

    async def load_last_run(self) -> None:
        """Track the last run that ended, from the log. Raise Refused if there is none."""
        end = self.tracker.last_known_seq
        entries = await self._service.read_entries(
            self.conversation, after=max(0, end - MAX_PRIMING_ENTRIES), until=end
        )
        last = next((entry for entry in reversed(entries) if isinstance(entry.event, RunEnded)), None)
        if last is None:
            raise Refused("nothing runs or waits in this conversation: send a message")
        self.tracker.run_id, self.tracker.last_known_seq = last.run, 0
        for entry in entries:
            self.tracker.track(entry)
        self.tracker.last_known_seq = end

    async def wait_for_answer(self) -> AppAnswer:
        """Return the answer once there is one, at the latest after the time that a run may take."""
        try:
            async with asyncio.timeout(self._timeout_s):
                while not self.tracker.over:
                    self.tracker.track(await anext(self._reader))
        except TimeoutError:
            pass  # the answer then says that the run goes on
        finally:
            self._reader.detach()
        return self._build_answer()

    @property
    def over(self) -> bool:
        """Whether there is an answer and every entry before it was streamed.

        The tracker may have the answer at once, from the state, while a resumed stream still replays older entries.
        """
        return self.tracker.over and self._last_seen_seq >= self.tracker.last_known_seq

    def accepts(self, item: Published) -> bool:
        if isinstance(item, Entry):
            self._last_seen_seq = item.seq
        return self.tracker.track(item)

    async def stream(self, correlation_id: str) -> AsyncGenerator[bytes, None]:
        """Yield the stream's objects, then the answer, then `done`. The first event has the id to resume from."""
        try:
            objects = await prime_encoder(self._service, self.conversation, self._start_cursor)
            render_objects = build_object_render(objects)
            started = {"type": "started", "conversationId": self.conversation, "runId": self.tracker.run_id}
            yield b"id: %b\n%b" % (str(self._start_cursor).encode(), _encode_event(started))
        except BaseException:
            self._reader.detach()
            raise

        def render(item: Published, cursor: Cursor) -> bytes:
            body = render_objects(item, cursor)
            if not isinstance(item, Entry) or not isinstance(item.event, RunEnded | RunSuspended):
                return body
            if not self.over:
                return b""  # a replayed wait that is over by now: `done` may come only once
            self._answer_sent = True
            return _encode_event(self._build_answer()) + body

        async for piece in stream_events(self._reader, render, self, correlation_id):
            yield piece
        # The application's calls are handed out once all of them are parked, which may be before the run is suspended:
        # then no entry carried the answer.
        if self.over and not self._answer_sent:
            yield _encode_event(self._build_answer())
            yield _encode_event(
                objects.build_done("waiting", self.conversation, self.tracker.front_run_id or self.tracker.run_id)
            )

    def _build_answer(self) -> AppAnswer:
        return self.tracker.build_answer(self.overridden)


def _encode_event(body: object) -> bytes:
    return b"data: %b\n\n" % msgspec.json.encode(body)
