"""The audit log in the SQLite store. The one writer of the file appends to the chain, so that it cannot fork."""

import sqlite3
from collections.abc import Sequence

from toolyard.core.store import KEYS, RecordChange
from toolyard.core.store.audit_chain import AuditEntry, AuditQuery, AuditRecord, seal_record, seal_trim
from toolyard.stores.sqlite.access import REVOKE_KEY, SAVE_KEY
from toolyard.stores.sqlite.connections import SqlitePorts
from toolyard.stores.sqlite.records import DELETE_RECORD, SET_RECORD

_COLUMNS = ", ".join(AuditEntry.__struct_fields__)
_LAST = f"SELECT {_COLUMNS} FROM audit ORDER BY number DESC LIMIT 1"
_INSERT = f"INSERT INTO audit ({_COLUMNS}) VALUES ({', '.join(f':{name}' for name in AuditEntry.__struct_fields__)})"
_READ = """SELECT {columns} FROM audit WHERE number {beyond} :cursor AND at >= :since
{tenant} {actor} {action} {outcome} ORDER BY number {order} LIMIT :limit"""
# The last entry to delete: among the oldest, the one before the first that stays. Times need not ascend, as a clock
# may have been set back.
_LAST_TRIMMED = f"""WITH oldest AS (SELECT number, at FROM audit ORDER BY number LIMIT :limit)
SELECT {_COLUMNS} FROM audit WHERE number = (SELECT max(number) FROM oldest
WHERE number < coalesce((SELECT min(number) FROM oldest WHERE at >= :before), :end))"""
MAX_NUMBER = 2**63 - 1


class SqliteAudit(SqlitePorts):
    async def append_audit(self, record: AuditRecord) -> AuditEntry:
        return await self._database.write(lambda connection: _append(connection, record))

    async def change_records(self, changes: Sequence[RecordChange]) -> Sequence[AuditEntry]:
        def work(connection: sqlite3.Connection) -> list[AuditEntry]:
            for change in changes:
                set_it, delete_it = (SAVE_KEY, REVOKE_KEY) if change.kind == KEYS else (SET_RECORD, DELETE_RECORD)
                key = (change.name,) if change.kind == KEYS else (change.kind, change.name)
                if change.body is None:
                    connection.execute(delete_it, key)
                else:
                    connection.execute(set_it, (*key, change.body))
            return [_append(connection, change.audit) for change in changes if change.audit is not None]

        return await self._database.write(work, sum(len(change.body or b"") for change in changes))

    async def read_audit(self, query: AuditQuery) -> Sequence[AuditEntry]:
        # Conditions only for what is asked, so that each query can use an index.
        statement = _READ.format(
            columns=_COLUMNS,
            beyond=">" if query.oldest_first else "<",
            order="ASC" if query.oldest_first else "DESC",
            tenant="AND tenant = :tenant" if query.tenant is not None else "",
            actor="AND actor = :actor" if query.actor else "",
            action="AND action = :action" if query.action else "",
            outcome="AND outcome = :outcome" if query.outcome else "",
        )
        values = {name: getattr(query, name) for name in AuditQuery.__struct_fields__}
        values["cursor"] = query.cursor or (-MAX_NUMBER if query.oldest_first else MAX_NUMBER)
        rows = await self._database.read(lambda connection: connection.execute(statement, values).fetchall())
        return [_build_entry(row) for row in rows]

    async def trim_audit(self, record: AuditRecord, before: float, limit: int) -> AuditEntry | None:
        return await self._database.write(lambda connection: _trim(connection, record, before, limit))

    async def copy_audit(self, entries: Sequence[AuditEntry]) -> None:
        await self._database.write(lambda connection: _insert(connection, entries))


def _append(connection: sqlite3.Connection, record: AuditRecord) -> AuditEntry:
    row = connection.execute(_LAST).fetchone()
    entry = seal_record(record, _build_entry(row) if row else None)
    _insert(connection, (entry,))
    return entry


def _trim(connection: sqlite3.Connection, record: AuditRecord, before: float, limit: int) -> AuditEntry | None:
    values = {"limit": limit, "before": before, "end": MAX_NUMBER}
    row = connection.execute(_LAST_TRIMMED, values).fetchone()
    if row is None:
        return None
    last_removed, last = _build_entry(row), _build_entry(connection.execute(_LAST).fetchone())
    (count,) = connection.execute("SELECT count(*) FROM audit WHERE number <= ?", (last_removed.number,)).fetchone()
    entry = seal_trim(record, last, last_removed, count)
    # The entry comes first: a trigger refuses to delete what no entry accounts for.
    _insert(connection, (entry,))
    connection.execute("DELETE FROM audit WHERE number <= ?", (last_removed.number,))
    return entry


def _insert(connection: sqlite3.Connection, entries: Sequence[AuditEntry]) -> None:
    rows = [{name: getattr(entry, name) for name in AuditEntry.__struct_fields__} for entry in entries]
    connection.executemany(_INSERT, rows)


def _build_entry(row: Sequence[object]) -> AuditEntry:
    # Without a check of types: a value that was tampered with must be found by its hash, not stop the reader.
    return AuditEntry(**dict(zip(AuditEntry.__struct_fields__, row, strict=True)))  # pyright: ignore[reportArgumentType]
