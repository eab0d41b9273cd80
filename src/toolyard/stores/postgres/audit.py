"""The audit log in the PostgreSQL store. A lock of the database lets one replica append to the chain at a time."""

import asyncio
from collections.abc import Sequence

from asyncpg import Connection, Record
from msgspec.structs import astuple

from toolyard.core.store import KEYS, RecordChange
from toolyard.core.store.audit_chain import AuditEntry, AuditQuery, AuditRecord, seal_record, seal_trim
from toolyard.stores.postgres.access import REVOKE_KEY, SAVE_KEY
from toolyard.stores.postgres.connections import Database
from toolyard.stores.postgres.lease import Lease, LeasedPorts
from toolyard.stores.postgres.records import DELETE_RECORD, SET_RECORD

_CHAIN_LOCK = 0x546F6F6C41756474
"""The key of the advisory lock on the end of the chain."""
_LOCK_CHAIN = "SELECT set_config('lock_timeout', '0', true), pg_advisory_xact_lock($1)"
_COLUMNS = ", ".join(AuditEntry.__struct_fields__)
_LAST = f"SELECT {_COLUMNS} FROM audit ORDER BY number DESC LIMIT 1"
_INSERT = f"""INSERT INTO audit ({_COLUMNS})
VALUES ({", ".join(f"${number}" for number, _ in enumerate(AuditEntry.__struct_fields__, 1))})"""
_READ = """SELECT {columns} FROM audit WHERE number {beyond} $1 AND at >= $2 AND ($3::text IS NULL OR tenant = $3)
AND ($4::text = '' OR actor = $4) AND ($5::text = '' OR action = $5) AND ($6::text = '' OR outcome = $6)
ORDER BY number {order} LIMIT $7"""
# The last entry to delete: among the oldest, the one before the first that stays. Times need not ascend, as a clock
# may have been set back.
_LAST_TRIMMED = f"""WITH oldest AS (SELECT number, at FROM audit ORDER BY number LIMIT $2)
SELECT {_COLUMNS} FROM audit WHERE number = (SELECT max(number) FROM oldest
WHERE number < coalesce((SELECT min(number) FROM oldest WHERE at >= $1), $3))"""
MAX_NUMBER = 2**63 - 1
MAX_BATCH = 100


class WaitingRecord:
    """A record that is to be appended; afterwards its entry, or the error."""

    def __init__(self, record: AuditRecord) -> None:
        self.record = record
        self.outcome: AuditEntry | Exception | None = None


class AuditWriter:
    """Appends the records of this process, those that come at the same time in one transaction.

    All replicas wait for one lock. Were it taken for each record, fifty people who decide at once would wait too long.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = asyncio.Lock()
        self._waiting: list[WaitingRecord] = []

    async def append(self, record: AuditRecord) -> AuditEntry:
        """Return the entry of a record once it is stored. Raises StoreDown."""
        waiting = WaitingRecord(record)
        self._waiting.append(waiting)
        try:
            async with self._lock:
                while waiting.outcome is None:
                    await self._append_batch()
        finally:
            if waiting in self._waiting:  # cancelled
                self._waiting.remove(waiting)
        assert waiting.outcome is not None
        if isinstance(waiting.outcome, Exception):
            raise waiting.outcome
        return waiting.outcome

    async def _append_batch(self) -> None:
        batch, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
        try:
            entries = await self._append([waiting.record for waiting in batch])
        except Exception as error:
            for waiting in batch:
                waiting.outcome = error
        except BaseException:
            self._waiting = [*batch, *self._waiting]  # the next one appends the records of the others
            raise
        else:
            for waiting, entry in zip(batch, entries, strict=True):
                waiting.outcome = entry

    async def _append(self, records: Sequence[AuditRecord]) -> Sequence[AuditEntry]:
        async with self._database.transaction() as connection:
            return await _append(connection, records)


class PostgresAudit(LeasedPorts):
    def __init__(self, database: Database, lease: Lease) -> None:
        super().__init__(database, lease)
        self._audit_writer = AuditWriter(database)

    async def append_audit(self, record: AuditRecord) -> AuditEntry:
        return await self._audit_writer.append(record)

    async def change_records(self, changes: Sequence[RecordChange]) -> Sequence[AuditEntry]:
        async with self._database.transaction() as connection:
            # The chain comes first: replicas that change records of several kinds wait here, and not for each other.
            entries = await _append(connection, [change.audit for change in changes if change.audit is not None])
            for change in changes:
                set_it, delete_it = (SAVE_KEY, REVOKE_KEY) if change.kind == KEYS else (SET_RECORD, DELETE_RECORD)
                key = (change.name,) if change.kind == KEYS else (change.kind, change.name)
                if change.body is None:
                    await connection.execute(delete_it, *key)
                else:
                    await connection.execute(set_it, *key, change.body)
        return entries

    async def read_audit(self, query: AuditQuery) -> Sequence[AuditEntry]:
        ascending = query.oldest_first
        statement = _READ.format(
            columns=_COLUMNS, beyond=">" if ascending else "<", order="ASC" if ascending else "DESC"
        )
        cursor = query.cursor or (-MAX_NUMBER if ascending else MAX_NUMBER)
        values = cursor, query.since, query.tenant, query.actor, query.action, query.outcome, query.limit
        return [_build_entry(row) for row in await self._database.fetch(statement, *values)]

    async def trim_audit(self, record: AuditRecord, before: float, limit: int) -> AuditEntry | None:
        async with self._database.transaction() as connection:
            await _lock_chain(connection)
            last_removed = await _fetch_entry(connection, _LAST_TRIMMED, before, limit, MAX_NUMBER)
            last = await _fetch_entry(connection, _LAST)
            if last_removed is None or last is None:
                return None
            count = await connection.fetchval("SELECT count(*) FROM audit WHERE number <= $1", last_removed.number)
            entry = seal_trim(record, last, last_removed, count)
            # The entry comes first: a trigger refuses to delete what no entry accounts for.
            await _insert(connection, [entry])
            await connection.execute("DELETE FROM audit WHERE number <= $1", last_removed.number)
        return entry

    async def copy_audit(self, entries: Sequence[AuditEntry]) -> None:
        async with self._database.transaction() as connection:
            await _insert(connection, entries)


async def _append(connection: Connection, records: Sequence[AuditRecord]) -> list[AuditEntry]:
    await _lock_chain(connection)
    entries: list[AuditEntry] = []
    last = await _fetch_entry(connection, _LAST)
    for record in records:
        last = seal_record(record, last)
        entries.append(last)
    await _insert(connection, entries)
    return entries


async def _lock_chain(connection: Connection) -> None:
    # The lock comes in a statement of its own: the next one then reads what the last holder has committed. Many may
    # wait for it, and a killed replica holds it until the database has noticed: `statement_timeout_s` bounds the wait,
    # and not the timeout of other locks.
    await connection.execute(_LOCK_CHAIN, _CHAIN_LOCK)


async def _fetch_entry(connection: Connection, statement: str, *values: object) -> AuditEntry | None:
    row = await connection.fetchrow(statement, *values)
    return _build_entry(row) if row else None


async def _insert(connection: Connection, entries: Sequence[AuditEntry]) -> None:
    await connection.executemany(_INSERT, [astuple(entry) for entry in entries])


def _build_entry(row: Record) -> AuditEntry:
    return AuditEntry(**dict(zip(AuditEntry.__struct_fields__, row, strict=True)))
