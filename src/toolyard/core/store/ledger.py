"""The port for money: reservations in budgets, what was spent of them, and the usage of models and tools.

A budget has a row for each scope and period. Before a model is asked, the most that the request may cost is reserved in
all budgets of its run at once, or in none. The entry that ends the turn is stored with its cost on the reservations of
its own conversation only. Moving that to the budgets is a statement of its own: rows that all conversations share are
never locked in the transaction of a log.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct
from msgspec.structs import astuple

from toolyard.core.conversation.state import State

UsageDimension = Literal["tenant", "user", "key", "model", "tool", "preset", "day"]
BudgetKey = tuple[str, str, str]
"""The key of a budget's row: its name, scope and period."""
ORPHAN_S = 60.0
"""How old a reservation is at least before it is released because its conversation has nothing open."""
CALL_PREFIX = "call "
"""Tells the reservation for a call from that for a turn."""
SUMMARY_SUFFIX = ".summary"
"""Tells the reservation for a summary from that for the turn after it."""
ALL_TURNS = ""
"""The turn of a settlement that ends whatever its conversation still has reserved."""


class BudgetShare(Struct, frozen=True, gc=False, kw_only=True):
    """The row of a budget that a run counts to, and the amount that it must not exceed."""

    budget: str
    scope: str
    period: str
    limit_micros: int


class Reservation(Struct, frozen=True, kw_only=True):
    """The most that a request to a model, or a call, may cost. Making it again under the same key changes nothing."""

    conversation: str
    turn: str
    attempt: int
    at: float
    micros: int
    shares: tuple[BudgetShare, ...]
    """In the order of their keys, in which the rows are locked."""


class Settlement(Struct, frozen=True, gc=False, kw_only=True):
    """The cost of a turn or a call: it ends all its reservations, and is charged once to each budget."""

    turn: str
    micros: int = 0


class BudgetBalance(Struct, frozen=True, gc=False, kw_only=True):
    """What was spent of a budget in a scope and a period, and what is reserved."""

    budget: str
    scope: str
    period: str
    spent: int = 0
    reserved: int = 0
    overdraft: int = 0
    """By how much the costs of turns exceeded their reservations: the provider counted more than was estimated."""


class BudgetCharge(Struct, frozen=True, gc=False, kw_only=True):
    """How a settlement changed what was spent of a budget."""

    budget: str
    scope: str
    period: str
    spent_before: int
    spent: int


class UsageRow(Struct, frozen=True, gc=False, kw_only=True):
    """The usage of one day, or a sum over the dimensions that are empty."""

    day: int = 0
    """The days since 1970-01-01, UTC."""
    tenant: str = ""
    user: str = ""
    key: str = ""
    model: str = ""
    tool: str = ""
    """The provider's own tool, or the tool with a price, that the row is about; empty for tokens."""
    preset: str = ""
    currency: str = ""
    """Empty if the cost is unknown."""
    turns: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    cache_writes_5m: int = 0
    cache_writes_1h: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    uses: int = 0
    """Uses of the tool."""
    cost_micros: int = 0
    unknown_costs: int = 0
    """Turns, or uses of tools, whose cost is unknown."""
    estimated_costs: int = 0
    """Turns whose cost is an estimate, at least in part."""


USAGE_KEYS = ("day", "tenant", "user", "key", "model", "tool", "preset", "currency")
USAGE_COUNTS = UsageRow.__struct_fields__[len(USAGE_KEYS) :]


class UsageQuery(Struct, frozen=True, kw_only=True):
    """A period of whole days, UTC, whose it is, and what the sums are grouped by."""

    first_day: int
    last_day: int
    tenant: str | None = None
    """None means all tenants."""
    user: str | None = None
    """None means all users."""
    group_by: tuple[UsageDimension, ...] = ()
    limit: int = 10_000


class Ledger(Protocol):
    """Budgets and usage."""

    async def reserve(self, reservation: Reservation) -> BudgetShare | None:
        """Reserve in all budgets or in none. Return the first budget that has no room; None if all have.

        It takes the place of earlier attempts of the same turn in these budgets: they are over, and what they cost is a
        part of it. There is no room under a key whose cost is known until it is charged.
        """
        ...

    async def settle_reservations(self, now: float, limit: int) -> tuple[int, Sequence[BudgetCharge]]:
        """Charge up to `limit` reservations whose cost is known to their budgets, and delete them.

        Return how many there were, and what changed, by budget.

        Reservations of conversations that have nothing open are released: no turn of theirs will end.
        """
        ...

    async def read_reserved(self, conversation: str) -> Mapping[str, int]:
        """Return what a conversation has reserved and not settled: the last attempt of each turn, by the turn."""
        ...

    async def has_reservations(self) -> bool:
        """Return whether there are reservations that are not charged yet."""
        ...

    async def read_balances(self, periods: Sequence[str]) -> Sequence[BudgetBalance]:
        """Return the balances of these periods."""
        ...

    async def read_usage(self, query: UsageQuery) -> Sequence[UsageRow]:
        """Return sums by currency and by the dimensions of the query, the first ones in the order of these."""
        ...


def list_key(row: BudgetShare | BudgetBalance) -> BudgetKey:
    return row.budget, row.scope, row.period


def name_summary(state: State) -> str:
    """Return the name under which the request for the next summary is reserved.

    Several summaries may come before one turn. Each takes items out of the history, so that their number tells them
    apart, also to an owner who asks for the summary of a dead one again.
    """
    return f"{state.turns + 1}.{len(state.window.past)}{SUMMARY_SUFFIX}"


def build_balance(key: BudgetKey) -> BudgetBalance:
    """Return the balance of a budget that nothing was reserved of yet."""
    budget, scope, period = key
    return BudgetBalance(budget=budget, scope=scope, period=period)


def split_usage(row: UsageRow) -> tuple[tuple[int | str, ...], tuple[int, ...]]:
    """Return the keys and the counts of a row, in the order of USAGE_KEYS and USAGE_COUNTS."""
    values = astuple(row)
    return values[: len(USAGE_KEYS)], values[len(USAGE_KEYS) :]
