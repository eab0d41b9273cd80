"""A request and its events, for a caller that iterates over them or waits for the result."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from toolyard.core.commands import Start, Stop
from toolyard.core.cursor import Cursor
from toolyard.core.errors import RunFailed
from toolyard.core.events import Entry, Event, Published
from toolyard.core.run_view import RunView
from toolyard.engine.readers import Reader
from toolyard.engine.run_result import RunResult, build_run_result
from toolyard.engine.service import Service


class Run:
    """A request: iterating over it, or waiting for its `result`, starts it.

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
        self.repeated = False
        """Whether an earlier request with the same key has started the run: then nothing was started."""
        self._view = RunView(run_id=self.id)
        """The view of the last iteration."""

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Yield every event of this run, durable and fleeting, through all its waits to its end."""
        async with aclosing(self.stream()) as published:
            async for item in published:
                yield item.event if isinstance(item, Entry) else item

    async def stream(self) -> AsyncGenerator[Published, None]:
        """Yield the same events, the durable ones as log entries."""
        begins = self._from is None and not self._begun
        reader = await (self._begin() if begins else self._service.follow(self.conversation, self._from))
        try:
            view = self._view = RunView(run_id=self.id)
            while view.end is None:
                for item, _ in await reader.read_batch():
                    if not isinstance(item, Entry):
                        if view.is_active:  # the result needs no deltas: they are not folded
                            yield item
                    elif view.apply(item):
                        yield item
                        if view.end is not None:
                            return
        finally:
            reader.detach()

    async def result(self) -> RunResult:
        """Return the result once the run has ended.

        Raises RunWaiting if the run waits for a decision or a result, or RunFailed. Call it again after the decision.
        """
        return build_run_result(await self.wait_for_rest(), self._service.find_tool)

    async def wait_for_rest(self) -> RunView:
        """Return the view of the run once it has ended or waits for somebody."""
        if self._view.end is not None:
            return self._view
        async with aclosing(self.stream()) as published:
            async for _ in published:
                view = self._view
                if view.end is not None or (view.status == "waiting" and await self._waits()):
                    return view
        raise RunFailed("the run was left before its end")

    async def _waits(self) -> bool:
        """Return whether the run waits now. The log may be read again from its start, with waits that are over."""
        run = (await self._service.view(self.conversation)).run
        return run is not None and run.id == self.id and run.suspended_at is not None

    async def _begin(self) -> Reader:
        self._begun = True
        try:
            started = await self._service.start_run(self.conversation, self._start)
        except BaseException:
            self._begun = False  # the command was refused: the next iteration submits it again
            raise
        self.conversation, self.id, self.repeated = started.conversation, started.run_id, started.repeated
        self._from = started.reader.cursor
        return started.reader

    async def stop(self, call_id: str = "") -> None:
        """Stop the whole run, or one call of it."""
        await self._service.submit(self.conversation, Stop(by=self._start.by, call_id=call_id, run_id=self.id))
