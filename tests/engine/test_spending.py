"""Costs of turns, and budgets that hold: with many runs at once, at several replicas, and after an owner has died."""

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from msgspec.structs import replace

from engine.replica_yards import read_until
from postgres import create_database
from stores.memory_replicas import MemoryDatabase, SharedMemoryStore
from support import TEST_TIMEOUT_S, wait_until
from toolyard import Caller, ModelRequest, Yard, tool
from toolyard.app import Wiring
from toolyard.core.conversation.commands import Delete
from toolyard.core.conversation.events import (
    CallEnded,
    Entry,
    ModelDelta,
    RunEnded,
    TextAppended,
    TurnEnded,
    TurnFailed,
    TurnStarted,
)
from toolyard.core.conversation.run_view import RunView
from toolyard.core.errors import Invalid
from toolyard.core.items import ModelText, Problem, Usage
from toolyard.core.model_failures import INTERRUPTED
from toolyard.core.settings.budgets import BudgetRule
from toolyard.core.settings.options import Options
from toolyard.core.settings.prices import Cost, Price
from toolyard.core.store import BudgetBalance, Store, UsageQuery
from toolyard.models.resolver import ModelSettings
from toolyard.stores.memory import MemoryStore
from toolyard.stores.postgres import PostgresStore
from toolyard.testing import Scripted, Turn, call, fail, say

OUTPUT_PRICE = Price(input=0.0, output=1.0)
"""With it a turn is reserved as the limit of its answer, in millionths."""
LIMIT = 100
"""The limit of an answer."""
ALL_DAYS = UsageQuery(first_day=0, last_day=10**6)


def budget(turns: int, **changes: str) -> BudgetRule:
    """Return a budget for so many turns of LIMIT tokens."""
    return BudgetRule(amount=turns * LIMIT / 1_000_000, window="total", **changes)  # pyright: ignore[reportArgumentType]


def wire(store: Store, model: object, **changes: object) -> Yard:
    fields: dict[str, object] = {
        "model": model,
        "opened_store": store,
        "prices": {"given": OUTPUT_PRICE},
        "budgets": {"team": budget(400)},
        "reserve_output_tokens": LIMIT,
        "grace_s": 0.1,
        **changes,
    }
    return Yard.from_wiring(Wiring(**fields))  # pyright: ignore[reportArgumentType]


class WaitingModel:
    """A model whose answers take as many tokens as it is made with, and wait for the test."""

    def __init__(self, output_tokens: int) -> None:
        self._usage = Usage(input_tokens=1, output_tokens=output_tokens)
        self.asked = 0
        self.opened = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        assert request.options.max_tokens == LIMIT, "the limit that was reserved is sent"
        self.asked += 1
        yield TextAppended(turn=request.turn, offset=0, text="an")
        await self.opened.wait()
        text = ModelText(id=request.clock.new_id("item"), at=request.clock.now(), text="answer")
        yield TurnEnded(items=(text,), finish="stop", usage=self._usage)

    async def close(self) -> None:
        pass


async def read_balance(store: Store, budget: str = "team") -> BudgetBalance:
    (balance,) = [one for one in await store.read_balances(["total"]) if one.budget == budget]
    return balance


async def read_settled(yard: Yard, store: Store, budget: str = "team") -> BudgetBalance:
    await yard.service.spending.settle()
    return await read_balance(store, budget)


async def sum_usage(store: Store) -> int:
    return sum(row.cost_micros for row in await store.read_usage(ALL_DAYS))


async def run_at_once(yards: Sequence[Yard], model: WaitingModel, runs: int, admitted: int) -> list[RunView]:
    """Start runs at all yards, let the model answer once it was asked as often as fits, and return the runs."""
    tasks = [asyncio.create_task(yards[n % len(yards)].run("go").wait_for_rest()) for n in range(runs)]
    await wait_until(lambda: model.asked >= admitted and sum(task.done() for task in tasks) == runs - admitted)
    model.opened.set()
    return await asyncio.gather(*tasks)


@pytest.mark.parametrize("replicas", [1, 2])
async def test_of_1000_runs_at_once_a_budget_for_400_admits_exactly_400(replicas: int) -> None:
    model, database = WaitingModel(LIMIT), MemoryDatabase()
    stores = [SharedMemoryStore(database) for _ in range(replicas)] if replicas > 1 else [MemoryStore()]
    async with asyncio.timeout(TEST_TIMEOUT_S), AsyncExitStack() as stack:
        yards = [await stack.enter_async_context(wire(store, model)) for store in stores]
        views = await run_at_once(yards, model, 1_000, 400)
        assert model.asked == 400, "what was refused was never sent"
        assert [view.ending for view in views].count("done") == 400
        refused = [view for view in views if view.ending == "limit"]
        assert len(refused) == 600
        assert {view.detail for view in refused} == {"budget_exceeded"}
        assert "team" in refused[0].text
        balance = await read_settled(yards[0], stores[0])
        assert (balance.spent, balance.reserved, balance.overdraft) == (400 * LIMIT, 0, 0)
        assert balance.spent == await sum_usage(stores[0])


async def test_a_provider_that_counts_more_overdraws_by_the_turns_in_flight_and_the_next_is_refused() -> None:
    model, store = WaitingModel(LIMIT + 30), MemoryStore()
    async with asyncio.timeout(TEST_TIMEOUT_S), wire(store, model, budgets={"team": budget(20)}) as yard:
        await run_at_once([yard], model, 50, 20)
        balance = await read_settled(yard, store)
        assert (balance.spent, balance.overdraft) == (20 * (LIMIT + 30), 20 * 30)
        assert balance.spent == await sum_usage(store)
        assert (await yard.run("one more").wait_for_rest()).ending == "limit"
        assert model.asked == 20


async def test_two_replicas_on_postgresql_share_a_budget() -> None:
    model = WaitingModel(LIMIT)
    async with asyncio.timeout(TEST_TIMEOUT_S), create_database() as url, AsyncExitStack() as stack:
        stores = [await PostgresStore.open(url) for _ in range(2)]
        budgets = {"team": budget(16), "all": budget(1_000)}
        yards = [await stack.enter_async_context(wire(store, model, budgets=budgets)) for store in stores]
        views = await run_at_once(yards, model, 40, 16)
        assert [view.ending for view in views].count("done") == 16
        assert (await read_settled(yards[0], stores[1])).spent == 16 * LIMIT
        assert (await read_balance(stores[1], "all")).spent == 16 * LIMIT == await sum_usage(stores[0])


async def test_the_reservation_of_an_owner_that_died_stays_until_its_turn_was_taken_over() -> None:
    model, database = WaitingModel(40), MemoryDatabase()
    stores = [SharedMemoryStore(database) for _ in range(2)]
    prices = {"given": Price(input=10.0, output=1.0)}
    async with asyncio.timeout(TEST_TIMEOUT_S), AsyncExitStack() as stack:
        first, second = [await stack.enter_async_context(wire(store, model, prices=prices)) for store in stores]
        run = asyncio.create_task(first.run("go", conversation="c").wait_for_rest())
        await wait_until(lambda: model.asked == 1)
        reserved = (await read_balance(stores[1])).reserved
        input_micros = reserved - LIMIT
        assert input_micros > 0
        reader = await second.follow("c", "1")
        stores[0].lose_lease()
        await wait_until(lambda: model.asked == 2)
        assert (await read_balance(stores[1])).reserved == 2 * reserved, "that of the dead owner, and the new one"
        model.opened.set()
        ended = [item.event for item in await read_until(reader, RunEnded) if isinstance(item, Entry)]
        reader.detach()
        await run
        (turn,) = [event for event in ended if isinstance(event, TurnEnded)]
        # What the provider counted, and the input of the request that was lost.
        assert turn.cost is not None and turn.cost.estimated
        assert turn.cost.micros == 10 + 40 + input_micros
        balance = await read_settled(second, stores[1])
        assert (balance.spent, balance.reserved) == (turn.cost.micros, 0)
        assert balance.spent == await sum_usage(stores[1])


@asynccontextmanager
async def open_scripted(script: Sequence[Turn], **changes: object) -> AsyncGenerator[tuple[Yard, MemoryStore]]:
    store = MemoryStore()
    async with asyncio.timeout(TEST_TIMEOUT_S), wire(store, Scripted(script), **changes) as yard:
        yield yard, store


async def read_events(store: Store, conversation: str, kind: type[object]) -> list[object]:
    return [entry.event for entry in await store.read(conversation) if isinstance(entry.event, kind)]


async def test_without_a_price_the_cost_is_unknown_and_not_zero() -> None:
    async with open_scripted([say("hello")], prices={}, budgets={}) as (yard, store):
        await yard.ask("hi", conversation="c")
        (turn,) = await read_events(store, "c", TurnEnded)
        assert isinstance(turn, TurnEnded) and turn.cost is None
        (row,) = await store.read_usage(ALL_DAYS)
        assert (row.turns, row.input_tokens, row.unknown_costs, row.currency) == (1, 10, 1, "")


async def test_a_turn_records_its_cost_and_the_version_of_its_price() -> None:
    async with open_scripted([say("hello")], budgets={}) as (yard, store):
        await yard.ask("hi", conversation="c")
        (turn,) = await read_events(store, "c", TurnEnded)
        assert isinstance(turn, TurnEnded) and turn.cost is not None
        assert (turn.cost.micros, turn.cost.currency, turn.cost.estimated) == (5, "USD", False)
        assert turn.cost.price.startswith("config:")


async def test_under_a_budget_a_model_without_a_price_is_refused_in_words() -> None:
    async with open_scripted([], prices={}) as (yard, _):
        with pytest.raises(Invalid, match="the model given has no price, and the budget team applies"):
            await yard.run("go").wait_for_rest()


async def test_a_price_in_another_currency_than_the_budgets_is_refused_in_words() -> None:
    async with open_scripted([], prices={"given": replace(OUTPUT_PRICE, currency="CHF")}) as (yard, _):
        with pytest.raises(Invalid, match="has a price in CHF"):
            await yard.run("go").wait_for_rest()


async def test_the_limit_that_is_reserved_is_that_of_the_request_else_of_the_model_else_of_the_server() -> None:
    configured = ModelSettings(options={"given": Options(max_tokens=7)})
    for options, settings, limit in (
        (Options(max_tokens=9), configured, 9),
        (Options(), configured, 7),
        (Options(), ModelSettings(), LIMIT),
    ):
        model, store = Scripted([say("hello")]), MemoryStore()
        async with wire(store, model, model_settings=settings) as yard:
            await yard.ask("hi", options=options)
        assert [request.options.max_tokens for request in model.requests] == [limit]


async def test_without_a_budget_no_limit_is_added() -> None:
    model = Scripted([say("hello")])
    async with wire(MemoryStore(), model, budgets={}) as yard:
        await yard.ask("hi")
    assert [request.options.max_tokens for request in model.requests] == [0]


async def test_a_budget_that_is_used_up_within_a_run_ends_it_with_a_sentence_in_the_callers_language() -> None:
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    used = replace(call("look"), usage=Usage(output_tokens=LIMIT))
    async with open_scripted([used], tools=[look], budgets={"küche": budget(1)}) as (yard, _):
        view = await yard.run("go", caller=Caller(locale="de")).wait_for_rest()
        assert (view.ending, view.detail) == ("limit", "budget_exceeded")
        assert view.text.startswith("Das Budget „küche“ reicht dafür nicht mehr.")


async def test_scopes_count_apart_and_a_budget_for_some_leaves_the_others_alone() -> None:
    rules = {
        "each": budget(1, scope="user"),
        "acme": replace(budget(2, scope="tenant"), only=("acme",)),
    }
    turn = replace(say("hello"), usage=Usage(output_tokens=LIMIT))
    async with open_scripted([turn] * 4, budgets=rules) as (yard, store):

        async def ask(user: str, tenant: str) -> str | None:
            view = await yard.run("go", caller=Caller(user=user, tenant=tenant)).wait_for_rest()
            return view.ending

        assert [await ask("ana", "acme"), await ask("ana", "acme")] == ["done", "limit"]
        assert [await ask("ben", "acme"), await ask("eva", "acme")] == ["done", "limit"]
        assert [await ask("ana", "other"), await ask("eva", "other")] == ["done", "done"]
        await read_settled(yard, store, "acme")
        spent = {(one.budget, one.scope): one.spent for one in await store.read_balances(["total"])}
        assert spent == {
            ("acme", "acme"): 2 * LIMIT,
            ("each", '["acme","ana"]'): LIMIT,
            ("each", '["acme","ben"]'): LIMIT,
            ("each", '["other","ana"]'): LIMIT,
            ("each", '["other","eva"]'): LIMIT,
        }


async def test_a_reply_that_was_lost_is_charged_as_an_estimate_and_says_so() -> None:
    lost = Problem(error="the connection broke off", error_type="unavailable", details={INTERRUPTED: True})
    refused = Problem(error="the provider answered 500", error_type="unavailable", details={"status": 500})
    prices = {"given": Price(input=10.0, output=1.0)}
    async with open_scripted([Turn(failure=lost), Turn(failure=refused)], prices=prices) as (yard, store):
        await yard.run("go", conversation="lost").wait_for_rest()
        await yard.run("go", conversation="refused").wait_for_rest()
        (first,), (second,) = [await read_events(store, name, TurnFailed) for name in ("lost", "refused")]
        assert isinstance(first, TurnFailed) and first.cost is not None and first.cost.estimated
        assert first.cost.micros > 0
        assert isinstance(second, TurnFailed) and second.cost is None
        balance = await read_settled(yard, store)
        assert (balance.spent, balance.reserved) == (first.cost.micros, 0)


async def test_a_turn_that_a_person_stops_is_charged_as_an_estimate() -> None:
    model, store = WaitingModel(LIMIT), MemoryStore()
    async with asyncio.timeout(TEST_TIMEOUT_S), wire(store, model) as yard:
        run = asyncio.create_task(yard.run("go", conversation="c").wait_for_rest())
        await wait_until(lambda: model.asked == 1)
        await yard.stop("c")
        await run
        (turn,) = await read_events(store, "c", TurnEnded)
        assert isinstance(turn, TurnEnded) and turn.cost is not None and turn.cost.estimated
        balance = await read_settled(yard, store)
        assert (balance.spent, balance.reserved) == (turn.cost.micros, 0)


async def test_a_conversation_that_is_deleted_in_the_middle_of_a_turn_keeps_nothing_reserved() -> None:
    model, store = WaitingModel(LIMIT), MemoryStore()
    async with asyncio.timeout(TEST_TIMEOUT_S), wire(store, model) as yard:
        run = asyncio.create_task(yard.run("go", conversation="c").wait_for_rest())
        await wait_until(lambda: model.asked == 1)
        await yard.service.conversations.submit("c", Delete(by=Caller(user="local", roles=frozenset({"admin"}))))
        await asyncio.gather(run, return_exceptions=True)
        assert (await read_settled(yard, store)).reserved == 0


async def test_a_budget_that_is_deleted_while_a_turn_has_reserved_of_it_is_settled_all_the_same() -> None:
    model, store = WaitingModel(40), MemoryStore()
    async with asyncio.timeout(TEST_TIMEOUT_S), wire(store, model) as yard:
        spending = yard.service.spending
        run = asyncio.create_task(yard.run("go").wait_for_rest())
        await wait_until(lambda: model.asked == 1)
        spending.budgets = {}
        model.opened.set()
        await run
        balance = await read_settled(yard, store)
        assert (balance.spent, balance.reserved) == (40, 0)


async def test_a_fallback_reserves_for_itself_at_its_own_price() -> None:
    models = {"a": Scripted([fail("down", "unavailable")]), "b": Scripted([say("hello")])}
    store = MemoryStore()
    prices = {"a": OUTPUT_PRICE, "b": Price(input=0.0, output=3.0)}
    yard = wire(store, ("a", "b"), prices=prices, named_model=models.__getitem__)
    async with asyncio.timeout(TEST_TIMEOUT_S), yard:
        await yard.ask("hi", conversation="c")
        (turn,) = await read_events(store, "c", TurnEnded)
        assert isinstance(turn, TurnEnded) and turn.cost is not None
        assert (turn.fallback, turn.cost.micros) == ("b", 15)
        assert (await read_balance(store)).reserved == LIMIT + 3 * LIMIT
        balance = await read_settled(yard, store)
        assert (balance.spent, balance.reserved) == (15, 0)
        assert [row.model for row in await store.read_usage(replace(ALL_DAYS, group_by=("model",)))] == ["b"]


async def test_a_fallback_that_a_budget_has_no_room_for_is_not_asked() -> None:
    models = {"a": Scripted([fail("down", "unavailable")]), "b": Scripted([])}
    prices = {"a": OUTPUT_PRICE, "b": Price(input=0.0, output=3.0)}
    yard = wire(MemoryStore(), ("a", "b"), prices=prices, named_model=models.__getitem__, budgets={"team": budget(3)})
    async with asyncio.timeout(TEST_TIMEOUT_S), yard:
        view = await yard.run("hi").wait_for_rest()
        assert (view.ending, view.detail) == ("limit", "budget_exceeded")


async def test_crossing_50_80_and_100_percent_of_a_budget_is_logged_once_each(caplog: pytest.LogCaptureFixture) -> None:
    turn = replace(say("hello"), usage=Usage(output_tokens=LIMIT))
    async with open_scripted([turn] * 10, budgets={"team": budget(10)}) as (yard, store):
        for _ in range(10):
            await yard.ask("go")
            await read_settled(yard, store)
    lines = [record.getMessage() for record in caplog.records if record.name == "toolyard.spending"]
    assert lines == [f"budget team: {percent} % is spent (total)" for percent in (50, 80, 100)]


async def test_a_tool_with_a_price_counts_in_the_usage() -> None:
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    priced = dataclasses.replace(look, definition=replace(look.definition, price=0.25))
    async with open_scripted([call("look"), say("done")], budgets={}, tools=[priced]) as (yard, store):
        await yard.ask("go", conversation="c")
        (ended,) = await read_events(store, "c", CallEnded)
        assert isinstance(ended, CallEnded) and ended.cost == Cost(micros=250_000, price="tool")
        rows = {row.tool: row for row in await store.read_usage(replace(ALL_DAYS, group_by=("tool",)))}
        assert (rows["look"].uses, rows["look"].cost_micros) == (1, 250_000)
        assert rows[""].cost_micros == 10


async def test_a_turn_starts_and_ends_in_the_log_as_before_without_prices_and_budgets() -> None:
    async with open_scripted([say("hello")], prices={}, budgets={}) as (yard, store):
        await yard.ask("hi", conversation="c")
        entries = [type(entry.event) for entry in await store.read("c")]
        assert entries[-3:] == [TurnStarted, TurnEnded, RunEnded]
