"""Records entries of the audit log, in the store and as log lines. Whatever changes something calls it first."""

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar

from msgspec.structs import replace

from toolyard.core.audit import Actor, AuditAction, AuditEntry, AuditOutcome, AuditQuery, AuditRecord, clean_reference
from toolyard.core.caller import Caller
from toolyard.core.errors import StoreDown, ToolyardError, Unavailable
from toolyard.core.ports import Clock
from toolyard.core.store import AuditLog
from toolyard.observability.log_lines import log_line
from toolyard.observability.telemetry import mask_secrets

MAX_EARLIER_LOADS = 500
SERVER_ITSELF = Actor()
current_actor: ContextVar[Actor] = ContextVar("toolyard_actor", default=SERVER_ITSELF)
"""Who makes the current request, and with what. Without a request it is the server itself."""

_log = logging.getLogger("toolyard.audit")


class Auditor:
    def __init__(self, store: AuditLog, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    @asynccontextmanager
    async def record(
        self,
        action: AuditAction,
        target: str,
        *,
        by: Caller | None = None,
        tenant: str | None = None,
        content_hash: str = "",
    ) -> AsyncGenerator[AuditEntry]:
        """Write an entry, then run the block: it does not begin if the entry cannot be written. Raises StoreDown.

        A block that raises has a second entry. One that is cancelled has none: its effect may be on its way.
        """
        entry = await self.write(action, target, by=by, tenant=tenant, content_hash=content_hash)
        try:
            yield entry
        except Exception as error:
            with suppress(StoreDown):
                await self._append(replace(_to_record(entry), outcome=_find_outcome(error), cause=entry.number))
            raise

    async def write(
        self,
        action: AuditAction,
        target: str,
        *,
        by: Caller | None = None,
        tenant: str | None = None,
        content_hash: str = "",
        outcome: AuditOutcome = "allowed",
        count: int = 1,
    ) -> AuditEntry:
        """Write one entry.

        `by` is who acts, by default whoever makes the current request; `tenant` is the one that it concerns, by default
        that of who acts.
        """
        actor = current_actor.get()
        user, actor_tenant = (by.user, by.tenant) if by else (actor.user, actor.tenant)
        return await self._append(
            AuditRecord(
                at=self._clock.now(),
                action=action,
                # A name that somebody chose may hold a secret by mistake.
                target=clean_reference(str(mask_secrets(target))),
                tenant=clean_reference(actor_tenant if tenant is None else tenant),
                actor=clean_reference(user),
                actor_tenant=clean_reference(actor_tenant),
                key=clean_reference(actor.key),
                address=clean_reference(actor.address),
                content_hash=content_hash,
                outcome=outcome,
                count=count,
                correlation_id=actor.correlation_id,
            )
        )

    async def record_configuration(self, hashes: Mapping[str, str]) -> None:
        """Write an entry for each part of the configuration that is not what it was when a server last started."""
        if not hashes:
            return
        entries = await self._store.read_audit(AuditQuery(action="config.load", limit=MAX_EARLIER_LOADS))
        last = {entry.target: entry.content_hash for entry in reversed(entries)}
        for part, content_hash in hashes.items():
            if last.get(part) != content_hash:
                await self.write("config.load", part, content_hash=content_hash)

    async def _append(self, record: AuditRecord) -> AuditEntry:
        entry = await self._store.append_audit(record)
        log_line(
            _log,
            logging.INFO,
            entry.correlation_id,
            "Audit entry",
            number=entry.number,
            action=entry.action,
            target=entry.target,
            outcome=entry.outcome,
            cause=entry.cause or None,
            actor=entry.actor,
            tenant=entry.tenant,
            key=entry.key,
            address=entry.address,
            count=entry.count,
            hash=entry.hash,
        )
        return entry


def _to_record(entry: AuditEntry) -> AuditRecord:
    return AuditRecord(**{name: getattr(entry, name) for name in AuditRecord.__struct_fields__})


def _find_outcome(error: Exception) -> AuditOutcome:
    """Return whether an error tells for certain that nothing was changed."""
    is_certain = isinstance(error, ToolyardError) and not isinstance(error, StoreDown | Unavailable)
    return "refused" if is_certain else "failed"
