"""An application's request on its way to its answer, as JSON or as a stream that ends with it. It knows no route."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Mapping

import msgspec

from toolyard.core.cursor import Cursor
from toolyard.core.errors import Refused
from toolyard.core.events import Entry, RunEnded, RunSuspended
from toolyard.engine.readers import Published, Reader
from toolyard.engine.service import Service
from toolyard.surfaces.app_chat.run_tracker import AppAnswer, AppCourse
from toolyard.surfaces.sse import EMPTY, PRIMED, object_render, primed, stream


class Exchange:
    def __init__(
        self, service: Service, conversation: str, reader: Reader, course: AppCourse, patience_s: float
    ) -> None:
        self.conversation = conversation
        self.course = course
        self.overridden: list[str] = []
        self.headers: Mapping[str, str] = EMPTY
        self._service = service
        self._reader = reader
        self._place = reader.cursor
        self._seen = reader.cursor.seq
        self._patience_s = patience_s
        self._told = False

    async def upon(self, action: Awaitable[None]) -> None:
        """Do what the request is for; if it is refused nobody follows any more."""
        try:
            await action
        except BaseException:
            self._reader.detach()
            raise

    async def look_back(self) -> None:
        """Nothing is open: how the last run ended stands in the log. Raises Refused if none ever began."""
        end = self.course.known_seq
        entries = await self._service.entries(self.conversation, after=max(0, end - PRIMED), until=end)
        last = next((entry for entry in reversed(entries) if isinstance(entry.event, RunEnded)), None)
        if last is None:
            raise Refused("nothing runs or waits in this conversation: send a message")
        self.course.mine, self.course.known_seq = last.run, 0
        for entry in entries:
            self.course.passes(entry)
        self.course.known_seq = end

    async def answered(self) -> AppAnswer:
        """Wait until there is something to answer, but never for longer than a run may take. Leaving stops nothing."""
        try:
            async with asyncio.timeout(self._patience_s):
                while not self.course.over:
                    self.course.passes(await anext(self._reader))
        except TimeoutError:
            pass  # the course knows how far it came
        finally:
            self._reader.detach()
        return self._answer()

    @property
    def over(self) -> bool:
        """There is an answer, and everything before it was shown."""
        return self.course.over and self._seen >= self.course.known_seq

    def passes(self, item: Published) -> bool:
        if isinstance(item, Entry):
            self._seen = item.seq
        return self.course.passes(item)

    async def streamed(self, correlation_id: str) -> AsyncGenerator[bytes, None]:
        """Our objects, then the answer, then `done`. What it begins with tells how to come back."""
        try:
            objects = await primed(self._service, self.conversation, self._place)
            shown = object_render(objects)
            begun = {"type": "started", "conversationId": self.conversation, "runId": self.course.mine}
            yield b"id: %b\n%b" % (str(self._place).encode(), _event(begun))
        except BaseException:
            self._reader.detach()
            raise

        def render(item: Published, cursor: Cursor) -> bytes:
            body = shown(item, cursor)
            if not isinstance(item, Entry) or not isinstance(item.event, RunEnded | RunSuspended):
                return body
            if not self.over:
                return b""  # a wait that is over meanwhile: this stream has one end
            self._told = True
            return _event(self._answer()) + body

        async for piece in stream(self._reader, render, self, correlation_id):
            yield piece
        if self.over and not self._told:
            yield _event(self._answer())
            yield _event(objects.done("waiting", self.conversation, self.course.front or self.course.mine))

    def _answer(self) -> AppAnswer:
        return self.course.answer(self.overridden)


def _event(body: object) -> bytes:
    return b"data: %b\n\n" % msgspec.json.encode(body)
