"""Requests whose answer nobody sees cost what was reserved for them, in the log, in the usage and in the budget."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import groupby
from pathlib import Path

import pytest
from msgspec.structs import replace

from contracts.store_contract import OpenStore, claim, every_store
from engine.replica_yards import read_until
from engine.test_spending import LIMIT, budget, read_balance, read_settled, sum_usage, wire
from stores.memory_replicas import MemoryDatabase, SharedMemoryStore
from support import TEST_TIMEOUT_S, collect_events, wait_for_event
from toolyard import ModelRequest, Tool, Yard
from toolyard.app import open_store as open_stored
from toolyard.core.conversation.events import (
    CallEnded,
    CallParked,
    HistoryCompacted,
    ModelDelta,
    RunEnded,
    StopRequested,
    TurnEnded,
    TurnFailed,
)
from toolyard.core.items import ModelText, Usage, UserMessage
from toolyard.core.settings.budgets import BudgetRule
from toolyard.core.settings.prices import Cost, Price
from toolyard.core.store import MAX_DEATHS, Append, BudgetShare, Reservation, Store
from toolyard.core.store.ledger import SUMMARY_SUFFIX
from toolyard.engine.loop.history_summary import SUMMARY_PROMPT
from toolyard.models.chat import OpenAIChat
from toolyard.observability.digest import digest_runs
from toolyard.stores.memory import MemoryStore
from toolyard.testing import Scripted, Turn, call, say
from wire.local import STREAM_HEAD, SleepRecorder, encode_chunk, raw_server
from wire.reply_bytes import DONE, STOP, chunk, usage

WORDS = "word " * 1000
TURNS_BEFORE = 3
"""How many turns with WORDS fit in a window before a summary is made."""
ROOM = {"prices": {"given": Price(input=1.0, output=1.0)}, "windows": {"given": 10_000}, "grace_s": 0}


class HangingModel:
    """A model that never answers requests for a summary, nor the turns after those that it is to answer."""

    def __init__(self, answers: int = TURNS_BEFORE) -> None:
        self.hangs = asyncio.Event()
        self._answers = answers

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        last = request.history[-1]
        self._answers -= 1
        if self._answers < 0 or (isinstance(last, UserMessage) and last.text == SUMMARY_PROMPT):
            self.hangs.set()
            await asyncio.Event().wait()
        text = ModelText(id=request.clock.new_id("item"), at=0.0, text=WORDS)
        yield TurnEnded(items=(text,), finish="stop", usage=Usage(output_tokens=1))

    async def close(self) -> None: ...


async def run_until_hanging(yard: Yard, model: HangingModel, turns: int = TURNS_BEFORE) -> "asyncio.Task[object]":
    """Run conversation `c` until its model hangs, and return the task of that run."""
    for _ in range(turns):
        await yard.ask(WORDS, conversation="c")
    run = asyncio.create_task(yard.run(WORDS, conversation="c").wait_for_rest())
    await model.hangs.wait()
    return run


async def sum_log(store: Store) -> int:
    total = 0
    for entry in await store.read("c"):
        match entry.event:
            case TurnEnded() | TurnFailed() | HistoryCompacted() | CallEnded() | RunEnded() as event:
                total += event.cost.micros if event.cost else 0
            case _:
                pass
    return total


async def read_ends(store: Store) -> list[RunEnded]:
    return [entry.event for entry in await store.read("c") if isinstance(entry.event, RunEnded)]


async def read_turn_ends(store: Store) -> list[TurnEnded | TurnFailed]:
    return [entry.event for entry in await store.read("c") if isinstance(entry.event, TurnEnded | TurnFailed)]


async def read_reserved(yard: Yard, store: Store) -> int:
    """Return what is reserved for the request that hangs."""
    reserved = (await read_settled(yard, store)).reserved
    assert reserved > LIMIT
    return reserved


async def assert_charged(yard: Yard, store: Store, micros: int) -> None:
    """Check that so much is charged, and that log, usage and budget agree."""
    balance = await read_settled(yard, store)
    assert (balance.spent, balance.reserved, balance.overdraft) == (micros, 0, 0)
    assert balance.spent == await sum_log(store) == await sum_usage(store)


@every_store
async def test_a_summary_that_a_person_stops_costs_what_was_reserved(open_store: OpenStore, tmp_path: Path) -> None:
    model = HangingModel()
    budgets = {"team": budget(10_000), "all": budget(20_000)}
    async with (
        asyncio.timeout(TEST_TIMEOUT_S),
        open_store(tmp_path) as store,
        wire(store, model, **ROOM, budgets=budgets) as yard,
    ):
        run = await run_until_hanging(yard, model)
        reserved = await read_reserved(yard, store)
        await yard.stop("c")
        await run
        await assert_charged(yard, store, TURNS_BEFORE + reserved)
        assert (await read_balance(store, "all")).spent == TURNS_BEFORE + reserved
        ended = (await store.read("c"))[-1].event
        assert isinstance(ended, RunEnded) and ended.cost is not None and ended.cost.estimated
        card = await store.card("c")
        assert card is not None
        assert digest_runs(await store.read("c"), card)[0].cost_micros == {"USD": reserved}


@every_store
async def test_a_summary_after_one_that_was_stopped_reserves_for_itself(open_store: OpenStore, tmp_path: Path) -> None:
    model = HangingModel()
    async with (
        asyncio.timeout(TEST_TIMEOUT_S),
        open_store(tmp_path) as store,
        wire(store, model, **ROOM, budgets={"team": budget(20_000)}) as yard,
    ):
        run = await run_until_hanging(yard, model)
        await yard.stop("c")
        await run
        model.hangs.clear()
        run = await run_until_hanging(yard, model, 0)
        await yard.stop("c")
        await run
        first, second = [event.cost.micros for event in await read_ends(store) if event.cost is not None]
        assert second > first > LIMIT
        await assert_charged(yard, store, TURNS_BEFORE + first + second)


async def test_without_a_budget_a_summary_that_a_person_stops_costs_its_input() -> None:
    model, store = HangingModel(), SharedMemoryStore(MemoryDatabase())
    async with asyncio.timeout(TEST_TIMEOUT_S), wire(store, model, **ROOM, budgets={}) as yard:
        run = await run_until_hanging(yard, model)
        await yard.stop("c")
        await run
        assert TURNS_BEFORE + 5_000 < await sum_log(store) == await sum_usage(store)


async def test_a_summary_that_a_budget_has_no_room_for_costs_nothing() -> None:
    model, store = HangingModel(), SharedMemoryStore(MemoryDatabase())
    async with asyncio.timeout(TEST_TIMEOUT_S), wire(store, model, **ROOM, budgets={"team": budget(10_000)}) as yard:
        for _ in range(TURNS_BEFORE):
            await yard.ask(WORDS, conversation="c")
        yard.service.spending.replace_budgets({"team": budget(1)})
        view = await yard.run(WORDS, conversation="c").wait_for_rest()
        assert (view.ending, view.detail) == ("limit", "budget_exceeded")
        assert not model.hangs.is_set()
        assert not [entry for entry in await store.read("c") if isinstance(entry.event, HistoryCompacted)]
        await assert_charged(yard, store, TURNS_BEFORE)


async def test_a_run_whose_summary_a_budget_has_no_room_for_waits_for_room_and_keeps_its_history() -> None:
    model, store = Scripted(lambda _: replace(say(WORDS), usage=Usage(output_tokens=1))), MemoryStore()
    async with asyncio.timeout(TEST_TIMEOUT_S), wire(store, model, **ROOM, budgets={"team": budget(10_000)}) as yard:
        for _ in range(TURNS_BEFORE):
            await yard.ask(WORDS, conversation="c")
        yard.service.spending.replace_budgets({"team": budget(1, on_reach="ask")})
        view = await yard.run(WORDS, conversation="c").wait_for_rest()
        assert (view.status, view.awaited_budget) == ("waiting", "team")
        reader = await yard.follow("c", str(len(await store.read("c"))))
        yard.service.spending.replace_budgets({"team": budget(10_000)})
        await read_until(reader, RunEnded)
        reader.detach()
        assert len(model.requests[-1].history) == 2 * TURNS_BEFORE + 1
        await assert_charged(yard, store, TURNS_BEFORE + 1)


async def test_a_summary_whose_owner_died_costs_what_was_reserved_if_the_next_owner_ends_the_run(
    tmp_path: Path,
) -> None:
    model, url, budgets = HangingModel(), f"sqlite:///{tmp_path}/yard.db", {"team": budget(10_000)}
    async with asyncio.timeout(TEST_TIMEOUT_S):
        store = await open_stored(url)
        async with wire(store, model, **ROOM, budgets=budgets) as yard:
            run = await run_until_hanging(yard, model)
            reserved = await read_reserved(yard, store)
        await asyncio.gather(run, return_exceptions=True)
        store = await open_stored(url)
        entries, epoch = await store.read("c"), await claim(store, "c")
        stop = replace(entries[-1], seq=entries[-1].seq + 1, event=StopRequested(by="a person"))
        await store.append(Append(conversation="c", epoch=epoch, entries=[stop], wake_at=0.0))
        async with wire(store, model, **ROOM, budgets=budgets) as yard:
            reader = await yard.follow("c", str(stop.seq))
            await read_until(reader, RunEnded)
            reader.detach()
            await assert_charged(yard, store, TURNS_BEFORE + reserved)


@asynccontextmanager
async def abandon_run(turns: int, budgets: dict[str, BudgetRule]) -> AsyncGenerator[tuple[Yard, Store, int]]:
    """Open a yard in which a run was abandoned after so many turns; yield with it what its request had reserved."""
    database, model = MemoryDatabase(), HangingModel(turns)
    stores = [SharedMemoryStore(database) for _ in range(2)]
    async with asyncio.timeout(TEST_TIMEOUT_S), AsyncExitStack() as stack:
        yards = [await stack.enter_async_context(wire(store, model, **ROOM, budgets=budgets)) for store in stores]
        run = await run_until_hanging(yards[0], model, turns)
        reserved = await read_reserved(yards[0], stores[0]) if budgets else 0
        database.sharing["c"].deaths = MAX_DEATHS - 1
        reader = await yards[1].follow("c", str(len(await stores[1].read("c"))))
        stores[0].lose_lease()
        await read_until(reader, RunEnded)
        reader.detach()
        run.cancel()
        yield yards[1], stores[1], reserved


@pytest.mark.parametrize("turns", [TURNS_BEFORE - 1, TURNS_BEFORE], ids=["a turn", "a summary"])
async def test_a_run_that_is_abandoned_costs_what_was_reserved(turns: int) -> None:
    async with abandon_run(turns, {"team": budget(10_000)}) as (yard, store, reserved):
        await assert_charged(yard, store, turns + reserved)


async def test_without_a_budget_a_run_that_is_abandoned_costs_its_input() -> None:
    async with abandon_run(0, {}) as (_, store, _):
        (failed,) = [entry.event for entry in await store.read("c") if isinstance(entry.event, TurnFailed)]
        assert failed.cost is not None and failed.cost.estimated
        assert 1_000 < failed.cost.micros == await sum_usage(store)


@pytest.mark.parametrize("how", ["delivered", "expired", "stopped"])
async def test_a_call_with_a_price_that_ends_while_its_client_has_it_costs_its_price(how: str) -> None:
    show = Tool(name="show", venue="client", price=LIMIT / 1_000_000, client_s=0.05 if how == "expired" else 60.0)
    script = [call("show")] if how == "stopped" else [call("show"), say("done")]
    store, model = SharedMemoryStore(MemoryDatabase()), Scripted(script)
    async with asyncio.timeout(TEST_TIMEOUT_S), wire(store, model, budgets={"team": budget(9)}) as yard:
        run = yard.run("go", conversation="c", app_tools=[show])
        parked, _ = await wait_for_event(run, CallParked)
        if how == "delivered":
            await yard.deliver("c", parked.call_id, "shown")
        elif how == "stopped":
            await yard.stop("c")
        await collect_events(run)
        (ended,) = [entry.event for entry in await store.read("c") if isinstance(entry.event, CallEnded)]
        assert ended.cost == Cost(micros=LIMIT, price="tool")
        await assert_charged(yard, store, 5 * len(script) + LIMIT)


async def test_each_of_several_summaries_before_a_turn_is_charged() -> None:
    def answer(request: ModelRequest) -> Turn:
        last = request.history[-1]
        is_summary = isinstance(last, UserMessage) and last.text == SUMMARY_PROMPT
        return replace(say(WORDS * 4 if is_summary else "yes"), usage=Usage(output_tokens=100 if is_summary else 1))

    store, budgets, turns = SharedMemoryStore(MemoryDatabase()), {"team": budget(10_000)}, 12
    room = {**ROOM, "windows": {"given": 5_000}}  # less than a long summary needs beside what it keeps
    async with asyncio.timeout(TEST_TIMEOUT_S), wire(store, Scripted(answer), **room, budgets=budgets) as yard:
        for _ in range(turns):
            await yard.ask("word " * 420, conversation="c")
        events = [type(entry.event) for entry in await store.read("c")]
        before_a_turn = [len(list(group)) for kind, group in groupby(events) if kind is HistoryCompacted]
        assert max(before_a_turn) > 1 and events.count(TurnEnded) == turns
        await assert_charged(yard, store, turns + 100 * sum(before_a_turn))


@pytest.mark.parametrize("has_room", [True, False])
async def test_a_request_whose_connection_broke_reserves_anew_to_be_sent_again_and_costs_its_input(
    has_room: bool,
) -> None:
    # Of a connection that breaks before anything has come nobody knows whether the provider charges for it.
    whole = STREAM_HEAD + encode_chunk(chunk(content="yes") + STOP + usage(7, 5, 0) + DONE) + encode_chunk(b"")
    answers, sent = [b"", whole], 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        sent += 1
        writer.write(answers.pop(0))

    prices = {"given": Price(input=10.0, output=1.0)}
    budgets = {"team": replace(budget(1), amount=(LIMIT + (90 if has_room else 60)) / 1_000_000)}
    store = SharedMemoryStore(MemoryDatabase())
    async with asyncio.timeout(TEST_TIMEOUT_S), raw_server(talk) as base_url:
        model = OpenAIChat(base_url=base_url, sleep=SleepRecorder())
        async with wire(store, model, prices=prices, budgets=budgets) as yard:
            view = await yard.run("go", conversation="c").wait_for_rest()
            assert (view.ending, view.detail, sent) == (
                ("done", "", 2) if has_room else ("limit", "budget_exceeded", 1)
            )
            (ended,) = [event for event in await read_turn_ends(store) if event.cost is not None]
            assert ended.cost is not None and ended.cost.estimated
            input_micros = ended.cost.micros - (75 if has_room else 0)
            assert 0 < input_micros < LIMIT, "of one request more than the provider has counted"
            await assert_charged(yard, store, ended.cost.micros)


async def test_a_summary_that_is_stopped_before_it_was_sent_costs_nothing() -> None:
    class HeldStore(SharedMemoryStore):
        held = asyncio.Event()

        async def reserve(self, reservation: Reservation) -> BudgetShare | None:
            if reservation.turn.endswith(SUMMARY_SUFFIX):
                self.held.set()
                await asyncio.Event().wait()
            return await super().reserve(reservation)

    model, store = HangingModel(), HeldStore(MemoryDatabase())
    async with asyncio.timeout(TEST_TIMEOUT_S), wire(store, model, **ROOM, budgets={"team": budget(10_000)}) as yard:
        for _ in range(TURNS_BEFORE):
            await yard.ask(WORDS, conversation="c")
        run = asyncio.create_task(yard.run(WORDS, conversation="c").wait_for_rest())
        await store.held.wait()
        await yard.stop("c")
        await run
        await assert_charged(yard, store, TURNS_BEFORE)
        ended = (await store.read("c"))[-1].event
        assert isinstance(ended, RunEnded) and ended.cost is None
