"""The conversations that this process owns.

A conversation is claimed on first use, driven while it has something to do, woken when a wait is over, and evicted
from memory when it is idle. A failure in one conversation never affects another. Commands are left to `service`.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from toolyard.core.conversation.plan import Rest, plan
from toolyard.core.conversation.state import State
from toolyard.core.errors import Fenced, NotFound, StoreDown, ToolyardError, Unavailable
from toolyard.core.store import MAX_DEATHS, Claim, OwnedElsewhere, Store
from toolyard.engine.dependencies import Deps
from toolyard.engine.log.journal import Journal, ObserveEntries
from toolyard.engine.log.relay import Relay
from toolyard.engine.log.replica_messages import DeletionNotice, encode_message
from toolyard.engine.log.views import Views
from toolyard.engine.loop.left_runs import LeaveWatch
from toolyard.engine.loop.loop import STOPPED_BY_SERVER, build_abandonment, drive

MAX_IDLE = 1024
MAX_IDLE_BYTES = 64 * 1024 * 1024
"""Memory of all cached conversations together. Conversations with a driver or a reader are never evicted."""
FOLLOWER_GRACE_S = 5.0
"""How long a conversation that is not kept stays for readers at other replicas."""
UNREADABLE_RETRY_S = 60.0
"""When a conversation of a shared store whose log could not be read is tried again."""
LEAVE_TO_OTHERS_S = 60.0
"""How long after the last entry a call is left to replicas that have its tool."""
MEASURE_S = 0.1
"""How long after a run its conversation is measured: whoever waits for the end of the run is told first."""
LEFT_RETRY_S = 1.0
"""About when a conversation that was left to others is due again."""
STOPPING = "the server is about to stop; come back in a moment, with the last event's id if you follow a stream"

_log = logging.getLogger("toolyard.owner")


class Driver:
    """Claims, drives, wakes and evicts conversations: one journal and at most one driver task for each."""

    def __init__(self, deps: Deps, store: Store, tasks: asyncio.TaskGroup, observe: ObserveEntries) -> None:
        self._deps = deps
        self._store = store
        self._tasks = tasks
        self._observe = observe
        self._relay = Relay(store) if store.is_shared else None
        self.on_forwarded: Callable[[str], None] = lambda _: None
        """Called with a conversation of this process that forwarded commands wait for."""
        self.on_due: Callable[[], None] = lambda: None
        """Called when a conversation came to rest that is due at some time."""
        self.on_broken: Callable[[str], None] = lambda _: None
        """Called with a conversation whose driver stopped because its journal broke."""
        self.views = Views(store, self.spawn, self.find_journal)
        self._journals: dict[str, Journal] = {}
        self._opening: dict[str, asyncio.Event] = {}
        self._drivers: dict[str, asyncio.Task[None]] = {}
        self._max_journals = MAX_IDLE
        self._sizes: dict[Journal, int] = {}
        """The estimated bytes of each journal, as of when it last came to rest."""
        self._held_bytes = 0
        self._unmeasured: set[Journal] = set()
        """The journals that came to rest since the last measurement."""
        self._max_bytes = MAX_IDLE_BYTES
        self._joining: dict[str, set[str]] = {}
        """The replicas that follow conversations which are being opened."""
        self._lingering: set[Journal] = set()
        """Journals of conversations that are not kept, which readers at other replicas still read."""
        store.on_lost(self._lose)

    def __iter__(self) -> Iterator[Journal]:
        return iter(list(self._journals.values()))

    def find_journal(self, conversation: str) -> Journal | None:
        """Return the working journal of a conversation that this process owns already, else None."""
        journal = self._journals.get(conversation)
        return journal if journal is not None and not (journal.broken or journal.released) else None

    def find_state(self, conversation: str) -> State | None:
        """Return the state of a conversation whose journal is in memory, else None."""
        journal = self._journals.get(conversation)
        return journal.state if journal is not None else None

    def is_driving(self, conversation: str) -> bool:
        return conversation in self._drivers

    def is_opening(self, conversation: str) -> bool:
        return conversation in self._opening

    async def open_journal(self, conversation: str, *, is_new: bool = False) -> Journal | OwnedElsewhere:
        """Return the journal of a conversation, claiming the conversation if this process has no working journal of it.

        Return OwnedElsewhere if another replica owns it. The id of a new one was made just now, in this process. Raises
        StoreDown, or Unavailable while the server is stopping.
        """
        while True:
            # Concurrent requests share one claim: a second one would raise the epoch again and fence the journal that
            # the first one returned.
            if opening := self._opening.get(conversation):
                await opening.wait()
            elif (journal := self.find_journal(conversation)) is None:
                break
            elif journal.is_releasing:
                await journal.wait_released()
            elif await self._still_owns(journal):
                return journal
        if self._deps.draining:
            raise Unavailable(STOPPING)
        # Evict before the new journal is added: without a driver or a reader it would itself count as idle.
        self._evict_idle()
        with self._begin_opening((conversation,)):
            # Claim first, then read: the new epoch fences the previous owner, so that no entry can be added to the log
            # after it was read.
            claim = await (self._store.claim_new(conversation) if is_new else self._store.claim(conversation))
            return claim if isinstance(claim, OwnedElsewhere) else await self._open_claimed(claim)

    async def _still_owns(self, journal: Journal) -> bool:
        """Return whether a journal is still that of its conversation, as far as the lease tells.

        A process that was stopped for a while may have lost the conversation and not know it yet: it would refuse a
        command that the new owner takes.
        """
        if self._store.is_shared:
            await self._store.ensure_lease()
        return self.find_journal(journal.conversation) is journal

    async def open_many(self, conversations: Sequence[str]) -> dict[str, Journal | BaseException]:
        """Claim those of the conversations that nobody owns. Return the journal of each, or why it cannot be opened."""
        with self._begin_opening(conversations):
            claims = await self._store.claim_many(conversations)
            opened = await asyncio.gather(*map(self._open_claimed, claims), return_exceptions=True)
        return {claim.conversation: journal for claim, journal in zip(claims, opened, strict=True)}

    @contextmanager
    def _begin_opening(self, conversations: Sequence[str]) -> Generator[None]:
        """Keep others from opening the conversations at the same time."""
        opened = asyncio.Event()
        self._opening.update(dict.fromkeys(conversations, opened))
        try:
            yield
        finally:
            for conversation in conversations:
                del self._opening[conversation]
                self._joining.pop(conversation, None)
            opened.set()

    async def _open_claimed(self, claim: Claim) -> Journal:
        try:
            return await self._load_journal(claim)
        except BaseException:
            if self._store.is_shared:  # nobody else drives what this process owns
                wake_at = self._deps.clock.now() + UNREADABLE_RETRY_S
                self.spawn(self._give_back(claim, wake_at))
            raise

    async def _give_back(self, claim: Claim, wake_at: float | None) -> None:
        """Release a conversation with its forwarded commands: the replica that claims it next answers them."""
        last = claim.last_forwarded
        while not await self._store.release(claim.conversation, claim.epoch, last, wake_at):
            last, _ = await self._store.read_forwarded(claim.conversation, claim.epoch)
            wake_at = 0.0

    async def _load_journal(self, claim: Claim) -> Journal:
        view = await self.views.take(claim)
        is_abandoned = claim.deaths >= MAX_DEATHS and view.state.run is not None
        lost = await self._deps.spending.price_lost_requests(claim.conversation, view.state) if is_abandoned else None
        journal = Journal(
            claim,
            view.state,
            log=self._store,
            clock=self._deps.clock,
            spawn=self.spawn,
            observe=self._observe,
            relay=self._relay,
            on_settled_release=self._on_settled_release if self._store.is_shared else None,
            memo=view.memo,
            size=view.size,
            has_budgets=self._deps.spending.has_budgets,
        )
        journal.followers |= self._joining.pop(claim.conversation, set())
        self._drop(claim.conversation)
        self._journals[claim.conversation] = journal
        self._update_size(journal)
        self.views.move_readers(claim.conversation)
        if lost is not None:
            journal.emit(*build_abandonment(journal.state, claim.deaths, self._deps, lost))
        if claim.has_forwarded:
            self.on_forwarded(claim.conversation)
        return journal

    def _on_settled_release(self, journal: Journal) -> None:
        if not journal.released:
            self.on_forwarded(journal.conversation)
        elif self._journals.get(journal.conversation) is journal:
            self._drop(journal.conversation)
            self.views.put(journal)

    def add_follower(self, conversation: str, replica: str) -> None:
        """Send a replica what is live in a conversation of this process, and from now on what is published there."""
        journal = self.find_journal(conversation)
        if conversation in self._opening:
            self._joining.setdefault(conversation, set()).add(replica)
        elif journal is not None and self._relay is not None:
            journal.followers.add(replica)
            self._relay.announce(conversation, (replica,))
            self._relay.send(conversation, journal.epoch, (replica,), journal.readers.live_events())

    def release_if_resting(self, journal: Journal) -> None:
        """Release a conversation of a shared store that has nothing to do and that no append will release."""
        if (
            self._store.is_shared
            and self.find_journal(journal.conversation) is journal
            and journal.conversation not in self._drivers
            and journal.begin_release()
        ):
            self.spawn(self._release(journal, journal.state.wake_at))

    def release_unused(self, conversation: str) -> None:
        """Release a conversation that was claimed for a command which did not reach it."""
        if journal := self.find_journal(conversation):
            self.release_if_resting(journal)

    async def _release(self, journal: Journal, wake_at: float | None) -> None:
        try:
            released = await self._store.release(journal.conversation, journal.epoch, journal.forwarded_seen, wake_at)
        except ToolyardError as error:
            journal.fail(error)
            return
        journal.settle_release(released=released)

    def _lose(self, claims: Sequence[tuple[str, int]]) -> None:
        """Stop the work of conversations that another replica has taken over."""
        for conversation, epoch in claims:
            journal = self.find_journal(conversation)
            if journal is not None and journal.epoch == epoch:
                journal.is_lost = True
                # Not before an append that is under way has its outcome: it may have been stored before the take-over,
                # and its command must not be decided again.
                journal.on_settled(partial(_fail_lost, journal))

    def wake(self, journal: Journal) -> None:
        if journal.conversation not in self._drivers:
            self._drivers[journal.conversation] = self._tasks.create_task(self._drive(journal))

    async def delete(self, conversation: str, why: ToolyardError) -> None:
        """Delete a conversation with everything that belongs to it, and stop what runs in it. Readers get `why`."""
        # Delete first: that fences the appends of its owner, and the run is no longer due, so that it is not claimed
        # again as soon as its driver has stopped.
        replicas = await self._store.delete_conversation(conversation)
        body = encode_message(DeletionNotice(conversation))
        for replica in replicas:
            self._store.tell(replica, body)
        await self.forget(conversation, why)

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
        for journal in self:
            journal.changes.notify()
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
            await asyncio.gather(*map(self._hand_over, self), return_exceptions=True)
            await self.views.wait_for_snapshots()

    async def _hand_over(self, journal: Journal) -> None:
        """Release a conversation so that another replica goes on with it at once."""
        if self._store.is_shared and not (journal.broken or journal.released):
            await self._give_back(journal.claim, journal.state.wake_at)

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        self._tasks.create_task(_contain(work))

    async def _drive(self, journal: Journal) -> None:
        leave_watch = LeaveWatch(journal, self._deps.registry, STOPPED_BY_SERVER)
        try:
            # `wake` starts no second driver, so a command that is emitted while this one finishes must be seen here:
            # there is no await between the last check and the removal from `_drivers`.
            await self._leave_to_others(journal)
            while not (journal.released or self._is_at_rest(journal)):
                await drive(journal, self._deps)
                await journal.wait_committed()
                # `drive` returns at once during a release: without this wait the loop would spin and keep the outcome
                # of the release from ever coming.
                await journal.wait_released()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # ends this conversation only; its next use claims it again
            if not journal.broken:
                _log.error("conversation %s could not be driven", journal.conversation, exc_info=error)
                journal.fail(_find_cause(error))
            _log.warning("conversation %s was released: %s", journal.conversation, journal.broken)
        finally:
            leave_watch.close()
            del self._drivers[journal.conversation]
            self._finish_driving(journal)

    async def _leave_to_others(self, journal: Journal) -> None:
        """Release a conversation with a call whose tool this process lacks, for a time: another replica may have it.

        During a rolling deployment replicas have different tools. Later the call is answered here as unknown.
        """
        while self._lacks_tools(journal) and not (journal.released or self._deps.draining):
            now = self._deps.clock.now()
            if now - journal.state.last_at > LEAVE_TO_OTHERS_S:
                return
            await journal.wait_committed()
            if journal.begin_release(while_open=True):
                await self._release(journal, now + LEFT_RETRY_S * random.uniform(0.5, 1.5))
            if not journal.released:  # a command was forwarded, which is being read
                await self._deps.sleep(LEFT_RETRY_S / 10)

    def _lacks_tools(self, journal: Journal) -> bool:
        # Not only when it is claimed: a call may be approved here afterwards.
        return self._store.is_shared and self._deps.registry.lacks_tools(journal.require_state())

    def _is_at_rest(self, journal: Journal) -> bool:
        state = journal.require_state()
        return self._deps.draining or isinstance(plan(state, journal.epoch, self._deps.clock.now()), Rest)

    def _finish_driving(self, journal: Journal) -> None:
        journal.changes.cancel_timer()
        current = self._journals.get(journal.conversation)
        if current is not journal:
            if current is not None:
                # The conversation was claimed again while this driver was ending, and `wake` found it still registered.
                self.wake(current)
        elif journal.broken:
            self._drop(journal.conversation)
        else:
            self._measure_soon(journal)
            if journal.is_committed:
                self.views.save_snapshot_if_due(journal.conversation, journal.state, journal.readers.stored)
        if journal.broken:
            self.on_broken(journal.conversation)
        elif journal.released:
            pass
        elif journal.state.is_disposable:
            self._forget_when_idle(journal)
        elif journal.state.wake_at is not None:
            self.on_due()
        self.release_if_resting(journal)

    def _forget_when_idle(self, journal: Journal) -> None:
        """Delete an ephemeral conversation once its last reader has gone."""
        if journal.is_busy:
            journal.readers.on_idle = partial(self._forget_when_idle, journal)
        elif journal in self._lingering:  # `_resume_own` finds it due meanwhile
            pass
        elif journal.followers:
            # Their readers are elsewhere and may not have read the end yet.
            journal.followers.clear()
            self._lingering.add(journal)
            asyncio.get_running_loop().call_later(FOLLOWER_GRACE_S, self._end_grace, journal)
        elif journal.state.is_disposable and journal.conversation not in self._drivers:
            journal.readers.on_idle = None
            self.spawn(self._forget_stored(journal.conversation))

    def _end_grace(self, journal: Journal) -> None:
        self._lingering.discard(journal)
        self._forget_when_idle(journal)

    async def _forget_stored(self, conversation: str) -> None:
        try:
            await self.delete(conversation, NotFound("the conversation was not kept"))
        except StoreDown as error:  # the conversation stays due, so that it is tried again
            _log.warning("conversation %s could not be deleted: %s", conversation, error)

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

    def _measure_soon(self, journal: Journal) -> None:
        if not self._unmeasured:
            asyncio.get_running_loop().call_later(MEASURE_S, self._measure)
        self._unmeasured.add(journal)

    def _measure(self) -> None:
        """Measure one of the journals, and the next one after other tasks: one may hold thousands of items."""
        journal = self._unmeasured.pop()
        if self._unmeasured:
            asyncio.get_running_loop().call_soon(self._measure)
        if self._journals.get(journal.conversation) is journal:
            self._update_size(journal)
            self._evict_idle()

    def _update_size(self, journal: Journal) -> None:
        size = journal.estimate_size()
        self._held_bytes += size - self._sizes.get(journal, 0)
        self._sizes[journal] = size

    def _drop(self, conversation: str) -> Journal | None:
        journal = self._journals.pop(conversation, None)
        if journal is not None:
            self._held_bytes -= self._sizes.pop(journal, 0)
        return journal


def _fail_lost(journal: Journal) -> None:
    if not journal.broken:
        journal.fail(Fenced("another replica has taken the conversation over"))


async def _contain(work: Coroutine[None, None, None]) -> None:
    """Do the work and log its failure, which must not end the other tasks of the group."""
    try:
        await work
    except Exception as error:
        _log.error("a task of a conversation failed: %s", error, exc_info=error)


def _find_cause(error: BaseException) -> ToolyardError:
    """Return why a driver stopped: the store's error, or Unavailable for a bug of our own."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return error if isinstance(error, StoreDown) else Unavailable("this conversation cannot go on; see the log")
