"""Costs of turns, and budgets that hold: with many runs at once, at several replicas, and after an owner has died."""

import asyncio
import dataclasses
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from contracts.store_contract import claim
from engine.replica_yards import read_until
from postgres import create_database
from stores.memory_replicas import MemoryDatabase, SharedMemoryStore
from support import TEST_TIMEOUT_S, wait_until
from toolyard import Caller, FunctionTool, ModelRequest, Yard, tool
from toolyard.app import Wiring, open_store
from toolyard.core.conversation.commands import Delete
from toolyard.core.conversation.events import (
    CallEnded,
    Entry,
    ModelDelta,
    ReasoningAppended,
    RunEnded,
    StopRequested,
    TextAppended,
    TurnEnded,
    TurnFailed,
    TurnStarted,
)
from toolyard.core.conversation.plan import MAX_TURN_OWNERS
from toolyard.core.conversation.run_view import RunView
from toolyard.core.errors import Invalid, StoreDown
from toolyard.core.items import MAX_COUNT, ModelText, Problem, Usage
from toolyard.core.model_failures import INTERRUPTED
from toolyard.core.settings.budgets import BudgetRule
from toolyard.core.settings.models.options import MIN_THINKING_TOKENS, Options
from toolyard.core.settings.prices import Cost, Price
from toolyard.core.store import Append, BudgetBalance, BudgetCharge, BudgetShare, Reservation, Store, UsageQuery
from toolyard.core.tools.web_search_rule import SearchRules
from toolyard.engine.spending.spending import Spending
from toolyard.engine.spending.turn_meter import DEFAULT_TOOL_USES
from toolyard.models.messages import Anthropic
from toolyard.models.price_list import PriceList
from toolyard.models.resolver import ModelSettings
from toolyard.stores.memory import MemoryStore
from toolyard.stores.postgres import PostgresStore
from toolyard.testing import Scripted, Turn, call, fail, say
from wire import strict_messages
from wire.local import NOW, CountingClock, SleepRecorder
from wire.strict_messages import StrictMessages

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
    """A model that thinks, and whose answers take as many tokens as it is made with, and wait for the test."""

    def __init__(self, output_tokens: int) -> None:
        self._usage = Usage(input_tokens=1, output_tokens=output_tokens)
        self.asked = 0
        self.opened = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        assert request.options.max_tokens == LIMIT, "the limit that was reserved is sent"
        self.asked += 1
        yield ReasoningAppended(turn=request.turn, offset=0, text="thoughts" * 20)
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
    # Room for the request with the input of the one that is lost, and not for both of them.
    rules = {"prices": {"given": Price(input=10.0, output=1.0)}, "budgets": {"team": budget(2)}}
    async with asyncio.timeout(TEST_TIMEOUT_S), AsyncExitStack() as stack:
        first, second = [await stack.enter_async_context(wire(store, model, **rules)) for store in stores]
        run = asyncio.create_task(first.run("go", conversation="c").wait_for_rest())
        await wait_until(lambda: model.asked == 1)
        reserved = (await read_balance(stores[1])).reserved
        input_micros = reserved - LIMIT
        assert input_micros > 0
        reader = await second.follow("c", "1")
        stores[0].lose_lease()
        await wait_until(lambda: model.asked == 2)
        assert (await read_settled(second, stores[1])).reserved == reserved + input_micros, "with that of the lost one"
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


async def test_a_turn_whose_owner_died_is_charged_its_input_if_the_next_owner_stops_it(tmp_path: Path) -> None:
    prices, model, url = {"given": Price(input=10.0, output=1.0)}, WaitingModel(40), f"sqlite:///{tmp_path}/yard.db"
    async with asyncio.timeout(TEST_TIMEOUT_S):
        store = await open_store(url)
        async with wire(store, model, prices=prices) as yard:
            run = asyncio.create_task(yard.run("go", conversation="c").wait_for_rest())
            await wait_until(lambda: model.asked == 1)
            input_micros = (await read_balance(store)).reserved - LIMIT
            assert input_micros > 0
        await asyncio.gather(run, return_exceptions=True)
        store = await open_store(url)
        entries, epoch = await store.read("c"), await claim(store, "c")
        stop = replace(entries[-1], seq=entries[-1].seq + 1, event=StopRequested(by="a person"))
        await store.append(Append(conversation="c", epoch=epoch, entries=[stop], wake_at=0.0))
        async with wire(store, model, prices=prices) as yard:
            reader = await yard.follow("c", "1")
            await read_until(reader, RunEnded)
            reader.detach()
            assert model.asked == 1, "it was not asked again"
            balance = await read_settled(yard, store)
            assert (balance.spent, balance.reserved) == (input_micros, 0)
            assert balance.spent == await sum_usage(store)


async def test_a_turn_that_is_given_up_is_charged_the_input_of_each_owner_that_died_in_it(tmp_path: Path) -> None:
    prices, model, url = {"given": Price(input=10.0, output=1.0)}, WaitingModel(40), f"sqlite:///{tmp_path}/yard.db"
    async with asyncio.timeout(TEST_TIMEOUT_S):
        input_micros = 0
        for owners in range(1, MAX_TURN_OWNERS + 1):
            store = await open_store(url)
            async with wire(store, model, prices=prices) as yard:
                run = None if owners > 1 else asyncio.create_task(yard.run("go", conversation="c").wait_for_rest())
                await wait_until(lambda owners=owners: model.asked == owners)
                input_micros = input_micros or (await read_balance(store)).reserved - LIMIT
            await asyncio.gather(*([run] if run else []), return_exceptions=True)
        store = await open_store(url)
        async with wire(store, model, prices=prices) as yard:
            reader = await yard.follow("c", "1")
            await read_until(reader, RunEnded)
            reader.detach()
            balance = await read_settled(yard, store)
            assert (balance.spent, balance.reserved) == (MAX_TURN_OWNERS * input_micros, 0)
            assert balance.spent == await sum_usage(store)


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


class RecordingStore(MemoryStore):
    """Notes what was reserved."""

    def __init__(self) -> None:
        super().__init__()
        self.reserved: list[int] = []

    async def reserve(self, reservation: Reservation) -> BudgetShare | None:
        self.reserved.append(reservation.micros)
        return await super().reserve(reservation)


async def test_under_a_budget_a_provider_may_search_as_often_as_is_reserved() -> None:
    prices = {"given": replace(OUTPUT_PRICE, tools={"web_search": 1_000.0})}
    rules, rule = SearchRules(prefer="native"), BudgetRule(amount=10.0, window="total")
    for budgets, searches in (({"team": rule}, DEFAULT_TOOL_USES), ({}, 0)):
        store, server = RecordingStore(), StrictMessages(strict_messages.says("found"))
        async with server.serving() as url:
            model = Anthropic(base_url=url, model="claude-sonnet-4-5", api_key="k")
            async with wire(store, model, budgets=budgets, prices=prices, web_search=rules) as yard:
                await yard.ask("hi")
        (search,) = json.loads(server.bodies[0])["tools"]
        assert search.get("max_uses", 0) == searches
        assert store.reserved == ([searches * 1_000_000 + LIMIT] if searches else [])


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


class BrieflyDownStore(MemoryStore):
    """Fails the first reservation and the first settlement."""

    def __init__(self) -> None:
        super().__init__()
        self.failures = 0

    async def reserve(self, reservation: Reservation) -> BudgetShare | None:
        self._fail_at(0)
        return await super().reserve(reservation)

    async def settle_reservations(self, now: float, limit: int) -> tuple[int, Sequence[BudgetCharge]]:
        self._fail_at(1)
        return await super().settle_reservations(now, limit)

    def _fail_at(self, failures: int) -> None:
        if self.failures == failures:
            self.failures += 1
            raise StoreDown("the store is down")


async def test_a_reservation_outlasts_a_short_outage_of_the_store() -> None:
    store, sleeps = BrieflyDownStore(), SleepRecorder()
    spending = Spending(PriceList({}), CountingClock(), store, {"team": budget(1)}, sleep=sleeps)
    (share,) = shares = spending.list_shares(Caller(), "")
    first = Reservation(conversation="c", turn="1", attempt=1, at=NOW, micros=LIMIT, shares=shares)
    assert await spending.reserve(first) is None
    assert await spending.reserve(replace(first, turn="2")) == share
    assert (store.failures, len(sleeps.durations_s)) == (2, 2)


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


async def test_an_answer_whose_tokens_the_provider_does_not_count_is_charged_as_an_estimate() -> None:
    prices = {"given": Price(input=1.0, output=1_000.0), "free": Price(input=0.0, output=0.0)}
    uncounted = replace(say("hello" * 8), usage=Usage())
    for model, estimated in (("given", True), ("free", False)):
        async with open_scripted([uncounted], prices={"given": prices[model]}, budgets={}) as (yard, store):
            await yard.ask("hi", conversation="c")
            (turn,) = await read_events(store, "c", TurnEnded)
            assert isinstance(turn, TurnEnded) and turn.cost is not None and turn.usage == Usage()
            assert (turn.cost.estimated, turn.cost.micros // 1_000) == (estimated, 14 if estimated else 0)


class RepeatingModel:
    """A model whose answers have two items with one id."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        text = ModelText(id=request.clock.new_id("item"), at=request.clock.now(), text="again")
        yield TurnEnded(items=(text, text), finish="stop", usage=Usage(output_tokens=7))

    async def close(self) -> None:
        return


async def test_an_answer_that_cannot_be_used_is_charged_all_the_same() -> None:
    store = MemoryStore()
    async with asyncio.timeout(TEST_TIMEOUT_S), wire(store, RepeatingModel()) as yard:
        assert (await yard.run("go", conversation="c").wait_for_rest()).ending == "failed"
        (turn,) = await read_events(store, "c", TurnFailed)
        assert isinstance(turn, TurnFailed) and turn.cost is not None
        balance = await read_settled(yard, store)
        assert (balance.spent, balance.reserved) == (turn.cost.micros, 0) == (7, 0)


async def test_a_turn_that_a_person_stops_is_charged_as_an_estimate() -> None:
    model, store = WaitingModel(LIMIT), MemoryStore()
    async with asyncio.timeout(TEST_TIMEOUT_S), wire(store, model) as yard:
        run = asyncio.create_task(yard.run("go", conversation="c").wait_for_rest())
        await wait_until(lambda: model.asked == 1)
        await yard.stop("c")
        await run
        (turn,) = await read_events(store, "c", TurnEnded)
        assert isinstance(turn, TurnEnded) and turn.cost is not None and turn.cost.estimated
        assert turn.cost.micros == (20 * len("thoughts") + len("an")) // 4, "its thoughts cost as much as its text"
        balance = await read_settled(yard, store)
        assert (balance.spent, balance.reserved) == (turn.cost.micros, 0)


async def test_a_conversation_that_is_deleted_in_the_middle_of_a_turn_is_charged_what_it_had_reserved() -> None:
    model, store = WaitingModel(LIMIT), MemoryStore()
    async with asyncio.timeout(TEST_TIMEOUT_S), wire(store, model) as yard:
        run = asyncio.create_task(yard.run("go", conversation="c").wait_for_rest())
        await wait_until(lambda: model.asked == 1)
        await yard.service.conversations.submit("c", Delete(by=Caller(user="local", roles=frozenset({"admin"}))))
        await asyncio.gather(run, return_exceptions=True)
        balance = await read_settled(yard, store)
        assert (balance.spent, balance.reserved) == (LIMIT, 0)


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


async def test_a_budget_that_is_removed_while_the_server_is_stopped_is_charged_what_its_turns_cost(
    tmp_path: Path,
) -> None:
    model, url = WaitingModel(40), f"sqlite:///{tmp_path}/yard.db"
    async with asyncio.timeout(TEST_TIMEOUT_S):
        store = await open_store(url)
        async with wire(store, model) as yard:
            limited = Options(max_tokens=LIMIT)
            run = asyncio.create_task(yard.run("go", conversation="c", options=limited).wait_for_rest())
            await wait_until(lambda: model.asked == 1)
        await asyncio.gather(run, return_exceptions=True)
        model.opened.set()
        store = await open_store(url)
        async with wire(store, model, budgets={}) as yard:
            reader = await yard.follow("c", "1")
            await read_until(reader, RunEnded)
            reader.detach()
            balance = await read_settled(yard, store)
            assert (balance.spent, balance.reserved) == (40, 0)
            assert balance.spent == await sum_usage(store)


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
        balance = await read_settled(yard, store)
        assert (balance.spent, balance.reserved) == (15, 0)
        assert [row.model for row in await store.read_usage(replace(ALL_DAYS, group_by=("model",)))] == ["b"]


async def test_a_fallback_reserves_for_its_own_thinking() -> None:
    models = {"a": Scripted([fail("down", "unavailable")]), "b": Scripted([say("hello")])}
    store, settings = MemoryStore(), ModelSettings(options={"b": Options(thinking=2_000)})
    prices = {"a": OUTPUT_PRICE, "b": OUTPUT_PRICE}
    yard = wire(store, ("a", "b"), prices=prices, named_model=models.__getitem__, model_settings=settings)
    async with asyncio.timeout(TEST_TIMEOUT_S), yard:
        await yard.ask("hi")
        assert (await read_balance(store)).reserved == LIMIT + 2_000


async def test_a_small_budget_for_thinking_is_reserved_as_it_is_sent() -> None:
    async with open_scripted([say("hello")]) as (yard, store):
        await yard.ask("hi", options=Options(thinking=10))
        assert (await read_balance(store)).reserved == LIMIT + MIN_THINKING_TOKENS


async def test_a_fallback_that_a_budget_has_no_room_for_is_not_asked() -> None:
    models = {"a": Scripted([fail("down", "unavailable")]), "b": Scripted([])}
    prices = {"a": OUTPUT_PRICE, "b": Price(input=0.0, output=3.0)}
    yard = wire(MemoryStore(), ("a", "b"), prices=prices, named_model=models.__getitem__, budgets={"team": budget(2)})
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


async def test_the_first_request_that_a_budget_refuses_is_logged_as_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # Requests reserve the most that they may cost: the last of a budget is hardly ever spent.
    async with open_scripted([], budgets={"each": budget(1, scope="user")}, reserve_output_tokens=LIMIT + 1) as (
        yard,
        _,
    ):
        for user in ("ana", "ana", "ben"):
            await yard.run("go", caller=Caller(user=user)).wait_for_rest()
    lines = [record.getMessage() for record in caplog.records if record.name == "toolyard.spending"]
    assert lines == [
        f'budget each of user ["","{user}"]: no room for a request that may cost 0.000101, refused (total)'
        for user in ("ana", "ben")
    ]


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


@pytest.mark.parametrize(("reported", "counted", "spent"), [(-(10**6), 0, 5), (10**30, MAX_COUNT, MAX_COUNT)])
async def test_a_count_that_cannot_be_neither_breaks_a_conversation_nor_fills_a_budget_up_again(
    reported: int, counted: int, spent: int, tmp_path: Path
) -> None:
    usage = Usage(input_tokens=reported, output_tokens=reported, tool_uses={"web_search": reported})
    store = await open_store(f"sqlite:///{tmp_path}/yard.db")
    async with asyncio.timeout(TEST_TIMEOUT_S), wire(store, Scripted([replace(say("hello"), usage=usage)])) as yard:
        assert (await yard.run("go").wait_for_rest()).ending == "done"
        assert (await read_settled(yard, store)).spent == spent
        rows = await store.read_usage(replace(ALL_DAYS, group_by=("tool",)))
        assert {row.tool: (row.input_tokens, row.uses) for row in rows} == {
            "": (counted, 0),
            "web_search": (0, counted),
        }


def build_paid_tool() -> FunctionTool[[], str]:
    """Return a tool whose call costs as much as a turn of LIMIT tokens."""

    @tool
    def look() -> str:
        """Look."""
        return "seen"

    return dataclasses.replace(look, definition=replace(look.definition, price=LIMIT / 1_000_000))


@pytest.mark.parametrize(("turns", "ending"), [(2, "limit"), (3, "done")])
async def test_the_price_of_a_tool_counts_in_budgets_before_the_next_request(turns: int, ending: str) -> None:
    used = replace(call("look"), usage=Usage(output_tokens=LIMIT))
    script = [used, say("done")] if ending == "done" else [used]
    async with open_scripted(script, tools=[build_paid_tool()], budgets={"team": budget(turns)}) as (yard, store):
        view = await yard.run("go").wait_for_rest()
        assert view.ending == ending
        balance = await read_settled(yard, store)
        assert (balance.reserved, balance.overdraft) == (0, 0)
        assert balance.spent == 2 * LIMIT + (5 if ending == "done" else 0) == await sum_usage(store)


async def test_the_price_of_a_tool_that_runs_without_a_model_counts_in_a_budget_of_its_currency() -> None:
    francs = replace(budget(9), currency="CHF")
    async with open_scripted([], tools=[build_paid_tool()], budgets={"team": budget(9), "francs": francs}) as (
        yard,
        store,
    ):
        await yard.call("look", {}).wait_for_rest()
        assert (await read_settled(yard, store)).spent == LIMIT
        assert [balance.budget for balance in await store.read_balances(["total"])] == ["team"]


async def test_a_tool_with_a_price_does_not_run_without_a_model_once_its_budget_is_used_up() -> None:
    async with open_scripted([], tools=[build_paid_tool()], budgets={"team": budget(2)}) as (yard, store):
        views = [await yard.call("look", {}).wait_for_rest() for _ in range(4)]
        results = [call.result for view in views for call in view.calls.values()]
        assert [result.outcome for result in results if result] == ["ok", "ok", "error", "error"]
        assert results[-1] is not None and results[-1].error is not None
        assert results[-1].error.error == "the budget team has no room for this call (total)"
        balance = await read_settled(yard, store)
        assert (balance.spent, balance.reserved) == (2 * LIMIT, 0)
        assert balance.spent == await sum_usage(store)


@pytest.mark.parametrize(
    "loop",
    [
        "for n in range(9):\n    await look()\n    print(n)",
        "import asyncio\nawait asyncio.gather(*[look() for n in range(9)])",
    ],
    ids=["one after the other", "at once"],
)
async def test_a_program_cannot_make_more_calls_with_a_price_than_its_budget_has_room_for(loop: str) -> None:
    script = [replace(call("run_code", code=loop), usage=Usage(output_tokens=LIMIT))]
    async with open_scripted(script, tools=[build_paid_tool()], code=True, budgets={"team": budget(3)}) as (
        yard,
        store,
    ):
        view = await yard.run("go", conversation="c").wait_for_rest()
        assert view.ending == "limit"
        ended = [event.result for event in await read_events(store, "c", CallEnded) if isinstance(event, CallEnded)]
        assert [result.outcome for result in ended if result.tool == "look"].count("ok") == 2
        assert "budget_exceeded: the budget team has no room for this call" in ended[-1].content
        balance = await read_settled(yard, store)
        assert (balance.spent, balance.reserved) == (3 * LIMIT, 0)


async def test_a_call_with_a_price_that_a_person_stops_costs_it_all_the_same() -> None:
    started = asyncio.Event()

    @tool
    async def look() -> None:
        """Look."""
        started.set()
        await asyncio.Event().wait()

    priced = dataclasses.replace(look, definition=replace(look.definition, price=LIMIT / 1_000_000))
    async with open_scripted([call("look")], tools=[priced], budgets={"team": budget(9)}) as (yard, store):
        run = asyncio.create_task(yard.run("go", conversation="c").wait_for_rest())
        await started.wait()
        await yard.stop("c")
        await run
        (ended,) = await read_events(store, "c", CallEnded)
        assert isinstance(ended, CallEnded) and ended.result.outcome == "cancelled"
        assert ended.cost == Cost(micros=LIMIT, price="tool")
        balance = await read_settled(yard, store)
        assert balance.spent == LIMIT + 5 == await sum_usage(store)
        assert balance.reserved == 0


async def test_a_turn_starts_and_ends_in_the_log_as_before_without_prices_and_budgets() -> None:
    async with open_scripted([say("hello")], prices={}, budgets={}) as (yard, store):
        await yard.ask("hi", conversation="c")
        entries = [type(entry.event) for entry in await store.read("c")]
        assert entries[-3:] == [TurnStarted, TurnEnded, RunEnded]


async def test_turns_and_calls_of_a_program_count_in_the_usage_and_in_the_budget() -> None:
    @tool
    def look(at: int) -> int:
        """Look."""
        return at

    priced = dataclasses.replace(look, definition=replace(look.definition, price=0.00002))
    program = call("run_code", code="import asyncio\nsum(await asyncio.gather(look(at=1), look(at=2)))")
    turns = [replace(turn, usage=Usage(output_tokens=LIMIT)) for turn in (program, say("done"))]
    async with open_scripted(turns, tools=[priced], code=True) as (yard, store):
        await yard.ask("go", conversation="c")
        rows = {row.tool: row for row in await store.read_usage(replace(ALL_DAYS, group_by=("tool",)))}
        assert (rows["look"].uses, rows["look"].cost_micros) == (2, 40)
        assert (await read_settled(yard, store)).spent == 2 * LIMIT + 40
