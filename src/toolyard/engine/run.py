"""A request and its events, for a caller that iterates over them."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from toolyard.core.commands import Start, Stop
from toolyard.core.cursor import Cursor
from toolyard.core.events import Entry, Event, RunEnded, RunStarted
from toolyard.engine.readers import Published
from toolyard.engine.service import Service


class Run:
    """A request: iterating over it starts it and yields its events.

    Leaving the iteration does not stop the run; `stop` does.
    """

    def __init__(self, service: Service, conversation: str, start: Start) -> None:
        self.conversation = conversation
        self.id = start.run_id
        self.correlation_id = start.correlation_id
        self._service = service
        self._start = start
        self._from: Cursor | None = None
        self._begun = False

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Yield every event of this run, durable and fleeting, through all its waits to its end."""
        async with aclosing(self.stream()) as published:
            async for item in published:
                yield item.event if isinstance(item, Entry) else item

    async def stream(self) -> AsyncGenerator[Published, None]:
        """Yield the same events, the durable ones as log entries."""
        # Attach before the run is started, so that none of its events is missed.
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

    async def _begin(self, cursor: Cursor) -> None:
        try:
            await self._service.submit(self.conversation, self._start)
        except BaseException:
            self._begun = False  # the command was refused: the next iteration submits it again
            raise
        self._from = cursor

    async def stop(self, call_id: str = "") -> None:
        """Stop the whole run, or one call of it."""
        await self._service.submit(self.conversation, Stop(by=self._start.by, call_id=call_id, run_id=self.id))
