"""`toolyard audit`: list what was recorded, and find what was tampered with."""

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from cli.process import run_toolyard, start_server
from toolyard.core.audit import AuditRecord
from toolyard.stores.sqlite import SqliteStore


def add_keys(directory: Path) -> str:
    """Add three keys, and return the secret of the first."""
    secrets = [
        run_toolyard(directory, "keys", "add", name, "--user", name, "--role", "admin") for name in ("ann", "bob", "cy")
    ]
    assert [added.code for added in secrets] == [0, 0, 0]
    return secrets[0].out.splitlines()[0]


def tamper(directory: Path, statement: str) -> None:
    """Change the file as somebody with its password would: the triggers only keep us from doing it ourselves."""
    with closing(sqlite3.connect(directory / "data" / "toolyard" / "toolyard.db")) as connection, connection:
        connection.execute("DROP TRIGGER IF EXISTS audit_without_update")
        connection.execute("DROP TRIGGER IF EXISTS audit_without_delete")
        assert connection.execute(statement).rowcount == 1


def test_a_whole_log_is_verified_in_the_store_and_through_the_server(tmp_path: Path) -> None:
    secret = add_keys(tmp_path)
    listed = run_toolyard(tmp_path, "audit", "list", "--action", "key.add", "--limit", "2")
    rows = [line.split() for line in listed.out.splitlines()[1:]]
    assert [row[3:6] for row in rows] == [["key.add", "cy", "allowed"], ["key.add", "bob", "allowed"]]
    assert secret not in listed.out and "command line" in listed.out
    verified = run_toolyard(tmp_path, "audit", "verify")
    assert (verified.code, "The audit log is whole: 3 entries." in verified.out) == (0, True)
    head = verified.out.split()[-1].rstrip(".")
    assert run_toolyard(tmp_path, "audit", "verify", "--contains", head).code == 0
    with start_server(tmp_path):
        assert run_toolyard(tmp_path, "audit", "verify").code == 1, "it needs a key"
        served = run_toolyard(tmp_path, "audit", "verify", "--contains", head, TOOLYARD_KEY=secret)
        assert served.code == 0, served.errors
        assert "key.add" in run_toolyard(tmp_path, "audit", "list", TOOLYARD_KEY=secret).out
    assert run_toolyard(tmp_path, "audit", "list", "--since", "yesterday").code == 2


def test_the_first_row_that_was_tampered_with_is_named(tmp_path: Path) -> None:
    add_keys(tmp_path)
    tamper(tmp_path, "UPDATE audit SET actor = 'mallory' WHERE number = 2")
    found = run_toolyard(tmp_path, "audit", "verify")
    assert found.code == 1
    assert found.out == "The audit log is broken: entry 2 was changed: its content does not match its hash.\n"


def test_a_row_that_was_removed_is_reported_as_missing(tmp_path: Path) -> None:
    add_keys(tmp_path)
    head = run_toolyard(tmp_path, "audit", "verify").out.split()[-1].rstrip(".")
    tamper(tmp_path, "DELETE FROM audit WHERE number = 3")
    assert run_toolyard(tmp_path, "audit", "verify").code == 0, "the chain alone does not show its end"
    found = run_toolyard(tmp_path, "audit", "verify", "--contains", head)
    assert found.code == 1 and "entries were removed or replaced" in found.out
    tamper(tmp_path, "DELETE FROM audit WHERE number = 1")
    found = run_toolyard(tmp_path, "audit", "verify")
    assert found.code == 1 and "entry 1 is missing" in found.out


async def trim_keys(directory: Path) -> None:
    store = await SqliteStore.open(directory / "data" / "toolyard" / "toolyard.db")
    after = time.time() + 1.0
    assert await store.trim_audit(AuditRecord(at=after, action="audit.trim"), after, 2)
    await store.close()


def test_a_trimmed_log_is_verified_and_the_hash_of_a_trimmed_entry_is_not_found(tmp_path: Path) -> None:
    for name in ("ann", "bob"):
        assert run_toolyard(tmp_path, "keys", "add", name, "--user", name).code == 0
    head = run_toolyard(tmp_path, "audit", "verify").out.split()[-1].rstrip(".")
    assert run_toolyard(tmp_path, "keys", "add", "cy", "--user", "cy").code == 0
    asyncio.run(trim_keys(tmp_path))
    verified = run_toolyard(tmp_path, "audit", "verify")
    assert (verified.code, "whole: 2 entries. The last one is 4" in verified.out) == (0, True), verified.out
    result = run_toolyard(tmp_path, "audit", "verify", "--contains", head)
    assert result.code == 1 and "(the 2 oldest ones were trimmed)" in result.out
    tamper(tmp_path, "DELETE FROM audit WHERE number = 4")
    result = run_toolyard(tmp_path, "audit", "verify")
    assert result.code == 1 and "entries 1 and on are missing: the next one is 3" in result.out
