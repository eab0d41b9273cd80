"""The audit log in the SQLite store. The one writer of the file appends to the chain, so that it cannot fork."""

import sqlite3
from collections.abc import Sequence

from toolyard.core.audit import AuditEntry, AuditQuery, AuditRecord, seal_record

_COLUMNS = ", ".join(AuditEntry.__struct_fields__)
_LAST = f"SELECT {_COLUMNS} FROM audit ORDER BY number DESC LIMIT 1"
_INSERT = f"INSERT INTO audit ({_COLUMNS}) VALUES ({', '.join(f':{name}' for name in AuditEntry.__struct_fields__)})"
_READ = """SELECT {columns} FROM audit WHERE number {beyond} :cursor AND at >= :since
{tenant} {actor} {action} ORDER BY number {order} LIMIT :limit"""
MAX_NUMBER = 2**63 - 1


def append_audit(connection: sqlite3.Connection, record: AuditRecord) -> AuditEntry:
    row = connection.execute(_LAST).fetchone()
    entry = seal_record(record, _build_entry(row) if row else None)
    copy_audit(connection, (entry,))
    return entry


def copy_audit(connection: sqlite3.Connection, entries: Sequence[AuditEntry]) -> None:
    rows = [{name: getattr(entry, name) for name in AuditEntry.__struct_fields__} for entry in entries]
    connection.executemany(_INSERT, rows)


def read_audit(connection: sqlite3.Connection, query: AuditQuery) -> list[AuditEntry]:
    # Conditions only for what is asked, so that each query can use an index.
    statement = _READ.format(
        columns=_COLUMNS,
        beyond=">" if query.oldest_first else "<",
        order="ASC" if query.oldest_first else "DESC",
        tenant="AND tenant = :tenant" if query.tenant is not None else "",
        actor="AND actor = :actor" if query.actor else "",
        action="AND action = :action" if query.action else "",
    )
    values = {name: getattr(query, name) for name in AuditQuery.__struct_fields__}
    values["cursor"] = query.cursor or (-MAX_NUMBER if query.oldest_first else MAX_NUMBER)
    return [_build_entry(row) for row in connection.execute(statement, values).fetchall()]


def _build_entry(row: Sequence[object]) -> AuditEntry:
    # Without a check of types: a value that was tampered with must be found by its hash, not stop the reader.
    return AuditEntry(**dict(zip(AuditEntry.__struct_fields__, row, strict=True)))  # pyright: ignore[reportArgumentType]
