"""One request on its way, as somebody who waits for it sees it. It does not know who that is."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from toolyard.core.commands import Start, Stop
from toolyard.core.cursor import Cursor
from toolyard.core.events import Entry, Event, RunEnded, RunStarted
from toolyard.engine.readers import Published
from toolyard.engine.service import Service


class Run:
    """One request on its way: iterate over its events. Leaving the iteration does not stop the run; `stop` does."""

    def __init__(self, service: Service, conversation: str, start: Start) -> None:
        self.conversation = conversation
        self.id = start.run_id
        self.correlation_id = start.correlation_id
        self._service = service
        self._start = start
        self._from: Cursor | None = None
        self._begun = False

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Every event of this run, durable and fleeting, through all its waits to its end."""
        async with aclosing(self.stream()) as published:
            async for item in published:
                yield item.event if isinstance(item, Entry) else item

    async def stream(self) -> AsyncGenerator[Published, None]:
        """The same, with the durable events as the log keeps them: stamped and numbered."""
        reader = await self._service.follow(self.conversation, self._from)
        try:
            if self._from is None and not self._begun:
                self._begun = True
                await self._begin(reader.cursor)
            running = False
            while True:
                for item, _ in await reader.read_batch():
                    if not isinstance(item, Entry):
                        if running:
                            yield item
                    elif item.run == self.id:
                        running = running or isinstance(item.event, RunStarted)
                        yield item
                        if isinstance(item.event, RunEnded):
                            return
        finally:
            reader.detach()

    async def _begin(self, place: Cursor) -> None:
        try:
            await self._service.submit(self.conversation, self._start)
        except BaseException:
            self._begun = False  # it was refused: whoever iterates again tries again
            raise
        self._from = place

    async def stop(self, call_id: str = "") -> None:
        """Stop the whole run, or one call of it."""
        await self._service.submit(self.conversation, Stop(by=self._start.by, call_id=call_id, run_id=self.id))
