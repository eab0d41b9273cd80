"""Small records, and figures: one row for each tenant, user and step of time."""

import sqlite3
from collections.abc import Mapping, Sequence

from toolyard.core.store import FigureRow
from toolyard.core.store.figures import merge_steps
from toolyard.stores.sqlite.connections import SqlitePorts

MAX_FIGURE_ROWS = 32
"""Rows that are written in one job: it holds up the appends that wait behind it."""
_LIST_RECORDS = "SELECT name, body FROM shelf WHERE kind = ? ORDER BY rowid"
_READ_RECORD = "SELECT body FROM shelf WHERE kind = ? AND name = ?"
SET_RECORD = "INSERT INTO shelf (kind, name, body) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET body = ?3"
# An update that changes nothing returns the row that is there already.
_ADD_RECORD = """INSERT INTO shelf (kind, name, body) VALUES (?1, ?2, ?3)
ON CONFLICT DO UPDATE SET body = shelf.body RETURNING body"""
DELETE_RECORD = "DELETE FROM shelf WHERE kind = ? AND name = ?"
_LIST_KINDS = "SELECT DISTINCT kind FROM shelf ORDER BY kind"
_GET_FIGURES = "SELECT body FROM figures WHERE tenant = ? AND user = ? AND step_s = ? AND at = ?"
_PUT_FIGURES = "INSERT OR REPLACE INTO figures (tenant, user, step_s, at, body) VALUES (?, ?, ?, ?, ?)"
_READ_FIGURES = "SELECT at, body FROM figures WHERE tenant = ? AND user = ? AND step_s = ? AND at >= ?"
_DROP_FIGURES = "DELETE FROM figures WHERE step_s = ? AND at < ?"
_LIST_FIGURES = "SELECT tenant, user, step_s, at, body FROM figures ORDER BY tenant, user, step_s, at LIMIT ? OFFSET ?"


class SqliteRecords(SqlitePorts):
    async def read_record(self, kind: str, name: str) -> bytes | None:
        row = await self._database.fetch_row(_READ_RECORD, kind, name)
        return row[0] if row else None

    async def list_records(self, kind: str) -> Sequence[tuple[str, bytes]]:
        return [(name, body) for name, body in await self._database.fetch(_LIST_RECORDS, kind)]

    async def set_record(self, kind: str, name: str, body: bytes) -> None:
        await self._database.execute(SET_RECORD, kind, name, body, size_bytes=len(body))

    async def add_records(self, kind: str, records: Mapping[str, bytes]) -> Mapping[str, bytes]:
        def work(connection: sqlite3.Connection) -> dict[str, bytes]:
            rows = ((name, connection.execute(_ADD_RECORD, (kind, name, body))) for name, body in records.items())
            return {name: row.fetchone()[0] for name, row in rows}

        return await self._database.write(work, sum(map(len, records.values())))

    async def delete_record(self, kind: str, name: str) -> None:
        await self._database.execute(DELETE_RECORD, kind, name)

    async def list_record_kinds(self) -> Sequence[str]:
        return [kind for (kind,) in await self._database.fetch(_LIST_KINDS)]

    async def add_figures(self, rows: Sequence[FigureRow]) -> None:
        for start in range(0, len(rows), MAX_FIGURE_ROWS):
            await self._add_some_figures(rows[start : start + MAX_FIGURE_ROWS])

    async def _add_some_figures(self, rows: Sequence[FigureRow]) -> None:
        def work(connection: sqlite3.Connection) -> None:
            for row in rows:
                key = row.tenant, row.user, row.step_s, row.at
                stored = connection.execute(_GET_FIGURES, key).fetchone()
                connection.execute(_PUT_FIGURES, (*key, merge_steps(stored and stored[0], row.body)))

        await self._database.write(work, sum(len(row.body) for row in rows))

    async def read_figures(self, tenant: str, user: str, step_s: float, since: float) -> Sequence[tuple[float, bytes]]:
        return [(at, body) for at, body in await self._database.fetch(_READ_FIGURES, tenant, user, step_s, since)]

    async def drop_figures(self, step_s: float, before: float) -> None:
        await self._database.execute(_DROP_FIGURES, step_s, before)

    async def list_figures(self, offset: int, limit: int) -> Sequence[FigureRow]:
        return [
            FigureRow(tenant=tenant, user=user, step_s=step_s, at=at, body=body)
            for tenant, user, step_s, at, body in await self._database.fetch(_LIST_FIGURES, limit, offset)
        ]
