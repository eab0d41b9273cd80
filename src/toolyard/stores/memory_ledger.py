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
        for row in self._open:
            if attempt == (row.reservation.conversation, row.reservation.turn, row.reservation.attempt):
                return None if row.cost is None else reservation.shares[0]
        earlier = [
            row
            for row in self._open
            if row.cost is None
            and attempt[:2] == (row.reservation.conversation, row.reservation.turn)
            and row.reservation.attempt < reservation.attempt
        ]
        for share in reservation.shares:
            balance = self._find(list_key(share))
            taken = balance.spent + balance.reserved
            taken -= sum(row.reservation.micros for row in earlier if row.key == list_key(share))
            if taken + reservation.micros > share.limit_micros:
                return share
        keys = {list_key(share) for share in reservation.shares}
        for row in earlier:
            if row.key in keys:
                self._open.remove(row)
                balance = self._find(row.key)
                self.balances[row.key] = replace(balance, reserved=balance.reserved - row.reservation.micros)
            elif row.key[0] in {budget for budget, _, _ in keys}:
                row.cost = 0  # of a period that is over
        for share in reservation.shares:
            balance = self._find(key := list_key(share))
            self.balances[key] = replace(balance, reserved=balance.reserved + reservation.micros)
            self._open.append(_OpenReservation(reservation, key))
        return None

    def end_turns(self, conversation: str, settlements: Iterable[Settlement]) -> None:
        """Note what the turns of a conversation cost. The last attempt of a turn is charged for all of them."""
        for settlement in settlements:
            ended = [
                row
                for row in self._open
                if row.reservation.conversation == conversation
                and row.cost is None
                and settlement.turn in (row.reservation.turn, ALL_TURNS)
            ]
            last = {row.key[0]: row for row in sorted(ended, key=lambda row: row.reservation.attempt)}
            for row in ended:
                row.cost = settlement.micros if last[row.key[0]] is row else 0

    def read_reserved(self, conversation: str) -> dict[str, int]:
        unsettled = [
            row.reservation for row in self._open if row.reservation.conversation == conversation and row.cost is None
        ]
        return {row.turn: row.micros for row in sorted(unsettled, key=lambda row: row.attempt)}

    def has_reservations(self) -> bool:
        return bool(self._open)

    def forget_conversation(self, conversation: str) -> None:
        """Charge what a conversation that is deleted still has reserved: nobody knows how much of its answers came."""
        for row in self._open:
            if row.reservation.conversation == conversation and row.cost is None:
                row.cost = row.reservation.micros

    def settle(self, now: float, limit: int, is_open: Callable[[str], bool]) -> tuple[int, list[BudgetCharge]]:
        """Charge the known costs. `is_open` returns whether a conversation has a run."""
        for row in self._open:
            if row.cost is None and row.reservation.at < now - ORPHAN_S and not is_open(row.reservation.conversation):
                row.cost = 0
        ended = [row for row in self._open if row.cost is not None][:limit]
        charges: dict[BudgetKey, BudgetCharge] = {}
        for row in ended:
            self._open.remove(row)
            charges[row.key] = self._charge(row, charges.get(row.key))
        return len(ended), list(charges.values())

    def _charge(self, row: _OpenReservation, earlier: BudgetCharge | None) -> BudgetCharge:
        balance, reserved, cost = self._find(row.key), row.reservation.micros, row.cost or 0
        self.balances[row.key] = after = replace(
            balance,
            spent=balance.spent + cost,
            reserved=balance.reserved - reserved,
            overdraft=balance.overdraft + max(0, cost - reserved),
        )
        budget, scope, period = row.key
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
