"""What every store promises of requests that must take effect once; each promise has a store that breaks it."""

import asyncio
from collections.abc import Awaitable, Sequence
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
    get_function_name,
    make_entries,
    read_seqs,
)
from stores.memory_replicas import SharedMemoryStore
from toolyard.core.conversation.events import (
    REQUEST_KEY_S,
    Entry,
    RequestKey,
)
from toolyard.core.errors import RequestRepeated
from toolyard.core.store import (
    RequestRecord,
    Store,
)
from toolyard.stores.memory import MemoryStore


def with_request(entry: Entry, key: str, body: str = "body") -> Entry:
    return replace(entry, request=RequestKey(key_hash=key, body_hash=body))


async def a_request_is_recorded_with_its_entry_and_refused_a_second_time(store: Store) -> None:
    epoch = await claim(store, "c")
    first = replace(with_request(make_entries("c", 1)[0], "k"), run="r")
    assert await store.find_request("k") is None
    await append(store, "c", epoch, [first, *make_entries("c", 2)], None)
    record = RequestRecord(body_hash="body", conversation="c", seq=1, run="r", at=1.0)
    assert await store.find_request("k") == record
    other = await claim(store, "d")
    again = [*make_entries("d", 1), with_request(make_entries("d", 2)[0], "k")]
    await assert_refused(RequestRepeated, append(store, "d", other, again, None))
    assert await read_seqs(store, "d") == [] and await store.find_request("k") == record
    await append(store, "d", other, make_entries("d", 1), None)
    await store.delete_conversation("c")
    assert await store.find_request("k") == record, "a late repetition must not start it again"


def with_replacement(conversation: str, run: str, replaces: str) -> Entry:
    """Return the first entry of a conversation, whose run takes the request `k` over from another run."""
    entry = with_request(make_entries(conversation, 1)[0], "k")
    assert entry.request is not None
    return replace(entry, run=run, request=replace(entry.request, replaces=replaces))


async def find_winner(store: Store, *appends: Awaitable[object]) -> str:
    """Do the appends at once, of which one may succeed, and return the run that the request `k` is recorded with."""
    outcomes = await asyncio.gather(*appends, return_exceptions=True)
    errors = [type(outcome) for outcome in outcomes if isinstance(outcome, BaseException)]
    assert errors == [RequestRepeated] * (len(appends) - 1)
    record = await store.find_request("k")
    assert record is not None
    return record.run


async def a_request_is_taken_over_by_one_run_from_the_run_that_it_is_recorded_with(store: Store) -> None:
    first = replace(with_request(make_entries("c", 1)[0], "k"), run="failed")
    await append(store, "c", await claim(store, "c"), [first], None)
    epochs = {name: await claim(store, name) for name in "def"}
    winner = await find_winner(
        store, *(append(store, name, epochs[name], [with_replacement(name, name, "failed")], None) for name in "de")
    )
    assert winner in ("d", "e")
    for replaces in ("failed", "other", ""):
        late = with_replacement("f", "late", replaces)
        await assert_refused(RequestRepeated, append(store, "f", epochs["f"], [late], None))
    await append(store, "f", epochs["f"], [with_replacement("f", "next", winner)], None)
    record = await store.find_request("k")
    assert record is not None and (record.conversation, record.run) == ("f", "next")


async def an_old_request_is_listed_dropped_and_may_come_again(store: Store) -> None:
    epochs: dict[str, int] = {}
    for conversation, key, at in (("old", "a1", 1.0), ("older", "a2", 0.0), ("new", "a3", 100.0)):
        epochs[conversation] = await claim(store, conversation)
        entry = replace(with_request(make_entries(conversation, 1)[0], key), at=at)
        await append(store, conversation, epochs[conversation], [entry], None)
    assert list(await store.list_expired_requests(50.0, 10)) == ["older", "old"]
    assert list(await store.list_expired_requests(50.0, 1)) == ["older"]
    await store.drop_request("old", 50.0)
    await store.drop_request("new", 50.0)
    assert await store.find_request("a1") is None and await store.find_request("a3") is not None
    late = replace(with_request(make_entries("new", 2)[0], "a2"), at=REQUEST_KEY_S + 1.0)
    await append(store, "new", epochs["new"], [late], None)
    record = await store.find_request("a2")
    assert record is not None and (record.conversation, record.seq) == ("new", 2)


async def the_last_request_whose_key_begins_with_a_text_is_found(store: Store) -> None:
    for key in ("a05f", "a06f", "b01f"):
        await append(store, key, await claim(store, key), [with_request(make_entries(key, 1)[0], key)], None)
    records = [await store.find_request(prefix) for prefix in ("a0", "a05f", "b", "a1")]
    assert [record and record.conversation for record in records] == ["a06f", "a05f", "b01f", None]


async def a_request_that_is_kept_for_less_expires_earlier(store: Store) -> None:
    epoch = await claim(store, "c")
    entry = with_request(make_entries("c", 1)[0], "a1")
    assert entry.request is not None
    entry = replace(entry, at=1000.0, request=replace(entry.request, kept_s=600.0))
    await append(store, "c", epoch, [entry], None)
    before = 1000.0 - REQUEST_KEY_S
    assert list(await store.list_expired_requests(before + 599.0, 10)) == []
    assert list(await store.list_expired_requests(before + 601.0, 10)) == ["c"]


class ForgetfulRequestStore(SharedMemoryStore):
    """Forgets every request but the last one."""

    def _record_requests(self, conversation: str, entries: Sequence[Entry]) -> None:
        self._data.requests.clear()
        super()._record_requests(conversation, entries)


class KeepsRequestsStore(MemoryStore):
    """Keeps every request for ever."""

    async def drop_request(self, conversation: str, before: float) -> None:
        return


class ExactRequestStore(MemoryStore):
    """Finds a request by its whole key only."""

    async def find_request(self, key: str) -> RequestRecord | None:
        return self._data.requests.get(key)


class KeepsAllRequestsAlikeStore(MemoryStore):
    """Keeps every request for the same time."""

    def _record_requests(self, conversation: str, entries: Sequence[Entry]) -> None:
        alike = [
            replace(entry, request=replace(entry.request, kept_s=REQUEST_KEY_S)) if entry.request else entry
            for entry in entries
        ]
        super()._record_requests(conversation, alike)


BROKEN_BY: dict[Promise, type[MemoryStore]] = {
    a_request_is_recorded_with_its_entry_and_refused_a_second_time: ForgetfulRequestStore,
    a_request_is_taken_over_by_one_run_from_the_run_that_it_is_recorded_with: ForgetfulRequestStore,
    an_old_request_is_listed_dropped_and_may_come_again: KeepsRequestsStore,
    the_last_request_whose_key_begins_with_a_text_is_found: ExactRequestStore,
    a_request_that_is_kept_for_less_expires_earlier: KeepsAllRequestsAlikeStore,
}


@pytest.mark.parametrize("promise", BROKEN_BY, ids=get_function_name)
@every_store
async def test_every_store_keeps_every_promise(open_store: OpenStore, promise: Promise, tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        await check_promise(promise, store)


@pytest.mark.parametrize("promise", BROKEN_BY, ids=get_function_name)
async def test_a_store_that_breaks_the_promise_is_found_out(promise: Promise) -> None:
    await expect_break(promise, BROKEN_BY[promise]())
