"""The audit log in its tables: statements that would change it are refused, and what was forced in is found."""

import sqlite3
from contextlib import closing
from pathlib import Path

import asyncpg
import pytest

from toolyard.core.audit import AuditQuery, AuditRecord, find_break
from toolyard.core.store import Store
from toolyard.stores.postgres import PostgresStore
from toolyard.stores.sqlite import SqliteStore

EVERY_ENTRY = AuditQuery(oldest_first=True)
CHANGES = ("UPDATE audit SET actor = 'mallory' WHERE number = 2", "DELETE FROM audit WHERE number = 2")


async def write_entries(store: Store) -> None:
    for number in range(4):
        await store.append_audit(AuditRecord(at=float(number), action="key.add", target=f"key-{number}", actor="ann"))
    assert find_break(await store.read_audit(EVERY_ENTRY), None) == ""


@pytest.mark.parametrize("change", CHANGES)
async def test_a_file_refuses_a_change_of_its_log_and_a_forced_one_is_found(change: str, tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store.db")
    await write_entries(store)
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as connection:
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(change)
        for trigger in ("audit_without_update", "audit_without_delete"):
            connection.execute(f"DROP TRIGGER {trigger}")
        connection.execute(change)
    assert find_break(await store.read_audit(EVERY_ENTRY), None).startswith("entry 2 ")
    await store.close()


@pytest.mark.parametrize("number", [0, -7])
async def test_an_entry_that_was_put_before_the_first_one_is_found(number: int, tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store.db")
    await write_entries(store)
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as connection:
        connection.execute("CREATE TEMP TABLE copied AS SELECT * FROM audit WHERE number = 1")
        connection.execute("UPDATE copied SET number = ?, previous = 'x', hash = 'y'", (number,))
        connection.execute("INSERT INTO audit SELECT * FROM copied")
    assert f"the next one is {number}" in find_break(await store.read_audit(EVERY_ENTRY), None)
    await store.close()


async def test_a_value_of_another_type_is_found_too(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store.db")
    await write_entries(store)
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as connection:
        connection.execute("DROP TRIGGER audit_without_update")
        connection.execute("UPDATE audit SET count = x'00ff' WHERE number = 3")
    assert find_break(await store.read_audit(EVERY_ENTRY), None).startswith("entry 3 was changed")
    await store.close()


@pytest.mark.parametrize("change", CHANGES)
async def test_a_database_refuses_a_change_of_its_log_and_a_forced_one_is_found(change: str, postgres_url: str) -> None:
    store = await PostgresStore.open(postgres_url)
    await write_entries(store)
    connection = await asyncpg.connect(postgres_url)
    for statement in (change, "TRUNCATE audit"):
        with pytest.raises(asyncpg.PostgresError, match="append-only"):
            await connection.execute(statement)
    await connection.execute("ALTER TABLE audit DISABLE TRIGGER USER")
    await connection.execute(change)
    await connection.close()
    assert find_break(await store.read_audit(EVERY_ENTRY), None).startswith("entry 2 ")
    await store.close()
