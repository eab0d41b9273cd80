"""Deletes what is kept no longer: requests that may not be sent again, ephemeral conversations, old audit entries.

It also charges the costs of ended turns that no process has charged to their budgets.
"""

import logging

from toolyard.core.conversation.events import REQUEST_KEY_S
from toolyard.core.conversation.state import State
from toolyard.core.errors import NotFound, StoreDown
from toolyard.core.store import Store
from toolyard.engine.dependencies import Deps
from toolyard.engine.replicas.ownership import Driver
from toolyard.observability.auditor import Auditor

DROP_EVERY_S = 600.0
UNDO_S = 30.0
"""How long a deletion can be undone."""
MAX_DROPPED = 100
"""Expired requests that are read from the store at once."""

_log = logging.getLogger("toolyard.owner")


class Housekeeping:
    """Drops expired records from the store, from time to time."""

    def __init__(self, deps: Deps, store: Store, driver: Driver, auditor: Auditor) -> None:
        self._deps = deps
        self._store = store
        self._driver = driver
        self._auditor = auditor
        self._next_drop_at = 0.0

    async def drop_expired(self) -> None:
        """Delete expired requests and old audit entries, at most once in DROP_EVERY_S."""
        now = self._deps.clock.now()
        if now < self._next_drop_at:
            return
        self._next_drop_at = now + DROP_EVERY_S
        await self._drop_expired_requests(now)
        await self._drop_deleted(now)
        await self._deps.spending.settle()  # what a process that died had no time for
        if self._deps.keep_audit_days:
            await self._auditor.trim(self._deps.keep_audit_days)

    async def _drop_expired_requests(self, now: float) -> None:
        """Forget the requests that may no longer be sent again, and the ephemeral conversations kept for them."""
        before, progress = now - REQUEST_KEY_S, True
        while progress:
            conversations = dict.fromkeys(await self._store.list_expired_requests(before, MAX_DROPPED))
            # A conversation with an open run is left for a later time; a page of nothing else ends this.
            progress = any([await self._drop_request(conversation, before) for conversation in conversations])

    async def _drop_deleted(self, now: float) -> None:
        """Delete the conversations whose deletion can no longer be undone."""
        while conversations := await self._store.list_deleted(now - UNDO_S, MAX_DROPPED):
            for conversation in conversations:
                await self._driver.delete(conversation, NotFound("the conversation was deleted"))

    async def _drop_request(self, conversation: str, before: float) -> bool:
        """Drop the expired requests of a conversation, and the conversation if it is only kept for them.

        Return whether they were dropped. One that cannot be read is logged and stays.
        """
        try:
            state = await self._driver.views.read_state(conversation)
        except StoreDown as error:
            _log.error("conversation %s could not be read: %s", conversation, error)
            state = State()
        if state.settings.ephemeral and not state.is_idle:
            return False
        if state.settings.ephemeral and state.last_request_at < before:
            # Before its requests are dropped: after a crash in between this is done again.
            await self._driver.delete(conversation, NotFound("the conversation was not kept"))
        await self._store.drop_request(conversation, before)
        return True
