"""Attempts of known callers to do what they may not do, in the audit log: one entry per caller, action and minute.

Of many callers in a minute only some have entries of their own; the others share one for each action.
"""

import logging

from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.errors import ToolyardError
from toolyard.core.ports import Spawn
from toolyard.core.store.audit_chain import Actor, AuditAction
from toolyard.engine.access.counted_entries import WINDOW_S, CountedEntries
from toolyard.observability.auditor import Auditor, current_actor

MAX_CALLERS = 200
"""Pairs of a caller and an action with entries of their own in a minute. A trusted key may name any number of users."""
OTHER_CALLERS = "other callers"

_log = logging.getLogger("toolyard.audit")


class RefusedAttempts:
    def __init__(self, auditor: Auditor, spawn: Spawn, window_s: float = WINDOW_S) -> None:
        self._auditor = auditor
        self._entries = CountedEntries(spawn, window_s)
        self.close = self._entries.close

    async def count(self, action: AuditAction, target: str, by: Caller | None = None, content_hash: str = "") -> None:
        """Count an attempt of the current request's caller. The entry of a minute names the target of the first one.

        A store that is down is only logged: the attempt is refused anyway.
        """
        actor = current_actor.get()
        if by is not None:
            actor = replace(actor, user=by.user, tenant=by.tenant)
        key = (actor.user, actor.tenant, actor.key, action)
        if key not in self._entries and len(self._entries) >= MAX_CALLERS:
            actor, target, content_hash = Actor(user=OTHER_CALLERS), "", ""
            key = (OTHER_CALLERS, "", "", action)

        async def write(count: int) -> None:
            token = current_actor.set(actor)
            try:
                await self._auditor.write(action, target, outcome="refused", count=count, content_hash=content_hash)
            except ToolyardError as error:
                _log.warning("%d refused attempts are missing in the audit log: %s", count, error)
            finally:
                current_actor.reset(token)

        await self._entries.count(key, write)
