"""What every store promises of small records and locks; each promise has a store that breaks it."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from contracts.store_contract import OpenStore, Promise, check_promise, every_store, expect_break, get_function_name
from stores.memory_replicas import MemoryDatabase, SharedMemoryStore
from toolyard.app import SystemClock
from toolyard.core.caller import Caller
from toolyard.core.store import (
    Store,
)
from toolyard.engine.access.presets import Presets
from toolyard.stores.memory import MemoryStore


async def records_are_kept_by_kind_in_the_order_of_their_first_setting(store: Store) -> None:
    for name, body in (("b", b"1"), ("a", b"\0"), ("b", b"2")):
        await store.set_record("server", name, body)
    await store.set_record("pin", "b", b"3")
    assert list(await store.list_records("server")) == [("b", b"2"), ("a", b"\0")]
    await store.delete_record("server", "b")
    await store.delete_record("server", "nobody")
    assert list(await store.list_records("server")) == [("a", b"\0")]
    assert list(await store.list_records("pin")) == [("b", b"3")]


async def a_record_that_is_added_replaces_none_and_the_stored_one_is_returned(store: Store) -> None:
    await store.set_record("name", "b", b"old")
    assert dict(await store.add_records("name", {"c": b"1", "b": b"new", "a": b"\0"})) == {
        "c": b"1",
        "b": b"old",
        "a": b"\0",
    }
    assert dict(await store.add_records("name", {"a": b"2"})) == {"a": b"\0"}
    assert dict(await store.add_records("name", {})) == {}
    assert dict(await store.list_records("name")) == {"b": b"old", "c": b"1", "a": b"\0"}
    assert await store.read_record("other", "a") is None
    added = await asyncio.gather(*(store.add_records("race", {"x": bytes([number])}) for number in range(8)))
    assert len({records["x"] for records in added}) == 1


async def a_lock_keeps_other_tasks_waiting_until_its_block_ends(store: Store) -> None:
    steps: list[str] = []

    async def work(name: str) -> None:
        async with store.lock("oauth", "server"):
            steps.append(f"{name} begins")
            await asyncio.sleep(0)
            async with store.lock("oauth", "another"):
                steps.append(f"{name} ends")

    with suppress(ValueError):
        async with store.lock("oauth", "server"):
            raise ValueError("a block that fails frees its lock")
    await asyncio.gather(work("first"), work("second"))
    assert [step.partition(" ")[2] for step in steps] == ["begins", "ends"] * 2


async def presets_that_are_shared_at_the_same_time_are_all_kept(store: Store) -> None:
    presets, callers = Presets(store, SystemClock()), [Caller(user=user, tenant="t") for user in ("ana", "bo", "cy")]
    await asyncio.gather(*(presets.save(caller, caller.user, b"{}", shared=True) for caller in callers))
    await presets.save(callers[0], "own", b"{}", shared=False)
    await presets.save(Caller(user="ana", tenant="t2"), "elsewhere", b"{}", shared=True)
    assert [preset.name for preset in await presets.list(callers[0])] == ["ana", "bo", "cy", "own"]
    await presets.delete(callers[1], "bo", shared=True)
    assert [preset.name for preset in await presets.list(callers[1])] == ["ana", "cy"]


class NewestRecordFirstStore(MemoryStore):
    """Lists records the other way round."""

    async def list_records(self, kind: str) -> Sequence[tuple[str, bytes]]:
        return (await super().list_records(kind))[::-1]


class OverwritesRecordsStore(SharedMemoryStore):
    """Adds a record whether its name is free or not."""

    async def add_records(self, kind: str, records: Mapping[str, bytes]) -> Mapping[str, bytes]:
        for name, body in records.items():
            await self.set_record(kind, name, body)
        return records


class UnlockedStore(SharedMemoryStore):
    """Lets everybody in."""

    def __init__(self, database: MemoryDatabase | None = None) -> None:
        super().__init__(database)
        self.lock = self.let_in

    @asynccontextmanager
    async def let_in(self, kind: str, name: str) -> AsyncGenerator[None]:
        yield


class UnlockedSlowStore(UnlockedStore):
    """Lets everybody in, and lets others write while it reads."""

    async def read_record(self, kind: str, name: str) -> bytes | None:
        body = await super().read_record(kind, name)
        await asyncio.sleep(0)
        return body


BROKEN_BY: dict[Promise, type[MemoryStore]] = {
    records_are_kept_by_kind_in_the_order_of_their_first_setting: NewestRecordFirstStore,
    a_record_that_is_added_replaces_none_and_the_stored_one_is_returned: OverwritesRecordsStore,
    a_lock_keeps_other_tasks_waiting_until_its_block_ends: UnlockedStore,
    presets_that_are_shared_at_the_same_time_are_all_kept: UnlockedSlowStore,
}


@pytest.mark.parametrize("promise", BROKEN_BY, ids=get_function_name)
@every_store
async def test_every_store_keeps_every_promise(open_store: OpenStore, promise: Promise, tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        await check_promise(promise, store)


@pytest.mark.parametrize("promise", BROKEN_BY, ids=get_function_name)
async def test_a_store_that_breaks_the_promise_is_found_out(promise: Promise) -> None:
    await expect_break(promise, BROKEN_BY[promise]())
