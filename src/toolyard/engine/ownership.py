"""The conversations that this process owns: claimed when somebody asks, driven while there is something to do, woken
when a wait is over, let go of when idle. What goes wrong with one never reaches another. It knows no command.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from functools import partial

from toolyard.core.errors import NotFound, Refused, StoreDown, ToolyardError, Unavailable
from toolyard.core.plan import Rest, plan
from toolyard.core.store import Store
from toolyard.engine.dependencies import Deps
from toolyard.engine.journal import Journal, Observe
from toolyard.engine.loop import drive

MAX_IDLE = 1024
MAX_IDLE_BYTES = 64 * 1024 * 1024
"""What the conversations that are kept in memory may hold together; those at work are never let go of."""
MAX_SLEEP_S = 3600.0
STORE_RETRY_S = 5.0
STOPPING = "the server is about to stop; come back in a moment, with the last event's id if you follow a stream"

_log = logging.getLogger("toolyard.owner")


class Owner:
    def __init__(self, deps: Deps, store: Store, tasks: asyncio.TaskGroup, observe: Observe) -> None:
        self._deps = deps
        self._store = store
        self._tasks = tasks
        self._observe = observe
        self._journals: dict[str, Journal] = {}
        self._opening: dict[str, asyncio.Event] = {}
        self._drivers: dict[str, asyncio.Task[None]] = {}
        self._alarm = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        self._room = MAX_IDLE
        self._sizes: dict[Journal, int] = {}
        """By journal the bytes that it held when it came to rest."""
        self._held_bytes = 0
        self._room_bytes = MAX_IDLE_BYTES

    def start(self) -> None:
        """Take up every run that an earlier process left open, and keep watch over waits."""
        self._watching = self._tasks.create_task(self._watch())

    def __iter__(self) -> Iterator[Journal]:
        return iter(list(self._journals.values()))

    async def open_journal(self, conversation: str) -> Journal:
        """The journal of a conversation, claimed and folded if this process did not own it. Raises StoreDown."""
        while opening := self._opening.get(conversation):
            await opening.wait()
        journal = self._journals.get(conversation)
        if journal is not None and not journal.broken:
            return journal
        if self._deps.draining:
            raise Unavailable(STOPPING)
        self._evict_idle()  # before it is here: nobody is attached to it yet, and it would pass for idle
        self._opening[conversation] = opened = asyncio.Event()
        try:
            journal = await self._claim(conversation)
            self._drop(conversation)
            self._journals[conversation] = journal
            self._update_size(journal)
        finally:
            del self._opening[conversation]
            opened.set()
        return journal

    def wake(self, journal: Journal) -> None:
        if journal.conversation not in self._drivers:
            self._drivers[journal.conversation] = self._tasks.create_task(self._drive(journal))

    async def forget(self, conversation: str, why: ToolyardError) -> None:
        """Stop what runs in it and let go of it; whoever follows it is told why."""
        journal = self._drop(conversation)
        if driver := self._drivers.get(conversation):
            driver.cancel()
            await asyncio.wait((driver,))
        if journal is not None:
            journal.fail(why)

    async def close(self, grace_s: float) -> None:
        """Begin nothing new, let running work end for a while, then let go. What was cut off is taken up later."""
        self._deps.draining = True
        if self._watching:
            self._watching.cancel()
        for journal in self:
            journal.notify()
            journal.readers.fail(Unavailable(STOPPING))
        drivers = list(self._drivers.values())
        try:
            if drivers:
                await asyncio.wait(drivers, timeout=grace_s)
        finally:
            for driver in drivers:
                driver.cancel()
            await asyncio.gather(*drivers, return_exceptions=True)
            await asyncio.gather(*(journal.wait_committed() for journal in self), return_exceptions=True)

    async def _claim(self, conversation: str) -> Journal:
        epoch = await self._store.claim(conversation)
        entries = await self._store.read(conversation) if epoch > 1 else ()
        try:
            return Journal(
                conversation,
                epoch,
                entries,
                log=self._store,
                clock=self._deps.clock,
                spawn=self._spawn,
                observe=self._observe,
            )
        except Refused as error:
            raise StoreDown(
                f"the log of conversation {conversation!r} tells what cannot have happened: {error}"
            ) from None

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        self._tasks.create_task(work)

    async def _drive(self, journal: Journal) -> None:
        try:
            while not self._is_at_rest(journal):
                await drive(journal, self._deps)
                await journal.wait_committed()  # meanwhile a command may have come: look again
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # this conversation is let go of; whoever asks for it next claims it anew
            if not journal.broken:
                _log.error("conversation %s could not be driven", journal.conversation, exc_info=error)
                journal.fail(_find_cause(error))
            _log.warning("conversation %s is let go of: %s", journal.conversation, journal.broken)
        finally:
            del self._drivers[journal.conversation]
            self._finish_driving(journal)

    def _is_at_rest(self, journal: Journal) -> bool:
        state = journal.require_state()
        return self._deps.draining or isinstance(plan(state, journal.epoch, self._deps.clock.now()), Rest)

    def _finish_driving(self, journal: Journal) -> None:
        journal.cancel_timer()
        current = self._journals.get(journal.conversation)
        if current is not journal:
            if current is not None:
                self.wake(current)  # it was claimed anew while this driver still let go
        elif journal.broken:
            self._drop(journal.conversation)
        else:
            self._update_size(journal)
        if journal.broken:
            asyncio.get_running_loop().call_later(STORE_RETRY_S, self._alarm.set)
        elif journal.state.is_disposable:
            self._forget_when_idle(journal)
        elif journal.state.wake_at is not None:
            self._alarm.set()
        self._evict_idle()

    def _forget_when_idle(self, journal: Journal) -> None:
        """Forget what nobody asked to keep, as soon as nobody reads it any more."""
        if journal.is_busy:
            journal.readers.on_idle = partial(self._forget_when_idle, journal)
        elif journal.state.is_disposable and journal.conversation not in self._drivers:
            journal.readers.on_idle = None
            self._spawn(self._forget_stored(journal.conversation))

    async def _forget_stored(self, conversation: str) -> None:
        try:
            await self._store.forget(conversation)
        except StoreDown as error:  # it is still due: the next look finds it again
            _log.warning("conversation %s could not be forgotten: %s", conversation, error)
            return
        await self.forget(conversation, NotFound("the conversation was not kept"))

    def _evict_idle(self) -> None:
        """Let go of idle ones, the oldest first, when they are many or large. Looks again only after some more."""
        if len(self._journals) <= self._room and self._held_bytes <= self._room_bytes:
            return
        idle = [key for key, one in self._journals.items() if key not in self._drivers and not one.is_busy]
        for key in idle:
            if len(self._journals) <= MAX_IDLE // 2 and self._held_bytes <= MAX_IDLE_BYTES // 2:
                break
            self._drop(key)
        self._room = max(MAX_IDLE, len(self._journals) + MAX_IDLE // 4)
        self._room_bytes = max(MAX_IDLE_BYTES, self._held_bytes + MAX_IDLE_BYTES // 4)

    def _update_size(self, journal: Journal) -> None:
        size = journal.estimate_size()
        self._held_bytes += size - self._sizes.get(journal, 0)
        self._sizes[journal] = size

    def _drop(self, conversation: str) -> Journal | None:
        journal = self._journals.pop(conversation, None)
        if journal is not None:
            self._held_bytes -= self._sizes.pop(journal, 0)
        return journal

    async def _watch(self) -> None:
        """Wake the conversations whose time has come; sleep until the next one's."""
        while True:
            self._alarm.clear()
            try:
                nap_s = await self._wake_due()
            except StoreDown as error:
                _log.warning("the store cannot be asked which runs are due: %s", error)
                nap_s = STORE_RETRY_S
            try:
                async with asyncio.timeout(nap_s):
                    await self._alarm.wait()
            except TimeoutError:
                pass

    async def _wake_due(self) -> float:
        """How long until the next one is due. One that cannot be opened costs a line in the log, and nobody else."""
        now = self._deps.clock.now()
        due, next_at = await self._store.due(now)
        for conversation in due:
            try:
                self.wake(await self.open_journal(conversation))
            except Exception as error:
                ours = not isinstance(error, ToolyardError)  # then where it happened matters, too
                _log.error("conversation %s cannot be taken up: %s", conversation, error, exc_info=ours)
        return MAX_SLEEP_S if next_at is None else min(MAX_SLEEP_S, max(0.0, next_at - now))


def _find_cause(error: BaseException) -> ToolyardError:
    """Why a driver stopped: the store's own words if it was the store, else that it was a fault of ours."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return error if isinstance(error, StoreDown) else Unavailable("this conversation cannot go on; the log says why")
