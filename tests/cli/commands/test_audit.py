"""`toolyard audit`: list what was recorded, and find what was tampered with."""

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from cli.process import run_toolyard, start_server
from toolyard.core.store.audit_chain import AuditEntry, AuditRecord, hash_entry
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


@pytest.mark.parametrize(
    "words", [("audit", "verify"), ("audit", "list"), ("trace", "greeting-1")], ids=lambda words: words[0] + words[1]
)
def test_a_store_that_does_not_exist_is_neither_read_as_empty_nor_created(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    done = run_toolyard(tmp_path, *words, "--store", f"sqlite:///{tmp_path}/none.db")
    assert (done.code, done.out) == (1, "")
    assert done.errors == f"toolyard: there is no store at {tmp_path}/none.db\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["abc", "0" * 63 + "g", "0" * 65])
def test_a_text_that_is_no_hash_is_not_searched_for(text: str, tmp_path: Path) -> None:
    add_keys(tmp_path)
    done = run_toolyard(tmp_path, "audit", "verify", "--contains", text)
    assert (done.code, done.out) == (2, "")
    assert f"{text!r} is not a hash of an entry: it has 64 hexadecimal digits" in done.errors


def test_a_hash_in_capitals_is_found_too(tmp_path: Path) -> None:
    add_keys(tmp_path)
    head = run_toolyard(tmp_path, "audit", "verify").out.split()[-1].rstrip(".")
    assert run_toolyard(tmp_path, "audit", "verify", "--contains", head.upper()).code == 0


async def record_old_revocation(directory: Path) -> None:
    """Record the revocation of a key with a long name two hours ago, which was refused."""
    store = await SqliteStore.open(directory / "data" / "toolyard" / "toolyard.db")
    target = "a-key-of-" + "many-words-" * 10
    at = time.time() - 7200.0
    await store.append_audit(AuditRecord(at=at, action="key.revoke", target=target, outcome="refused"))
    await store.close()


def test_entries_are_selected_by_age_and_outcome_and_a_long_target_is_cut(tmp_path: Path) -> None:
    add_keys(tmp_path)
    asyncio.run(record_old_revocation(tmp_path))

    def list_actions(*flags: str) -> list[str]:
        listed = run_toolyard(tmp_path, "audit", "list", *flags)
        assert listed.code == 0, listed.errors
        return [line.split()[3] for line in listed.out.splitlines()[1:]]

    assert list_actions("--since", "30m") == ["key.add"] * 3
    assert list_actions("--since", "12h") == list_actions("--since", "1d") == ["key.revoke", *["key.add"] * 3]
    assert list_actions("--outcome", "refused") == ["key.revoke"]
    row = run_toolyard(tmp_path, "audit", "list", "--action", "key.revoke").out.splitlines()[1]
    assert "a-key-of-many-words-" in row and "…  refused" in row and len(row) < 130
    unknown = run_toolyard(tmp_path, "audit", "list", "--action", "key.ad")
    assert unknown.code == 2 and "key.ad" in unknown.errors and "key.rotate" in unknown.errors
    assert run_toolyard(tmp_path, "audit", "list", "--outcome", "denied").code == 2
    assert run_toolyard(tmp_path, "audit", "list", "--since", "yesterday").code == 2


def test_entries_are_printed_whole_as_json_lines_by_the_store_and_the_server(tmp_path: Path) -> None:
    secret = add_keys(tmp_path)
    asyncio.run(record_old_revocation(tmp_path))
    flags = ("audit", "list", "--json", "--outcome", "refused")
    lines = run_toolyard(tmp_path, *flags).out.splitlines()
    assert len(lines) == 1
    entry = msgspec.json.decode(lines[0], type=AuditEntry)
    assert entry.target.endswith("many-words-") and hash_entry(entry) == entry.hash
    with start_server(tmp_path):
        assert run_toolyard(tmp_path, *flags, TOOLYARD_KEY=secret).out.splitlines() == lines
    assert run_toolyard(tmp_path, "audit", "list", "--json", "--actor", "nobody").out == ""
