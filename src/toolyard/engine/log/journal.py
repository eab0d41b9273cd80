"""The log of one conversation while this process owns it: events are validated by the fold, stored, then published.

`emit` folds its events at once and returns; events that are emitted in one step of the event loop are stored in one
commit. `state` includes events that are not stored yet. Code that is about to cause an effect awaits `wait_committed`
first. Readers see stored entries only.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from toolyard.core.conversation.events import (
    FORMAT,
    Durable,
    Entry,
    Fleeting,
    RequestKey,
    RunEnded,
    RunQueued,
    RunStarted,
)
from toolyard.core.conversation.run_state import QueuedRun, RunState
from toolyard.core.conversation.state import State, apply
from toolyard.core.errors import Fenced, RequestRepeated, StoreDown, ToolyardError
from toolyard.core.ports import Clock, Spawn
from toolyard.core.store import Append, Claim, CommandAnswer, FutureLike, Log
from toolyard.engine.log.change_signal import ChangeSignal
from toolyard.engine.log.memory_estimate import StateSize
from toolyard.engine.log.readers import Readers
from toolyard.engine.log.relay import Relay
from toolyard.engine.spending.usage_rows import SPENDING_EVENTS, SpendingRecorder

ObserveEntries = Callable[[Sequence[Entry]], None]
_log = logging.getLogger("toolyard.journal")


class Journal:
    """The writable log of one conversation, valid for one epoch of ownership.

    In a store that replicas share, the commit after which the conversation rests also releases it. From the start of
    that commit on nothing may be emitted: `is_releasing` says so, and `wait_released` waits for its outcome.
    """

    def __init__(
        self,
        claim: Claim,
        state: State,
        *,
        log: Log,
        clock: Clock,
        spawn: Spawn,
        observe: ObserveEntries,
        relay: Relay | None = None,
        on_settled_release: "Callable[[Journal], None] | None" = None,
        memo: dict[str, object] | None = None,
        size: StateSize = StateSize(),  # noqa: B008
        has_budgets: Callable[[], bool] = lambda: False,
    ) -> None:
        """`relay` and `on_settled_release` are for a shared store: the latter is called after a commit that was to
        release the conversation, whether it did (`released`) or was kept from it by a forwarded command.
        """
        self.claim = claim
        self.conversation = claim.conversation
        self.epoch = claim.epoch
        self.state = state
        self.memo: dict[str, object] = {} if memo is None else memo
        self.followers = set(claim.followers)
        self.forwarded_seen = 0 if claim.has_forwarded else claim.last_forwarded
        """The number of the last forwarded command that was dealt with."""
        self.is_releasing = False
        self.released = False
        self._relay = relay
        self._on_settled_release = on_settled_release
        self._answers: list[CommandAnswer] = []
        self._release_waiters: list[asyncio.Future[None]] = []
        # A partial of the log, not a method of this object: a reference cycle would hold the memory of an evicted
        # journal until the next garbage collection.
        self.readers = Readers(partial(log.read, self.conversation), claim.last_seq)
        self.broken: ToolyardError | None = None
        self.is_lost = False
        """Whether another replica has taken the conversation over: no tool starts here any more."""
        self._log = log
        self._loop = asyncio.get_running_loop()  # kept: in Python 3.11 each lookup is a system call
        self._clock = clock
        self.changes = ChangeSignal(clock)
        self._spawn = spawn
        self._observe = observe
        self._seq = self.readers.stored
        self._staged: list[Entry] = []
        self._spending = SpendingRecorder(has_budgets)
        self._flushing = False
        self._held: deque[tuple[int, Fleeting]] = deque()
        self._commits: list[tuple[int, asyncio.Future[None]]] = []
        self._size = size

    def require_state(self) -> State:
        """Return the state after the last emitted event. Raises Fenced or StoreDown if the journal is broken."""
        if self.broken:
            raise self.broken
        return self.state

    def emit(
        self,
        *events: Durable,
        run: str = "",
        correlation_id: str = "",
        request: RequestKey | None = None,
        answer: CommandAnswer | None = None,
    ) -> None:
        """Apply the events to the state, all or none, and store them in one commit. Raises Refused.

        An event belongs to the current run; `run` and `correlation_id` are for events without one, such as RunQueued.
        `request` is the key of the request that the events come from, `answer` the outcome of the forwarded command.
        """
        if self.is_releasing:
            raise Fenced(f"conversation {self.conversation!r} is being released")
        if self.broken:
            raise self.broken
        state, now, seq = self.state, self._clock.now(), self._seq
        entries: list[Entry] = []
        spending: list[tuple[Entry, State]] = []
        for event in events:
            kind, seq = type(event), seq + 1
            its_run = _find_run(event, state) if kind in _RUN_BOUNDS else state.run
            entry = Entry(
                conversation=self.conversation,
                seq=seq,
                at=now,
                event=event,
                run=its_run.id if its_run is not None else run,
                correlation_id=its_run.correlation_id if its_run is not None else correlation_id,
                epoch=self.epoch,
                format=FORMAT,
                request=request if request is not None and event is events[-1] else None,
            )
            if kind in SPENDING_EVENTS:
                spending.append((entry, state))
            state = apply(state, entry)
            entries.append(entry)
        self.state = state
        self._seq = seq
        self._staged += entries
        for entry, before in spending:
            self._spending.record(entry, before)
        if answer is not None:
            self._answers.append(answer)
        # Wake the driver before the flush is scheduled: callbacks run in order, so what the driver emits in response
        # joins the same commit.
        self.changes.notify()
        # One append is under way at a time. Events that are emitted meanwhile stay in `_staged` and go with the next
        # one, so that entries reach the store in the order of their numbers.
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._begin_flush)

    def publish_fleeting(self, event: Fleeting) -> None:
        """Publish a fleeting event to live readers, after all entries that were emitted before it."""
        if self._seq > self.readers.stored:
            self._held.append((self._seq, event))
        else:
            self._publish_fleeting(event)

    def _publish_fleeting(self, event: Fleeting) -> None:
        self.readers.publish(event)
        if self.followers and self._relay:
            self._relay.add(self.conversation, self.epoch, self.followers, event)

    @property
    def is_committed(self) -> bool:
        """Return whether everything emitted so far is stored."""
        return self._seq <= self.readers.stored

    async def wait_committed(self) -> None:
        """Wait until everything emitted so far is stored. Raises Fenced or StoreDown if it cannot be stored."""
        self.require_state()
        if self._seq > self.readers.stored:
            future: asyncio.Future[None] = self._loop.create_future()
            self._commits.append((self._seq, future))
            await future

    def on_settled(self, callback: Callable[[], None]) -> None:
        """Call back once everything emitted so far is stored or cannot be stored, whoever waits for it."""
        if self.broken or self._seq <= self.readers.stored:
            callback()
            return
        future: asyncio.Future[None] = self._loop.create_future()

        def settle(settled: asyncio.Future[None]) -> None:
            settled.exception()  # raised to those who wait for the commit
            callback()

        future.add_done_callback(settle)
        self._commits.append((self._seq, future))

    def wait_changed(self, seen: State, until: float) -> asyncio.Future[None]:
        """Return a future that ends when the state differs from `seen`, or at that time."""
        change = self.changes.wait(until)
        if self.state is not seen or self.broken:
            self.changes.notify()
        return change

    @property
    def is_busy(self) -> bool:
        """Return whether an append is under way or a reader is attached."""
        return self._flushing or self.readers.attached > 0

    def measure(self) -> StateSize:
        """Return the size of the state. Only items that came since the last time are counted."""
        self._size = self._size.update(self.state)
        return self._size

    def estimate_size(self) -> int:
        """Return roughly how many bytes this conversation takes in memory. Only new items are counted each time."""
        self.measure()
        # The encoded form of the history takes about as much again.
        return self._size.total * 2 if self.memo else self._size.total

    def _begin_flush(self) -> None:
        """Append the staged entries without a task; a task is created only where the store has no room yet."""
        try:
            # The store compares the epoch with the conversation's current one, and raises Fenced if another owner has
            # claimed the conversation since. Only this check keeps two owners from both writing to the log.
            append = self._build_append()
            stored = self._log.begin_append(append)
        except Exception as error:
            self._fail_flush(error)
            return
        # New lists: a store may read those of the append later, when others have been staged.
        batch, self._staged, self._answers = self._staged, [], []
        self._spending.clear()
        if stored is None:
            self._spawn(self._flush(append, batch))
        elif stored.done():
            self._on_stored(batch, stored)
        else:
            stored.add_done_callback(partial(self._on_stored, batch))

    def _on_stored(self, batch: Sequence[Entry], stored: FutureLike) -> None:
        if (error := stored.exception()) is not None:
            self._fail_flush(error)
            return
        self._finish_flush(batch, released=stored.result())

    def _build_append(self) -> Append:
        # Nothing is emitted between this and the commit of an append that releases: whoever would, waits for it.
        self.is_releasing = self._on_settled_release is not None and self.state.may_rest_without_owner
        return Append(
            conversation=self.conversation,
            epoch=self.epoch,
            entries=self._staged,
            opens=self.claim.is_unwritten and not self.readers.stored,
            wake_at=self.state.wake_at,
            answers=self._answers,
            usage=self._spending.usage,
            settlements=self._spending.settlements,
            release_at=self.forwarded_seen if self.is_releasing else None,
        )

    def _finish_flush(self, batch: Sequence[Entry], *, released: bool) -> None:
        self.released = released
        self._publish(batch)
        if self._staged:
            self._begin_flush()
            return
        self._flushing = False
        if self.is_releasing:
            self.settle_release(released=released)

    def begin_release(self, *, while_open: bool = False) -> bool:
        """Begin a release without an append, and return whether it was begun. `settle_release` ends it.

        Only `while_open` releases a conversation that has something to do.
        """
        if self._flushing or self.is_releasing or not (while_open or self.state.may_rest_without_owner):
            return False
        self.is_releasing = True
        return True

    def settle_release(self, *, released: bool) -> None:
        """Record the outcome of a release: the conversation has no owner now, or a forwarded command has kept it."""
        self.is_releasing, self.released = released, released
        self._end_release_waits()
        if self._on_settled_release:
            self._on_settled_release(self)

    async def wait_released(self) -> None:
        """Wait until the release that is under way has succeeded or failed."""
        if self.is_releasing and not (self.released or self.broken):
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._release_waiters.append(waiter)
            await waiter

    def _end_release_waits(self) -> None:
        waiters, self._release_waiters = self._release_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _flush(self, append: Append, batch: Sequence[Entry]) -> None:
        """Append the staged entries, waiting until the store has room."""
        try:
            released = await self._log.append(append)
        except Exception as error:
            self._fail_flush(error)
            return
        self._finish_flush(batch, released=released)

    def _fail_flush(self, error: BaseException) -> None:
        """Break this journal after a failed append. An entry that cannot be written ends its own conversation only."""
        self._flushing = False
        if not isinstance(error, Fenced | StoreDown | RequestRepeated):
            _log.error("conversation %s cannot be written", self.conversation, exc_info=error)
            error = StoreDown(f"an entry could not be written: {type(error).__name__}: {error}")
        self.fail(error)

    def _publish(self, batch: Sequence[Entry]) -> None:
        """Publish stored entries, each followed by the fleeting events that were held back for it."""
        held, start = self._held, 0
        while held and batch and (end := held[0][0] - batch[0].seq + 1) <= len(batch):
            if start < end:
                self.readers.publish_entries(batch[start:end])
                start = end
            self._publish_fleeting(held.popleft()[1])
        if start < len(batch):
            self.readers.publish_entries(batch[start:] if start else batch)
        self._observe(batch)
        if self.followers and self._relay:
            self._relay.announce(self.conversation, self.followers)
        if not self._commits:
            return
        waiting, self._commits = self._commits, []
        for seq, future in waiting:
            if seq > self.readers.stored:
                self._commits.append((seq, future))
            elif not future.done():
                future.set_result(None)

    def fail(self, error: ToolyardError) -> None:
        """Stop using this journal: readers, the driver and all who wait for a commit get the error."""
        # The state may be ahead of the store now. It is never repaired: the next use of the conversation claims it
        # again and folds the stored log.
        self.broken = error
        self.readers.fail(error)
        for _, future in self._commits:
            if not future.done():
                future.set_exception(error)
        self._commits.clear()
        self._end_release_waits()
        self.changes.notify()


_RUN_BOUNDS = frozenset({RunQueued, RunStarted, RunEnded})
"""Events that may belong to another run than the current one."""


def _find_run(event: Durable, state: State) -> QueuedRun | RunState | None:
    match event:
        case RunQueued():
            return None
        case RunStarted():
            return state.queue[0]
        case RunEnded(run_id=run_id) if run_id:
            return next((run for run in state.queue if run.id == run_id), None)
        case _:
            return state.run
