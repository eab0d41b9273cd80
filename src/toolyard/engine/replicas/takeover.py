"""Takes over what is due: runs that an earlier process or a dead replica left open, and waits that are over."""

import asyncio
import logging
import random
from collections.abc import Sequence

from toolyard.core.errors import StoreDown, ToolyardError
from toolyard.core.store import Store
from toolyard.engine.dependencies import Deps
from toolyard.engine.log.journal import Journal
from toolyard.engine.replicas.housekeeping import Housekeeping
from toolyard.engine.replicas.ownership import Driver

MAX_SLEEP_S = 3600.0
SHARED_SLEEP_S = 1.0
"""How often a store that replicas share is asked for due work: others may leave some at any time."""
MAX_DUE = 1_000_000
"""All conversations that are due: in a store of one process most of them are open here."""
MAX_CLAIMED = 50
"""Conversations that are claimed and opened at once: a replica that died leaves thousands."""
STORE_RETRY_S = 5.0

_log = logging.getLogger("toolyard.owner")


class Takeover:
    """Finds the conversations that are due, and lets the driver of this process drive them."""

    def __init__(self, deps: Deps, store: Store, driver: Driver, housekeeping: Housekeeping) -> None:
        self._deps = deps
        self._store = store
        self._driver = driver
        self._housekeeping = housekeeping
        self._alarm = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        self._is_store_down = False
        self._orphans: set[str] = set()
        """Conversations that this replica owned without a journal when it last looked."""
        driver.on_due = self._alarm.set
        driver.on_broken = self._retry_later

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._watching = tasks.create_task(self._watch())

    def stop(self) -> None:
        """Leave due work to others from now on."""
        if self._watching:
            self._watching.cancel()
            self._watching = None

    def _retry_later(self, conversation: str) -> None:
        """Look again at a conversation whose journal broke: it is still due, unless another replica has it."""
        asyncio.get_running_loop().call_later(STORE_RETRY_S, self._retry, conversation)

    def _retry(self, conversation: str) -> None:
        if self._store.is_shared and not self._deps.draining:
            self._driver.spawn(self._resume(conversation))
        self._alarm.set()

    async def _watch(self) -> None:
        """Wake the conversations that are due, and sleep until the next one is."""
        while True:
            # Cleared before the store is asked: an alarm that is set meanwhile must end the sleep below.
            self._alarm.clear()
            try:
                sleep_s = await (self._wake_shared() if self._store.is_shared else self._wake_all())
                await self._housekeeping.drop_expired()
                self._is_store_down = False
            except StoreDown as error:
                if not self._is_store_down:  # a line for each outage, not for each attempt
                    _log.warning("the due runs could not be read from the store: %s", error)
                self._is_store_down = True
                sleep_s = STORE_RETRY_S
            try:
                async with asyncio.timeout(sleep_s):
                    await self._alarm.wait()
            except TimeoutError:
                pass

    async def _wake_all(self) -> float:
        """Wake the due conversations of a store that one process uses. Return the seconds until the next one is due.

        A conversation that cannot be opened is logged and does not keep the others from being woken.
        """
        now = self._deps.clock.now()
        due, next_at = await self._store.find_due(now, MAX_DUE)
        for conversation in due:
            await self._resume(conversation)
        return MAX_SLEEP_S if next_at is None else min(MAX_SLEEP_S, max(0.0, next_at - now))

    async def _wake_shared(self) -> float:
        """Wake due conversations that nobody owns, or this replica. Return the seconds until the store is asked again.

        One that cannot be opened is logged, as in `_wake_all`.
        """
        now = self._deps.clock.now()
        # With jitter, so that replicas do not all reach for the conversations of one that died.
        sleep_s = SHARED_SLEEP_S * random.uniform(0.7, 1.3)
        await self._resume_own(now)
        while True:
            due, next_at = await self._store.find_due(now, MAX_CLAIMED)
            # After a late heartbeat our own work may be among that of the dead: a claim would fence its journal.
            claimed = await self._resume_many(
                [id for id in due if not self._driver.is_opening(id) and self._driver.find_journal(id) is None]
            )
            if not claimed or len(due) < MAX_CLAIMED:
                return sleep_s if next_at is None else min(sleep_s, max(0.0, next_at - now))

    async def _resume_own(self, now: float) -> None:
        """Drive what this replica owns and nobody drives: others leave it alone.

        That is a wait that was over before it could be released, and a conversation whose journal is gone: it broke, or
        the client that it was claimed for left meanwhile.
        """
        driver = self._driver
        for journal in driver:
            wake_at = None if driver.is_driving(journal.conversation) else journal.state.wake_at
            if wake_at is not None and wake_at <= now and driver.find_journal(journal.conversation) is journal:
                driver.wake(journal)
        owned = self._store.list_owned()
        orphans = {id for id in owned if not driver.is_opening(id) and driver.find_journal(id) is None}
        for conversation in orphans & self._orphans:  # those of the last time are not about to be opened
            await self._resume(conversation)
        self._orphans = orphans

    async def _resume_many(self, conversations: Sequence[str]) -> int:
        """Claim those of the conversations that nobody owns and drive them. Return how many were claimed."""
        if not conversations:
            return 0
        opened = await self._driver.open_many(conversations)
        for conversation, journal in opened.items():
            if isinstance(journal, Journal):
                self._driver.wake(journal)
            else:
                _log_failure(conversation, journal)
        return len(opened)

    async def _resume(self, conversation: str) -> None:
        try:
            journal = await self._driver.open_journal(conversation)
        except Exception as error:
            _log_failure(conversation, error)
        else:
            if isinstance(journal, Journal):
                self._driver.wake(journal)


def _log_failure(conversation: str, error: BaseException) -> None:
    is_bug = not isinstance(error, ToolyardError)
    _log.error("conversation %s could not be resumed: %s", conversation, error, exc_info=error if is_bug else None)
