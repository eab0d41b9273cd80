"""A request and its events, for a caller that iterates over them or waits for the result."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import TYPE_CHECKING, Generic, cast

from msgspec.structs import replace

from toolyard.core.conversation.commands import Start, Stop
from toolyard.core.conversation.cursor import Cursor
from toolyard.core.conversation.events import Entry, Event, Published, RunEnded, RunStarted
from toolyard.core.conversation.run_view import RunView
from toolyard.core.errors import RunFailed
from toolyard.engine.log.open_runs import is_at_rest
from toolyard.engine.log.readers import Reader
from toolyard.engine.run.output_types import OutputType
from toolyard.engine.run.result import OutputT, RunResult, build_run_result

if TYPE_CHECKING:  # the service is loaded when a yard is created: it takes half of the time of `import toolyard`
    from toolyard.engine.service import Service


class Run(Generic[OutputT]):
    """A request: iterating over it, or waiting for its `result`, starts it.

    Leaving the iteration does not stop the run; `stop` does.
    """

    def __init__(
        self, service: "Service", conversation: str, start: Start, output_type: OutputType[OutputT] | None = None
    ) -> None:
        """Without a conversation, the run is in a new one."""
        self.conversation = conversation or service.clock.new_id("conversation")
        self._is_new = not conversation
        self.id = start.run_id
        self.correlation_id = start.correlation_id
        self._service = service
        self._start = start
        self._output_type = output_type
        self._from: Cursor | None = None
        """The place right before the run, once it was started."""
        self._starting = asyncio.Lock()
        self.repeated = False
        """Whether an earlier request with the same key has started the run: then nothing was started."""
        self._ended: RunView | None = None
        """The view of the run, once it was read to its end."""
        self._entries: list[Entry] = []
        """The entries of the run, once an iteration came to its end. They are folded if the result is asked for."""

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Yield every event of this run, durable and fleeting, through all its waits to its end."""
        reader = await self._open_reader()
        run_events = _RunEvents(self.id)
        try:
            while not run_events.is_over:
                for item in run_events.select(await reader.read_batch()):
                    yield item.event if isinstance(item, Entry) else item
            self._entries = run_events.entries
        finally:
            reader.detach()

    async def stream(self) -> AsyncGenerator[Published, None]:
        """Yield the same events, the durable ones as log entries."""
        reader = await self._open_reader()
        run_events = _RunEvents(self.id)
        try:
            while not run_events.is_over:
                for item in run_events.select(await reader.read_batch()):
                    yield item
            self._entries = run_events.entries
        finally:
            reader.detach()

    async def result(self) -> RunResult[OutputT]:
        """Return the result once the run has ended.

        Raises RunWaiting if the run waits for a decision or a result: call it again after the decision. Raises
        RunFailed if the run failed, or if it has an output type and ended without an output, for example at a limit.
        """
        view = await self.wait_for_rest()
        result = build_run_result(view, self._service.tools.find)
        if self._output_type is None:
            return cast("RunResult[OutputT]", result)
        if view.ending != "done" or view.detail:
            raise RunFailed(f"the run has no output: it ended with {view.detail or view.ending}: {view.text}")
        return cast("RunResult[OutputT]", replace(result, output=self._output_type.parse(view.text)))

    async def wait_for_rest(self) -> RunView:
        """Return the view of the run once it has ended or waits for somebody."""
        if self._ended is None and self._entries:
            self._ended = RunView(run_id=self.id)
            for entry in self._entries:
                self._ended.apply(entry)
            self._entries = []
        if self._ended is not None:
            return self._ended
        reader = await self._open_reader()
        # A view of its own: others may iterate over the run at the same time.
        view, log_end = RunView(run_id=self.id), reader.end
        try:
            async for item in reader:
                if not isinstance(item, Entry):
                    continue
                view.apply(item)
                if is_at_rest(view, item.seq, log_end):
                    self._ended = view if view.end is not None else None
                    return view
        finally:
            reader.detach()
        raise RunFailed("the run was left before its end")

    async def _open_reader(self) -> Reader:
        """Start the run, or follow it from its start if it was started before. The caller detaches the reader."""
        async with self._starting:  # a second iteration waits until the run has its place in the log
            if self._from is None:
                started = await self._service.runs.start(self.conversation, self._start, is_new=self._is_new)
                self.conversation, self.id, self.repeated = started.conversation, started.run_id, started.repeated
                self._from = started.reader.cursor
                return started.reader
        return await self._service.conversations.follow(self.conversation, self._from)

    async def stop(self, call_id: str = "") -> None:
        """Stop the whole run, or one call of it."""
        await self._service.conversations.submit(
            self.conversation, Stop(by=self._start.by, call_id=call_id, run_id=self.id)
        )


class _RunEvents:
    """Selects the events of one run. What comes at once is read together: a step for each event costs more than it."""

    def __init__(self, run_id: str) -> None:
        self.is_over = False
        self.entries: list[Entry] = []
        self._run_id = run_id
        self._is_active = False

    def select(self, batch: Sequence[tuple[Published, Cursor]]) -> list[Published]:
        """Return those of a reader's items that are the run's."""
        selected: list[Published] = []
        for item, _ in batch:
            if type(item) is not Entry:
                if self._is_active:  # fleeting events name no run: they belong to the one that is active
                    selected.append(item)
            elif item.run == self._run_id:
                selected.append(item)
                self.entries.append(item)
                kind = type(item.event)
                if kind is RunStarted:
                    self._is_active = True
                elif kind is RunEnded:
                    self.is_over = True
                    break
        return selected
