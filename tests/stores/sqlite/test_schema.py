"""A file of an earlier schema opens, gets the tables of today and fills them from its entries; or is left as it is."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from stores.sqlite.opening import open_store
from support import append_entries, claim_epoch
from toolyard.core.conversation.events import Entry, RunEnded
from toolyard.core.errors import StoreDown
from toolyard.core.store import CatalogQuery, ConversationCard, Key
from toolyard.stores.sqlite import SqliteStore
from toolyard.stores.sqlite.schema import SCHEMA_VERSION

VERSION_1 = """
PRAGMA journal_mode = WAL;
BEGIN IMMEDIATE;
CREATE TABLE conversations (
    id TEXT PRIMARY KEY,
    epoch INTEGER NOT NULL,
    last_seq INTEGER NOT NULL DEFAULT 0,
    wake_at REAL
) WITHOUT ROWID;
CREATE INDEX conversations_waiting ON conversations (wake_at) WHERE wake_at IS NOT NULL;
CREATE TABLE batches (
    conversation TEXT NOT NULL,
    last_seq INTEGER NOT NULL,
    entries BLOB NOT NULL,  -- one line each: a batch costs one row, however many it holds
    PRIMARY KEY (conversation, last_seq)
);
CREATE TABLE blobs (
    conversation TEXT NOT NULL,
    handle TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (conversation, handle)
);
PRAGMA application_id = 1416589164;
PRAGMA user_version = 1;
COMMIT;
"""
"""Frozen: what the first version made of an empty file."""

OPENED = """{"conversation":"c","seq":1,"at":1.5,"event":{"type":"conversation.opened",
"owner":{"user":"ana","roles":["staff"],"tenant":"acme"},"settings":{"title":"Milk","description":"and eggs"}}}"""
QUEUED = """{"conversation":"c","seq":2,"at":2.5,"event":{"type":"run.queued","caller":{"user":"ana"},
"input":[{"type":"user_message","id":"m1","at":2.5,"parts":[{"type":"text","text":"买牛奶"}]}]},
"run":"run_1","correlation_id":"trace_1"}"""
CHANGED = (
    """{"conversation":"c","seq":3,"at":3.5,"event":{"type":"conversation.changed","settings":{"title":"Bread"}}}"""
)
STOPPED = """{"conversation":"c","seq":4,"at":4.5,"event":{"type":"stop.requested","by":"ana"},"correlation_id":"t"}"""
DEFAULTS = """{"conversation":"d","seq":1,"at":9.5,"event":{"type":"conversation.opened","owner":{},"settings":{}}}"""
UNREADABLE = """{"conversation":"d","seq":1,"at":9.5,"event":{"type":"conversation.opened","owner":{},
"settings":{"title":"Odd","context":{"a shape":"of long ago"}}}}"""
BARE = """{"conversation":"e","seq":1,"at":5.5,"event":{"type":"run.queued","caller":{},"input":[]},"run":"run_9"}"""
BROKEN = """{"conversation":"f","seq":1,"at":"""


def batch(*lines: str) -> bytes:
    return "\n".join(line.replace("\n", "") for line in lines).encode()


def old_file(path: Path, *more: tuple[str, int, bytes]) -> Path:
    batches = [("c", 2, batch(OPENED, QUEUED)), ("c", 4, batch(CHANGED, STOPPED)), ("e", 1, batch(BARE)), *more]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(VERSION_1)
        connection.execute("INSERT INTO conversations VALUES ('c', 7, 4, 5.0), ('d', 1, 1, NULL), ('e', 2, 1, NULL)")
        connection.execute("INSERT INTO conversations VALUES ('claimed', 3, 0, NULL)")
        connection.executemany("INSERT INTO batches VALUES (?, ?, ?)", batches)
        connection.execute("INSERT INTO blobs VALUES ('c', 'blob_1', x'00ff')")
    return path


def version_and_tables(path: Path) -> tuple[int, list[tuple[str, ...]]]:
    with closing(sqlite3.connect(path)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        return version, connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall()


MILK = ConversationCard(
    id="c", user="ana", tenant="acme", title="Bread", description="", created_at=1.5, updated_at=4.5
)  # fmt: skip


async def test_a_file_of_the_first_version_keeps_what_it_held_and_gets_a_catalog(tmp_path: Path) -> None:

    path = old_file(tmp_path / "store.db", ("d", 1, batch(DEFAULTS)))
    async with open_store(path) as store:
        assert [entry.seq for entry in await store.read("c")] == [1, 2, 3, 4]
        assert await store.find_due(5.0, 10) == (["c"], None)
        assert await store.get_blob("c", "blob_1") == b"\x00\xff"
        assert await store.card("c") == MILK
        assert await store.cards(CatalogQuery(tenant="acme", text="牛奶")) == [MILK]
        local = ConversationCard(
            id="d", user="local", tenant="", title="", description="", created_at=9.5, updated_at=9.5
        )
        assert await store.cards(CatalogQuery(tenant="")) == [local]
        assert await store.card("e") is await store.card("claimed") is None
        assert await store.find_runs("trace_1") == [("c", "run_1")]
        assert await store.find_runs("t") == await store.find_runs("") == []
        assert await claim_epoch(store, "c") == 8
        await append_entries(store, "c", 8, [Entry(conversation="c", seq=5, at=6.5, event=RunEnded(ending="done"))])
        await store.save_key(Key(name="k", hash="h", user="u"))
    async with open_store(path) as store:
        card = await store.card("c")
        assert card and (card.title, card.updated_at) == ("Bread", 6.5)
        assert [key.name for key in await store.keys()] == ["k"]
        await store.delete_conversation("c")
        assert await claim_epoch(store, "c") == 9


async def test_it_gets_the_same_tables_as_a_new_file(tmp_path: Path) -> None:
    old, new = old_file(tmp_path / "old.db"), tmp_path / "new.db"
    assert version_and_tables(old)[0] == 1
    for path in (old, new):
        async with open_store(path):
            pass
    assert version_and_tables(old) == version_and_tables(new)
    assert version_and_tables(new)[0] == SCHEMA_VERSION == 12


async def test_a_copy_of_the_earlier_version_is_kept_and_named_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = old_file(tmp_path / "store.db")
    before = version_and_tables(path)
    for _ in range(2):
        async with open_store(path):
            pass
    copy = tmp_path / "store.db.schema-1"
    assert version_and_tables(copy) == before
    (line,) = [record.getMessage() for record in caplog.records if "schema version" in record.getMessage()]
    assert line == f"migrating {path} from schema version 1 to {SCHEMA_VERSION}; a copy is {copy}"
    copy.replace(path)
    async with open_store(path) as store:
        assert [entry.seq for entry in await store.read("c")] == [1, 2, 3, 4]


async def test_an_entry_that_only_the_code_of_then_could_read_does_not_keep_the_file_shut(tmp_path: Path) -> None:
    async with open_store(old_file(tmp_path / "store.db", ("d", 1, batch(UNREADABLE)))) as store:
        card = await store.card("d")
        assert card and card.title == "Odd"
        with pytest.raises(StoreDown, match="holds an entry that cannot be read"):
            await store.read("d")


async def test_a_file_whose_entries_cannot_be_read_is_left_as_it_is(tmp_path: Path) -> None:
    path = old_file(tmp_path / "store.db", ("f", 1, batch(BROKEN)))
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(StoreDown, match=f"{path}: it holds an entry that cannot be read.*left as it is"):
            await SqliteStore.open(path)
    assert version_and_tables(path)[0] == 1
    assert path.read_bytes() == before
