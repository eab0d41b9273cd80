"""The ports for small records, for the audit log and for statistics."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct

from toolyard.core.store.audit_chain import AuditEntry, AuditQuery, AuditRecord
from toolyard.core.store.ownership import Sharing


class KeyValue(Protocol):
    """Small records by kind and name, such as servers, pins and tokens. Their content is opaque to the store."""

    async def read_record(self, kind: str, name: str) -> bytes | None: ...

    async def list_records(self, kind: str) -> Sequence[tuple[str, bytes]]:
        """Return all records of a kind, in the order in which they were first set."""
        ...

    async def set_record(self, kind: str, name: str, body: bytes) -> None: ...

    async def add_records(self, kind: str, records: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Set those of the records whose names are free, and return what is stored under each name now.

        Of several replicas that add a name at once, one does, and all of them get its record.
        """
        ...

    async def delete_record(self, kind: str, name: str) -> None: ...

    async def read_versions(self) -> Mapping[str, int]:
        """Return a number for each kind of record that grows with each change; keys are of the kind `key`.

        A store that one process uses returns none: nobody else changes its records.
        """
        ...

    def lock(self, kind: str, name: str) -> AbstractAsyncContextManager[None]:
        """Keep the other tasks and replicas that lock the same name waiting until the block ends."""
        ...


class SharedKeyValue(KeyValue, Sharing, Protocol):
    """Records for users that also have to know whether other processes change them."""


class AuditLog(Protocol):
    """The chain of audit entries. Nothing changes one, and only `trim_audit` deletes some."""

    async def append_audit(self, record: AuditRecord) -> AuditEntry:
        """Store a record after the last entry of all replicas, and return it with its place in the chain."""
        ...

    async def read_audit(self, query: AuditQuery) -> Sequence[AuditEntry]:
        """Return a page of entries, the newest first unless the query says otherwise."""
        ...

    async def trim_audit(self, record: AuditRecord, before: float, limit: int) -> AuditEntry | None:
        """Delete up to `limit` of the oldest entries, all of them older than `before`, and store the record about it.

        Both happen or nothing does. Return the new entry, which ends the chain; None if there is nothing to delete.
        """
        ...


KEYS = "key"
"""The kind of API keys, which are listed as such and not as records."""


class RecordChange(Struct, frozen=True, kw_only=True):
    """A record that is set, or deleted if it has no body, and what the audit log says about it, if anything.

    A change of the kind `key` sets or revokes an API key: its body is the key as JSON.
    """

    kind: str
    name: str
    body: bytes | None = None
    audit: AuditRecord | None = None


class AuditedKeyValue(SharedKeyValue, AuditLog, Protocol):
    """Records whose changes are audited."""

    async def change_records(self, changes: Sequence[RecordChange]) -> Sequence[AuditEntry]:
        """Set and delete records, and append their audit entries: all of it, or nothing. Return the entries."""
        ...


class FigureRow(Struct, frozen=True, kw_only=True):
    """Figures of one step of time, to be added to those that are stored: a JSON object of `core.store.figures`."""

    tenant: str
    user: str
    """Empty for all users of the tenant together."""
    step_s: float
    at: float
    body: bytes


class Figures(Protocol):
    """Statistics by tenant, user and step of time."""

    async def add_figures(self, rows: Sequence[FigureRow]) -> None: ...

    async def read_figures(self, tenant: str, user: str, step_s: float, since: float) -> Sequence[tuple[float, bytes]]:
        """Return the start and the figures of each step from that time on. A step may come several times."""
        ...

    async def drop_figures(self, step_s: float, before: float) -> None: ...
