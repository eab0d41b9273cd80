"""The conversations that this process owns.

A conversation is claimed on first use, driven while it has something to do, woken when a wait is over, and evicted
from memory when it is idle. A failure in one conversation never affects another. Commands are left to `service`.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from functools import partial

from toolyard.core.errors import NotFound, StoreDown, ToolyardError, Unavailable
from toolyard.core.events import REQUEST_KEY_S
from toolyard.core.plan import Rest, plan
from toolyard.core.state import State
from toolyard.core.store import Store
from toolyard.engine.dependencies import Deps
from toolyard.engine.journal import Journal, Observe
from toolyard.engine.loop import drive
from toolyard.engine.views import LogView, Views

MAX_IDLE = 1024
MAX_IDLE_BYTES = 64 * 1024 * 1024
"""Memory of all cached conversations together. Conversations with a driver or a reader are never evicted."""
MAX_SLEEP_S = 3600.0
STORE_RETRY_S = 5.0
DROP_REQUESTS_EVERY_S = 600.0
MAX_DROPPED = 100
"""Expired requests that are read from the store at once."""
STOPPING = "the server is about to stop; come back in a moment, with the last event's id if you follow a stream"

_log = logging.getLogger("toolyard.owner")


class Owner:
    """Claims, drives, wakes and evicts conversations: one journal and at most one driver task for each."""

    def __init__(self, deps: Deps, store: Store, tasks: asyncio.TaskGroup, observe: Observe) -> None:
        self._deps = deps
        self._store = store
        self._tasks = tasks
        self._observe = observe
        self.views = Views(store, self._spawn, self.find_journal)
        self._journals: dict[str, Journal] = {}
        self._opening: dict[str, asyncio.Event] = {}
        self._drivers: dict[str, asyncio.Task[None]] = {}
        self._alarm = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        self._max_journals = MAX_IDLE
        self._sizes: dict[Journal, int] = {}
        """The estimated bytes of each journal, as of when it last came to rest."""
        self._held_bytes = 0
        self._max_bytes = MAX_IDLE_BYTES
        self._next_drop_at = 0.0

    def start(self) -> None:
        """Resume every run that an earlier process left open, and wake runs when their waits are over."""
        self._watching = self._tasks.create_task(self._watch())

    def __iter__(self) -> Iterator[Journal]:
        return iter(list(self._journals.values()))

    def find_journal(self, conversation: str) -> Journal | None:
        """Return the working journal of a conversation that this process owns already, else None."""
        journal = self._journals.get(conversation)
        return journal if journal is not None and not journal.broken else None

    async def open_journal(self, conversation: str) -> Journal:
        """Return the journal of a conversation, claiming the conversation if this process has no working journal of it.

        Raises StoreDown, or Unavailable while the server is stopping.
        """
        # Concurrent requests share one claim: a second one would raise the epoch again and fence the journal that the
        # first one returned.
        while opening := self._opening.get(conversation):
            await opening.wait()
        if (journal := self.find_journal(conversation)) is not None:
            return journal
        if self._deps.draining:
            raise Unavailable(STOPPING)
        # Evict before the new journal is added: without a driver or a reader it would itself count as idle.
        self._evict_idle()
        self._opening[conversation] = opened = asyncio.Event()
        try:
            journal = await self._claim(conversation)
            self._drop(conversation)
            self._journals[conversation] = journal
            self._update_size(journal)
            self.views.move_readers(conversation)
        finally:
            del self._opening[conversation]
            opened.set()
        return journal

    def wake(self, journal: Journal) -> None:
        if journal.conversation not in self._drivers:
            self._drivers[journal.conversation] = self._tasks.create_task(self._drive(journal))

    async def forget(self, conversation: str, why: ToolyardError) -> None:
        """Stop the driver of a conversation and drop its journal. Readers get `why`."""
        journal = self._drop(conversation)
        if driver := self._drivers.get(conversation):
            driver.cancel()
            await asyncio.wait((driver,))
        if journal is not None:
            journal.fail(why)
        self.views.fail_readers(conversation, why)

    async def close(self, grace_s: float) -> None:
        """Start nothing new, give running work `grace_s` to end, then cancel it. The next process resumes such work."""
        self._deps.draining = True
        if self._watching:
            self._watching.cancel()
        for journal in self:
            journal.notify()
            journal.readers.fail(Unavailable(STOPPING))
        self.views.close(Unavailable(STOPPING))
        drivers = list(self._drivers.values())
        try:
            if drivers:
                await asyncio.wait(drivers, timeout=grace_s)
        finally:
            for driver in drivers:
                driver.cancel()
            await asyncio.gather(*drivers, return_exceptions=True)
            # What was emitted just before the cancellation is still on its way to the store.
            await asyncio.gather(*(journal.wait_committed() for journal in self), return_exceptions=True)

    async def _claim(self, conversation: str) -> Journal:
        # Claim first, then read: the new epoch fences the previous owner, so that no entry can be added to the log
        # after it was read. The first epoch of a conversation has no log to read.
        epoch = await self._store.claim(conversation)
        view = await self.views.take(conversation) if epoch > 1 else LogView()
        return Journal(
            conversation,
            epoch,
            view.state,
            view.seq,
            log=self._store,
            clock=self._deps.clock,
            spawn=self._spawn,
            observe=self._observe,
        )

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        self._tasks.create_task(work)

    async def _drive(self, journal: Journal) -> None:
        try:
            # `wake` starts no second driver, so a command that is emitted while this one finishes must be seen here:
            # there is no await between the last check and the removal from `_drivers`.
            while not self._is_at_rest(journal):
                await drive(journal, self._deps)
                await journal.wait_committed()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # ends this conversation only; its next use claims it again
            if not journal.broken:
                _log.error("conversation %s could not be driven", journal.conversation, exc_info=error)
                journal.fail(_find_cause(error))
            _log.warning("conversation %s was released: %s", journal.conversation, journal.broken)
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
                # The conversation was claimed again while this driver was ending, and `wake` found it still registered.
                self.wake(current)
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
        """Delete an ephemeral conversation once its last reader has gone."""
        if journal.is_busy:
            journal.readers.on_idle = partial(self._forget_when_idle, journal)
        elif journal.state.is_disposable and journal.conversation not in self._drivers:
            journal.readers.on_idle = None
            self._spawn(self._forget_stored(journal.conversation))

    async def _forget_stored(self, conversation: str) -> None:
        try:
            await self._store.forget(conversation)
        except StoreDown as error:  # the conversation stays due, so that `_wake_due` tries again
            _log.warning("conversation %s could not be deleted: %s", conversation, error)
            return
        await self.forget(conversation, NotFound("the conversation was not kept"))

    def _evict_idle(self) -> None:
        """Drop idle journals, oldest first, when there are too many or they are too large."""
        if len(self._journals) <= self._max_journals and self._held_bytes <= self._max_bytes:
            return
        idle = [key for key, journal in self._journals.items() if key not in self._drivers and not journal.is_busy]
        for key in idle:
            if len(self._journals) <= MAX_IDLE // 2 and self._held_bytes <= MAX_IDLE_BYTES // 2:
                break
            self._drop(key)
        # Where most journals are busy this pass frees little. The bounds rise, so that the next full scan comes only
        # after a quarter more has been added, not with each conversation that is opened.
        self._max_journals = max(MAX_IDLE, len(self._journals) + MAX_IDLE // 4)
        self._max_bytes = max(MAX_IDLE_BYTES, self._held_bytes + MAX_IDLE_BYTES // 4)

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
        """Wake the conversations that are due, and sleep until the next one is."""
        while True:
            # Cleared before the store is asked: an alarm that is set meanwhile must end the sleep below.
            self._alarm.clear()
            try:
                sleep_s = await self._wake_due()
                await self._drop_expired_requests()
            except StoreDown as error:
                _log.warning("the due runs could not be read from the store: %s", error)
                sleep_s = STORE_RETRY_S
            try:
                async with asyncio.timeout(sleep_s):
                    await self._alarm.wait()
            except TimeoutError:
                pass

    async def _wake_due(self) -> float:
        """Wake the due conversations and return the seconds until the next one is due.

        A conversation that cannot be opened is logged and does not keep the others from being woken.
        """
        now = self._deps.clock.now()
        due, next_at = await self._store.due(now)
        for conversation in due:
            try:
                self.wake(await self.open_journal(conversation))
            except Exception as error:
                is_bug = not isinstance(error, ToolyardError)
                _log.error("conversation %s could not be resumed: %s", conversation, error, exc_info=is_bug)
        return MAX_SLEEP_S if next_at is None else min(MAX_SLEEP_S, max(0.0, next_at - now))

    async def _drop_expired_requests(self) -> None:
        """Forget the requests that may no longer be sent again, and the ephemeral conversations kept for them."""
        now = self._deps.clock.now()
        if now < self._next_drop_at:
            return
        self._next_drop_at = now + DROP_REQUESTS_EVERY_S
        before, progress = now - REQUEST_KEY_S, True
        while progress:
            conversations = dict.fromkeys(await self._store.list_expired_requests(before, MAX_DROPPED))
            # A conversation with an open run is left for a later time; a page of nothing else ends this.
            progress = any([await self._drop_request(conversation, before) for conversation in conversations])

    async def _drop_request(self, conversation: str, before: float) -> bool:
        """Drop the expired requests of a conversation, and the conversation if it is only kept for them.

        Return whether they were dropped. One that cannot be read is logged and stays.
        """
        try:
            state = await self.views.read_state(conversation)
        except StoreDown as error:
            _log.error("conversation %s could not be read: %s", conversation, error)
            state = State()
        if state.settings.ephemeral and not state.is_idle:
            return False
        if state.settings.ephemeral and state.last_request_at < before:
            # Before its requests are dropped: after a crash in between this is done again.
            await self._store.forget(conversation)
            await self.forget(conversation, NotFound("the conversation was not kept"))
        await self._store.drop_request(conversation, before)
        return True


def _find_cause(error: BaseException) -> ToolyardError:
    """Return why a driver stopped: the store's error, or Unavailable for a bug of our own."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return error if isinstance(error, StoreDown) else Unavailable("this conversation cannot go on; see the log")
