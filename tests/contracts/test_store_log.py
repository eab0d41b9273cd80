"""What every store promises of logs, blobs and deleted conversations; each promise has a store that breaks it."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from contracts.store_contract import (
    OpenStore,
    Promise,
    append,
    append_events,
    assert_refused,
    check_promise,
    claim,
    conversation_opened,
    every_store,
    expect_break,
    find_due,
    get_function_name,
    list_ids,
    make_entries,
    read_seqs,
    run_queued,
    user_says,
)
from toolyard import codec
from toolyard.core.conversation.events import (
    Entry,
)
from toolyard.core.errors import Fenced, StoreDown
from toolyard.core.store import (
    AccessToken,
    Append,
    CatalogQuery,
    Claim,
    Key,
    OpenCounts,
    Store,
)
from toolyard.core.store.audit_chain import AuditQuery, AuditRecord
from toolyard.stores.memory import MemoryStore

LOG = Path(__file__).parent.parent / "stores" / "logs" / "format-1.jsonl"


async def every_kind_of_entry_is_read_back_identical(store: Store) -> None:
    log = [codec.decode_entry(line) for line in LOG.read_bytes().splitlines()]
    epoch = await claim(store, "conversation_1")
    await append(store, "conversation_1", epoch, log[:7], None)
    await append(store, "conversation_1", epoch, log[7:], None)
    assert list(await store.read("conversation_1")) == log


async def a_batch_is_whole_or_not_at_all(store: Store) -> None:
    epoch = await claim(store, "c")
    await append(store, "c", epoch, make_entries("c", 1, 3), None)
    torn = [*make_entries("c", 4, 2), *make_entries("c", 7, 1)]
    await assert_refused(Fenced, append(store, "c", epoch, torn, 1.0))
    assert await read_seqs(store, "c") == [1, 2, 3]
    assert await store.count_open(1.0) == OpenCounts(running=0, waiting=0)


async def an_older_epoch_is_fenced(store: Store) -> None:
    old = await claim(store, "c")
    await append(store, "c", old, make_entries("c", 1), None)
    new = await claim(store, "c")
    await assert_refused(Fenced, append(store, "c", old, make_entries("c", 2), 1.0))
    await assert_refused(Fenced, append(store, "c", new + 1, make_entries("c", 2), 1.0))
    assert await store.count_open(1.0) == OpenCounts(running=0, waiting=0)
    await append(store, "c", new, make_entries("c", 2, by="the new owner"), None)
    assert list(await store.read("c", after=1)) == make_entries("c", 2, by="the new owner")


async def a_conversation_that_nobody_claimed_is_fenced(store: Store) -> None:
    for epoch in (0, 1):
        await assert_refused(Fenced, append(store, "c", epoch, make_entries("c", 1), None))
    assert await read_seqs(store, "c") == []


async def a_gap_or_a_repeat_is_fenced(store: Store) -> None:
    epoch = await claim(store, "c")
    for first in (-1, 0, 2):
        await assert_refused(Fenced, append(store, "c", epoch, make_entries("c", first), None))
    await append(store, "c", epoch, make_entries("c", 1, 2), None)
    for first in (1, 2, 4):
        await assert_refused(Fenced, append(store, "c", epoch, make_entries("c", first), None))
    inside = [entry for seq in (3, 9, 5) for entry in make_entries("c", seq)]
    await assert_refused(Fenced, append(store, "c", epoch, inside, None))
    assert await read_seqs(store, "c") == [1, 2]


async def reading_goes_on_after_a_seq_and_stops_at_most(store: Store) -> None:
    epoch = await claim(store, "c")
    for first, count in ((1, 1), (2, 4), (6, 3)):
        await append(store, "c", epoch, make_entries("c", first, count), None)
    assert await read_seqs(store, "c", after=3) == [4, 5, 6, 7, 8]
    assert await read_seqs(store, "c", after=5, limit=2) == [6, 7]
    assert await read_seqs(store, "c", limit=3) == [1, 2, 3]
    assert await read_seqs(store, "c", after=8) == []
    assert await read_seqs(store, "c", after=7, limit=9) == [8]
    assert await read_seqs(store, "nobody") == []


async def blobs_are_scoped_to_their_conversation(store: Store) -> None:
    body = bytes(range(256)) * 1000
    await store.put_blob("c", "blob_1", body)
    assert await store.get_blob("c", "blob_1") == body
    assert await store.get_blob("other", "blob_1") is None
    assert await store.get_blob("c", "blob_2") is None
    await store.put_blob("other", "blob_1", b"")
    assert await store.get_blob("other", "blob_1") == b""
    assert await store.get_blob("c", "blob_1") == body


async def many_conversations_keep_their_order_side_by_side(store: Store) -> None:
    async def talk(conversation: str) -> None:
        epoch = await claim(store, conversation)
        for first in range(1, 60, 3):
            await append(store, conversation, epoch, make_entries(conversation, first, 3, by=conversation), None)

    names = [f"c{number}" for number in range(50)]
    await asyncio.gather(*map(talk, names))
    for name in names:
        assert list(await store.read(name)) == make_entries(name, 1, 60, by=name)


async def a_forgotten_conversation_is_gone_and_the_others_stay(store: Store) -> None:
    for name in ("c", "other"):
        epoch = await append_events(
            store, name, conversation_opened(), run_queued(user_says("m", "hello")), run="run_1", correlation_id="t"
        )
        await store.put_blob(name, "blob_1", b"whole")
        await append(store, name, epoch, [], 5.0, release=True)
    assert list(await store.delete_conversation("c")) == []
    await store.delete_conversation("c")
    await store.delete_conversation("nobody")
    assert await read_seqs(store, "c") == []
    assert await store.get_blob("c", "blob_1") is None
    assert await store.card("c") is None
    assert await list_ids(store) == await list_ids(store, "hello") == ["other"]
    assert list(await store.find_runs("t")) == [("other", "run_1")]
    assert await find_due(store, 9.0) == (["other"], None)
    assert await read_seqs(store, "other") == [1, 2]
    assert await store.get_blob("other", "blob_1") == b"whole"


async def a_forgotten_conversation_fences_its_owners_for_good(store: Store) -> None:
    old = [await append_events(store, "c", conversation_opened(), at=1.0) for _ in range(3)]
    for _ in range(2):
        await store.delete_conversation("c")
        for epoch in (*old, 0, -max(old), max(old) + 1):
            await assert_refused(Fenced, append(store, "c", epoch, make_entries("c", 1), 1.0))
            await assert_refused(Fenced, append(store, "c", epoch, [], 1.0))
        await store.put_blob("c", "blob_1", b"too late")
    new = await claim(store, "c")
    assert new > max(old)
    assert await store.get_blob("c", "blob_1") is None
    assert await read_seqs(store, "c") == []
    for epoch in old:
        await assert_refused(Fenced, append(store, "c", epoch, make_entries("c", 1), 1.0))
    await append(store, "c", new, make_entries("c", 1, 2), None)
    await store.put_blob("c", "blob_1", b"of the new owner")
    assert await read_seqs(store, "c") == [1, 2]
    assert await store.get_blob("c", "blob_1") == b"of the new owner"
    assert await store.card("c") is None


async def a_closed_store_is_down_and_may_be_closed_again(store: Store) -> None:
    epoch = await claim(store, "c")
    await append(store, "c", epoch, make_entries("c", 1), None)
    await asyncio.gather(store.close(), store.close())
    await store.close()
    await assert_refused(StoreDown, append(store, "c", epoch, make_entries("c", 2), None))
    await assert_refused(StoreDown, store.claim("c"))
    await assert_refused(StoreDown, store.read("c"))
    await assert_refused(StoreDown, store.find_due(1.0, 10))
    await assert_refused(StoreDown, store.put_blob("c", "blob_1", b""))
    await assert_refused(StoreDown, store.get_blob("c", "blob_1"))
    await assert_refused(StoreDown, store.card("c"))
    await assert_refused(StoreDown, store.cards(CatalogQuery(tenant="")))
    await assert_refused(StoreDown, store.cards(CatalogQuery(tenant="", text="x")))
    await assert_refused(StoreDown, store.find_runs("t"))
    await assert_refused(StoreDown, store.find_request("k"))
    await assert_refused(StoreDown, store.list_expired_requests(1.0, 1))
    await assert_refused(StoreDown, store.drop_request("c", 1.0))
    await assert_refused(StoreDown, store.delete_conversation("c"))
    await assert_refused(StoreDown, store.keys())
    await assert_refused(StoreDown, store.save_key(Key(name="k", hash="h", user="u")))
    await assert_refused(StoreDown, store.revoke_key("k"))
    token = AccessToken(kind="session", hash="h", created_at=1.0, expires_at=2.0)
    await assert_refused(StoreDown, store.save_token(token))
    await assert_refused(StoreDown, store.read_token("session", "h"))
    await assert_refused(StoreDown, store.add_records("name", {"a": b""}))
    await assert_refused(StoreDown, store.take_allowance("u", 1, 1.0))
    await assert_refused(StoreDown, store.append_audit(AuditRecord(at=1.0, action="key.add")))
    await assert_refused(StoreDown, store.read_audit(AuditQuery()))
    await assert_refused(StoreDown, store.trim_audit(AuditRecord(at=1.0, action="audit.trim"), 1.0, 1))


class LosesLastEntryStore(MemoryStore):
    """Loses the last entry of what it is asked for."""

    async def read(self, conversation: str, after: int = 0, limit: int = 0) -> Sequence[Entry]:
        return (await super().read(conversation, after, limit))[:-1]


class SplitBatchStore(MemoryStore):
    """Takes a batch apart."""

    async def append(self, append: Append) -> bool:
        return [
            await super(SplitBatchStore, self).append(replace(append, entries=[entry])) for entry in append.entries
        ][-1]


class UnfencedStore(MemoryStore):
    """Lets everybody write, as whoever owns the conversation now."""

    def __init__(self) -> None:
        super().__init__()
        self.owners: dict[str, int] = {}

    async def claim(self, conversation: str) -> Claim:
        answer = await super().claim(conversation)
        self.owners[conversation] = answer.epoch
        return answer

    async def append(self, append: Append) -> bool:
        owner = self.owners.get(append.conversation) or await claim(self, append.conversation)
        return await super().append(replace(append, epoch=owner))


class DropsOutOfOrderStore(MemoryStore):
    """Drops what is out of order without a word."""

    async def append(self, append: Append) -> bool:
        try:
            return await super().append(append)
        except Fenced:
            return False


class SharedBlobStore(MemoryStore):
    """Shows everybody's blobs to everybody."""

    async def get_blob(self, conversation: str, handle: str) -> bytes | None:
        return await super().get_blob("all", handle)

    async def put_blob(self, conversation: str, handle: str, body: bytes) -> None:
        await super().put_blob("all", handle, body)


class NeverClosedStore(MemoryStore):
    """Goes on after it was closed."""

    async def close(self) -> None:
        return


class KeepsBlobsStore(MemoryStore):
    """Keeps the blobs of what it should forget."""

    async def delete_conversation(self, conversation: str) -> Sequence[str]:
        blobs = self._data.blobs
        replicas = await super().delete_conversation(conversation)
        self._data.blobs = blobs
        return replicas


class ForgetsEpochsStore(MemoryStore):
    """Forgets also which epochs there were."""

    async def delete_conversation(self, conversation: str) -> Sequence[str]:
        replicas = await super().delete_conversation(conversation)
        self._data.conversations.pop(conversation, None)
        return replicas


BROKEN_BY: dict[Promise, type[MemoryStore]] = {
    every_kind_of_entry_is_read_back_identical: LosesLastEntryStore,
    a_batch_is_whole_or_not_at_all: SplitBatchStore,
    an_older_epoch_is_fenced: UnfencedStore,
    a_conversation_that_nobody_claimed_is_fenced: UnfencedStore,
    a_gap_or_a_repeat_is_fenced: DropsOutOfOrderStore,
    reading_goes_on_after_a_seq_and_stops_at_most: LosesLastEntryStore,
    blobs_are_scoped_to_their_conversation: SharedBlobStore,
    many_conversations_keep_their_order_side_by_side: LosesLastEntryStore,
    a_forgotten_conversation_is_gone_and_the_others_stay: KeepsBlobsStore,
    a_forgotten_conversation_fences_its_owners_for_good: ForgetsEpochsStore,
    a_closed_store_is_down_and_may_be_closed_again: NeverClosedStore,
}


@pytest.mark.parametrize("promise", BROKEN_BY, ids=get_function_name)
@every_store
async def test_every_store_keeps_every_promise(open_store: OpenStore, promise: Promise, tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        await check_promise(promise, store)


@pytest.mark.parametrize("promise", BROKEN_BY, ids=get_function_name)
async def test_a_store_that_breaks_the_promise_is_found_out(promise: Promise) -> None:
    await expect_break(promise, BROKEN_BY[promise]())
