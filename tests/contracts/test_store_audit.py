"""What every store promises of the audit log; each promise has a store that breaks it."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

import msgspec
import pytest
from msgspec.structs import replace

from contracts.store_contract import OpenStore, Promise, check_promise, every_store, expect_break, get_function_name
from support import find_break
from toolyard.core.store import KEYS, Key, RecordChange, Store
from toolyard.core.store.audit_chain import AuditAction, AuditEntry, AuditQuery, AuditRecord, seal_record
from toolyard.stores.memory import MemoryStore


async def audit_entries_are_one_chain_however_many_are_written_at_once(store: Store) -> None:
    records = [AuditRecord(at=float(number), action="key.add", target=f"key-{number}") for number in range(20)]
    written = await asyncio.gather(*map(store.append_audit, records))
    entries = list(await store.read_audit(AuditQuery(oldest_first=True)))
    assert [entry.number for entry in entries] == list(range(1, 21))
    assert sorted(written, key=lambda entry: entry.number) == entries
    assert find_break(entries) == ""
    assert {entry.target for entry in entries} == {record.target for record in records}


async def audit_entries_are_selected_and_paged_in_both_orders(store: Store) -> None:
    for number in range(1, 9):
        await store.append_audit(
            AuditRecord(
                at=float(number),
                action="key.add" if number % 2 else "key.revoke",
                actor="ann" if number > 4 else "bob",
                tenant="" if number == 8 else "acme",
                outcome="refused" if number == 3 else "allowed",
                count=number,
            )
        )

    async def list_numbers(**fields: object) -> list[int]:
        return [entry.number for entry in await store.read_audit(AuditQuery(**fields))]  # pyright: ignore[reportArgumentType]

    assert await list_numbers(limit=3) == [8, 7, 6]
    assert await list_numbers(limit=3, cursor=6) == [5, 4, 3]
    assert await list_numbers(limit=3, oldest_first=True) == [1, 2, 3]
    assert await list_numbers(limit=3, cursor=6, oldest_first=True) == [7, 8]
    assert await list_numbers(tenant="acme", action="key.revoke") == [6, 4, 2]
    assert await list_numbers(tenant="") == [8]
    assert await list_numbers(outcome="refused") == [3]
    assert await list_numbers(actor="bob", since=3.0) == [4, 3]
    (last,) = await store.read_audit(AuditQuery(limit=1))
    assert last.count == 8 and isinstance(last.at, float)


async def old_audit_entries_are_trimmed_up_to_the_first_that_stays(store: Store) -> None:
    # The fifth was written while a clock was behind: it stays with the one before it.
    for at in (1.0, 2.0, 3.0, 10.0, 4.0, 11.0):
        await store.append_audit(AuditRecord(at=at, action="key.add"))
    hashes = {entry.number: entry.hash for entry in await store.read_audit(AuditQuery())}
    record = AuditRecord(at=12.0, action="audit.trim")
    assert await store.trim_audit(record, 1.0, 100) is None
    first = await store.trim_audit(record, 5.0, 2)
    assert first and (first.number, first.target, first.count, first.content_hash) == (7, "2", 2, hashes[2])
    second = await store.trim_audit(record, 5.0, 2)
    assert second and (second.number, second.target, second.count, second.content_hash) == (8, "3", 1, hashes[3])
    assert await store.trim_audit(record, 5.0, 2) is None
    entries = await store.read_audit(AuditQuery(oldest_first=True))
    assert [entry.number for entry in entries] == [4, 5, 6, 7, 8] and entries[-1] == second
    assert find_break(entries) == ""
    everything = await store.trim_audit(record, 100.0, 100)
    assert everything and await store.read_audit(AuditQuery()) == [everything]
    after = await store.append_audit(AuditRecord(at=13.0, action="key.add"))
    assert find_break([everything, after]) == ""


async def records_change_together_with_their_audit_entries_or_not_at_all(store: Store) -> None:
    def change(name: str, body: bytes | None, action: AuditAction) -> RecordChange:
        return RecordChange(kind="test", name=name, body=body, audit=AuditRecord(at=1.0, action=action, target=name))

    await store.set_record("test", "old", b"1")
    unaudited = RecordChange(kind="other", name="new", body=b"3")
    written = await store.change_records(
        [change("old", None, "setting.delete"), change("new", b"2", "setting.set"), unaudited]
    )
    assert await store.list_records("test") == [("new", b"2")] and await store.read_record("other", "new") == b"3"
    entries = await store.read_audit(AuditQuery(oldest_first=True))
    assert list(written) == entries and find_break(entries) == ""
    assert [(entry.action, entry.target) for entry in entries] == [("setting.delete", "old"), ("setting.set", "new")]
    impossible = change(cast(str, 2**80), b"5", "setting.set")  # no database takes such a name
    with suppress(Exception):
        await store.change_records([change("new", b"4", "setting.set"), impossible])
    is_changed = await store.read_record("test", "new") == b"4"
    assert len(await store.read_audit(AuditQuery())) == len(entries) + 2 * is_changed


async def keys_change_together_with_their_audit_entries_or_not_at_all(store: Store) -> None:
    def change(name: str, key: Key | None, action: AuditAction) -> RecordChange:
        audit = AuditRecord(at=1.0, action=action, target=name)
        return RecordChange(kind=KEYS, name=name, body=msgspec.json.encode(key) if key else None, audit=audit)

    ann, bob = Key(name="ann", hash="1", user="ann"), Key(name="bob", hash="2", user="bob")
    await store.change_records([change("ann", ann, "key.add"), change("bob", bob, "key.add")])
    rotated = replace(ann, hash="3")
    await store.change_records([change("ann", rotated, "key.rotate"), change("bob", None, "key.revoke")])
    assert await store.keys() == [rotated] and await store.list_records(KEYS) == []
    entries = await store.read_audit(AuditQuery(oldest_first=True))
    actions = [(entry.action, entry.target) for entry in entries]
    assert actions == [("key.add", "ann"), ("key.add", "bob"), ("key.rotate", "ann"), ("key.revoke", "bob")]
    impossible = change(cast(str, 2**80), bob, "key.add")  # no database takes such a name
    with suppress(Exception):
        await store.change_records([change("ann", None, "key.revoke"), impossible])
    is_changed = "ann" not in [key.name for key in await store.keys()]
    assert len(await store.read_audit(AuditQuery())) == len(entries) + 2 * is_changed


class ForkingAuditStore(MemoryStore):
    """Lets other tasks append between reading the last entry and writing the next one."""

    async def append_audit(self, record: AuditRecord) -> AuditEntry:
        entry = seal_record(record, self._data.audit[-1] if self._data.audit else None)
        await asyncio.sleep(0)
        self._data.audit.append(entry)
        return entry


class AllTenantsAuditStore(MemoryStore):
    """Returns the entries of all tenants."""

    async def read_audit(self, query: AuditQuery) -> Sequence[AuditEntry]:
        return await super().read_audit(replace(query, tenant=None))


class SilentTrimStore(MemoryStore):
    """Deletes old entries wherever they are, and says so with an entry that names none of them."""

    async def trim_audit(self, record: AuditRecord, before: float, limit: int) -> AuditEntry | None:
        self._data.audit = [entry for entry in self._data.audit if entry.at >= before]
        return await self.append_audit(record)


class SeparateChangesStore(MemoryStore):
    """Changes one record after the other, and stops at the first that is wrong."""

    async def change_records(self, changes: Sequence[RecordChange]) -> Sequence[AuditEntry]:
        entries: list[AuditEntry] = []
        for change in changes:
            if not isinstance(change.name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError
            entries.extend(await super().change_records([change]))
        return entries


BROKEN_BY: dict[Promise, type[MemoryStore]] = {
    audit_entries_are_one_chain_however_many_are_written_at_once: ForkingAuditStore,
    audit_entries_are_selected_and_paged_in_both_orders: AllTenantsAuditStore,
    old_audit_entries_are_trimmed_up_to_the_first_that_stays: SilentTrimStore,
    records_change_together_with_their_audit_entries_or_not_at_all: SeparateChangesStore,
    keys_change_together_with_their_audit_entries_or_not_at_all: SeparateChangesStore,
}


@pytest.mark.parametrize("promise", BROKEN_BY, ids=get_function_name)
@every_store
async def test_every_store_keeps_every_promise(open_store: OpenStore, promise: Promise, tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        await check_promise(promise, store)


@pytest.mark.parametrize("promise", BROKEN_BY, ids=get_function_name)
async def test_a_store_that_breaks_the_promise_is_found_out(promise: Promise) -> None:
    await expect_break(promise, BROKEN_BY[promise]())
