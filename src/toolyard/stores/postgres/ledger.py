"""Budgets, reservations and usage. Rows of budgets, which conversations share, are locked in the order of their keys.

What an append adds is written in the statement that stores its entries: the cost of a turn, on the reservations of its
own conversation, and the usage, in rows of this replica alone. So no append waits for one of another conversation.
"""

import re
from collections.abc import Mapping, Sequence

from msgspec.structs import astuple

from toolyard.core.store import Append, BudgetBalance, BudgetCharge, BudgetShare, Reservation, UsageQuery, UsageRow
from toolyard.core.store.ledger import ALL_TURNS, ORPHAN_S, USAGE_COUNTS, USAGE_KEYS
from toolyard.stores.postgres.connections import transpose_rows
from toolyard.stores.postgres.lease import LeasedPorts

_USAGE_COLUMNS = {name: "owner" if name == "user" else name for name in (*USAGE_KEYS, *USAGE_COUNTS)}
"""The columns of the usage by the fields of its rows: `user` is a word of SQL."""
_SHARES = "unnest($1::text[], $2::bytea[], $3::text[], $4::bigint[]) AS share (budget, scope, period, amount)"
_ADD_BUDGETS = f"""INSERT INTO budgets (budget, scope, period) SELECT budget, scope, period FROM {_SHARES}
ORDER BY 1, 2, 3 ON CONFLICT DO NOTHING"""
# All or nothing: a budget without room, a row that does not exist yet or an earlier attempt to store the same
# reservation leaves everything as it is. `locked` has the rows as they are once their locks are held.
# Replicas of earlier versions charge `estimate` for conversations that are deleted.
_RESERVE = f"""WITH locked AS MATERIALIZED (
    SELECT b.budget, b.scope, b.period, b.spent + b.reserved AS taken, share.amount
    FROM budgets b JOIN {_SHARES} USING (budget, scope, period)
    ORDER BY b.budget, b.scope, b.period FOR NO KEY UPDATE OF b
), earlier AS MATERIALIZED (
    SELECT count(*) > 0 AS is_made, coalesce(bool_or(cost IS NOT NULL), false) AS is_ended
    FROM reservations WHERE conversation = $6 AND turn = $7 AND attempt = $8
), replaced AS MATERIALIZED (
    SELECT budget, scope, period, sum(micros)::bigint AS micros FROM reservations
    WHERE conversation = $6 AND turn = $7 AND attempt < $8 AND cost IS NULL GROUP BY budget, scope, period
), checked AS MATERIALIZED (
    SELECT budget, scope, period, taken - coalesce(micros, 0) + $5 > amount AS is_full
    FROM locked LEFT JOIN replaced USING (budget, scope, period)
), decision AS MATERIALIZED (
    SELECT count(*) = cardinality($1::text[]) AND NOT bool_or(is_full OR is_made) AS is_granted FROM checked, earlier
), released AS (
    UPDATE reservations r SET cost = 0 FROM decision
    WHERE is_granted AND conversation = $6 AND turn = $7 AND attempt < $8 AND cost IS NULL AND budget = ANY($1::text[])
    AND NOT EXISTS (SELECT 1 FROM locked l WHERE (l.budget, l.scope, l.period) = (r.budget, r.scope, r.period))
), removed AS (
    DELETE FROM reservations r USING locked l, decision
    WHERE is_granted AND conversation = $6 AND turn = $7 AND attempt < $8 AND cost IS NULL
    AND (l.budget, l.scope, l.period) = (r.budget, r.scope, r.period)
    RETURNING r.budget, r.scope, r.period, r.micros
), freed AS (
    SELECT budget, scope, period, sum(micros)::bigint AS micros FROM removed GROUP BY budget, scope, period
), taken AS (
    UPDATE budgets b SET reserved = b.reserved + $5 - coalesce(freed.micros, 0)
    FROM decision, locked LEFT JOIN freed USING (budget, scope, period)
    WHERE (b.budget, b.scope, b.period) = (locked.budget, locked.scope, locked.period) AND is_granted
), noted AS (
    INSERT INTO reservations (conversation, turn, attempt, budget, scope, period, at, micros, estimate)
    SELECT $6, $7, $8, budget, scope, period, $9, $5, $5 FROM locked, decision WHERE is_granted
)
SELECT budget, scope, period, is_ended OR is_full AND NOT is_made FROM checked, earlier
ORDER BY budget, scope, period"""
_RELEASE_ORPHANS = """UPDATE reservations r SET cost = 0 WHERE cost IS NULL AND at < $1 AND NOT EXISTS (
    SELECT 1 FROM conversations c WHERE c.id = r.conversation AND c.wake_at IS NOT NULL
)"""
_SETTLE = """WITH ended AS MATERIALIZED (
    SELECT ctid FROM reservations WHERE cost IS NOT NULL LIMIT $1 FOR UPDATE SKIP LOCKED
), settled AS (
    DELETE FROM reservations r USING ended WHERE r.ctid = ended.ctid RETURNING r.budget, r.scope, r.period, micros, cost
), sums AS MATERIALIZED (
    SELECT budget, scope, period, sum(micros)::bigint AS micros, sum(cost)::bigint AS cost,
        sum(greatest(cost - micros, 0))::bigint AS overdraft, count(*) AS number
    FROM settled GROUP BY budget, scope, period
), charged AS (
    INSERT INTO budgets AS b (budget, scope, period, spent, reserved, overdraft)
    SELECT budget, scope, period, cost, -micros, overdraft FROM sums ORDER BY budget, scope, period
    ON CONFLICT (budget, scope, period) DO UPDATE SET spent = b.spent + excluded.spent,
        reserved = b.reserved + excluded.reserved, overdraft = b.overdraft + excluded.overdraft
    RETURNING b.budget, b.scope, b.period, b.spent
)
SELECT budget, scope, period, charged.spent - sums.cost, charged.spent, sums.number
FROM charged JOIN sums USING (budget, scope, period)"""
_BALANCES = """SELECT budget, scope, period, spent, reserved, overdraft FROM budgets WHERE period = ANY($1::text[])
ORDER BY budget, scope, period"""
_LIST_RESERVED = "SELECT turn, micros FROM reservations WHERE conversation = $1 AND cost IS NULL ORDER BY attempt"
# With less, deleting conversations would make answers free.
CHARGE_RESERVED = "UPDATE reservations SET cost = micros WHERE conversation = $1 AND cost IS NULL"
_KEY_COLUMNS = ", ".join(_USAGE_COLUMNS[name] for name in USAGE_KEYS)
_COUNT_COLUMNS = ", ".join(USAGE_COUNTS)
_LIST_BALANCES = """SELECT budget, scope, period, spent, reserved, overdraft FROM budgets
ORDER BY budget, scope, period LIMIT $1 OFFSET $2"""
_COPY_BALANCES = """INSERT INTO budgets (budget, scope, period, spent, overdraft)
SELECT * FROM unnest($1::text[], $2::bytea[], $3::text[], $4::bigint[], $5::bigint[])"""
_LIST_USAGE = f"SELECT {_KEY_COLUMNS}, {_COUNT_COLUMNS} FROM usage ORDER BY {_KEY_COLUMNS}, replica LIMIT $1 OFFSET $2"
_USAGE_TYPES = ("bigint", *("bytea" for _ in USAGE_KEYS[1:]), *("bigint" for _ in USAGE_COUNTS))
_COPY_PARAMETERS = ", ".join(f"${2 + n}::{kind}[]" for n, kind in enumerate(_USAGE_TYPES))
_ADD_COUNTS = ", ".join(f"{name} = usage.{name} + excluded.{name}" for name in USAGE_COUNTS)
_COPY_USAGE = f"""INSERT INTO usage ({_KEY_COLUMNS}, replica, {_COUNT_COLUMNS})
SELECT {_KEY_COLUMNS}, $1, {", ".join(f"sum({name})" for name in USAGE_COUNTS)}
FROM unnest({_COPY_PARAMETERS}) AS u ({_KEY_COLUMNS}, {_COUNT_COLUMNS}) GROUP BY {_KEY_COLUMNS}
ON CONFLICT ({_KEY_COLUMNS}, replica) DO UPDATE SET {_ADD_COUNTS}"""
_SETTLEMENT_TYPES = ("text", "text", "bigint")
# Continues the statement of the writer, as the catalog's part does. The last attempt of a turn is charged for all of
# them. Rows are grouped first, as no row may be changed twice in one statement.
_LEDGER = f""", settlement AS (
    SELECT s.* FROM unnest({{settlements}}) AS s (id, turn, micros)
    JOIN advanced USING (id)
), turns_ended AS (
    UPDATE reservations r SET cost = CASE WHEN attempt = (
        SELECT max(attempt) FROM reservations l
        WHERE l.conversation = r.conversation AND l.turn = r.turn AND l.budget = r.budget
    ) THEN coalesce((SELECT micros FROM settlement s WHERE s.id = r.conversation AND s.turn = r.turn LIMIT 1), 0)
    ELSE 0 END
    WHERE r.conversation = ANY({{conversations}}) AND r.cost IS NULL AND EXISTS (
        SELECT 1 FROM settlement s WHERE s.id = r.conversation AND s.turn IN (r.turn, '{ALL_TURNS}')
    )
), used AS (
    INSERT INTO usage ({_KEY_COLUMNS}, replica, {_COUNT_COLUMNS})
    SELECT {_KEY_COLUMNS}, {{replica}}, {", ".join(f"sum({name})" for name in USAGE_COUNTS)}
    FROM unnest({{usage}}) AS u (id, {_KEY_COLUMNS}, {_COUNT_COLUMNS})
    JOIN advanced USING (id) GROUP BY {_KEY_COLUMNS}
    ON CONFLICT ({_KEY_COLUMNS}, replica)
    DO UPDATE SET {_ADD_COUNTS}
)"""


class PostgresLedger(LeasedPorts):
    async def reserve(self, reservation: Reservation) -> BudgetShare | None:
        shares = [(s.budget, s.scope.encode(), s.period, s.limit_micros) for s in reservation.shares]
        columns = transpose_rows(shares, 4)
        attempt = reservation.conversation, reservation.turn, reservation.attempt
        while True:
            rows = await self._database.fetch(_RESERVE, *columns, reservation.micros, *attempt, reservation.at)
            if len(rows) == len(shares):
                full = {(budget, scope, period) for budget, scope, period, is_full in rows if is_full}
                return next((s for s in reservation.shares if (s.budget, s.scope.encode(), s.period) in full), None)
            await self._database.fetch(_ADD_BUDGETS, *columns)

    async def settle_reservations(self, now: float, limit: int) -> tuple[int, Sequence[BudgetCharge]]:
        await self._database.fetch(_RELEASE_ORPHANS, now - ORPHAN_S)
        rows = await self._database.fetch(_SETTLE, limit)
        charges = [
            BudgetCharge(budget=budget, scope=scope.decode(), period=period, spent_before=before, spent=spent)
            for budget, scope, period, before, spent, _ in rows
        ]
        return sum(row[5] for row in rows), charges

    async def read_reserved(self, conversation: str) -> Mapping[str, int]:
        return {turn: micros for turn, micros in await self._database.fetch(_LIST_RESERVED, conversation)}

    async def has_reservations(self) -> bool:
        return bool(await self._database.fetch("SELECT 1 FROM reservations LIMIT 1"))

    async def read_balances(self, periods: Sequence[str]) -> Sequence[BudgetBalance]:
        return [_build_balance(tuple(row)) for row in await self._database.fetch(_BALANCES, periods)]

    async def list_balances(self, offset: int, limit: int) -> Sequence[BudgetBalance]:
        return [_build_balance(tuple(row)) for row in await self._database.fetch(_LIST_BALANCES, limit, offset)]

    async def list_usage(self, offset: int, limit: int) -> Sequence[UsageRow]:
        rows = await self._database.fetch(_LIST_USAGE, limit, offset)
        return [_build_usage_row(USAGE_KEYS, tuple(row)) for row in rows]

    async def copy_ledger(self, balances: Sequence[BudgetBalance], usage: Sequence[UsageRow]) -> None:
        rows = [(row.budget, row.scope.encode(), row.period, row.spent, row.overdraft) for row in balances]
        await self._database.fetch(_COPY_BALANCES, *transpose_rows(rows, 5))
        columns = transpose_rows([tuple(_list_values(row)) for row in usage], len(_USAGE_COLUMNS))
        await self._database.fetch(_COPY_USAGE, self._lease.id, *columns)

    async def read_usage(self, query: UsageQuery) -> Sequence[UsageRow]:
        names: tuple[str, ...] = (*query.group_by, "currency")
        groups = ", ".join(_USAGE_COLUMNS[name] for name in names)
        sums = ", ".join(f"sum({name})::bigint" for name in USAGE_COUNTS)
        statement = f"""SELECT {groups}, {sums} FROM usage WHERE day BETWEEN $1 AND $2
        AND ($3::bytea IS NULL OR tenant = $3) AND ($4::bytea IS NULL OR owner = $4)
        GROUP BY {groups} ORDER BY {groups} LIMIT $5"""
        tenant, user = (None if name is None else name.encode() for name in (query.tenant, query.user))
        rows = await self._database.fetch(statement, query.first_day, query.last_day, tenant, user, query.limit)
        return [_build_usage_row(names, tuple(row)) for row in rows]


def continue_statement(statement: str) -> str:
    """Return a statement of the writer that also records what appends add to the ledger, with its parameters last."""
    first = 1 + max(int(number) for number in re.findall(r"\$(\d+)", statement))
    types = (*_SETTLEMENT_TYPES, "", "text", *_USAGE_TYPES)
    names = [f"${first + n}::{kind}[]" if kind else f"${first + n}" for n, kind in enumerate(types)]
    replica = len(_SETTLEMENT_TYPES)
    return statement + _LEDGER.format(
        settlements=", ".join(names[:replica]),
        conversations=names[0],
        replica=names[replica],
        usage=", ".join(names[replica + 1 :]),
    )


def build_ledger_parameters(appends: Sequence[Append], replica: str) -> list[object]:
    """Return the parameters that `continue_statement` adds, for the appends of a group."""
    settlements = [
        (append.conversation, settlement.turn, settlement.micros)
        for append in appends
        for settlement in append.settlements
    ]
    usage = [(append.conversation, *_list_values(row)) for append in appends for row in append.usage]
    return [
        *transpose_rows(settlements, len(_SETTLEMENT_TYPES)),
        replica,
        *transpose_rows(usage, 1 + len(_USAGE_COLUMNS)),
    ]


def _list_values(row: UsageRow) -> list[object]:
    return [value.encode() if isinstance(value, str) else value for value in astuple(row)]


def _build_balance(values: Sequence[object]) -> BudgetBalance:
    decoded = (value.decode() if isinstance(value, bytes) else value for value in values)
    return BudgetBalance(**dict(zip(BudgetBalance.__struct_fields__, decoded, strict=True)))  # pyright: ignore[reportArgumentType]


def _build_usage_row(names: Sequence[str], values: Sequence[object]) -> UsageRow:
    decoded = (value.decode() if isinstance(value, bytes) else value for value in values)
    return UsageRow(**dict(zip((*names, *USAGE_COUNTS), decoded, strict=True)))  # pyright: ignore[reportArgumentType]
