"""What every store promises of budgets, reservations and usage; each promise has a store that breaks it."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from contracts.store_contract import (
    OpenStore,
    Promise,
    assert_refused,
    check_promise,
    claim,
    every_store,
    expect_break,
    get_function_name,
    make_entries,
)
from toolyard.core.errors import Fenced
from toolyard.core.store import (
    Append,
    BudgetBalance,
    BudgetCharge,
    BudgetShare,
    FutureLike,
    Reservation,
    Settlement,
    Store,
    UsageQuery,
    UsageRow,
)
from toolyard.stores.memory import MemoryStore

TEAM = BudgetShare(budget="team", scope="acme", period="2027-01", limit_micros=1_000)
TOTAL = BudgetShare(budget="total", scope="", period="total", limit_micros=1_500)
NOW = 1_000_000.0


def reservation(
    conversation: str, micros: int, *shares: BudgetShare, turn: str = "1", attempt: int = 1, at: float = NOW
) -> Reservation:
    return Reservation(
        conversation=conversation,
        turn=turn,
        attempt=attempt,
        at=at,
        micros=micros,
        shares=shares or (TEAM, TOTAL),
    )


async def end_turn(store: Store, conversation: str, *settlements: Settlement, usage: Sequence[UsageRow] = ()) -> None:
    """Append an entry with the costs of turns, as the owner of the conversation."""
    epoch, last = await claim(store, conversation), len(await store.read(conversation))
    append = Append(
        conversation=conversation,
        epoch=epoch,
        entries=make_entries(conversation, last + 1),
        wake_at=0.0,
        settlements=settlements,
        usage=usage,
    )
    await store.append(append)


async def read_balances(store: Store) -> dict[str, tuple[int, int, int]]:
    balances = await store.read_balances(["2027-01", "total"])
    return {balance.budget: (balance.spent, balance.reserved, balance.overdraft) for balance in balances}


async def a_reservation_is_made_in_all_budgets_or_in_none(store: Store) -> None:
    assert await store.reserve(reservation("a", 600)) is None
    assert await store.reserve(reservation("b", 600)) == TEAM
    assert await store.reserve(reservation("b", 600, TOTAL)) is None
    assert await store.reserve(reservation("c", 400)) == TOTAL
    assert await read_balances(store) == {"team": (0, 600, 0), "total": (0, 1200, 0)}
    assert await store.reserve(reservation("c", 300)) is None, "what just fits is admitted"
    assert await read_balances(store) == {"team": (0, 900, 0), "total": (0, 1500, 0)}


async def a_reservation_that_is_made_again_counts_once(store: Store) -> None:
    for _ in range(2):
        assert await store.reserve(reservation("a", 600)) is None
    assert await read_balances(store) == {"team": (0, 600, 0), "total": (0, 600, 0)}


async def an_attempt_takes_the_place_of_those_before_it(store: Store) -> None:
    await store.reserve(reservation("a", 700, TEAM))
    await store.reserve(reservation("a", 200, TEAM, turn="2"))
    assert await store.reserve(reservation("a", 900, TEAM, attempt=2)) == TEAM
    assert await read_balances(store) == {"team": (0, 900, 0)}, "what is refused changes nothing"
    assert await store.reserve(reservation("a", 800, attempt=2)) is None
    assert await read_balances(store) == {"team": (0, 1000, 0), "total": (0, 800, 0)}
    assert await store.reserve(reservation("a", 1, TEAM, attempt=1)) == TEAM, "a later attempt keeps its own"
    assert await store.settle_reservations(NOW, 10) == (0, [])
    await end_turn(store, "a", Settlement(turn="1", micros=750))
    await store.settle_reservations(NOW, 10)
    assert await read_balances(store) == {"team": (750, 200, 0), "total": (750, 0, 0)}


async def a_key_is_free_again_once_what_it_reserved_is_charged(store: Store) -> None:
    await store.reserve(reservation("a", 300, TEAM))
    await end_turn(store, "a", Settlement(turn="1", micros=250))
    assert await store.reserve(reservation("a", 400, TEAM)) == TEAM, "it is another request, which has reserved nothing"
    await store.settle_reservations(NOW, 10)
    assert await store.reserve(reservation("a", 400, TEAM)) is None
    assert await read_balances(store) == {"team": (250, 400, 0)}


async def reservations_at_once_never_exceed_a_budget(store: Store) -> None:
    wanted = [reservation(f"c{number}", 10, *order) for number in range(150) for order in [(TEAM, TOTAL)]]
    refused = await asyncio.gather(*map(store.reserve, wanted))
    assert refused.count(None) == 100
    assert await read_balances(store) == {"team": (0, 1000, 0), "total": (0, 1000, 0)}


async def a_cost_is_charged_once_however_often_it_is_settled(store: Store) -> None:
    await store.reserve(reservation("a", 600))
    assert await store.settle_reservations(NOW, 10) == (0, [])
    await end_turn(store, "a", Settlement(turn="1", micros=250))
    assert await read_balances(store) == {"team": (0, 600, 0), "total": (0, 600, 0)}, "not in the append's transaction"
    number, charges = await store.settle_reservations(NOW, 10)
    assert number == 2
    assert sorted(charges, key=lambda charge: charge.budget) == [
        BudgetCharge(budget="team", scope="acme", period="2027-01", spent_before=0, spent=250),
        BudgetCharge(budget="total", scope="", period="total", spent_before=0, spent=250),
    ]
    await asyncio.gather(*(store.settle_reservations(NOW, 10) for _ in range(3)))
    await end_turn(store, "a", Settlement(turn="1", micros=250))
    assert await store.settle_reservations(NOW, 10) == (0, [])
    assert await read_balances(store) == {"team": (250, 0, 0), "total": (250, 0, 0)}


async def a_cost_above_its_reservation_is_an_overdraft_that_refuses_the_next(store: Store) -> None:
    await store.reserve(reservation("a", 900, TEAM))
    await end_turn(store, "a", Settlement(turn="1", micros=1_200))
    await store.settle_reservations(NOW, 10)
    assert await read_balances(store) == {"team": (1_200, 0, 300)}
    assert await store.reserve(reservation("b", 1, TEAM)) == TEAM


async def the_attempts_of_a_turn_are_settled_together_in_the_period_of_the_last_one(store: Store) -> None:
    await store.reserve(reservation("a", 300, TEAM, attempt=1))
    later = replace(TEAM, period="total")
    await store.reserve(reservation("a", 400, later, attempt=2))
    await store.reserve(reservation("b", 100, TEAM))
    await end_turn(store, "a", Settlement(turn="1", micros=350))
    await store.settle_reservations(NOW, 10)
    balances = {balance.period: balance for balance in await store.read_balances(["2027-01", "total"])}
    assert balances["2027-01"] == BudgetBalance(budget="team", scope="acme", period="2027-01", spent=0, reserved=100)
    assert balances["total"] == BudgetBalance(budget="team", scope="acme", period="total", spent=350)


async def the_cost_of_a_call_is_charged_beside_that_of_its_turn(store: Store) -> None:
    await store.reserve(reservation("a", 300, TEAM))
    await store.reserve(reservation("a", 70, turn="call 1", attempt=0))
    await end_turn(store, "a", Settlement(turn="call 1", micros=70), Settlement(turn="1", micros=200))
    assert await read_balances(store) == {"team": (0, 370, 0), "total": (0, 70, 0)}, "not in the append's transaction"
    number, charges = await store.settle_reservations(NOW, 10)
    assert number == 3
    assert {charge.budget: (charge.spent_before, charge.spent) for charge in charges} == {
        "team": (0, 270),
        "total": (0, 70),
    }
    assert await store.settle_reservations(NOW, 10) == (0, [])
    assert await read_balances(store) == {"team": (270, 0, 0), "total": (70, 0, 0)}


async def the_end_of_a_run_releases_what_no_turn_has_ended(store: Store) -> None:
    await store.reserve(reservation("a", 300, TEAM, turn="1"))
    await store.reserve(reservation("a", 200, TEAM, turn="2.summary"))
    await store.reserve(reservation("b", 100, TEAM))
    await end_turn(store, "a", Settlement(turn="1", micros=50), Settlement(turn=""))
    await store.settle_reservations(NOW, 10)
    assert await read_balances(store) == {"team": (50, 100, 0)}


async def what_is_reserved_and_not_settled_is_that_of_the_last_attempts(store: Store) -> None:
    assert not await store.has_reservations()
    await store.reserve(reservation("a", 300, attempt=17))
    assert await store.has_reservations()
    await store.reserve(reservation("a", 200, attempt=2))
    await store.reserve(reservation("a", 50, turn="2.summary"))
    await store.reserve(reservation("a", 70, turn="call 1", attempt=0))
    await store.reserve(reservation("b", 100, TEAM))
    await end_turn(store, "a", Settlement(turn="call 1", micros=70))
    assert await store.read_reserved("a") == {"1": 300, "2.summary": 50}
    assert await store.read_reserved("c") == {}


async def a_deleted_conversation_is_charged_what_it_had_reserved(store: Store) -> None:
    await end_turn(store, "a")
    await store.reserve(reservation("a", 600, TEAM))
    await store.delete_conversation("a")
    await store.settle_reservations(NOW, 10)
    assert await read_balances(store) == {"team": (600, 0, 0)}


async def a_reservation_stays_while_its_conversation_is_open(store: Store) -> None:
    """The owner of `a` may have died: its turn is recovered. Nothing of `b` was ever stored."""
    await end_turn(store, "a")
    await store.reserve(reservation("a", 600, TEAM))
    await store.reserve(reservation("b", 300, TEAM))
    await store.settle_reservations(NOW, 10)
    assert await read_balances(store) == {"team": (0, 900, 0)}, "it may only just have been made"
    await store.settle_reservations(NOW + 86_400, 10)
    assert await read_balances(store) == {"team": (0, 600, 0)}


async def a_fenced_append_settles_nothing_and_adds_no_usage(store: Store) -> None:
    await end_turn(store, "a")
    await store.reserve(reservation("a", 600, TEAM))
    old = await claim(store, "a")
    await claim(store, "a")
    append = Append(
        conversation="a",
        epoch=old,
        entries=make_entries("a", 2),
        settlements=[Settlement(turn="1", micros=5)],
        usage=[UsageRow(day=1, turns=1)],
    )
    await assert_refused(Fenced, store.append(append))
    assert await store.settle_reservations(NOW, 10) == (0, [])
    assert list(await store.read_usage(UsageQuery(first_day=0, last_day=9))) == []


async def usage_is_the_exact_sum_of_what_was_appended(store: Store) -> None:
    ana = UsageRow(day=5, tenant="acme", user="ana", key="k", model="m", currency="USD", turns=1, input_tokens=10)
    rows = [
        replace(ana, cost_micros=7),
        replace(ana, cost_micros=8, output_tokens=3),
        replace(ana, day=6, user="ben\0", model="n", cost_micros=100, cached_tokens=2),
        replace(ana, tool="web_search", turns=0, input_tokens=0, uses=2, cost_micros=20_000),
        replace(ana, tenant="other", currency="", unknown_costs=1),
    ]
    await end_turn(store, "a", usage=rows[:3])
    await end_turn(store, "b", usage=rows[3:])
    query = UsageQuery(first_day=5, last_day=6, tenant="acme", group_by=("user", "tool"))
    assert list(await store.read_usage(query)) == [
        UsageRow(user="ana", currency="USD", turns=2, input_tokens=20, output_tokens=3, cost_micros=15),
        UsageRow(user="ana", tool="web_search", currency="USD", uses=2, cost_micros=20_000),
        UsageRow(user="ben\0", currency="USD", turns=1, input_tokens=10, cached_tokens=2, cost_micros=100),
    ]
    everything = await store.read_usage(UsageQuery(first_day=0, last_day=9))
    assert [(row.currency, row.turns, row.cost_micros, row.unknown_costs) for row in everything] == [
        ("", 1, 0, 1),
        ("USD", 3, 20_115, 0),
    ]
    one_day = await store.read_usage(UsageQuery(first_day=6, last_day=6, user="ben\0", group_by=("day",)))
    assert [(row.day, row.cost_micros) for row in one_day] == [(6, 100)]


class HalfStore(MemoryStore):
    """Reserves in the budgets one by one."""

    async def reserve(self, reservation: Reservation) -> BudgetShare | None:
        for number, share in enumerate(reservation.shares):
            one = replace(reservation, shares=(share,), attempt=reservation.attempt * 10 + number)
            if (full := await super().reserve(one)) is not None:
                return full
        return None


class RepeatingStore(MemoryStore):
    """Takes each reservation for a new one."""

    made = 0

    async def reserve(self, reservation: Reservation) -> BudgetShare | None:
        self.made += 1
        return await super().reserve(replace(reservation, attempt=-self.made))


class HoardingStore(MemoryStore):
    """Keeps what each attempt has reserved."""

    async def reserve(self, reservation: Reservation) -> BudgetShare | None:
        return await super().reserve(replace(reservation, turn=f"{reservation.turn}.{reservation.attempt}"))


class RacingStore(MemoryStore):
    """Checks all reservations before it makes the first."""

    async def reserve(self, reservation: Reservation) -> BudgetShare | None:
        generous = tuple(replace(share, limit_micros=10**9) for share in reservation.shares)
        balances = await self.read_balances([share.period for share in reservation.shares])
        await asyncio.sleep(0)
        if any(balance.reserved >= 1_000 for balance in balances):
            return reservation.shares[0]
        return await super().reserve(replace(reservation, shares=generous))


class EagerStore(MemoryStore):
    """Charges costs in the transaction of the log."""

    def begin_append(self, append: Append) -> FutureLike:
        stored = super().begin_append(append)
        self._data.ledger.settle(NOW, 10, lambda _: True)
        return stored


class CappedStore(MemoryStore):
    """Charges no more than was reserved."""

    def begin_append(self, append: Append) -> FutureLike:
        capped = [replace(settlement, micros=min(settlement.micros, 900)) for settlement in append.settlements]
        return super().begin_append(replace(append, settlements=capped))


class ForgetfulStore(MemoryStore):
    """Settles nothing."""

    def begin_append(self, append: Append) -> FutureLike:
        return super().begin_append(replace(append, settlements=(), usage=append.usage[1:]))

    async def delete_conversation(self, conversation: str) -> Sequence[str]:
        return ()


class ReleasingStore(MemoryStore):
    """Releases what a dead owner has reserved."""

    def _has_run(self, conversation: str) -> bool:
        return False


class UnfencedStore(MemoryStore):
    """Counts what an earlier owner appends."""

    def begin_append(self, append: Append) -> FutureLike:
        self._data.ledger.add_usage(append.usage)
        return super().begin_append(append)


BROKEN_BY: dict[Promise, type[MemoryStore]] = {
    a_reservation_is_made_in_all_budgets_or_in_none: HalfStore,
    a_reservation_that_is_made_again_counts_once: RepeatingStore,
    an_attempt_takes_the_place_of_those_before_it: HoardingStore,
    a_key_is_free_again_once_what_it_reserved_is_charged: RepeatingStore,
    reservations_at_once_never_exceed_a_budget: RacingStore,
    a_cost_is_charged_once_however_often_it_is_settled: EagerStore,
    a_cost_above_its_reservation_is_an_overdraft_that_refuses_the_next: CappedStore,
    the_attempts_of_a_turn_are_settled_together_in_the_period_of_the_last_one: ForgetfulStore,
    the_cost_of_a_call_is_charged_beside_that_of_its_turn: ForgetfulStore,
    the_end_of_a_run_releases_what_no_turn_has_ended: ForgetfulStore,
    what_is_reserved_and_not_settled_is_that_of_the_last_attempts: ForgetfulStore,
    a_deleted_conversation_is_charged_what_it_had_reserved: ForgetfulStore,
    a_reservation_stays_while_its_conversation_is_open: ReleasingStore,
    a_fenced_append_settles_nothing_and_adds_no_usage: UnfencedStore,
    usage_is_the_exact_sum_of_what_was_appended: ForgetfulStore,
}


@pytest.mark.parametrize("promise", BROKEN_BY, ids=get_function_name)
@every_store
async def test_every_store_keeps_every_promise(open_store: OpenStore, promise: Promise, tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        await check_promise(promise, store)


@pytest.mark.parametrize("promise", BROKEN_BY, ids=get_function_name)
async def test_a_store_that_breaks_the_promise_is_found_out(promise: Promise) -> None:
    await expect_break(promise, BROKEN_BY[promise]())
