"""Races between replicas: each test holds one of them at the place where another one comes in between."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from engine.replica_yards import (
    OWNER,
    HalvingModel,
    HungStore,
    MemoryReplica,
    SweepingStore,
    build_yard,
    find_asked_call,
    gate,
    hold_then_answer,
    open_replicas,
    pay,
    read_outcomes,
    read_until,
    start,
)
from stores.memory_replicas import MemoryDatabase, SharedMemoryStore
from support import TEST_TIMEOUT_S, wait_until
from toolyard import ModelRequest, SettingsChange, Yard, tool
from toolyard.core.conversation.commands import Change, Start, Stop
from toolyard.core.conversation.events import (
    CallEnded,
    CallStarted,
    Entry,
    RunEnded,
    RunQueued,
    RunSuspended,
    TextAppended,
)
from toolyard.core.errors import Refused, StoreDown, Unavailable
from toolyard.core.items import Result, TextPart, UserMessage
from toolyard.core.store import Append, Claim, ForwardedCommand, FutureLike, LogHead, OwnedElsewhere
from toolyard.engine.replicas.ownership import LEAVE_TO_OTHERS_S
from toolyard.testing import Turn, call, say

APPROVAL_S = 1.0
TOO_EARLY_S = 0.1


@tool(approval="always", approval_s=APPROVAL_S)
async def order() -> str:
    """Order, if somebody approves in time."""
    return "ordered"


@tool(idempotent=True)
async def build() -> str:
    """Build, once the test lets it."""
    gate.entered.set()
    await gate.opened.wait()
    return "built"


def order_then_answer(request: ModelRequest) -> Turn:
    return say("done") if isinstance(request.history[-1], Result) else call("order")


def build_then_answer(request: ModelRequest) -> Turn:
    return say("done") if isinstance(request.history[-1], Result) else call("build")


def build_start(yard: Yard, *, ephemeral: bool = False) -> Start:
    question = UserMessage(id="q", at=0.0, parts=(TextPart(text="go"),))
    service = yard.service
    return service.runs.build_start(OWNER, [question], settings=replace(service.default_settings, ephemeral=ephemeral))


async def start_and_wait(replica: MemoryReplica) -> str:
    """Start a run that waits for an approval, and return the id of its call."""
    reader = await replica.yard.follow("c")
    await replica.yard.service.conversations.submit("c", build_start(replica.yard))
    seen = await read_until(reader, RunSuspended)
    reader.detach()
    return find_asked_call(seen)


class LateConfirmationStore(SharedMemoryStore):
    """A store that stores appends at once and confirms them when the test says so."""

    def __init__(self, database: MemoryDatabase) -> None:
        super().__init__(database)
        self.stored = asyncio.Event()
        self._unconfirmed: list[tuple[asyncio.Future[bool], bool]] = []

    def begin_append(self, append: Append) -> FutureLike:
        released = super().begin_append(append).result()
        confirmation: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._unconfirmed.append((confirmation, released))
        self.stored.set()
        return confirmation

    def confirm(self) -> None:
        for confirmation, released in self._unconfirmed:
            confirmation.set_result(released)

    def on_lost(self, handler: Callable[[Sequence[tuple[str, int]]], None]) -> None:
        self.report_lost = handler


async def test_a_command_that_was_stored_before_a_take_over_is_not_decided_again() -> None:
    async with open_replicas(lambda _: say("one"), (LateConfirmationStore, SharedMemoryStore)) as (first, second):
        assert isinstance(first.store, LateConfirmationStore)
        command = asyncio.create_task(first.yard.service.conversations.submit("c", build_start(first.yard)))
        await first.store.stored.wait()
        first.store.lose_lease()
        reader = await second.yard.follow("c", "0")
        await read_until(reader, RunEnded)
        reader.detach()
        first.store.report_lost([("c", 1)])
        first.store.confirm()
        await command
        events = [entry.event for entry in await second.store.read("c")]
        assert sum(isinstance(event, RunQueued) for event in events) == 1


class SlowStore(SharedMemoryStore):
    """A store that stores the first append when the test says so."""

    def __init__(self, database: MemoryDatabase) -> None:
        super().__init__(database)
        self.begun, self.held = asyncio.Event(), list[tuple[Append, asyncio.Future[bool]]]()

    def begin_append(self, append: Append) -> FutureLike:
        if self.begun.is_set():
            return super().begin_append(append)
        self.begun.set()
        self.held.append((append, asyncio.get_running_loop().create_future()))
        return self.held[0][1]

    def store_held(self) -> None:
        append, stored = self.held.pop()
        stored.set_result(super().begin_append(append).result())


@pytest.mark.parametrize("place", ["owner", "another"])
async def test_a_refusal_is_raised_once_the_entries_behind_it_are_stored(place: str) -> None:
    async with open_replicas(lambda _: say("one"), (SlowStore, SharedMemoryStore)) as (first, second):
        assert isinstance(first.store, SlowStore)
        command = build_start(first.yard)
        accepted = asyncio.create_task(first.yard.service.conversations.submit("c", command))
        await first.store.begun.wait()
        service = (first if place == "owner" else second).yard.service
        refused = asyncio.create_task(service.conversations.submit("c", replace(command, run_id="run_2")))
        told_early, _ = await asyncio.wait({refused}, timeout=TOO_EARLY_S)
        first.store.store_held()
        await accepted
        assert not told_early
        with pytest.raises(Refused, match="is in this conversation already"):
            await refused


class StoppedStore(SharedMemoryStore):
    """The store of a replica that was stopped for a while: it learns what it has lost when it asks for its lease."""

    def on_lost(self, handler: Callable[[Sequence[tuple[str, int]]], None]) -> None:
        self._report_lost = handler

    async def ensure_lease(self) -> None:
        if self.replica not in self.database.stores:
            self._report_lost([("c", 1)])


async def test_a_replica_that_was_stopped_answers_from_the_log_and_not_from_what_it_remembers() -> None:
    async with open_replicas(hold_then_answer, (StoppedStore, SharedMemoryStore)) as (first, second):
        run = asyncio.create_task(first.yard.run("go", conversation="c").wait_for_rest())
        await gate.entered.wait()
        reader = await second.yard.follow("c", "1")
        first.store.lose_lease()
        await read_until(reader, RunEnded)
        reader.detach()
        assert (await first.yard.service.conversations.view("c")).is_idle
        with pytest.raises(Refused, match="nothing is running"):
            await first.yard.service.conversations.submit("c", Stop(by=OWNER))
        gate.opened.set()
        await run


class HaltingStore(StoppedStore):
    """The store of a replica that is stopped right after a call's intent was stored, until the test lets it go on."""

    def __init__(self, database: MemoryDatabase) -> None:
        super().__init__(database)
        self.halted, self.resumed = asyncio.Event(), asyncio.Event()

    async def ensure_lease(self) -> None:
        events = [entry.event for entry in await self.read("c")]
        if any(isinstance(event, CallStarted) for event in events) and not self.halted.is_set():
            self.lose_lease()
            self.halted.set()
            await self.resumed.wait()
        await super().ensure_lease()


async def test_a_tool_does_not_start_at_a_replica_that_was_stopped_before_it_until_others_took_over() -> None:
    async with open_replicas(hold_then_answer, (HaltingStore, SharedMemoryStore)) as (first, second):
        assert isinstance(first.store, HaltingStore)
        run = asyncio.create_task(first.yard.run("go", conversation="c").wait_for_rest())
        await first.store.halted.wait()
        reader = await second.yard.follow("c", "1")
        await read_until(reader, RunEnded)
        reader.detach()
        first.store.resumed.set()
        await run
        assert await read_outcomes(second.store) == ["unknown"]
        assert not gate.entered.is_set()


class LateIntentStore(LateConfirmationStore):
    """A store that confirms appends at once, but for the one with a call's intent."""

    def begin_append(self, append: Append) -> FutureLike:
        if any(isinstance(entry.event, CallStarted) for entry in append.entries):
            return super().begin_append(append)
        return SharedMemoryStore.begin_append(self, append)


async def test_a_tool_does_not_start_if_its_intent_is_confirmed_after_others_took_over() -> None:
    async with open_replicas(hold_then_answer, (LateIntentStore, SharedMemoryStore)) as (first, second):
        assert isinstance(first.store, LateIntentStore)
        run = asyncio.create_task(first.yard.run("go", conversation="c").wait_for_rest())
        await first.store.stored.wait()
        first.store.lose_lease()
        reader = await second.yard.follow("c", "1")
        await read_until(reader, RunEnded)
        reader.detach()
        first.store.report_lost([("c", 1)])
        first.store.confirm()
        await run
        assert await read_outcomes(second.store) == ["unknown"]
        assert not gate.entered.is_set()


class OutageStore(SharedMemoryStore):
    """The store of a replica that goes down while a forwarded command waits for its outcome."""

    stays_down = False

    async def read_outcome(self, conversation: str, key: str) -> bytes | None:
        raise StoreDown("the database cannot be reached")

    async def withdraw(self, conversation: str, key: str) -> bytes | None:
        if self.stays_down:
            raise StoreDown("the database cannot be reached")
        return await super().withdraw(conversation, key)


async def test_a_forwarded_command_that_waits_when_the_store_goes_down_is_withdrawn() -> None:
    async with open_replicas(hold_then_answer, (HungStore, OutageStore)) as (first, second):
        run = await start(first)
        with pytest.raises(Unavailable, match="Nothing was done"):
            await second.yard.stop("c")
        assert not first.store.database.sharing["c"].forwarded
        gate.opened.set()
        assert await run == "done"


async def test_a_forwarded_command_that_cannot_be_withdrawn_may_still_take_effect_and_the_client_is_told_so() -> None:
    async with open_replicas(hold_then_answer, (HungStore, OutageStore)) as (first, second):
        assert isinstance(first.store, HungStore) and isinstance(second.store, OutageStore)
        await start(first)
        second.store.stays_down = True
        with pytest.raises(Unavailable, match="may still take effect"):
            await second.yard.stop("c")
        reader = await first.yard.follow("c", "0")
        first.store.is_deaf = False
        ended = (await read_until(reader, RunEnded))[-1]
        reader.detach()
        assert isinstance(ended, Entry) and isinstance(ended.event, RunEnded) and ended.event.ending == "cancelled"


async def test_a_forwarded_command_that_was_answered_when_the_store_went_down_has_its_outcome() -> None:
    async with open_replicas(hold_then_answer, (SharedMemoryStore, OutageStore)) as (first, second):
        await start(first)
        await second.yard.stop("c")
        with pytest.raises(Refused):
            await second.yard.approve("c", "no such call")


class HeldReleaseStore(SweepingStore):
    """A store whose releases wait for the test."""

    def __init__(self, database: MemoryDatabase) -> None:
        super().__init__(database)
        self.releasing, self.may_release = asyncio.Event(), asyncio.Event()

    async def release(self, conversation: str, epoch: int, last_forwarded: int, wake_at: float | None) -> bool:
        self.releasing.set()
        await self.may_release.wait()
        return await super().release(conversation, epoch, last_forwarded, wake_at)


@asynccontextmanager
async def lose_a_builder(other: SharedMemoryStore) -> AsyncGenerator[Yard]:
    """Let a replica die that builds, and yield the yard of `other`, which lacks that tool. Its call is open."""
    gate.reset()
    store = SharedMemoryStore(other.database)
    async with asyncio.timeout(TEST_TIMEOUT_S), build_yard(build_then_answer, store, [build]) as builder:
        run = asyncio.create_task(builder.run("go", conversation="c").wait_for_rest())
        await gate.entered.wait()
        async with build_yard(build_then_answer, other, []) as yard:
            store.lose_lease()
            yield yard
            await asyncio.gather(run, return_exceptions=True)


async def test_a_call_is_left_to_a_replica_that_has_its_tool_although_commands_come_in_between() -> None:
    database = MemoryDatabase()
    store, able_store = HeldReleaseStore(database), SharedMemoryStore(database)
    async with lose_a_builder(store) as yard:
        await store.releasing.wait()
        async with build_yard(build_then_answer, able_store, [build]) as able:
            reader = await yard.follow("c", "0")
            change = Change(by=OWNER, change=SettingsChange(title="hello"))
            command = asyncio.create_task(able.service.conversations.submit("c", change))
            await wait_until(lambda: database.sharing["c"].last_forwarded == 1)
            gate.opened.set()
            store.may_release.set()
            await read_until(reader, RunEnded)
            reader.detach()
            await command
        assert await read_outcomes(store) == ["ok"]


def pay_then_answer(request: ModelRequest) -> Turn:
    return say("done") if isinstance(request.history[-1], Result) else call("pay", amount=5)


async def test_an_approval_at_a_replica_that_lacks_the_tool_is_carried_out_by_one_that_has_it() -> None:
    database = MemoryDatabase()
    able = MemoryReplica(build_yard(pay_then_answer, store := SharedMemoryStore(database), [pay]), store)
    async with asyncio.timeout(TEST_TIMEOUT_S), able.yard, build_yard([], SharedMemoryStore(database), []) as other:
        reader = await able.yard.follow("c", "0")
        await other.approve("c", await start_and_wait(able))
        await read_until(reader, RunEnded)
        reader.detach()
        assert await read_outcomes(able.store) == ["ok"]


async def test_an_approved_call_whose_tool_no_replica_has_is_answered_as_unknown_after_a_time() -> None:
    database = MemoryDatabase()
    async with asyncio.timeout(TEST_TIMEOUT_S):
        async with build_yard(pay_then_answer, store := SharedMemoryStore(database), [pay]) as yard:
            call_id = await start_and_wait(MemoryReplica(yard, store))
        left = HeldReleaseStore(database)
        async with build_yard(lambda _: say("done"), left, []) as yard:
            await yard.approve("c", call_id)
            await left.releasing.wait()
            entries = database.conversations["c"].entries
            entries[:] = [replace(entry, at=entry.at - LEAVE_TO_OTHERS_S) for entry in entries]
            reader = await yard.follow("c", "0")
            left.may_release.set()
            events = [item.event for item in await read_until(reader, RunEnded) if isinstance(item, Entry)]
            reader.detach()
        (result,) = [event.result for event in events if isinstance(event, CallEnded)]
        assert result.error is not None and result.error.error_type == "unknown_tool"


class ShieldedClaimStore(SharedMemoryStore):
    """A store whose claims wait for the test, and go on without the client that they were made for."""

    def __init__(self, database: MemoryDatabase) -> None:
        super().__init__(database)
        self.claiming, self.may_claim = asyncio.Event(), asyncio.Event()
        self.may_claim.set()

    async def claim(self, conversation: str) -> Claim | OwnedElsewhere:
        return await asyncio.shield(asyncio.create_task(self._claim(conversation)))

    async def _claim(self, conversation: str) -> Claim | OwnedElsewhere:
        self.claiming.set()
        await self.may_claim.wait()
        return await super().claim(conversation)


async def expect_expiry(replica: MemoryReplica) -> None:
    """Wait until the call has expired and its run has ended, and nobody owns the conversation."""
    reader = await replica.yard.follow("c", "0")
    await read_until(reader, RunEnded)
    reader.detach()
    assert await read_outcomes(replica.store) == ["expired"]
    await wait_until(lambda: not replica.store.database.sharing["c"].replica)


async def test_a_conversation_whose_client_left_during_the_claim_is_driven_and_released() -> None:
    async with open_replicas(order_then_answer, [ShieldedClaimStore], [order]) as (replica,):
        assert isinstance(replica.store, ShieldedClaimStore)
        call_id = await start_and_wait(replica)
        replica.store.claiming.clear()
        replica.store.may_claim.clear()
        request = asyncio.create_task(replica.yard.approve("c", call_id))
        await replica.store.claiming.wait()
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
        replica.store.may_claim.set()
        await expect_expiry(replica)


async def send_refused_command(replica: MemoryReplica) -> None:
    """Let a replica claim a conversation that rests, and release it without an append."""
    with pytest.raises(Refused):
        await replica.yard.approve("c", "no such call")


class UnreadCommandsStore(HeldReleaseStore, HungStore):
    """A store of a replica that owns a conversation whose forwarded commands it cannot read."""

    async def read_forwarded(self, conversation: str, epoch: int) -> tuple[int, Sequence[ForwardedCommand]]:
        if self.is_deaf:
            raise StoreDown("the forwarded commands cannot be read")
        return await super().read_forwarded(conversation, epoch)


async def test_a_wait_that_is_over_before_its_owner_could_release_it_is_woken_by_the_owner() -> None:
    async with open_replicas(order_then_answer, (UnreadCommandsStore, SharedMemoryStore), [order]) as (first, second):
        assert isinstance(first.store, UnreadCommandsStore)
        await start_and_wait(first)
        await send_refused_command(first)
        forwarding = asyncio.create_task(send_refused_command(second))
        await wait_until(lambda: first.store.database.sharing["c"].last_forwarded == 1)
        first.store.may_release.set()  # the command keeps it from being released
        reader = await second.yard.follow("c", "0")
        await read_until(reader, CallEnded)
        reader.detach()
        first.store.is_deaf = False
        await forwarding
        await expect_expiry(second)


async def test_a_wait_that_is_over_while_its_owner_releases_it_does_not_stall_the_owner() -> None:
    async with open_replicas(order_then_answer, [HeldReleaseStore], [order]) as (replica,):
        assert isinstance(replica.store, HeldReleaseStore)
        await start_and_wait(replica)
        await send_refused_command(replica)
        await replica.store.releasing.wait()
        wake_at = replica.store.database.conversations["c"].wake_at
        assert wake_at is not None
        await wait_until(lambda: time.time() > wake_at)
        await replica.store.wait_for_sweep()
        replica.store.may_release.set()
        await expect_expiry(replica)


class FailedReleaseStore(SharedMemoryStore):
    """A store that goes down for one release."""

    def __init__(self, database: MemoryDatabase) -> None:
        super().__init__(database)
        self.failed = asyncio.Event()

    async def release(self, conversation: str, epoch: int, last_forwarded: int, wake_at: float | None) -> bool:
        if not self.failed.is_set():
            self.failed.set()
            raise StoreDown("the database cannot be reached")
        return await super().release(conversation, epoch, last_forwarded, wake_at)


async def test_a_conversation_that_could_not_be_released_is_driven_when_its_wait_is_over() -> None:
    async with open_replicas(order_then_answer, [FailedReleaseStore], [order]) as (replica,):
        assert isinstance(replica.store, FailedReleaseStore)
        await start_and_wait(replica)
        await send_refused_command(replica)
        await replica.store.failed.wait()
        await expect_expiry(replica)


class HeldReadStore(SharedMemoryStore):
    """A store whose reads can be held by the test."""

    def __init__(self, database: MemoryDatabase) -> None:
        super().__init__(database)
        self.reading, self.may_read = asyncio.Event(), asyncio.Event()
        self.may_read.set()

    async def read(self, conversation: str, after: int = 0, limit: int = 0) -> Sequence[Entry]:
        self.reading.set()
        await self.may_read.wait()
        return await super().read(conversation, after, limit)


async def test_the_end_of_a_conversation_that_is_not_kept_reaches_a_slow_reader_at_another_replica() -> None:
    async with open_replicas(hold_then_answer, (SweepingStore, HeldReadStore)) as (first, second):
        assert isinstance(first.store, SweepingStore) and isinstance(second.store, HeldReadStore)
        conversations = first.store.database.conversations
        await first.yard.service.conversations.submit("c", build_start(first.yard, ephemeral=True))
        reader = await second.yard.follow("c", "0")
        await read_until(reader, CallStarted)
        second.store.may_read.clear()
        second.store.reading.clear()
        gate.opened.set()
        await second.store.reading.wait()
        await first.store.wait_for_sweep()  # that must not delete it early
        second.store.may_read.set()
        await read_until(reader, RunEnded)
        reader.detach()
        await wait_until(lambda: conversations["c"].epoch < 0)


class HeldOpeningStore(SharedMemoryStore):
    """A store whose claims are made at once, and returned when the test says so."""

    def __init__(self, database: MemoryDatabase) -> None:
        super().__init__(database)
        self.claimed, self.may_open, self.heard = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def claim(self, conversation: str) -> Claim | OwnedElsewhere:
        claim = await super().claim(conversation)
        self.claimed.set()
        await self.may_open.wait()
        return claim

    def receive(self, body: bytes) -> None:
        super().receive(body)
        self.heard.set()


async def test_a_reader_that_comes_while_the_conversation_is_being_opened_elsewhere_gets_the_live_text() -> None:
    async with open_replicas(HalvingModel(), (HeldOpeningStore, SharedMemoryStore)) as (first, second):
        assert isinstance(first.store, HeldOpeningStore)
        run = asyncio.create_task(first.yard.ask("go", conversation="c"))
        await first.store.claimed.wait()
        reader = await second.yard.follow("c", "0")
        await first.store.heard.wait()
        first.store.may_open.set()
        async for item in reader:
            if isinstance(item, TextAppended):
                assert item.text == "Grüße an "
                break
        gate.opened.set()
        await read_until(reader, RunEnded)
        reader.detach()
        await run


class HeldFollowStore(SharedMemoryStore):
    """A store that records followers when the test says so."""

    def __init__(self, database: MemoryDatabase) -> None:
        super().__init__(database)
        self.may_follow, self.followed, self.unfollowed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def follow(self, conversation: str) -> LogHead | None:
        await self.may_follow.wait()
        head = await super().follow(conversation)
        self.followed.set()
        return head

    async def unfollow(self, conversation: str) -> None:
        await super().unfollow(conversation)
        self.unfollowed.set()


async def test_a_reader_that_leaves_while_it_is_being_recorded_leaves_no_record_behind() -> None:
    async with open_replicas(lambda _: say("one"), (SharedMemoryStore, HeldFollowStore)) as (first, second):
        assert isinstance(second.store, HeldFollowStore)
        await first.yard.ask("go", conversation="c")
        reader = await second.yard.follow("c", "0")
        await read_until(reader, RunEnded)
        reader.detach()
        await first.yard.ask("go", conversation="c")  # the other replica has time to delete a record meanwhile
        second.store.may_follow.set()
        await second.store.followed.wait()
        await second.store.unfollowed.wait()
        assert not second.store.database.sharing["c"].followers
