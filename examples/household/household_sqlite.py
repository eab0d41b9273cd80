"""A household in one SQLite file, which is created on first use.

Every operation is one transaction on its own connection, so that any number of threads and processes may use the file.
"""

import json
import sqlite3
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path

from household_entries import Entry, Expense, Kind

from toolyard import ToolError

LOCK_TIMEOUT_S = 10.0
"""How long an operation waits for the transaction of another."""

VERSION = 2
TABLES = (
    "CREATE TABLE entries (id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, name TEXT NOT NULL,"
    " status TEXT NOT NULL, qty INTEGER NOT NULL, starts TEXT NOT NULL, ends TEXT NOT NULL, place TEXT NOT NULL,"
    " unit TEXT NOT NULL DEFAULT '')",
    "CREATE INDEX entries_by_kind ON entries (kind, id)",
    "CREATE TABLE expenses (id INTEGER PRIMARY KEY AUTOINCREMENT, day TEXT NOT NULL, category TEXT NOT NULL,"
    " cents INTEGER NOT NULL, note TEXT NOT NULL, example INTEGER NOT NULL DEFAULT 0)",
    "CREATE TABLE service_calls (id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,"
    " service TEXT NOT NULL, entity_id TEXT NOT NULL, data TEXT NOT NULL)",
)
EXAMPLES = (
    (1, "Rent", 95_000, "rent"),
    (3, "Groceries", 8_240, "weekly shop"),
    (9, "Groceries", 6_415, "weekly shop"),
    (11, "Energy", 7_890, "electricity"),
    (16, "Leisure", 3_200, "cinema"),
)


@dataclass(frozen=True, slots=True)
class SqliteHousehold:
    path: Path

    def add(self, entry: Entry) -> Entry:
        columns = (
            entry.kind,
            entry.name,
            entry.status,
            entry.qty,
            entry.starts,
            entry.ends,
            entry.location,
            entry.unit,
        )
        with self._transaction() as file:
            row = file.execute(
                "INSERT INTO entries (kind, name, status, qty, starts, ends, place, unit)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                columns,
            )
            return replace(entry, id=f"{entry.kind}-{row.lastrowid}")

    def entries(self, kind: Kind) -> Sequence[Entry]:
        with self._transaction() as file:
            rows = file.execute(
                "SELECT id, name, status, qty, starts, ends, place, unit FROM entries WHERE kind = ? ORDER BY id DESC",
                (kind,),
            ).fetchall()
        return [
            Entry(
                kind=kind,
                id=f"{kind}-{number}",
                name=name,
                status=status,
                qty=qty,
                starts=starts,
                ends=ends,
                location=location,
                unit=unit,
            )
            for number, name, status, qty, starts, ends, location, unit in rows
        ]

    def set_status(self, entry: Entry, status: str) -> Entry:
        with self._transaction() as file:
            file.execute(
                "UPDATE entries SET status = ? WHERE id = ?", (status, entry.id.removeprefix(f"{entry.kind}-"))
            )
        return replace(entry, status=status)

    def expenses(self, month: str) -> Sequence[Expense]:
        with self._transaction() as file:
            rows = file.execute(
                "SELECT category, cents, example FROM expenses WHERE substr(day, 1, 7) = ?", (month,)
            ).fetchall()
        return [Expense(category=category, cents=cents, example=bool(example)) for category, cents, example in rows]

    def record_service_call(self, service: str, entity_id: str, data: Mapping[str, object]) -> str:
        """Record a call for Home Assistant, and return the id of the record."""
        with self._transaction() as file:
            row = file.execute(
                "INSERT INTO service_calls (service, entity_id, data) VALUES (?, ?, ?)",
                (service, entity_id, json.dumps(data)),
            )
            return f"service-call-{row.lastrowid}"

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=LOCK_TIMEOUT_S, isolation_level=None)) as file:
                file.execute("BEGIN IMMEDIATE")
                _upgrade(file)
                yield file
                file.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            raise ToolError(f"the household's file {self.path} cannot be used: {error}", "unavailable") from error


def _upgrade(file: sqlite3.Connection) -> None:
    """Create the tables in a new file, or change those of an earlier version."""
    (version,) = file.execute("PRAGMA user_version").fetchone()
    if version == 0:
        _create_tables(file)
    elif version == 1:  # entries had no unit
        file.execute("ALTER TABLE entries ADD COLUMN unit TEXT NOT NULL DEFAULT ''")
    if version < VERSION:
        file.execute(f"PRAGMA user_version = {VERSION}")


def _create_tables(file: sqlite3.Connection) -> None:
    """Create the tables, with example expenses of this month and the last."""
    for table in TABLES:
        file.execute(table)
    today = date.today()
    for end in (today, today.replace(day=1) - timedelta(days=1)):
        file.executemany(
            "INSERT INTO expenses (day, category, cents, note, example) VALUES (?, ?, ?, ?, 1)",
            [(end.replace(day=min(day, end.day)).isoformat(), *expense) for day, *expense in EXAMPLES],
        )
