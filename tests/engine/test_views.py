"""Reading and following a conversation claims nothing: two processes on one store do not disturb each other."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

from stores.memory_replicas import MemoryDatabase, SharedMemoryStore
from support import TEST_TIMEOUT_S, append_entries, claim_epoch
from toolyard import Caller, Settings, Yard, tool
from toolyard.app import Wiring
from toolyard.core.conversation.commands import Delete
from toolyard.core.conversation.cursor import Cursor
from toolyard.core.conversation.events import (
    ArgumentsAppended,
    CallEnded,
    CallStarted,
    ConversationOpened,
    Entry,
    Published,
    RequestKey,
    RunEnded,
    RunQueued,
    TextAppended,
)
from toolyard.core.errors import Invalid, NotFound
from toolyard.core.items import UserMessage
from toolyard.core.store import Append, Claim, OwnedElsewhere
from toolyard.engine.log.readers import Reader
from toolyard.engine.log.views import Views
from toolyard.stores.memory import MemoryStore
from toolyard.testing import Script, Scripted, call, fail, say

OWNER = Caller(user="local", roles=frozenset({"admin"}))


class RecordingReplicaStore(SharedMemoryStore):
    """The store of a replica, which records what it claims and which logs it reads whole."""

    def __init__(self, database: MemoryDatabase) -> None:
        super().__init__(database)
        self.claims: list[str] = []
        self.whole_reads: list[str] = []

    async def claim(self, conversation: str) -> Claim | OwnedElsewhere:
        self.claims.append(conversation)
        return await super().claim(conversation)

    async def read(self, conversation: str, after: int = 0, limit: int = 0) -> Sequence[Entry]:
        if not after:
            self.whole_reads.append(conversation)
        return await super().read(conversation, after, limit)


@tool
async def hold(name: str) -> str:
    """Wait until the test lets it go on."""
    entered[name].set()
    await released[name].wait()
    return name


entered: dict[str, asyncio.Event] = {}
released: dict[str, asyncio.Event] = {}


@asynccontextmanager
async def open_two(
    script: Script, make_store: Callable[[MemoryDatabase], RecordingReplicaStore] = RecordingReplicaStore
) -> AsyncGenerator[tuple[Yard, Yard, RecordingReplicaStore], None]:
    """Open two replicas. The store is that of the second one."""
    database = MemoryDatabase()
    store = make_store(database)
    entered["a"], released["a"] = asyncio.Event(), asyncio.Event()
    first = Yard.from_wiring(Wiring(model=Scripted(script), tools=[hold], opened_store=SharedMemoryStore(database)))
    other_script: Script = script if callable(script) else []
    second = Yard.from_wiring(Wiring(model=Scripted(other_script), tools=[hold], opened_store=store))
    async with asyncio.timeout(TEST_TIMEOUT_S), second, first:
        yield first, second, store


async def read_until(reader: Reader, kind: type[object]) -> list[Published]:
    items: list[Published] = []
    async for item in reader:
        items.append(item)
        if isinstance(item, Entry) and isinstance(item.event, kind):
            break
    return items


def list_seqs(items: list[Published]) -> list[int]:
    return [item.seq for item in items if isinstance(item, Entry)]


async def test_following_and_reading_in_another_process_disturb_nobody() -> None:
    async with open_two([call("hold", name="a"), say("done")]) as (first, second, store):
        reader = await second.follow("c")
        run = asyncio.create_task(first.ask("go", conversation="c"))
        seen = await read_until(reader, CallStarted)
        await entered["a"].wait()
        assert [waiting.phase for waiting in (await second.service.conversations.view("c")).calls.values()] == [
            "running"
        ]
        assert len(await second.history("c")) == len(await first.history("c"))
        (card,) = await second.service.conversations.list_open(OWNER)
        assert card.id == "c"
        released["a"].set()
        seen += await read_until(reader, RunEnded)
        reader.detach()
        assert await run == "done"
        results = [entry.event for entry in await store.read("c") if isinstance(entry.event, CallEnded)]
        assert [ended.result.outcome for ended in results] == ["ok"], "a claim would have made it unknown"
        assert list_seqs(seen) == [entry.seq for entry in await store.read("c")]
        assert "".join(item.text for item in seen if isinstance(item, TextAppended)) == "done"
        assert store.claims == []


async def test_a_reader_goes_on_silently_when_its_own_process_takes_the_conversation_over() -> None:
    async with open_two([say("one")]) as (first, second, store):
        await first.ask("go", conversation="c")
        reader = await second.follow("c")
        seen = await read_until(reader, RunEnded)
        await second.rewind("c", "")  # nobody owns the conversation at rest: the second process claims it
        assert store.claims == ["c"]
        seen.append(await anext(reader))
        reader.detach()
        assert list_seqs(seen) == [entry.seq for entry in await store.read("c")]


async def test_a_reader_of_an_owner_that_lost_the_conversation_follows_the_new_one() -> None:
    async with open_two([call("hold", name="a"), say("done")]) as (first, second, store):
        run = first.run("go", conversation="c")
        reader = await first.follow("c")
        start = asyncio.create_task(run.wait_for_rest())
        await entered["a"].wait()
        cast(SharedMemoryStore, first.service._store).lose_lease()  # pyright: ignore[reportPrivateUsage]
        # The second process takes the conversation over. The first one learns of it when it writes the result.
        await second.stop("c")
        released["a"].set()
        seen = await read_until(reader, RunEnded)
        reader.detach()
        assert list_seqs(seen) == [entry.seq for entry in await store.read("c")]
        assert (await start).end is not None


async def test_a_deleted_conversation_ends_its_readers_in_every_process_and_is_seen_as_gone() -> None:
    async with open_two([say("one"), say("two")]) as (first, second, _):
        await first.ask("go", conversation="c")
        assert len(await second.history("c")) == 2
        reader = await second.follow("c")
        await read_until(reader, RunEnded)
        await first.service.conversations.submit("c", Delete(by=OWNER))
        with pytest.raises(NotFound, match="deleted"):
            await anext(reader)
        reader.detach()
        assert (await second.service.conversations.view("c")).owner is None
        await first.ask("go on", conversation="c")
        history = await second.history("c")
        assert [item.id for item in history] == [item.id for item in await first.history("c")]


async def test_a_place_beyond_the_end_is_refused_and_leaves_no_reader_behind() -> None:
    async with open_two([say("one")]) as (first, second, _):
        await first.ask("go", conversation="c")
        with pytest.raises(Invalid, match="beyond the end"):
            await second.service.conversations.follow("c", Cursor(99))
        assert (await second.service.measure_load()).open_streams == 0


async def test_views_are_cached_within_a_bound_and_brought_up_to_date() -> None:
    async with open_two(lambda request: say("one")) as (first, _, store):
        for number in range(4):
            await first.ask("go", conversation=f"c{number}")
        views = Views(store, lambda work: work.close(), lambda conversation: None, max_views=3)
        whole_reads: list[list[str]] = []
        for conversation in ("c0", "c0", "c1", "c2", "c0", "c3", "c0", "c1"):
            store.whole_reads.clear()
            assert len((await views.read_state(conversation)).history) == 2
            whole_reads.append(list(store.whole_reads))
        assert whole_reads == [["c0"], [], ["c1"], ["c2"], [], ["c3"], [], ["c1"]], "the least recently used goes"


async def test_many_views_at_once_fold_the_log_once_each_and_agree() -> None:
    async with open_two(lambda request: say("one")) as (first, second, _):
        for _ in range(3):
            await first.ask("go", conversation="c")
            states = await asyncio.gather(*(second.service.conversations.view("c") for _ in range(5)))
            histories = [[item.id for item in state.history] for state in states]
            assert histories == [[item.id for item in await first.history("c")]] * 5


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_reader_that_is_behind_a_deleted_conversation_is_told(kind: str, tmp_path: Path) -> None:
    store = "memory:" if kind == "memory" else f"sqlite:///{tmp_path}/yard.db"
    async with asyncio.timeout(TEST_TIMEOUT_S), Yard(model=Scripted([say("one")]), store=store) as yard:
        await yard.ask("go", conversation="c")
        reader = await yard.service.conversations.follow("c", Cursor(0))
        await yard.service.conversations.submit("c", Delete(by=OWNER))
        with pytest.raises(NotFound, match="deleted"):
            await reader.read_batch()
        reader.detach()


async def test_a_reader_is_told_when_another_process_deletes_its_conversation_and_opens_it_anew() -> None:
    async with open_two(lambda request: say("one")) as (first, second, store):
        for _ in range(2):
            await first.ask("go", conversation="c")
        reader = await second.follow("c")
        await read_until(reader, RunEnded)
        await store.delete_conversation("c")
        await append_entries(store, "c", await claim_epoch(store, "c"), [opened_entry()], None)
        with pytest.raises(NotFound, match="deleted"):
            while True:
                await reader.read_batch()
        reader.detach()


def opened_entry() -> Entry:
    event = ConversationOpened(owner=OWNER, settings=Settings())
    return Entry(conversation="c", seq=1, at=1.0, event=event, epoch=99)


class DeafStore(RecordingReplicaStore):
    """A store that hears no messages: what a follower is told comes late."""

    def receive(self, body: bytes) -> None:
        pass


async def test_a_place_that_this_process_has_not_heard_of_yet_is_not_refused() -> None:
    async with open_two(lambda request: say("one"), DeafStore) as (first, second, store):
        await first.ask("go", conversation="c")
        early = await second.follow("c")
        await first.ask("go on", conversation="c")
        end = len(await store.read("c"))
        late = await second.service.conversations.follow("c", Cursor(end))
        early.detach()
        late.detach()


async def test_a_request_whose_client_left_keeps_its_key_until_it_is_stored() -> None:
    store = GatedStore()
    wiring = Wiring(model=Scripted([say("one")]), opened_store=store)
    async with asyncio.timeout(TEST_TIMEOUT_S), Yard.from_wiring(wiring) as yard:
        key = RequestKey(key_hash="k", body_hash="b")
        item = UserMessage(id="m", at=1.0, parts=())
        start = yard.service.runs.build_start(OWNER, [item], request=key)
        store.gate.clear()
        first = asyncio.create_task(yard.service.conversations.submit("c", start))
        await store.asked.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        again = asyncio.create_task(
            yard.service.runs.start("c", yard.service.runs.build_start(OWNER, [item], request=key))
        )
        await asyncio.sleep(0)
        store.gate.set()
        started = await again
        assert (started.repeated, started.run_id) == (True, start.run_id)
        await read_until(started.reader, RunEnded)
        started.reader.detach()
        assert sum(isinstance(entry.event, RunQueued) for entry in await store.read("c")) == 1


async def test_two_that_repeat_the_same_failed_run_share_the_new_one() -> None:
    store = MemoryStore()
    wiring = Wiring(model=Scripted([fail("busy", "rate_limited"), say("done")]), opened_store=store)
    async with asyncio.timeout(TEST_TIMEOUT_S), Yard.from_wiring(wiring) as yard:
        key = RequestKey(key_hash="k", body_hash="b")
        start = yard.service.runs.build_start(OWNER, [UserMessage(id="m", at=1.0, parts=())], request=key)
        start = replace(start, has_new_key=True)
        failed = await yard.service.runs.start("c", start, is_new=True)
        await read_until(failed.reader, RunEnded)
        failed.reader.detach()
        record = await store.find_request("k")
        assert record
        started = await asyncio.gather(*(yard.service.runs.repeat(record, f"trace_{number}") for number in range(2)))
        for run in started:
            await read_until(run.reader, RunEnded)
            run.reader.detach()
        assert started[0].run_id == started[1].run_id != failed.run_id


async def test_a_fork_whose_client_left_is_made_and_found_by_its_key() -> None:
    store = GatedStore()
    wiring = Wiring(model=Scripted([say("one")]), opened_store=store)
    async with asyncio.timeout(TEST_TIMEOUT_S), Yard.from_wiring(wiring) as yard:
        await yard.ask("go", conversation="c")
        key = RequestKey(key_hash="k", body_hash="b")
        store.gate.clear()
        store.asked.clear()
        first = asyncio.create_task(yard.service.conversations.fork("c", "fork", OWNER, request=key))
        await store.asked.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        store.gate.set()
        record = await yard.service.conversations.fork("c", "another", OWNER, request=key)
        assert record is not None and record.conversation == "fork"
        assert len(await yard.history("fork")) == 2
        assert (await yard.service.conversations.view("another")).owner is None


class GatedStore(MemoryStore):
    """A store that holds every append back while its gate is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.asked = asyncio.Event(), asyncio.Event()
        self.gate.set()

    def begin_append(self, append: Append) -> asyncio.Future[bool]:
        return cast(asyncio.Future[bool], None)  # no room: the caller waits in `append`

    async def append(self, append: Append) -> bool:
        self.asked.set()
        await self.gate.wait()
        return super().begin_append(append).result()


async def test_a_reader_without_argument_deltas_gets_none_although_another_one_does() -> None:
    async with open_two([call("hold", name="a"), say("done")]) as (first, _, _):
        released["a"].set()
        plain = await first.service.conversations.follow("c", Cursor(0), include_argument_deltas=False)
        run = asyncio.create_task(first.ask("go", conversation="c"))
        items = await read_until(plain, RunEnded)
        plain.detach()
        await run
        assert not any(isinstance(item, ArgumentsAppended) for item in items)
