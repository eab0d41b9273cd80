"""Keeps conversations in one SQLite file, which one process owns. Does not know what an entry means."""

import asyncio
import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, TypeVar, get_args

from msgspec import DecodeError

from toolyard import codec
from toolyard.core.errors import Fenced, Misconfigured, StoreDown
from toolyard.core.events import Entry
from toolyard.stores._lock import sole_owner
from toolyard.stores._writer import Writer, store_down

Synchronous = Literal["NORMAL", "FULL"]
"""NORMAL outlives a crash of the process; FULL also outlives a power cut, at the price of a disk flush per commit."""

APPLICATION_ID = 0x546F6F6C  # "Tool", in the file's header
SCHEMA_VERSION = 1
_SCHEMA = f"""
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
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""
_CLAIM = """INSERT INTO conversations (id, epoch) VALUES (?, 1)
ON CONFLICT (id) DO UPDATE SET epoch = epoch + 1 RETURNING epoch"""
_ADVANCE = """UPDATE conversations SET last_seq = last_seq + :count, wake_at = :wake_at
WHERE id = :id AND epoch = :epoch AND (:count = 0 OR last_seq + 1 = :first)"""
_INSERT = "INSERT INTO batches (conversation, last_seq, entries) VALUES (?, ?, ?)"
_READ = "SELECT entries FROM batches WHERE conversation = ? AND last_seq > ? ORDER BY last_seq"
_DUE = """SELECT id, wake_at FROM conversations WHERE wake_at <= :now
UNION ALL SELECT NULL, min(wake_at) FROM conversations WHERE wake_at > :now"""
_PUT = "INSERT OR REPLACE INTO blobs (conversation, handle, body) VALUES (?, ?, ?)"
_GET = "SELECT body FROM blobs WHERE conversation = ? AND handle = ?"

_T = TypeVar("_T")


class SqliteStore:
    """The embedded store: one writer thread with group commit, one reader thread. Made by `open`."""

    def __init__(self, file: "_OwnFile") -> None:
        self._file = file
        self._writer = Writer(file.writing, file.path, file.resources)

    @classmethod
    async def open(cls, path: str | Path, synchronous: Synchronous = "NORMAL") -> "SqliteStore":
        """Own the file at `path`, made if it is not there. Raises StoreDown or Misconfigured, which say what to do."""
        return cls(_own(Path(path), synchronous))

    @property
    def commits(self) -> int:
        """How many transactions were committed since it was opened."""
        return self._writer.commits

    async def append(self, conversation: str, epoch: int, entries: Sequence[Entry], wake_at: float | None) -> None:
        first = entries[0].seq if entries else 0
        for seq, entry in enumerate(entries, first):
            if entry.seq != seq:
                raise Fenced(f"entry {entry.seq} of conversation {conversation!r} is out of order: {seq} comes next")
        lines = b"\n".join(codec.encode_entries(entries))
        row = {"id": conversation, "epoch": epoch, "first": first, "count": len(entries), "wake_at": wake_at}
        last = first + len(entries) - 1

        def work(connection: sqlite3.Connection) -> int:
            if not connection.execute(_ADVANCE, row).rowcount:
                raise Fenced(_why_fenced(connection, conversation, epoch, first))
            if lines:
                connection.execute(_INSERT, (conversation, last, lines))
            return last

        await self._writer.run(work, len(lines))

    async def read(self, conversation: str, after: int = 0, most: int = 0) -> Sequence[Entry]:
        def query(connection: sqlite3.Connection) -> list[Entry]:
            with closing(connection.execute(_READ, (conversation, after))) as batches:
                entries = (codec.decode_entry(line) for (lines,) in batches for line in lines.split(b"\n"))
                return list(islice((entry for entry in entries if entry.seq > after), most or None))

        return await self._query(query)

    async def claim(self, conversation: str) -> int:
        def work(connection: sqlite3.Connection) -> int:
            (epoch,) = connection.execute(_CLAIM, (conversation,)).fetchone()
            return epoch

        return await self._writer.run(work)

    async def due(self, now: float) -> tuple[Sequence[str], float | None]:
        def query(connection: sqlite3.Connection) -> tuple[list[str], float | None]:
            *due, (_, later) = connection.execute(_DUE, {"now": now}).fetchall()
            return [conversation for conversation, _ in due], later

        return await self._query(query)

    async def put(self, conversation: str, handle: str, body: bytes) -> None:
        def work(connection: sqlite3.Connection) -> int:
            return connection.execute(_PUT, (conversation, handle, body)).rowcount

        await self._writer.run(work, len(body))

    async def get(self, conversation: str, handle: str) -> bytes | None:
        def query(connection: sqlite3.Connection) -> bytes | None:
            row = connection.execute(_GET, (conversation, handle)).fetchone()
            return row[0] if row else None

        return await self._query(query)

    async def close(self) -> None:
        await self._writer.close()

    async def _query(self, query: Callable[[sqlite3.Connection], _T]) -> _T:
        path = self._file.path
        if self._writer.closed:
            raise StoreDown(f"{path} is closed: open the store again")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._file.readers, query, self._file.reading)
        except sqlite3.Error as error:
            raise store_down(path, error) from error
        except DecodeError as error:
            raise StoreDown(
                f"{path} holds an entry that cannot be read: {error}. A newer version may read it"
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _OwnFile:
    path: Path
    writing: sqlite3.Connection
    reading: sqlite3.Connection
    readers: ThreadPoolExecutor
    resources: ExitStack
    """Closes everything in the right order: the last connection to close checkpoints, then the lock is given up."""


def _own(path: Path, synchronous: Synchronous) -> _OwnFile:
    if synchronous not in get_args(Synchronous):
        raise Misconfigured(f"synchronous must be NORMAL or FULL, not {synchronous!r}")
    try:
        path = path.expanduser().resolve()  # two names of one file share one lock
        with ExitStack() as resources:
            path.parent.mkdir(parents=True, exist_ok=True)
            resources.enter_context(sole_owner(path))
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            writing = resources.enter_context(closing(_connect(path, "rw")))
            _require_our_file(writing, path)
            _set_durability(writing, path, synchronous)
            reading = resources.enter_context(closing(_connect(path, "ro")))
            readers = resources.enter_context(ThreadPoolExecutor(1, thread_name_prefix="toolyard-reader"))
            return _OwnFile(path=path, writing=writing, reading=reading, readers=readers, resources=resources.pop_all())
    except (sqlite3.Error, OSError) as error:
        raise store_down(path, error) from error


def _connect(path: Path, mode: Literal["ro", "rw"]) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.as_uri()}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False)


def _require_our_file(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables of a new file; refuse what another program or a newer version made."""
    (objects,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if not objects:
        connection.executescript(_SCHEMA)
    elif application != APPLICATION_ID:
        raise Misconfigured(f"{path} is a database of another program: give another path")
    elif version > SCHEMA_VERSION:
        raise Misconfigured(
            f"{path} is of schema version {version}, and this Toolyard knows up to {SCHEMA_VERSION}: use a newer one"
        )


def _set_durability(connection: sqlite3.Connection, path: Path, synchronous: Synchronous) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise Misconfigured(f"{path} is on a disk that cannot keep a write-ahead log: give a path on a local disk")
    connection.execute(f"PRAGMA synchronous = {synchronous}")


def _why_fenced(connection: sqlite3.Connection, conversation: str, epoch: int, first: int) -> str:
    row = connection.execute("SELECT epoch, last_seq FROM conversations WHERE id = ?", (conversation,)).fetchone()
    current, last_seq = row or (None, 0)
    if epoch != current:
        return f"epoch {epoch} does not own conversation {conversation!r}: its epoch is {current}"
    return f"entry {first} of conversation {conversation!r} is out of order: {last_seq + 1} comes next"
