"""The figures of the SQLite store: one row for each tenant, user and step of time."""

import sqlite3
from collections.abc import Sequence

from toolyard.core.store import FigureRow
from toolyard.core.store.figures import merge_steps

_GET = "SELECT body FROM figures WHERE tenant = ? AND user = ? AND step_s = ? AND at = ?"
_PUT = "INSERT OR REPLACE INTO figures (tenant, user, step_s, at, body) VALUES (?, ?, ?, ?, ?)"
_READ = "SELECT at, body FROM figures WHERE tenant = ? AND user = ? AND step_s = ? AND at >= ?"
_DROP = "DELETE FROM figures WHERE step_s = ? AND at < ?"


def add_figures(connection: sqlite3.Connection, rows: Sequence[FigureRow]) -> None:
    for row in rows:
        key = row.tenant, row.user, row.step_s, row.at
        stored = connection.execute(_GET, key).fetchone()
        connection.execute(_PUT, (*key, merge_steps(stored and stored[0], row.body)))


def read_figures(
    connection: sqlite3.Connection, tenant: str, user: str, step_s: float, since: float
) -> list[tuple[float, bytes]]:
    return connection.execute(_READ, (tenant, user, step_s, since)).fetchall()


def drop_figures(connection: sqlite3.Connection, step_s: float, before: float) -> None:
    connection.execute(_DROP, (step_s, before))
