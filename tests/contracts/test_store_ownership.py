"""What every store promises of claims, and of what is due; each promise has a store that breaks it."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from contracts.store_contract import (
    OpenStore,
    Promise,
    append,
    assert_refused,
    check_promise,
    claim,
    every_store,
    expect_break,
    find_due,
    get_function_name,
    make_entries,
    read_seqs,
)
from stores.memory_replicas import SharedMemoryStore
from toolyard.core.errors import Fenced
from toolyard.core.store import (
    Append,
    Claim,
    OpenCounts,
    Store,
)
from toolyard.stores.memory import MemoryStore


async def each_claim_raises_the_epoch_of_its_conversation(store: Store) -> None:
    first = await claim(store, "c")
    assert first > 0
    assert [await claim(store, "c") for _ in range(2)] == [first + 1, first + 2]
    await claim(store, "other")
    again, new = await store.claim_many(["c", "new"])
    assert (again.epoch, new.epoch > 0) == (first + 3, True)


async def a_new_conversation_belongs_to_whom_it_was_made_for(store: Store) -> None:
    answer = await store.claim_new("c")
    assert isinstance(answer, Claim)
    assert (answer.last_seq, answer.has_forwarded, answer.deaths) == (0, False, 0)
    opening = Append(
        conversation="c", epoch=answer.epoch, entries=make_entries("c", 1, 2), opens=answer.is_unwritten, wake_at=5.0
    )
    await store.append(opening)
    await append(store, "c", answer.epoch, make_entries("c", 3), 7.0, release=True)
    assert await find_due(store, 6.0) == ([], 7.0)
    assert await claim(store, "c") == answer.epoch + 1
    await assert_refused(Fenced, append(store, "c", answer.epoch, make_entries("c", 4), None))
    assert await read_seqs(store, "c") == [1, 2, 3]


async def a_store_by_itself_has_no_other_replicas(store: Store) -> None:
    await claim(store, "c")
    assert await store.count_other_replicas() == 0


async def a_claim_tells_where_the_log_ends_and_keeps_the_wake_up(store: Store) -> None:
    await append(store, "c", await claim(store, "c"), make_entries("c", 1, 3), 5.0)
    answer = await store.claim("c")
    assert isinstance(answer, Claim)
    assert (answer.conversation, answer.last_seq, answer.has_forwarded, answer.deaths) == ("c", 3, False, 0)
    assert await read_seqs(store, "c") == [1, 2, 3]
    assert await store.count_open(5.0) == OpenCounts(running=1, waiting=0)
    assert await store.release("c", answer.epoch, 0, 5.0)
    assert await find_due(store, 5.0) == (["c"], None)


async def what_is_due_is_named_and_what_is_next_is_timed(store: Store) -> None:
    assert await find_due(store, 9.0) == ([], None)
    for conversation, wake_at in (("at once", 0.0), ("soon", 10.0), ("later", 20.0), ("never", None)):
        epoch = await claim(store, conversation)
        await append(store, conversation, epoch, make_entries(conversation, 1), wake_at, release=True)
    due, later = await find_due(store, 10.0)
    assert (sorted(due), later) == (["at once", "soon"], 20.0)
    assert await find_due(store, -1.0) == ([], 0.0)
    due, later = await find_due(store, 20.0)
    assert (sorted(due), later) == (["at once", "later", "soon"], None)
    assert len((await store.find_due(20.0, 2))[0]) == 2
    assert await store.count_open(10.0) == OpenCounts(running=2, waiting=1)


async def an_append_moves_or_ends_the_wake_up(store: Store) -> None:
    await append(store, "c", await claim(store, "c"), make_entries("c", 1), 5.0, release=True)
    await append(store, "c", await claim(store, "c"), [], 7.0, release=True)
    assert await find_due(store, 6.0) == ([], 7.0)
    epoch = await claim(store, "c")
    await append(store, "c", epoch, make_entries("c", 2), None)
    await assert_refused(Fenced, append(store, "c", epoch - 1, [], 5.0))
    await append(store, "c", epoch, make_entries("c", 3), None, release=True)
    assert await find_due(store, 9.0) == ([], None)


class SharedEpochStore(MemoryStore):
    """Counts the claims of all conversations together."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch = 0

    async def claim(self, conversation: str) -> Claim:
        self.epoch += 1
        return replace(await super().claim(conversation), epoch=self.epoch)


class CountsItselfStore(SharedMemoryStore):
    """Counts itself among the others, and the dead."""

    async def count_other_replicas(self) -> int:
        return 1


class NoWakeUpStore(MemoryStore):
    """Keeps no wake-up."""

    async def append(self, append: Append) -> bool:
        return await super().append(replace(append, wake_at=None))


BROKEN_BY: dict[Promise, type[MemoryStore]] = {
    each_claim_raises_the_epoch_of_its_conversation: SharedEpochStore,
    a_new_conversation_belongs_to_whom_it_was_made_for: NoWakeUpStore,
    a_store_by_itself_has_no_other_replicas: CountsItselfStore,
    a_claim_tells_where_the_log_ends_and_keeps_the_wake_up: NoWakeUpStore,
    what_is_due_is_named_and_what_is_next_is_timed: NoWakeUpStore,
    an_append_moves_or_ends_the_wake_up: NoWakeUpStore,
}


@pytest.mark.parametrize("promise", BROKEN_BY, ids=get_function_name)
@every_store
async def test_every_store_keeps_every_promise(open_store: OpenStore, promise: Promise, tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        await check_promise(promise, store)


@pytest.mark.parametrize("promise", BROKEN_BY, ids=get_function_name)
async def test_a_store_that_breaks_the_promise_is_found_out(promise: Promise) -> None:
    await expect_break(promise, BROKEN_BY[promise]())
