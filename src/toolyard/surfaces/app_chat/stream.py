"""The response to an application's request: as JSON, or as a stream that ends with the same answer."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Mapping
from typing import TypeVar

from toolyard.core.conversation.cursor import Cursor
from toolyard.core.conversation.events import Entry, Published, RunEnded, RunSuspended
from toolyard.engine.log.readers import Reader
from toolyard.surfaces.app_chat.answer import AnswerBuilder, AppAnswer
from toolyard.surfaces.http.sse import NO_HEADERS, encode_event, stream_events
from toolyard.surfaces.shared.runs.encoder import ObjectFraming, encode_objects
from toolyard.surfaces.shared.runs.stream_objects import build_wait

T = TypeVar("T")


class AppEncoder(ObjectFraming):
    """Encodes the run of a request as objects, then the answer, then `done`."""

    def __init__(self, conversation: str, builder: AnswerBuilder, start: Cursor) -> None:
        self._conversation = conversation
        self._builder = builder
        self._start = start
        self._answer_sent = False

    @property
    def over(self) -> bool:
        return self._builder.over

    def opening(self) -> bytes:
        """Return the event `started`, with the id to resume from."""
        started = {"type": "started", "conversationId": self._conversation, "runId": self._builder.run_id}
        return b"id: %b\n%b" % (str(self._start).encode(), encode_event(started))

    def item(self, published: Published, cursor: Cursor) -> bytes:
        view = self._builder.apply(published)
        if view is None:
            return b""
        if not isinstance(published, Entry) or not isinstance(published.event, RunEnded | RunSuspended):
            return encode_objects(published, cursor, view, self._builder.notices)
        if not self.over:
            return b""  # a replayed wait that is over by now: `done` may come only once
        self._answer_sent = True
        objects = encode_objects(published, cursor, view, self._builder.notices)
        return encode_event(self._builder.build_answer()) + objects

    def closing(self) -> bytes:
        """Return the answer and `done` if no entry carried them.

        The application's calls are handed out once all of them are parked, which may be before the run is suspended.
        """
        run = self._builder.current_run
        if self._answer_sent or run is None:
            return b""
        objects = build_wait(run, self._builder.notices)
        return b"".join(map(encode_event, (self._builder.build_answer(), *objects)))


class AppResponse:
    """Follows a conversation until there is an answer."""

    def __init__(self, conversation: str, reader: Reader, builder: AnswerBuilder, timeout_s: float) -> None:
        self.conversation = conversation
        self.builder = builder
        self.headers: Mapping[str, str] = NO_HEADERS
        self._reader = reader
        self._start = reader.cursor
        self._timeout_s = timeout_s

    async def perform(self, action: Awaitable[T]) -> T:
        """Return the result of the request's action; if it fails, detach the reader, since no response will."""
        try:
            return await action
        except BaseException:
            self._reader.detach()
            raise

    def close(self) -> None:
        """Detach the reader of a response that is not sent."""
        self._reader.detach()

    async def wait_for_answer(self) -> AppAnswer:
        """Return the answer once there is one, at the latest after the time that a run may take."""
        try:
            async with asyncio.timeout(self._timeout_s):
                while not self.builder.over:
                    self.builder.apply(await anext(self._reader))
        except TimeoutError:
            pass  # the answer then says that the run goes on
        finally:
            self._reader.detach()
        return self.builder.build_answer()

    def stream(self, correlation_id: str) -> AsyncGenerator[bytes, None]:
        """Yield the stream's objects, then the answer, then `done`. The first event has the id to resume from."""
        encoder = AppEncoder(self.conversation, self.builder, self._start)
        return stream_events(self._reader, encoder, correlation_id)
