"""A run that waits until the amount of a budget is raised: it says so, and costs nothing until it goes on."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine.test_spending import LIMIT, OUTPUT_PRICE, budget, read_balance, read_events, read_settled, wire
from stores.memory_replicas import MemoryDatabase, SharedMemoryStore
from support import TEST_TIMEOUT_S, wait_until
from toolyard import RunWaiting, Yard
from toolyard.app import open_store
from toolyard.core.conversation.events import RunSuspended, TurnEnded
from toolyard.core.conversation.run_view import RunView
from toolyard.core.conversation.state import State
from toolyard.core.items import Usage
from toolyard.core.settings.budgets import BudgetRule
from toolyard.core.settings.limits import Limits
from toolyard.core.settings.prices import Price
from toolyard.stores.memory import MemoryStore
from toolyard.testing import Scripted, Turn, say

ASKING = budget(1, on_reach="ask")
FULL_TURN = replace(say("hello"), usage=Usage(output_tokens=LIMIT))
"""A turn that uses up a budget for one."""


@asynccontextmanager
async def open_waiting(*turns: Turn, **changes: object) -> AsyncGenerator[tuple[Yard, MemoryStore, Scripted]]:
    """Open a yard whose budget is used up, with a run in conversation `c` that waits for it."""
    model, store = Scripted([FULL_TURN, *turns]), MemoryStore()
    yard = wire(store, model, **{"budgets": {"team": ASKING}, **changes})
    async with asyncio.timeout(TEST_TIMEOUT_S), yard:
        await yard.ask("use it up")
        view = await yard.run("go", conversation="c").wait_for_rest()
        assert (view.status, view.awaited_budget) == ("waiting", "team")
        yield yard, store, model


async def read_state(yard: Yard) -> State:
    return await yard.service.conversations.view("c")


async def wait_for_end(yard: Yard) -> RunView:
    """Return the run of conversation `c` once it has ended."""
    reader = await yard.follow("c", "1")
    try:
        state = await read_state(yard)
        view = RunView(run_id=state.run.id if state.run else "")
        while view.end is None:
            view.apply(await anext(reader))
        return view
    finally:
        reader.detach()


async def test_the_wait_is_an_entry_with_the_budgets_name_and_the_run_goes_on_when_the_amount_is_raised() -> None:
    async with open_waiting(say("done")) as (yard, store, model):
        (suspended,) = await read_events(store, "c", RunSuspended)
        assert isinstance(suspended, RunSuspended)
        assert (suspended.budget, suspended.waiting_for) == ("team", ())
        assert len(model.requests) == 1, "nothing was sent"
        ended = asyncio.create_task(wait_for_end(yard))
        yard.service.spending.replace_budgets({"team": budget(3, on_reach="ask")})
        view = await ended
        assert (view.ending, view.text, view.awaited_budget) == ("done", "done", "")


async def test_a_request_in_the_same_process_is_told_which_budget_it_waits_for() -> None:
    async with open_waiting() as (yard, _, _):
        with pytest.raises(RunWaiting, match="room in the budget team"):
            await yard.ask("go", conversation="d")


@pytest.mark.parametrize("others", [{}, {"other": budget(1)}], ids=["deleted", "another in its place"])
async def test_a_run_goes_on_when_the_budget_that_it_waits_for_is_deleted(others: dict[str, BudgetRule]) -> None:
    async with open_waiting(say("done")) as (yard, _, _):
        ended = asyncio.create_task(wait_for_end(yard))
        yard.service.spending.replace_budgets(others)
        assert (await ended).ending == "done"


async def test_a_run_ends_at_its_limit_when_the_budget_refuses_from_then_on() -> None:
    async with open_waiting() as (yard, _, model):
        ended = asyncio.create_task(wait_for_end(yard))
        yard.service.spending.replace_budgets({"team": budget(1)})
        view = await ended
        assert (view.ending, view.detail) == ("limit", "budget_exceeded")
        assert len(model.requests) == 1


async def test_a_run_that_waits_for_a_budget_can_be_stopped_and_costs_nothing() -> None:
    async with open_waiting(prices={"given": Price(input=0.0, output=1.0)}) as (yard, store, _):
        ended = asyncio.create_task(wait_for_end(yard))
        await yard.stop("c")
        assert (await ended).ending == "cancelled"
        balance = await read_settled(yard, store)
        assert (balance.spent, balance.reserved) == (LIMIT, 0)
        assert not await read_events(store, "c", TurnEnded)
        await wait_until(lambda: yard.service.spending.count_waiting("team", "") == 0)


async def test_the_wait_does_not_count_to_the_time_of_the_run() -> None:
    async with open_waiting(say("done"), limits=Limits(run_seconds=1)) as (yard, _, _):
        run = (await read_state(yard)).run
        assert run is not None and run.suspended_at is not None
        assert run.find_deadline(run.suspended_at + 3_600) > run.suspended_at + 3_600
        ended = asyncio.create_task(wait_for_end(yard))
        yard.service.spending.replace_budgets({})
        assert (await ended).ending == "done"


async def test_a_message_that_is_sent_meanwhile_is_queued_behind_the_wait() -> None:
    async with open_waiting(say("first"), say("second")) as (yard, _, _):
        second = asyncio.create_task(yard.ask("and then?", conversation="c"))
        while not (await read_state(yard)).queue:  # noqa: ASYNC110 - another task adds it
            await asyncio.sleep(0)
        yard.service.spending.replace_budgets({})
        assert await second == "second"


async def test_after_a_restart_the_run_waits_on_and_no_lost_attempt_is_charged(tmp_path: Path) -> None:
    prices, address = {"given": Price(input=10.0, output=1.0)}, f"sqlite:///{tmp_path}/yard.db"
    rule = replace(ASKING, amount=0.000_001)
    first = wire(await open_store(address), Scripted([]), prices=prices, budgets={"team": rule})
    async with asyncio.timeout(TEST_TIMEOUT_S), first:
        assert (await first.run("go", conversation="c").wait_for_rest()).awaited_budget == "team"
    store = await open_store(address)
    model = Scripted([replace(say("done"), usage=Usage(input_tokens=2, output_tokens=3))])
    async with asyncio.timeout(TEST_TIMEOUT_S), wire(store, model, prices=prices, budgets={"team": rule}) as yard:
        await wait_until(lambda: yard.service.spending.count_waiting("team", "") == 1)
        assert not model.requests
        ended = asyncio.create_task(wait_for_end(yard))
        yard.service.spending.replace_budgets({"team": budget(100, on_reach="ask")})
        assert (await ended).ending == "done"
        (turn,) = await read_events(store, "c", TurnEnded)
        assert isinstance(turn, TurnEnded) and turn.cost is not None
        assert (turn.cost.micros, turn.cost.estimated) == (23, False)
        balance = await read_settled(yard, store)
        assert (balance.spent, balance.reserved) == (23, 0)


async def test_another_replica_takes_the_wait_of_a_dead_one_over() -> None:
    database, model = MemoryDatabase(), Scripted([FULL_TURN, say("done")])
    stores = [SharedMemoryStore(database) for _ in range(2)]
    async with asyncio.timeout(TEST_TIMEOUT_S), AsyncExitStack() as stack:
        yards = [
            await stack.enter_async_context(
                wire(store, model, prices={"given": OUTPUT_PRICE}, budgets={"team": ASKING})
            )
            for store in stores
        ]
        await yards[0].ask("use it up")
        await yards[0].run("go", conversation="c").wait_for_rest()
        stores[0].lose_lease()
        await wait_until(lambda: yards[1].service.spending.count_waiting("team", "") == 1)
        ended = asyncio.create_task(wait_for_end(yards[1]))
        yards[1].service.spending.replace_budgets({"team": budget(3, on_reach="ask")})
        assert (await ended).ending == "done"
        assert (await read_settled(yards[1], stores[1])).spent == LIMIT + 5
        assert (await read_balance(stores[1])).reserved == 0
