"""Replicas of one store: commands, events and the work of a replica that is gone reach the right process."""

import asyncio
from collections.abc import Sequence

import pytest

from engine.replica_yards import (
    OWNER,
    HalvingModel,
    HungStore,
    SweepingStore,
    find_asked_call,
    gate,
    hold,
    hold_then_answer,
    open_replicas,
    pay,
    read_outcomes,
    read_until,
    start,
)
from stores.memory_replicas import MemoryDatabase, SharedMemoryStore
from support import TEST_TIMEOUT_S
from toolyard import ModelRequest, Yard, tool
from toolyard.app import Wiring
from toolyard.core.conversation.commands import Delete
from toolyard.core.conversation.events import CallJudged, Entry, RunEnded, TextAppended
from toolyard.core.errors import NotFound, Refused, StoreDown, Unavailable
from toolyard.core.items import Result, TextPart, UserMessage
from toolyard.core.store import Claim, OwnedElsewhere
from toolyard.testing import Scripted, Turn, call, say


async def test_a_command_at_another_replica_is_decided_by_the_owner() -> None:
    calls = Turn(calls=(*call("hold").calls, *call("pay", amount=5).calls))

    async with open_replicas(lambda request: say("done") if isinstance(request.history[-1], Result) else calls) as (
        first,
        second,
    ):
        reader = await second.yard.follow("c")
        await first.yard.run("go", conversation="c")._open_reader()  # pyright: ignore[reportPrivateUsage]
        call_id = find_asked_call(await read_until(reader, CallJudged))
        await second.yard.approve("c", call_id)
        with pytest.raises(Refused):
            await second.yard.approve("c", call_id)
        gate.opened.set()
        await read_until(reader, RunEnded)
        reader.detach()
        outcomes = await read_outcomes(second.store)
        assert outcomes == ["ok", "ok"]
        assert {entry.epoch for entry in await second.store.read("c")} == {1}, "the owner never changed"


async def test_a_run_is_stopped_from_another_replica() -> None:
    async with open_replicas(hold_then_answer) as (first, second):
        run = first.yard.run("go", conversation="c")
        resting = asyncio.create_task(run.wait_for_rest())
        await gate.entered.wait()
        await second.yard.stop("c")
        view = await resting
        assert view.end is not None and view.end.ending == "cancelled"


async def test_a_reader_at_another_replica_gets_the_text_of_a_turn_while_it_is_written() -> None:
    async with open_replicas(HalvingModel()) as (first, second):
        early = await second.yard.follow("c")
        run = await start(first)
        late = await second.yard.follow("c", "1")
        for reader in (early, late):
            async for item in reader:
                if isinstance(item, TextAppended):
                    assert item.text == "Grüße an "
                    break
        gate.opened.set()
        for reader in (early, late):
            items = await read_until(reader, RunEnded)
            texts = [item.text for item in items if isinstance(item, TextAppended)]
            assert "Grüße an " + "".join(texts) == await run
            reader.detach()


async def test_a_conversation_at_rest_has_no_owner_and_any_replica_goes_on() -> None:
    async with open_replicas(lambda request: say("one")) as (first, second):
        for replica in (first, second, first, first, second):
            assert await replica.yard.ask("go", conversation="c") == "one"
        heads = await first.store.read_heads(("c",))
        assert heads["c"].replica == ""
        assert len(await second.yard.history("c")) == 10


async def test_the_work_of_a_replica_that_died_is_taken_over() -> None:
    async with open_replicas(hold_then_answer) as (first, second):
        run = asyncio.create_task(first.yard.run("go", conversation="c").wait_for_rest())
        await gate.entered.wait()
        reader = await second.yard.follow("c", "1")
        first.store.lose_lease()
        await read_until(reader, RunEnded)
        reader.detach()
        gate.opened.set()
        await run
        outcomes = await read_outcomes(second.store)
        assert outcomes[0] == "unknown", "it may have taken effect: nobody ran it again"


async def test_a_command_that_the_owner_does_not_read_in_time_is_withdrawn() -> None:
    async with open_replicas(hold_then_answer, (HungStore, SharedMemoryStore)) as (first, second):
        run = await start(first)
        second.yard.service._deps.command_s = 0.2  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(Unavailable, match="Nothing was done"):
            await second.yard.stop("c")
        gate.opened.set()
        assert await run == "done"


async def test_a_command_for_an_owner_that_died_is_decided_by_the_replica_that_forwarded_it() -> None:
    async with open_replicas(hold_then_answer, (HungStore, SharedMemoryStore)) as (first, second):
        await start(first)
        stop = asyncio.create_task(second.yard.stop("c"))
        await asyncio.sleep(0)
        first.store.lose_lease()
        await stop
        reader = await second.yard.follow("c", "1")
        ended = (await read_until(reader, RunEnded))[-1]
        reader.detach()
        assert isinstance(ended, Entry) and isinstance(ended.event, RunEnded) and ended.event.ending == "cancelled"


async def test_deleting_a_conversation_at_another_replica_stops_its_run() -> None:
    async with open_replicas(hold_then_answer) as (first, second):
        run = await start(first)
        await second.yard.service.conversations.submit("c", Delete(by=OWNER))
        with pytest.raises(NotFound):
            await run
        assert gate.passed == 0


async def test_a_replica_that_stops_hands_its_work_over_at_once() -> None:
    async with open_replicas(hold_then_answer, (SharedMemoryStore,)) as (first,):
        second_store = SharedMemoryStore(first.store.database)
        wiring = Wiring(model=Scripted(hold_then_answer), tools=[hold, pay], opened_store=second_store)
        async with Yard.from_wiring(wiring) as second:
            reader = await second.follow("c")
            run = await start(first)
            closing = asyncio.create_task(first.yard.service.close(5.0))
            gate.opened.set()
            await closing
            with pytest.raises(Unavailable):
                await run
            await read_until(reader, RunEnded)
            reader.detach()
            outcomes = await read_outcomes(second_store)
            assert outcomes == ["ok"]


async def test_a_run_that_kills_its_owners_ends_as_failed_before_anything_runs() -> None:
    async with open_replicas(hold_then_answer) as (first, second):
        await start(first)
        shared = first.store.database.sharing["c"]
        shared.deaths = 7
        first.store.lose_lease()
        reader = await second.yard.follow("c", "1")
        ended = (await read_until(reader, RunEnded))[-1]
        reader.detach()
        assert isinstance(ended, Entry) and isinstance(ended.event, RunEnded)
        assert ended.event.ending == "failed" and "8 times" in ended.event.detail
        assert shared.deaths == 0


async def test_a_call_is_left_to_a_replica_that_has_its_tool() -> None:
    database = MemoryDatabase()
    gate.reset()

    @tool(idempotent=True)
    async def build() -> str:
        """Build."""
        gate.entered.set()
        await gate.opened.wait()
        return "held"

    def make(tools: Sequence[object]) -> tuple[Yard, SharedMemoryStore]:
        store = SharedMemoryStore(database)
        return Yard.from_wiring(Wiring(model=Scripted(build_then_answer), tools=tools, opened_store=store)), store

    def build_then_answer(request: ModelRequest) -> Turn:
        return say("done") if isinstance(request.history[-1], Result) else call("build")

    (first, first_store), (second, second_store), (third, _) = make([build]), make([]), make([build])
    async with asyncio.timeout(TEST_TIMEOUT_S), first, second:
        run = asyncio.create_task(first.run("go", conversation="c").wait_for_rest())
        await gate.entered.wait()
        reader = await second.follow("c", "1")
        first_store.lose_lease()
        async with asyncio.timeout(TEST_TIMEOUT_S):
            while database.conversations["c"].epoch < 2:  # noqa: ASYNC110 - until the one without the tool takes it up
                await asyncio.sleep(0)
        gate.opened.set()
        async with third:
            await read_until(reader, RunEnded)
        reader.detach()
        await run
        outcomes = await read_outcomes(second_store)
        assert outcomes == ["ok"]


async def test_a_replica_whose_lease_has_ended_does_not_take_its_own_work_from_itself() -> None:
    async with open_replicas(hold_then_answer, [SweepingStore]) as (replica,):
        assert isinstance(replica.store, SweepingStore)
        run = await start(replica)
        replica.store.lose_lease()  # as when its process was stopped for a while, and no other replica took over
        await replica.store.wait_for_sweep()
        gate.opened.set()
        assert await run == "done"
        assert await read_outcomes(replica.store) == ["ok"]


class UnreadableStore(SharedMemoryStore):
    """The store of a replica that cannot read logs at first."""

    readable = False

    async def read(self, conversation: str, after: int = 0, limit: int = 0) -> Sequence[Entry]:
        if not self.readable:
            raise StoreDown("the disk is sick")
        return await super().read(conversation, after, limit)


async def test_a_conversation_that_could_not_be_opened_has_no_owner_and_another_replica_goes_on() -> None:
    async with open_replicas(lambda request: say("one"), (SharedMemoryStore, UnreadableStore)) as (first, second):
        await first.yard.ask("go", conversation="c")
        with pytest.raises(StoreDown):
            await second.yard.ask("go", conversation="c")
        assert await first.yard.ask("go", conversation="c") == "one"


class SlowClaimStore(SharedMemoryStore):
    """A store whose claims wait for the test."""

    def __init__(self, database: MemoryDatabase) -> None:
        super().__init__(database)
        self.claiming, self.claimed = asyncio.Event(), asyncio.Event()

    async def claim(self, conversation: str) -> Claim | OwnedElsewhere:
        self.claiming.set()
        await self.claimed.wait()
        return await super().claim(conversation)


async def test_a_command_that_comes_to_its_conversation_while_the_replica_hands_over_is_refused() -> None:
    """Its entry could come between the last look at the state and the release, and nobody would drive the run."""
    async with open_replicas([], [SlowClaimStore]) as (replica,):
        assert isinstance(replica.store, SlowClaimStore)
        service = replica.yard.service
        question = UserMessage(id="q", at=0.0, parts=(TextPart(text="go"),))
        run = asyncio.create_task(service.conversations.submit("c", service.runs.build_start(OWNER, [question])))
        await replica.store.claiming.wait()
        await service.close(0.0)
        replica.store.claimed.set()
        with pytest.raises(Unavailable):
            await run
        assert await replica.store.read("c") == []
