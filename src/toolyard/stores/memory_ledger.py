"""Budgets, reservations and usage in the memory of this process, for the memory store."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import add

from msgspec.structs import replace

from toolyard.core.store import BudgetBalance, BudgetCharge, BudgetShare, Reservation, Settlement, UsageQuery, UsageRow
from toolyard.core.store.ledger import (
    ALL_TURNS,
    ORPHAN_S,
    USAGE_COUNTS,
    USAGE_KEYS,
    BudgetKey,
    build_balance,
    list_key,
    split_usage,
)


@dataclass(slots=True)
class _OpenReservation:
    """What one request has reserved of one budget."""

    reservation: Reservation
    key: BudgetKey
    cost: int | None = None
    """Known once the turn has ended."""


class MemoryLedger:
    """The rows of the ledger."""

    def __init__(self) -> None:
        self.balances: dict[BudgetKey, BudgetBalance] = {}
        self._usage: dict[tuple[int | str, ...], tuple[int, ...]] = {}
        """The counts of each row by its keys."""
        self._open: list[_OpenReservation] = []

    def reserve(self, reservation: Reservation) -> BudgetShare | None:
        attempt = reservation.conversation, reservation.turn, reservation.attempt
        if any(attempt == (r.conversation, r.turn, r.attempt) for r in (one.reservation for one in self._open)):
            return None
        for share in reservation.shares:
            balance = self._find(list_key(share))
            if balance.spent + balance.reserved + reservation.micros > share.limit_micros:
                return share
        for share in reservation.shares:
            balance = self._find(key := list_key(share))
            self.balances[key] = replace(balance, reserved=balance.reserved + reservation.micros)
            self._open.append(_OpenReservation(reservation, key))
        return None

    def end_turns(self, conversation: str, settlements: Iterable[Settlement]) -> None:
        """Note what the turns of a conversation cost. The last attempt of a turn is charged for all of them."""
        for settlement in settlements:
            ended = [
                one
                for one in self._open
                if one.reservation.conversation == conversation
                and one.cost is None
                and settlement.turn in (one.reservation.turn, ALL_TURNS)
            ]
            last = {one.key[0]: one for one in sorted(ended, key=lambda one: one.reservation.attempt)}
            for one in ended:
                one.cost = settlement.micros if last[one.key[0]] is one else 0

    def forget_conversation(self, conversation: str) -> None:
        """Charge an estimate for what a conversation that is deleted still has reserved."""
        for one in self._open:
            if one.reservation.conversation == conversation and one.cost is None:
                one.cost = one.reservation.estimate_micros

    def settle(self, now: float, limit: int, is_open: Callable[[str], bool]) -> tuple[int, list[BudgetCharge]]:
        """Charge the known costs. `is_open` returns whether a conversation has a run."""
        for one in self._open:
            if one.cost is None and one.reservation.at < now - ORPHAN_S and not is_open(one.reservation.conversation):
                one.cost = 0
        ended = [one for one in self._open if one.cost is not None][:limit]
        charges: dict[BudgetKey, BudgetCharge] = {}
        for one in ended:
            self._open.remove(one)
            charges[one.key] = self._charge(one, charges.get(one.key))
        return len(ended), list(charges.values())

    def _charge(self, one: _OpenReservation, earlier: BudgetCharge | None) -> BudgetCharge:
        balance, reserved, cost = self._find(one.key), one.reservation.micros, one.cost or 0
        self.balances[one.key] = after = replace(
            balance,
            spent=balance.spent + cost,
            reserved=balance.reserved - reserved,
            overdraft=balance.overdraft + max(0, cost - reserved),
        )
        budget, scope, period = one.key
        before = earlier.spent_before if earlier else balance.spent
        return BudgetCharge(budget=budget, scope=scope, period=period, spent_before=before, spent=after.spent)

    def _find(self, key: BudgetKey) -> BudgetBalance:
        return self.balances.get(key) or build_balance(key)

    def add_usage(self, rows: Iterable[UsageRow]) -> None:
        for row in rows:
            key, counts = split_usage(row)
            before = self._usage.get(key)
            self._usage[key] = tuple(map(add, before, counts)) if before else counts

    def read_usage(self, query: UsageQuery) -> Sequence[UsageRow]:
        sums: dict[tuple[int | str, ...], tuple[int, ...]] = {}
        names = (*query.group_by, "currency")
        for key, counts in self._usage.items():
            row = dict(zip(USAGE_KEYS, key, strict=True))
            if not query.first_day <= int(row["day"]) <= query.last_day:
                continue
            if query.tenant not in (None, row["tenant"]) or query.user not in (None, row["user"]):
                continue
            group = tuple(row[name] for name in names)
            sums[group] = tuple(map(add, sums[group], counts)) if group in sums else counts
        fields = (*names, *USAGE_COUNTS)
        rows = [UsageRow(**dict(zip(fields, (*group, *sums[group]), strict=True))) for group in sorted(sums)]  # pyright: ignore[reportArgumentType]
        return rows[: query.limit]
