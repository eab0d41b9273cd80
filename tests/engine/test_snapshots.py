"""A state that is loaded from a snapshot and the entries since is the state that the whole log folds to."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from msgspec.structs import replace

from core.story import OWNER, Story, model_text, ok_result, tool_call, user
from core.test_properties import Script, play, scripts
from postgres import create_database
from support import TEST_TIMEOUT_S, collect_events, get_ending
from toolyard import Limits, Yard, tool
from toolyard.app import Wiring
from toolyard.core.conversation.commands import Rewind
from toolyard.core.conversation.decide import decide
from toolyard.core.conversation.events import CallEnded, Entry, HistoryCompacted, MessageAdded, MessageRemoved, RunEnded
from toolyard.core.conversation.state import State, fold
from toolyard.core.errors import Refused
from toolyard.core.store import Append, Claim, SnapshotUpdate, Store
from toolyard.engine.log.log_loader import SNAPSHOT_EVERY, LogLoader
from toolyard.stores.memory import MemoryStore
from toolyard.stores.postgres import PostgresStore
from toolyard.stores.sqlite import SqliteStore
from toolyard.testing import Scripted, call, say

StoryStep = tuple[Literal["run", "add", "rewind", "compact", "drop", "remove"], int]
story_steps = st.lists(
    st.tuples(st.sampled_from(["run", "run", "add", "rewind", "compact", "drop", "remove"]), st.integers(0, 40)),
    min_size=1,
    max_size=25,
)


class SnapshotCountingStore(MemoryStore):
    """A store that remembers where each read of a log began, and how much was saved for snapshots."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[int] = []
        self.saved_bytes: list[int] = []

    async def read(self, conversation: str, after: int = 0, limit: int = 0) -> Sequence[Entry]:
        self.reads.append(after)
        return await super().read(conversation, after, limit)

    async def save_snapshot(self, conversation: str, update: SnapshotUpdate) -> bool:
        self.saved_bytes.append(sum(len(body) for _, body in update.pieces))
        return await super().save_snapshot(conversation, update)


class SlowStore(SnapshotCountingStore):
    """A store that takes a while to save a snapshot."""

    async def save_snapshot(self, conversation: str, update: SnapshotUpdate) -> bool:
        for _ in range(100):
            await asyncio.sleep(0)
        return await super().save_snapshot(conversation, update)


class Loading:
    """A process that loads a conversation from a store, and saves its snapshots at once."""

    def __init__(self, store: Store, every: int = 1) -> None:
        self._work: list[Coroutine[None, None, None]] = []
        self.loader = LogLoader(store, self._work.append, every)

    async def load(self) -> State:
        view = await self.loader.load("k", None)
        while self._work:
            await self._work.pop()
        return view.state

    async def save(self, state: State, seq: int) -> None:
        self.loader.save_if_due("k", state, seq)
        while self._work:
            await self._work.pop()


async def append(store: Store, entries: Sequence[Entry]) -> None:
    claim = await store.claim("k")
    assert isinstance(claim, Claim)
    await store.append(Append(conversation="k", epoch=claim.epoch, entries=entries))


def build_story(steps: Sequence[StoryStep]) -> list[Entry]:
    """Return a log with runs, rewinds, compactions and removals. A step that does not fit the state is left out."""
    story = Story().open()
    for number, (kind, pick) in enumerate(steps):
        ids = [item.id for item in story.state.full_history] or [""]
        shown = [item.id for item in story.state.history] or [""]
        target = shown[pick % len(shown)]
        story.epoch += pick % 2
        try:
            match kind:
                case "run":
                    add_run(story, f"r{number}")
                case "add":
                    story.add(MessageAdded(item=user(f"i{number}")))
                case "rewind":
                    story.add(*decide(story.state, Rewind(by=OWNER, to=ids[pick % len(ids)]), 1.0), at=1.0)
                case "compact":
                    story.add(HistoryCompacted(through=target, items=(user(f"s{number}"),)))
                case "drop":
                    story.add(HistoryCompacted(through=target, dropped=tuple(shown[:pick])))
                case "remove":
                    story.add(MessageRemoved(ids=frozenset({ids[pick % len(ids)]})))
        except Refused:
            continue
    return story.log


def add_run(story: Story, name: str) -> Story:
    story.begin(name, user(f"{name}.in")).turn(model_text(f"{name}.say"), tool_call(f"{name}.call"))
    story.allow(f"{name}.call").start(f"{name}.call")
    story.add(CallEnded(result=ok_result(f"{name}.call")))
    story.turn(model_text(f"{name}.out"))
    story.add(RunEnded(ending="done"))
    return story


def describe(state: State) -> tuple[object, ...]:
    """Return what later events and readers depend on besides equality: which histories share one list, and counts."""
    histories = (state.history, state.window.past, *(branch.history for branch in state.branches))
    roots = [history.root for history in histories if len(history)]
    return [roots.index(root) for root in roots], state.tokens, state.history.messages, state.wake_at


async def check_every_cut(log: Sequence[Entry], cuts: Sequence[int]) -> None:
    store, after = SnapshotCountingStore(), 0
    for cut in [*sorted({cut % len(log) + 1 for cut in cuts}), len(log)]:
        await append(store, log[after:cut])
        expected = fold(log[:cut])
        # Another process each time: it loads what the last one saved, and saves a snapshot that goes on from that.
        store.reads.clear()
        loaded = await Loading(store).load()
        assert loaded == expected
        assert describe(loaded) == describe(expected)
        assert not after or min(store.reads) == after - 1, "the snapshot was not used"
        after = cut


@effort(max_examples=60, deadline=None)
@given(scripts, st.sampled_from(["stop", "patience"]), st.lists(st.integers(0, 1000), max_size=4))
def test_a_state_from_a_snapshot_goes_on_like_the_whole_log(
    script: Script, how: Literal["stop", "patience"], cuts: list[int]
) -> None:
    asyncio.run(check_every_cut(play(script, how), cuts))


@effort(max_examples=150, deadline=None)
@given(story_steps, st.lists(st.integers(0, 1000), max_size=6))
def test_rewinds_compactions_and_removals_survive_snapshots(steps: list[StoryStep], cuts: list[int]) -> None:
    asyncio.run(check_every_cut(build_story(steps), cuts))


@effort(max_examples=100, deadline=None)
@given(story_steps, st.lists(st.integers(0, 1000), min_size=1, max_size=6))
def test_an_owner_that_saves_as_it_goes_leaves_a_snapshot_that_others_can_load(
    steps: list[StoryStep], cuts: list[int]
) -> None:
    async def check() -> None:
        log, store = build_story(steps), SnapshotCountingStore()
        owner, state, after = Loading(store), State(), 0
        for cut in [*sorted({cut % len(log) + 1 for cut in cuts}), len(log)]:
            await append(store, log[after:cut])
            story = Story()
            story.state = state
            for entry in log[after:cut]:
                story.epoch = entry.epoch
                story.add(entry.event, at=entry.at, run=entry.run)
            state, after = story.state, cut
            await owner.save(state, cut)
            store.reads.clear()
            assert await Loading(store, every=10**6).load() == fold(log[:cut])
            assert min(store.reads) == cut - 1, "the snapshot was not used"

    asyncio.run(check())


async def test_a_loaded_history_was_looked_through_in_steps() -> None:
    """Whoever uses the state first would otherwise look at all items at once."""
    store, log = MemoryStore(), build_story([("run", 0) for _ in range(20)])
    await append(store, log)
    for _ in ("from the log", "from the snapshot"):
        root = (history := (await Loading(store).load()).history).root
        assert (root.checked, len(root.tokens) - 1) == (len(history), len(history))


async def test_a_snapshot_costs_what_came_since_the_last_one() -> None:
    store, story = SnapshotCountingStore(), Story().open()
    owner = Loading(store)
    sizes = list[int]()
    for number in range(10):
        for run in range(20):
            add_run(story, f"r{number}.{run}")
        await append(store, story.log[len(await MemoryStore.read(store, "k")) :])
        await owner.save(story.state, len(story.log))
        sizes.append(store.saved_bytes[-1])
    assert max(sizes) < 1.2 * min(sizes)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Store, None]:
    async with AsyncExitStack() as stack:
        match request.param:
            case "memory":
                opened = MemoryStore()
            case "sqlite":
                opened = await SqliteStore.open(tmp_path / "toolyard.db")
            case _:
                opened = await PostgresStore.open(await stack.enter_async_context(create_database()))
        stack.push_async_callback(opened.close)
        yield opened


async def test_a_conversation_that_was_deleted_and_opened_anew_has_nothing_of_the_old_one(store: Store) -> None:
    first, second = add_run(Story().open(), "old"), add_run(add_run(Story().open(), "new"), "newer")
    await append(store, first.log)
    await Loading(store).load()
    head = await store.read_snapshot("k")
    assert head is not None
    pieces = await store.read_snapshot_pieces("k", [f"{head.token}.0"])
    assert len(pieces) == 1
    await store.delete_conversation("k")
    assert await store.read_snapshot("k") is None
    assert not await store.read_snapshot_pieces("k", [f"{head.token}.0"])
    assert not await store.save_snapshot("k", SnapshotUpdate(head=head)), "a deleted conversation got its content back"
    entries = [replace(entry, epoch=3) for entry in second.log]
    await append(store, entries)
    # A snapshot of the old one that was on its way finds a log that is long enough, but of other entries.
    assert await store.save_snapshot("k", SnapshotUpdate(head=head, pieces=[(f"{head.token}.0", pieces[0])]))
    assert await Loading(store).load() == fold(entries)


@pytest.mark.parametrize("damage", ["version", "state", "piece", "missing"])
async def test_a_snapshot_that_cannot_be_read_is_rebuilt(store: Store, damage: str) -> None:
    story = add_run(Story().open(), "r")
    await append(store, story.log)
    await Loading(store).load()
    head = await store.read_snapshot("k")
    assert head is not None
    version, _, body = head.body.partition(b"\n")
    (piece,) = await store.read_snapshot_pieces("k", [f"{head.token}.0"])
    name = f"{head.token}.0"
    bodies = {"version": b"0.old\n" + body, "state": version + b"\n{", "piece": head.body, "missing": head.body}
    pieces = {"piece": [(name, b"[{}]")], "missing": []}.get(damage, [(name, piece)])
    assert await store.save_snapshot("k", SnapshotUpdate(head=replace(head, body=bodies[damage]), pieces=pieces))
    assert await Loading(store).load() == story.state
    rebuilt = await store.read_snapshot("k")
    assert rebuilt is not None
    assert rebuilt.token != head.token


async def test_of_two_processes_that_go_on_from_one_snapshot_only_the_first_saves(store: Store) -> None:
    story = add_run(Story().open(), "r")
    await append(store, story.log)
    first, second = Loading(store), Loading(store)
    await first.load()
    await second.load()
    add_run(story, "s")
    await append(store, story.log[len(story.log) // 2 + 1 :])
    await first.save(story.state, len(story.log))
    saved = await store.read_snapshot("k")
    await second.save(story.state, len(story.log))
    assert await store.read_snapshot("k") == saved
    assert await Loading(store).load() == story.state


async def test_a_short_log_has_no_snapshot(store: Store) -> None:
    story = add_run(Story().open(), "r")
    await append(store, story.log)
    await Loading(store, every=500).load()
    assert await store.read_snapshot("k") is None


async def test_a_yard_that_closes_right_after_a_long_run_saves_its_snapshot(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    turns = SNAPSHOT_EVERY // 4  # a turn with a call has at least four entries
    script = [*(call("add", a=number, b=1) for number in range(turns)), say("Done.")]
    limits, store = Limits(turns_per_request=turns + 1), SlowStore()
    wiring = Wiring(model=Scripted(script), tools=(add,), limits=limits, opened_store=store)
    async with asyncio.timeout(TEST_TIMEOUT_S), Yard.from_wiring(wiring) as yard:
        assert get_ending(await collect_events(yard.run("Add them."))).ending == "done"
    assert len(store.saved_bytes) == 1
    assert "snapshot" not in caplog.text
