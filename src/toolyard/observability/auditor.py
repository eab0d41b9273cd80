"""Records entries of the audit log, in the store and as log lines. Whatever changes something calls it first."""

import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from typing import TypedDict, Unpack

from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.errors import StoreDown, ToolyardError, Unavailable
from toolyard.core.ports import Clock
from toolyard.core.store import AuditedKeyValue, AuditLog, RecordChange
from toolyard.core.store.audit_chain import (
    Actor,
    AuditAction,
    AuditEntry,
    AuditOutcome,
    AuditQuery,
    AuditRecord,
    ChainCheck,
    clean_reference,
    hash_content,
)
from toolyard.observability.log_lines import log_line
from toolyard.observability.telemetry import mask_secrets

DAY_S = 86_400.0
MAX_TRIMMED = 10_000
"""Entries that are deleted in one transaction: more would keep other writers waiting for long."""
VERIFIED_PER_PAGE = 500
"""Entries that are hashed before the event loop runs other tasks."""
PART_HASH_CHARS = 12
SERVER_ITSELF = Actor()
current_actor: ContextVar[Actor] = ContextVar("toolyard_actor", default=SERVER_ITSELF)
"""Who makes the current request, and with what. Without a request it is the server itself."""

_log = logging.getLogger("toolyard.audit")


class EntryFields(TypedDict, total=False):
    """The optional fields that the writer of an entry gives."""

    by: Caller | None
    """Who acts; by default the caller of the current request."""
    tenant: str | None
    """The tenant that the entry concerns; by default the tenant of `by`."""
    content_hash: str
    change: str
    """The values of a setting before and after, as JSON with masked secrets; its hash takes the place of the other."""


class ChainVerification(Struct, frozen=True, kw_only=True):
    """The result of a check of the whole chain."""

    problem: str
    """In words the first place at which the chain is broken; empty if it holds."""
    count: int
    """The number of entries that were checked."""
    last: AuditEntry | None = None


class Auditor:
    def __init__(self, store: AuditLog, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._configuration_entry: AuditEntry | None = None

    @asynccontextmanager
    async def record(
        self, action: AuditAction, target: str, **fields: Unpack[EntryFields]
    ) -> AsyncGenerator[AuditEntry]:
        """Write an entry, then run the block: it does not begin if the entry cannot be written. Raises StoreDown.

        A block that raises has a second entry. One that is cancelled has none: its effect may be on its way.
        """
        entry = await self.write(action, target, **fields)
        try:
            yield entry
        except Exception as error:
            with suppress(StoreDown):
                record = replace(_to_record(entry), outcome=_find_outcome(error), cause=entry.number)
                _log_entry(await self._store.append_audit(record))
            raise

    async def write(
        self,
        action: AuditAction,
        target: str,
        *,
        outcome: AuditOutcome = "allowed",
        count: int = 1,
        **fields: Unpack[EntryFields],
    ) -> AuditEntry:
        """Write one entry and return it. Raises StoreDown."""
        record = self.build_record(action, target, **fields)
        entry = await self._store.append_audit(replace(record, outcome=outcome, count=count))
        _log_entry(entry)
        return entry

    def build_record(self, action: AuditAction, target: str, **fields: Unpack[EntryFields]) -> AuditRecord:
        """Return what an entry is to say."""
        by, tenant = fields.get("by"), fields.get("tenant")
        actor, change = current_actor.get(), fields.get("change", "")
        user, actor_tenant = (by.user, by.tenant) if by else (actor.user, actor.tenant)
        return AuditRecord(
            at=self._clock.now(),
            action=action,
            # A name that somebody chose may hold a secret by mistake.
            target=clean_reference(str(mask_secrets(target))),
            tenant=clean_reference(actor_tenant if tenant is None else tenant),
            actor=clean_reference(user),
            actor_tenant=clean_reference(actor_tenant),
            key=clean_reference(actor.key),
            address=clean_reference(actor.address),
            content_hash=hash_content(change) if change else fields.get("content_hash", ""),
            correlation_id=actor.correlation_id,
            change=change,
        )

    async def record_configuration(self, hashes: Mapping[str, str]) -> None:
        """Write an entry with the hashes of the configuration, unless they are those of the last entry about it."""
        if not hashes:
            return
        content_hash = hash_content(hashes)
        last = await self._store.read_audit(AuditQuery(action="config.load", limit=1))
        if not last or last[0].content_hash != content_hash:
            parts = " ".join(f"{part}:{part_hash[:PART_HASH_CHARS]}" for part, part_hash in hashes.items())
            record = self.build_record("config.load", parts, content_hash=content_hash)
            self._configuration_entry = await self._store.append_audit(record)

    def log_configuration(self) -> None:
        """Write the log line of the entry about the configuration, once the server has said that it has started."""
        if self._configuration_entry is not None:
            _log_entry(self._configuration_entry)
            self._configuration_entry = None

    async def trim(self, keep_days: int) -> None:
        """Delete the entries of days before the last `keep_days` ones. Raises StoreDown."""
        now = self._clock.now()
        # By whole days: a log that is trimmed every day has one entry about it, however many replicas try.
        before = now - now % DAY_S - keep_days * DAY_S
        record = self.build_record("audit.trim", "")
        while entry := await self._store.trim_audit(record, before, MAX_TRIMMED):
            _log_entry(entry)

    async def verify(self) -> ChainVerification:
        """Check the chain of the whole log, and return the result. Raises StoreDown."""
        check = ChainCheck()
        query = AuditQuery(oldest_first=True, limit=VERIFIED_PER_PAGE)
        while entries := await self._store.read_audit(query):
            if problem := check.add(entries):
                return ChainVerification(problem=problem, count=check.count)
            query = replace(query, cursor=entries[-1].number)
        return ChainVerification(problem=check.find_gap(), count=check.count, last=check.last)


class RecordAuditor(Auditor):
    """An auditor that changes records together with their entries, so that there is never one without the other."""

    def __init__(self, store: AuditedKeyValue, clock: Clock) -> None:
        super().__init__(store, clock)
        self._records = store

    async def change_records(self, changes: Sequence[RecordChange]) -> None:
        """Change records and write their entries: all of it, or nothing. Raises StoreDown.

        Entries with the outcome `failed` tell of a change that the store has not confirmed, if it takes them.
        """
        try:
            entries = await self._records.change_records(changes)
        except Exception as error:
            with suppress(StoreDown):
                for record in [change.audit for change in changes if change.audit is not None]:
                    _log_entry(await self._store.append_audit(replace(record, outcome=_find_outcome(error))))
            raise
        for entry in entries:
            _log_entry(entry)


def _log_entry(entry: AuditEntry) -> None:
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


def _to_record(entry: AuditEntry) -> AuditRecord:
    return AuditRecord(**{name: getattr(entry, name) for name in AuditRecord.__struct_fields__})


def _find_outcome(error: Exception) -> AuditOutcome:
    """Return whether an error tells for certain that nothing was changed."""
    is_certain = isinstance(error, ToolyardError) and not isinstance(error, StoreDown | Unavailable)
    return "refused" if is_certain else "failed"
