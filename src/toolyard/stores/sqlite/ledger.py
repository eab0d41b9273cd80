"""Budgets, reservations and usage. The writer thread runs one job at a time: a job is one conditional change."""

import sqlite3
from collections.abc import Mapping, Sequence
from operator import add

from toolyard.core.store import (
    BudgetBalance,
    BudgetCharge,
    BudgetShare,
    Reservation,
    Settlement,
    UsageQuery,
    UsageRow,
)
from toolyard.core.store.ledger import ALL_TURNS, ORPHAN_S, USAGE_COUNTS, USAGE_KEYS, BudgetKey, list_key, split_usage
from toolyard.stores.sqlite.connections import SqlitePorts

_KEY = "budget = ? AND scope = ? AND period = ?"
_IS_OPEN = "SELECT cost IS NULL FROM reservations WHERE conversation = ? AND turn = ? AND attempt = ? LIMIT 1"
_READ_TAKEN = f"SELECT spent + reserved FROM budgets WHERE {_KEY}"
_LIST_EARLIER = """SELECT budget, scope, period, micros FROM reservations
WHERE conversation = ? AND turn = ? AND attempt < ? AND cost IS NULL"""
_REMOVE_EARLIER = """DELETE FROM reservations WHERE conversation = ? AND turn = ? AND attempt < ? AND cost IS NULL
AND budget = ? AND scope = ? AND period = ?"""
_RELEASE_EARLIER = """UPDATE reservations SET cost = 0
WHERE conversation = ? AND turn = ? AND attempt < ? AND cost IS NULL AND budget = ?"""
_TAKE = """INSERT INTO budgets (budget, scope, period, reserved) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET reserved = reserved + excluded.reserved"""
# Earlier versions charge `estimate` for conversations that are deleted.
_ADD_RESERVATION = """INSERT INTO reservations
(conversation, turn, attempt, budget, scope, period, at, micros, estimate) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""
# The last attempt of a turn is charged for all of them, in the period in which it was reserved.
_END_TURN = f"""UPDATE reservations SET cost = CASE WHEN attempt = (
    SELECT max(attempt) FROM reservations last
    WHERE last.conversation = ?1 AND last.turn = reservations.turn AND last.budget = reservations.budget
) THEN ?3 ELSE 0 END WHERE conversation = ?1 AND (turn = ?2 OR ?2 = '{ALL_TURNS}') AND cost IS NULL"""
_LIST_RESERVED = "SELECT turn, micros FROM reservations WHERE conversation = ? AND cost IS NULL ORDER BY attempt"
# With less, deleting conversations would make answers free.
CHARGE_RESERVED = "UPDATE reservations SET cost = micros WHERE conversation = ? AND cost IS NULL"
_RELEASE_ORPHANS = """UPDATE reservations SET cost = 0 WHERE cost IS NULL AND at < ?
AND NOT EXISTS (SELECT 1 FROM conversations WHERE id = conversation AND wake_at IS NOT NULL)"""
_LIST_ENDED = """SELECT rowid, budget, scope, period, micros, cost FROM reservations
WHERE cost IS NOT NULL LIMIT ?"""
_CHARGE = """INSERT INTO budgets (budget, scope, period, spent, reserved, overdraft) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET spent = spent + excluded.spent, reserved = reserved + excluded.reserved,
overdraft = overdraft + excluded.overdraft RETURNING spent"""
_BALANCES = """SELECT budget, scope, period, spent, reserved, overdraft FROM budgets
WHERE period IN ({}) ORDER BY budget, scope, period"""
_LIST_BALANCES = """SELECT budget, scope, period, spent, reserved, overdraft FROM budgets
ORDER BY budget, scope, period LIMIT ? OFFSET ?"""
_COPY_BALANCE = "INSERT INTO budgets (budget, scope, period, spent, overdraft) VALUES (?, ?, ?, ?, ?)"
_USAGE_COLUMNS = [f'"{name}"' for name in (*USAGE_KEYS, *USAGE_COUNTS)]
_ADD_USAGE = f"""INSERT INTO usage ({", ".join(_USAGE_COLUMNS)}) VALUES ({", ".join("?" for _ in _USAGE_COLUMNS)})
ON CONFLICT DO UPDATE SET {", ".join(f'"{name}" = "{name}" + excluded."{name}"' for name in USAGE_COUNTS)}"""

_LIST_USAGE = f"SELECT {', '.join(_USAGE_COLUMNS)} FROM usage ORDER BY 1, 2, 3, 4, 5, 6, 7, 8 LIMIT ? OFFSET ?"


class SqliteLedger(SqlitePorts):
    async def reserve(self, reservation: Reservation) -> BudgetShare | None:
        def work(connection: sqlite3.Connection) -> BudgetShare | None:
            return _reserve(connection, reservation)

        return await self._database.write(work)

    async def settle_reservations(self, now: float, limit: int) -> tuple[int, Sequence[BudgetCharge]]:
        def work(connection: sqlite3.Connection) -> tuple[int, Sequence[BudgetCharge]]:
            return _settle(connection, now, limit)

        return await self._database.write(work)

    async def read_reserved(self, conversation: str) -> Mapping[str, int]:
        return {turn: micros for turn, micros in await self._database.fetch(_LIST_RESERVED, conversation)}

    async def has_reservations(self) -> bool:
        return bool(await self._database.fetch("SELECT 1 FROM reservations LIMIT 1"))

    async def read_balances(self, periods: Sequence[str]) -> Sequence[BudgetBalance]:
        query = _BALANCES.format(", ".join("?" for _ in periods))
        names = BudgetBalance.__struct_fields__
        rows = await self._database.fetch(query, *periods)
        return [BudgetBalance(**dict(zip(names, row, strict=True))) for row in rows]

    async def read_usage(self, query: UsageQuery) -> Sequence[UsageRow]:
        names = (*query.group_by, "currency")
        groups = ", ".join(f'"{name}"' for name in names)
        sums = ", ".join(f'sum("{name}")' for name in USAGE_COUNTS)
        statement = f"""SELECT {groups}, {sums} FROM usage WHERE day BETWEEN ?1 AND ?2
        AND (?3 IS NULL OR tenant = ?3) AND (?4 IS NULL OR user = ?4) GROUP BY {groups} ORDER BY {groups} LIMIT ?5"""
        values = query.first_day, query.last_day, query.tenant, query.user, query.limit
        rows = await self._database.fetch(statement, *values)
        return [UsageRow(**dict(zip((*names, *USAGE_COUNTS), row, strict=True))) for row in rows]

    async def list_balances(self, offset: int, limit: int) -> Sequence[BudgetBalance]:
        names = BudgetBalance.__struct_fields__
        rows = await self._database.fetch(_LIST_BALANCES, limit, offset)
        return [BudgetBalance(**dict(zip(names, row, strict=True))) for row in rows]

    async def list_usage(self, offset: int, limit: int) -> Sequence[UsageRow]:
        rows = await self._database.fetch(_LIST_USAGE, limit, offset)
        return [UsageRow(**dict(zip((*USAGE_KEYS, *USAGE_COUNTS), row, strict=True))) for row in rows]

    async def copy_ledger(self, balances: Sequence[BudgetBalance], usage: Sequence[UsageRow]) -> None:
        def work(connection: sqlite3.Connection) -> None:
            rows = [(row.budget, row.scope, row.period, row.spent, row.overdraft) for row in balances]
            connection.executemany(_COPY_BALANCE, rows)
            add_usage(connection, usage)

        await self._database.write(work)


def _reserve(connection: sqlite3.Connection, reservation: Reservation) -> BudgetShare | None:
    attempt = reservation.conversation, reservation.turn, reservation.attempt
    if (made := connection.execute(_IS_OPEN, attempt).fetchone()) is not None:
        return None if made[0] else reservation.shares[0]
    earlier: dict[BudgetKey, int] = {}
    for *key, micros in connection.execute(_LIST_EARLIER, attempt):
        earlier[tuple(key)] = earlier.get(tuple(key), 0) + micros
    for share in reservation.shares:
        row = connection.execute(_READ_TAKEN, list_key(share)).fetchone()
        taken = (row[0] if row else 0) - earlier.get(list_key(share), 0)
        if taken + reservation.micros > share.limit_micros:
            return share
    amounts = reservation.at, reservation.micros, reservation.micros
    for share in reservation.shares:
        key = list_key(share)
        if earlier:
            connection.execute(_REMOVE_EARLIER, (*attempt, *key))
            connection.execute(_RELEASE_EARLIER, (*attempt, share.budget))  # of a period that is over
        connection.execute(_TAKE, (*key, reservation.micros - earlier.get(key, 0)))
        connection.execute(_ADD_RESERVATION, (*attempt, *key, *amounts))
    return None


def _settle(connection: sqlite3.Connection, now: float, limit: int) -> tuple[int, Sequence[BudgetCharge]]:
    connection.execute(_RELEASE_ORPHANS, (now - ORPHAN_S,))
    rows = connection.execute(_LIST_ENDED, (limit,)).fetchall()
    charges: dict[tuple[str, str, str], BudgetCharge] = {}
    for number, budget, scope, period, micros, cost in rows:
        connection.execute("DELETE FROM reservations WHERE rowid = ?", (number,))
        key = budget, scope, period
        overdraft = max(0, cost - micros)
        (spent,) = connection.execute(_CHARGE, (*key, cost, -micros, overdraft)).fetchone()
        before = charges[key].spent_before if key in charges else spent - cost
        charges[key] = BudgetCharge(budget=budget, scope=scope, period=period, spent_before=before, spent=spent)
    return len(rows), list(charges.values())


def end_turns(connection: sqlite3.Connection, conversation: str, settlements: Sequence[Settlement]) -> None:
    """Note what turns and calls cost, in rows of their conversation and in the transaction that stores their ends."""
    for settlement in settlements:
        connection.execute(_END_TURN, (conversation, settlement.turn, settlement.micros))


def add_usage(connection: sqlite3.Connection, rows: Sequence[UsageRow]) -> None:
    """Add rows to the usage, in the transaction that stores the entries that they are about."""
    sums: dict[tuple[int | str, ...], tuple[int, ...]] = {}
    for row in rows:
        keys, counts = split_usage(row)
        sums[keys] = tuple(map(add, sums[keys], counts)) if keys in sums else counts
    for keys, counts in sums.items():
        connection.execute(_ADD_USAGE, (*keys, *counts))
