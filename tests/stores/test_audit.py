"""The audit log in its tables: statements that would change it are refused, and what was forced in is found."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import asyncpg
import pytest

from support import TEST_TIMEOUT_S, find_break
from toolyard.core.store import Store
from toolyard.core.store.audit_chain import AuditQuery, AuditRecord
from toolyard.stores.postgres import PostgresStore
from toolyard.stores.sqlite import SqliteStore

EVERY_ENTRY = AuditQuery(oldest_first=True)
CHANGES = ("UPDATE audit SET actor = 'mallory' WHERE number = 2", "DELETE FROM audit WHERE number = 2")
TRIM = AuditRecord(at=9.0, action="audit.trim")
CUTS = {
    "number = 3": "entries 1 and on are missing: the next one is 4",
    "number = 4": "entry 4 is missing: the next one is 5",
    "number = 5": "entries 1 and on are missing: the next one is 3",
    "number < 5": "entries 1 and on are missing: the next one is 5",
}
"""What is deleted by force from a log of four entries whose first two were trimmed, and what is found then."""


async def write_entries(store: Store) -> None:
    for number in range(4):
        await store.append_audit(AuditRecord(at=float(number), action="key.add", target=f"key-{number}", actor="ann"))
    assert find_break(await store.read_audit(EVERY_ENTRY)) == ""


async def write_trimmed(store: Store) -> None:
    await write_entries(store)
    assert await store.trim_audit(TRIM, 2.0, 100)
    assert [entry.number for entry in await store.read_audit(EVERY_ENTRY)] == [3, 4, 5]
    assert find_break(await store.read_audit(EVERY_ENTRY)) == ""


def force_in_file(path: Path, statement: str) -> None:
    """Change the file as somebody with its password would: the triggers only keep us from doing it ourselves."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(statement)
        for trigger in ("audit_without_update", "audit_without_delete"):
            connection.execute(f"DROP TRIGGER {trigger}")
        connection.execute(statement)


async def force_in_database(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    for refused in (statement, "TRUNCATE audit"):
        with pytest.raises(asyncpg.PostgresError, match="append-only"):
            await connection.execute(refused)
    await connection.execute("ALTER TABLE audit DISABLE TRIGGER USER")
    await connection.execute(statement)
    await connection.close()


@pytest.mark.parametrize("change", CHANGES)
async def test_a_file_refuses_a_change_of_its_log_and_a_forced_one_is_found(change: str, tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store.db")
    await write_entries(store)
    force_in_file(tmp_path / "store.db", change)
    assert find_break(await store.read_audit(EVERY_ENTRY)).startswith("entry 2 ")
    await store.close()


@pytest.mark.parametrize("number", [0, -7])
async def test_an_entry_that_was_put_before_the_first_one_is_found(number: int, tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store.db")
    await write_entries(store)
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as connection:
        connection.execute("CREATE TEMP TABLE copied AS SELECT * FROM audit WHERE number = 1")
        connection.execute("UPDATE copied SET number = ?, previous = 'x', hash = 'y'", (number,))
        connection.execute("INSERT INTO audit SELECT * FROM copied")
    assert f"the next one is {number}" in find_break(await store.read_audit(EVERY_ENTRY))
    await store.close()


async def test_a_value_of_another_type_is_found_too(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store.db")
    await write_entries(store)
    force_in_file(tmp_path / "store.db", "UPDATE audit SET count = x'00ff' WHERE number = 3")
    assert find_break(await store.read_audit(EVERY_ENTRY)).startswith("entry 3 was changed")
    await store.close()


@pytest.mark.parametrize("change", CHANGES)
async def test_a_database_refuses_a_change_of_its_log_and_a_forced_one_is_found(change: str, postgres_url: str) -> None:
    store = await PostgresStore.open(postgres_url)
    await write_entries(store)
    await force_in_database(postgres_url, change)
    assert find_break(await store.read_audit(EVERY_ENTRY)).startswith("entry 2 ")
    await store.close()


@pytest.mark.parametrize("cut", CUTS)
async def test_a_file_refuses_to_lose_more_than_was_trimmed_and_a_forced_cut_is_found(cut: str, tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store.db")
    await write_trimmed(store)
    force_in_file(tmp_path / "store.db", f"DELETE FROM audit WHERE {cut}")
    assert find_break(await store.read_audit(EVERY_ENTRY)) == CUTS[cut]
    await store.close()


@pytest.mark.parametrize("cut", CUTS)
async def test_a_database_refuses_to_lose_more_than_was_trimmed_and_a_forced_cut_is_found(
    cut: str, postgres_url: str
) -> None:
    store = await PostgresStore.open(postgres_url)
    await write_trimmed(store)
    await force_in_database(postgres_url, f"DELETE FROM audit WHERE {cut}")
    assert find_break(await store.read_audit(EVERY_ENTRY)) == CUTS[cut]
    await store.close()


async def test_replicas_that_trim_and_write_at_the_same_time_leave_one_chain(postgres_url: str) -> None:
    first, second = await PostgresStore.open(postgres_url), await PostgresStore.open(postgres_url)
    for number in range(20):
        await first.append_audit(AuditRecord(at=float(number), action="key.add"))
    new = AuditRecord(at=100.0, action="key.revoke")
    trims = [store.trim_audit(TRIM, 15.0, 5) for store in (first, second) for _ in range(4)]
    written = await asyncio.gather(*trims, *(store.append_audit(new) for store in (first, second) for _ in range(5)))
    entries = await second.read_audit(EVERY_ENTRY)
    assert find_break(entries) == ""
    assert sum(entry.count for entry in entries if entry.action == "audit.trim") == 15
    assert [entry.number for entry in entries] == list(range(16, 34)) and written.count(None) == 5
    await first.close()
    await second.close()


async def test_entries_that_come_at_once_share_a_transaction(postgres_url: str) -> None:
    store = await PostgresStore.open(postgres_url)
    records = [AuditRecord(at=1.0, action="key.add", target=f"key-{number}") for number in range(50)]
    written = await asyncio.gather(*(store.append_audit(record) for record in records))
    assert await store.read_audit(EVERY_ENTRY) == written and find_break(written) == ""
    assert [entry.target for entry in written] == [record.target for record in records]
    connection = await asyncpg.connect(postgres_url)
    assert (
        await connection.fetchval("SELECT count(DISTINCT xmin::text) FROM audit") == 2
    )  # the first one, then the rest
    await connection.close()
    await store.close()


async def test_a_writer_that_is_cancelled_loses_no_entry_of_another(postgres_url: str) -> None:
    store = await PostgresStore.open(postgres_url)
    connection = await asyncpg.connect(postgres_url)
    async with connection.transaction():
        await connection.execute("LOCK audit IN EXCLUSIVE MODE")
        first, *others = (
            asyncio.create_task(store.append_audit(AuditRecord(at=1.0, action="key.add", target=f"key-{number}")))
            for number in range(4)
        )
        async with asyncio.timeout(TEST_TIMEOUT_S):
            while not await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
                pass
        first.cancel()
        others.pop().cancel()
        await asyncio.wait({first})
    written = await asyncio.gather(*others)
    assert [entry.target for entry in written] == ["key-1", "key-2"]
    assert await store.read_audit(EVERY_ENTRY) == written
    await connection.close()
    await store.close()
