"""What every store promises. Each promise is kept by every store, and broken by a store made to break it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from toolyard import codec
from toolyard.core.errors import Fenced, StoreDown, ToolyardError
from toolyard.core.events import Entry, StopRequested
from toolyard.core.ports import Store
from toolyard.stores.memory import MemoryStore
from toolyard.stores.sqlite import SqliteStore

Promise = Callable[[Store], Awaitable[None]]
LOG = Path(__file__).parent.parent / "stores" / "logs" / "format-1.jsonl"


def entries(conversation: str, first: int, count: int = 1, by: str = "ana") -> list[Entry]:
    return [
        Entry(conversation=conversation, seq=seq, at=float(seq), event=StopRequested(by=by))
        for seq in range(first, first + count)
    ]


async def refused(error: type[ToolyardError], doing: Awaitable[object]) -> None:
    try:
        await doing
    except ToolyardError as raised:
        assert type(raised) is error, f"{raised!r} instead of {error.__name__}"
    else:
        raise AssertionError(f"it was not refused with {error.__name__}")


async def seqs(store: Store, conversation: str, after: int = 0, most: int = 0) -> list[int]:
    return [entry.seq for entry in await store.read(conversation, after, most)]


async def every_kind_of_entry_is_read_back_identical(store: Store) -> None:
    log = [codec.decode_entry(line) for line in LOG.read_bytes().splitlines()]
    epoch = await store.claim("conversation_1")
    await store.append("conversation_1", epoch, log[:7], None)
    await store.append("conversation_1", epoch, log[7:], None)
    assert list(await store.read("conversation_1")) == log


async def a_batch_is_whole_or_not_at_all(store: Store) -> None:
    epoch = await store.claim("c")
    await store.append("c", epoch, entries("c", 1, 3), None)
    torn = [*entries("c", 4, 2), *entries("c", 7, 1)]
    await refused(Fenced, store.append("c", epoch, torn, 1.0))
    assert await seqs(store, "c") == [1, 2, 3]
    assert await store.due(1.0) == ([], None)


async def an_older_epoch_is_fenced(store: Store) -> None:
    old = await store.claim("c")
    await store.append("c", old, entries("c", 1), None)
    new = await store.claim("c")
    await refused(Fenced, store.append("c", old, entries("c", 2), 1.0))
    await refused(Fenced, store.append("c", new + 1, entries("c", 2), 1.0))
    assert await store.due(1.0) == ([], None)
    await store.append("c", new, entries("c", 2, by="the new owner"), None)
    assert list(await store.read("c", after=1)) == entries("c", 2, by="the new owner")


async def a_conversation_that_nobody_claimed_is_fenced(store: Store) -> None:
    for epoch in (0, 1):
        await refused(Fenced, store.append("c", epoch, entries("c", 1), None))
    assert await seqs(store, "c") == []


async def a_gap_or_a_repeat_is_fenced(store: Store) -> None:
    epoch = await store.claim("c")
    for first in (-1, 0, 2):
        await refused(Fenced, store.append("c", epoch, entries("c", first), None))
    await store.append("c", epoch, entries("c", 1, 2), None)
    for first in (1, 2, 4):
        await refused(Fenced, store.append("c", epoch, entries("c", first), None))
    assert await seqs(store, "c") == [1, 2]


async def each_claim_raises_the_epoch_of_its_conversation(store: Store) -> None:
    assert [await store.claim("c") for _ in range(3)] == [1, 2, 3]
    assert await store.claim("other") == 1


async def a_claim_keeps_the_log_and_the_wake_up(store: Store) -> None:
    await store.append("c", await store.claim("c"), entries("c", 1), 5.0)
    await store.claim("c")
    assert await seqs(store, "c") == [1]
    assert await store.due(5.0) == (["c"], None)


async def reading_goes_on_after_a_seq_and_stops_at_most(store: Store) -> None:
    epoch = await store.claim("c")
    for first, count in ((1, 1), (2, 4), (6, 3)):
        await store.append("c", epoch, entries("c", first, count), None)
    assert await seqs(store, "c", after=3) == [4, 5, 6, 7, 8]
    assert await seqs(store, "c", after=5, most=2) == [6, 7]
    assert await seqs(store, "c", most=3) == [1, 2, 3]
    assert await seqs(store, "c", after=8) == []
    assert await seqs(store, "c", after=7, most=9) == [8]
    assert await seqs(store, "nobody") == []


async def what_is_due_is_named_and_what_is_next_is_timed(store: Store) -> None:
    assert await store.due(9.0) == ([], None)
    for conversation, wake_at in (("at once", 0.0), ("soon", 10.0), ("later", 20.0), ("never", None)):
        await store.append(conversation, await store.claim(conversation), entries(conversation, 1), wake_at)
    due, later = await store.due(10.0)
    assert (sorted(due), later) == (["at once", "soon"], 20.0)
    assert await store.due(-1.0) == ([], 0.0)
    due, later = await store.due(20.0)
    assert (sorted(due), later) == (["at once", "later", "soon"], None)


async def an_append_moves_or_ends_the_wake_up(store: Store) -> None:
    epoch = await store.claim("c")
    await store.append("c", epoch, entries("c", 1), 5.0)
    await store.append("c", epoch, [], 7.0)
    assert await store.due(6.0) == ([], 7.0)
    await store.append("c", epoch, entries("c", 2), None)
    assert await store.due(9.0) == ([], None)
    await refused(Fenced, store.append("c", epoch - 1, [], 5.0))


async def blobs_are_scoped_to_their_conversation(store: Store) -> None:
    body = bytes(range(256)) * 1000
    await store.put("c", "blob_1", body)
    assert await store.get("c", "blob_1") == body
    assert await store.get("other", "blob_1") is None
    assert await store.get("c", "blob_2") is None
    await store.put("other", "blob_1", b"")
    assert await store.get("other", "blob_1") == b""
    assert await store.get("c", "blob_1") == body


async def many_conversations_keep_their_order_side_by_side(store: Store) -> None:
    async def talk(conversation: str) -> None:
        epoch = await store.claim(conversation)
        for first in range(1, 60, 3):
            await store.append(conversation, epoch, entries(conversation, first, 3, by=conversation), None)

    names = [f"c{number}" for number in range(50)]
    await asyncio.gather(*map(talk, names))
    for name in names:
        assert list(await store.read(name)) == entries(name, 1, 60, by=name)


async def a_closed_store_is_down_and_may_be_closed_again(store: Store) -> None:
    epoch = await store.claim("c")
    await store.append("c", epoch, entries("c", 1), None)
    await asyncio.gather(store.close(), store.close())
    await store.close()
    await refused(StoreDown, store.append("c", epoch, entries("c", 2), None))
    await refused(StoreDown, store.claim("c"))
    await refused(StoreDown, store.read("c"))
    await refused(StoreDown, store.due(1.0))
    await refused(StoreDown, store.put("c", "blob_1", b""))
    await refused(StoreDown, store.get("c", "blob_1"))


class Forgetful(MemoryStore):
    """Loses the last entry of what it is asked for."""

    async def read(self, conversation: str, after: int = 0, most: int = 0) -> Sequence[Entry]:
        return (await super().read(conversation, after, most))[:-1]


class Torn(MemoryStore):
    """Takes a batch apart."""

    async def append(self, conversation: str, epoch: int, entries: Sequence[Entry], wake_at: float | None) -> None:
        for entry in entries:
            await super().append(conversation, epoch, [entry], wake_at)


class Unfenced(MemoryStore):
    """Lets everybody write, as whoever owns the conversation now."""

    def __init__(self) -> None:
        super().__init__()
        self.owners: dict[str, int] = {}

    async def claim(self, conversation: str) -> int:
        self.owners[conversation] = await super().claim(conversation)
        return self.owners[conversation]

    async def append(self, conversation: str, epoch: int, entries: Sequence[Entry], wake_at: float | None) -> None:
        owner = self.owners.get(conversation) or await self.claim(conversation)
        await super().append(conversation, owner, entries, wake_at)


class Silent(MemoryStore):
    """Drops what is out of order without a word."""

    async def append(self, conversation: str, epoch: int, entries: Sequence[Entry], wake_at: float | None) -> None:
        try:
            await super().append(conversation, epoch, entries, wake_at)
        except Fenced:
            return


class OneEpoch(MemoryStore):
    """Counts the claims of all conversations together."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch = 0

    async def claim(self, conversation: str) -> int:
        self.epoch += 1
        await super().claim(conversation)
        return self.epoch


class Sleepless(MemoryStore):
    """Keeps no wake-up."""

    async def append(self, conversation: str, epoch: int, entries: Sequence[Entry], wake_at: float | None) -> None:
        await super().append(conversation, epoch, entries, None)


class Shared(MemoryStore):
    """Shows everybody's blobs to everybody."""

    async def get(self, conversation: str, handle: str) -> bytes | None:
        return await super().get("all", handle)

    async def put(self, conversation: str, handle: str, body: bytes) -> None:
        await super().put("all", handle, body)


class Undead(MemoryStore):
    """Goes on after it was closed."""

    async def close(self) -> None:
        return


BROKEN_BY: dict[Promise, type[MemoryStore]] = {
    every_kind_of_entry_is_read_back_identical: Forgetful,
    a_batch_is_whole_or_not_at_all: Torn,
    an_older_epoch_is_fenced: Unfenced,
    a_conversation_that_nobody_claimed_is_fenced: Unfenced,
    a_gap_or_a_repeat_is_fenced: Silent,
    each_claim_raises_the_epoch_of_its_conversation: OneEpoch,
    a_claim_keeps_the_log_and_the_wake_up: Sleepless,
    reading_goes_on_after_a_seq_and_stops_at_most: Forgetful,
    what_is_due_is_named_and_what_is_next_is_timed: Sleepless,
    an_append_moves_or_ends_the_wake_up: Sleepless,
    blobs_are_scoped_to_their_conversation: Shared,
    many_conversations_keep_their_order_side_by_side: Forgetful,
    a_closed_store_is_down_and_may_be_closed_again: Undead,
}


async def memory(directory: Path) -> Store:
    return MemoryStore()


async def sqlite(directory: Path) -> Store:
    return await SqliteStore.open(directory / "store.db")


async def sqlite_full(directory: Path) -> Store:
    return await SqliteStore.open(directory / "store.db", synchronous="FULL")


async def keep(promise: Promise, opening: Awaitable[Store]) -> None:
    store = await opening
    try:
        await promise(store)
    finally:
        await store.close()


def named(function: Callable[..., object]) -> str:
    return function.__name__


@pytest.mark.parametrize("promise", BROKEN_BY, ids=named)
@pytest.mark.parametrize("open_store", [memory, sqlite, sqlite_full], ids=named)
def test_every_store_keeps_every_promise(
    open_store: Callable[[Path], Awaitable[Store]], promise: Promise, tmp_path: Path
) -> None:
    asyncio.run(keep(promise, open_store(tmp_path)))


@pytest.mark.parametrize("promise", BROKEN_BY, ids=named)
def test_a_store_that_breaks_the_promise_is_found_out(promise: Promise) -> None:
    async def broken() -> Store:
        return BROKEN_BY[promise]()

    with pytest.raises(AssertionError):
        asyncio.run(keep(promise, broken()))
