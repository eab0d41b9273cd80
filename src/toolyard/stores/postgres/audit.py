"""The audit log in the PostgreSQL store. A lock of the database lets one replica append to the chain at a time."""

from collections.abc import Sequence

from asyncpg import Connection, Record

from toolyard.core.audit import AuditEntry, AuditQuery, AuditRecord, seal_record, seal_trim
from toolyard.stores.postgres.lease import LeasedPorts

_CHAIN_LOCK = 0x546F6F6C41756474
"""The key of the advisory lock on the end of the chain."""
_COLUMNS = ", ".join(AuditEntry.__struct_fields__)
_LAST = f"SELECT {_COLUMNS} FROM audit ORDER BY number DESC LIMIT 1"
_INSERT = f"""INSERT INTO audit ({_COLUMNS})
VALUES ({", ".join(f"${number}" for number, _ in enumerate(AuditEntry.__struct_fields__, 1))})"""
_READ = """SELECT {columns} FROM audit WHERE number {beyond} $1 AND at >= $2 AND ($3::text IS NULL OR tenant = $3)
AND ($4::text = '' OR actor = $4) AND ($5::text = '' OR action = $5) AND ($6::text = '' OR outcome = $6)
ORDER BY number {order} LIMIT $7"""
# The last of the oldest entries before the first that stays. Times need not ascend: a clock may have been set back.
_OLD = f"""WITH oldest AS (SELECT number, at FROM audit ORDER BY number LIMIT $2)
SELECT {_COLUMNS} FROM audit WHERE number = (SELECT max(number) FROM oldest
WHERE number < coalesce((SELECT min(number) FROM oldest WHERE at >= $1), $3))"""
MAX_NUMBER = 2**63 - 1


class PostgresAudit(LeasedPorts):
    async def append_audit(self, record: AuditRecord) -> AuditEntry:
        async with self._database.transaction() as connection:
            await _lock_chain(connection)
            entry = seal_record(record, await _fetch_entry(connection, _LAST))
            await _insert(connection, entry)
        return entry

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
            removed = await _fetch_entry(connection, _OLD, before, limit, MAX_NUMBER)
            last = await _fetch_entry(connection, _LAST)
            if removed is None or last is None:
                return None
            count = await connection.fetchval("SELECT count(*) FROM audit WHERE number <= $1", removed.number)
            entry = seal_trim(record, last, removed, count)
            # The entry comes first: a trigger refuses to delete what no entry accounts for.
            await _insert(connection, entry)
            await connection.execute("DELETE FROM audit WHERE number <= $1", removed.number)
        return entry

    async def copy_audit(self, entries: Sequence[AuditEntry]) -> None:
        async with self._database.transaction() as connection:
            for entry in entries:
                await _insert(connection, entry)


async def _lock_chain(connection: Connection) -> None:
    # The lock comes in a statement of its own: the next one then reads what the last holder has committed.
    await connection.execute("SELECT pg_advisory_xact_lock($1)", _CHAIN_LOCK)


async def _fetch_entry(connection: Connection, statement: str, *values: object) -> AuditEntry | None:
    row = await connection.fetchrow(statement, *values)
    return _build_entry(row) if row else None


async def _insert(connection: Connection, entry: AuditEntry) -> None:
    await connection.execute(_INSERT, *(getattr(entry, name) for name in AuditEntry.__struct_fields__))


def _build_entry(row: Record) -> AuditEntry:
    return AuditEntry(**dict(zip(AuditEntry.__struct_fields__, row, strict=True)))
