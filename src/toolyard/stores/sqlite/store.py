"""Keeps conversations and keys in one SQLite file, which one process owns. `catalog` reads the entries' content."""

import asyncio
import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Literal, TypeVar, get_args

import msgspec

from toolyard.core.errors import Fenced, Misconfigured, StoreDown
from toolyard.core.events import Entry
from toolyard.core.store import Allowance, CatalogQuery, ConversationCard, Key, RequestRecord
from toolyard.stores.entries import select_catalog_entries
from toolyard.stores.rate_limit import GcraLimiter
from toolyard.stores.sqlite import catalog as _catalog
from toolyard.stores.sqlite.lock import exclusive_lock
from toolyard.stores.sqlite.schema import decode_batch, encode_batch, migrate
from toolyard.stores.sqlite.writer import SqliteWriter, Work, build_store_down
from toolyard.stores.subscribers import Subscribers

Synchronous = Literal["NORMAL", "FULL"]
"""NORMAL survives a crash of the process; FULL also survives a power cut, at the cost of a disk flush per commit."""

SEARCH_BATCH_SIZE = 32
"""How many conversations one job of the reader thread searches."""
_CLAIM = """INSERT INTO conversations (id, epoch) VALUES (?, 1)
ON CONFLICT (id) DO UPDATE SET epoch = abs(epoch) + 1 RETURNING epoch"""
CHECKPOINT_PAGES = 4000
"""16 MB of write-ahead log: a page that many appends change is copied into the file once for all of them."""
# The fence: one statement compares the epoch and advances the sequence, in the transaction that inserts the batch. No
# row matches if another owner has claimed the conversation, if it was deleted (a negative epoch) or if entries would
# leave a gap. An append without entries only sets `wake_at`.
_ADVANCE = """UPDATE conversations
SET last_seq = last_seq + :count, wake_at = :wake_at, updated_at = coalesce(:at, updated_at)
WHERE id = :id AND epoch = :epoch AND epoch > 0 AND (:count = 0 OR last_seq + 1 = :first)"""
_INSERT = "INSERT INTO batches (conversation, last_seq, entries) VALUES (?, ?, ?)"
_READ = "SELECT entries FROM batches WHERE conversation = ? AND last_seq > ? ORDER BY last_seq"
_DUE = """SELECT id, wake_at FROM conversations WHERE wake_at <= :now
UNION ALL SELECT NULL, min(wake_at) FROM conversations WHERE wake_at > :now"""
_PUT = """INSERT OR REPLACE INTO blobs (conversation, handle, body) SELECT :id, :handle, :body
WHERE NOT EXISTS (SELECT 1 FROM conversations WHERE id = :id AND epoch < 0)"""
_GET = "SELECT body FROM blobs WHERE conversation = ? AND handle = ?"
_KEYS = "SELECT key FROM keys ORDER BY name"
_SAVE_KEY = "INSERT OR REPLACE INTO keys (name, key) VALUES (?, ?)"
_REVOKE_KEY = "DELETE FROM keys WHERE name = ?"
_LIST_RECORDS = "SELECT name, body FROM shelf WHERE kind = ? ORDER BY rowid"
_SET_RECORD = "INSERT INTO shelf (kind, name, body) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET body = ?3"
_DELETE_RECORD = "DELETE FROM shelf WHERE kind = ? AND name = ?"

_T = TypeVar("_T")
_key_decoder = msgspec.json.Decoder(Key)


class SqliteStore:
    """The embedded store: one writer thread with group commit, and one reader thread. Use `open` to create one."""

    def __init__(self, file: "_StoreFile") -> None:
        self._file = file
        self._limits = GcraLimiter()
        self._subscribers = Subscribers()
        self._writer = SqliteWriter(file.writing, file.path, file.resources)

    @classmethod
    async def open(cls, path: str | Path, synchronous: Synchronous = "NORMAL") -> "SqliteStore":
        """Open the file at `path` as its owner, creating it if needed. Raises StoreDown or Misconfigured."""
        return cls(_open_file(Path(path), synchronous))

    @property
    def commits(self) -> int:
        """How many transactions were committed since the store was opened."""
        return self._writer.commits

    def begin_append(
        self, conversation: str, epoch: int, entries: Sequence[Entry], wake_at: float | None
    ) -> asyncio.Future[int] | None:
        stored = self._writer.run_now(*_build_append(conversation, epoch, entries, wake_at))
        if stored is not None:
            # Whoever subscribes before the commit has to be woken by it, too: subscribers are looked up afterwards.
            stored.add_done_callback(lambda _: self._subscribers.notify(conversation))
        return stored

    async def append(self, conversation: str, epoch: int, entries: Sequence[Entry], wake_at: float | None) -> None:
        await self._writer.run(*_build_append(conversation, epoch, entries, wake_at))
        self._subscribers.notify(conversation)

    async def read(self, conversation: str, after: int = 0, limit: int = 0) -> Sequence[Entry]:
        def query(connection: sqlite3.Connection) -> list[Entry]:
            with closing(connection.execute(_READ, (conversation, after))) as batches:
                entries = (entry for (lines,) in batches for entry in decode_batch(lines) if entry.seq > after)
                return list(islice(entries, limit or None))

        return await self._query(query)

    def subscribe(self, conversation: str, wake: Callable[[], None]) -> Callable[[], None]:
        return self._subscribers.subscribe(conversation, wake)

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
        row = {"id": conversation, "handle": handle, "body": body}

        def work(connection: sqlite3.Connection) -> int:
            return connection.execute(_PUT, row).rowcount

        await self._writer.run(work, len(body))

    async def get(self, conversation: str, handle: str) -> bytes | None:
        def query(connection: sqlite3.Connection) -> bytes | None:
            row = connection.execute(_GET, (conversation, handle)).fetchone()
            return row[0] if row else None

        return await self._query(query)

    async def card(self, conversation: str) -> ConversationCard | None:
        return await self._query(lambda connection: _catalog.read_card(connection, conversation))

    async def cards(self, query: CatalogQuery) -> Sequence[ConversationCard]:
        if not query.text:
            return await self._query(lambda connection: _catalog.read_page(connection, query))
        ids = await self._query(lambda connection: _catalog.list_ids(connection, query))
        matches: list[ConversationCard] = []
        for start in range(0, len(ids), SEARCH_BATCH_SIZE):  # in batches, so that other reads run in between
            among = ids[start : start + SEARCH_BATCH_SIZE]
            matches += await self._query(partial(_catalog.search, among=among, text=query.text))
            if len(matches) >= query.limit:
                break
        return matches[: query.limit]

    async def find_runs(self, correlation_id: str) -> Sequence[tuple[str, str]]:
        return await self._query(lambda connection: _catalog.find_runs(connection, correlation_id))

    async def find_request(self, key: str) -> RequestRecord | None:
        return await self._query(lambda connection: _catalog.find_request(connection, key))

    async def list_expired_requests(self, before: float, limit: int) -> Sequence[str]:
        return await self._query(lambda connection: _catalog.list_expired_requests(connection, before, limit))

    async def drop_request(self, conversation: str, before: float) -> None:
        await self._writer.run(lambda connection: _catalog.drop_request(connection, conversation, before))

    async def forget(self, conversation: str) -> None:
        await self._writer.run(lambda connection: _catalog.forget(connection, conversation))
        self._subscribers.notify(conversation)

    async def keys(self) -> Sequence[Key]:
        def query(connection: sqlite3.Connection) -> list[Key]:
            return [_key_decoder.decode(key) for (key,) in connection.execute(_KEYS).fetchall()]

        return await self._query(query)

    async def save_key(self, key: Key) -> None:
        row = (key.name, msgspec.json.encode(key))
        await self._writer.run(lambda connection: connection.execute(_SAVE_KEY, row).rowcount)

    async def revoke_key(self, name: str) -> bool:
        return bool(await self._writer.run(lambda connection: connection.execute(_REVOKE_KEY, (name,)).rowcount))

    async def list_records(self, kind: str) -> Sequence[tuple[str, bytes]]:
        return await self._query(lambda connection: connection.execute(_LIST_RECORDS, (kind,)).fetchall())

    async def set(self, kind: str, name: str, body: bytes) -> None:
        row = (kind, name, body)
        await self._writer.run(lambda connection: connection.execute(_SET_RECORD, row).rowcount, len(body))

    async def delete(self, kind: str, name: str) -> None:
        await self._writer.run(lambda connection: connection.execute(_DELETE_RECORD, (kind, name)).rowcount)

    async def take(self, key: str, per_minute: int, now: float) -> Allowance:
        self._require_open()
        return self._limits.take(key, per_minute, now)

    async def close(self) -> None:
        await self._writer.close()

    async def _query(self, query: Callable[[sqlite3.Connection], _T]) -> _T:
        self._require_open()
        path = self._file.path
        try:
            return await asyncio.get_running_loop().run_in_executor(self._file.readers, query, self._file.reading)
        except sqlite3.Error as error:
            raise build_store_down(path, error) from error
        except msgspec.DecodeError as error:
            reason = f"it holds an entry that cannot be read: {error}. A newer version may read it"
            raise StoreDown(reason, place=str(path)) from error

    def _require_open(self) -> None:
        if self._writer.closed:
            raise StoreDown("the store is closed: open it again", place=str(self._file.path))


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoreFile:
    path: Path
    writing: sqlite3.Connection
    reading: sqlite3.Connection
    readers: ThreadPoolExecutor
    resources: ExitStack
    """Closes everything in the right order: the last connection to close checkpoints, then the lock is released."""


def _open_file(path: Path, synchronous: Synchronous) -> _StoreFile:
    if synchronous not in get_args(Synchronous):
        raise Misconfigured(f"synchronous must be NORMAL or FULL, not {synchronous!r}")
    try:
        path = path.expanduser().resolve()  # so that two names of one file share one lock
        with ExitStack() as resources:
            path.parent.mkdir(parents=True, exist_ok=True)
            resources.enter_context(exclusive_lock(path))
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            writing = resources.enter_context(closing(_connect(path, "rw")))
            migrate(writing, path)
            _set_durability(writing, path, synchronous)
            reading = resources.enter_context(closing(_connect(path, "ro")))
            readers = resources.enter_context(ThreadPoolExecutor(1, thread_name_prefix="toolyard-reader"))
            return _StoreFile(
                path=path, writing=writing, reading=reading, readers=readers, resources=resources.pop_all()
            )
    except (sqlite3.Error, OSError) as error:
        raise build_store_down(path, error) from error


def _connect(path: Path, mode: Literal["ro", "rw"]) -> sqlite3.Connection:
    # Opened here, but used only in the writer's or the reader's thread: hence check_same_thread=False.
    return sqlite3.connect(f"{path.as_uri()}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False)


def _set_durability(connection: sqlite3.Connection, path: Path, synchronous: Synchronous) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise Misconfigured(f"{path} is on a disk that cannot keep a write-ahead log: give a path on a local disk")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")


def _explain_fence(connection: sqlite3.Connection, conversation: str, epoch: int, first: int) -> str:
    row = connection.execute("SELECT epoch, last_seq FROM conversations WHERE id = ?", (conversation,)).fetchone()
    current, last_seq = row or (None, 0)
    if current is not None and current < 0:
        return f"conversation {conversation!r} was deleted"
    if epoch != current:
        return f"epoch {epoch} does not own conversation {conversation!r}: its epoch is {current}"
    return f"entry {first} of conversation {conversation!r} is out of order: {last_seq + 1} comes next"


def _build_append(conversation: str, epoch: int, entries: Sequence[Entry], wake_at: float | None) -> tuple[Work, int]:
    """Return the job that appends a batch, and its size in bytes.

    Encoding happens here, in the caller's thread, so that the writer thread only runs statements.
    """
    first = entries[0].seq if entries else 0
    for seq, entry in enumerate(entries, first):
        if entry.seq != seq:
            raise Fenced(f"entry {entry.seq} of conversation {conversation!r} is out of order: {seq} comes next")
    lines = encode_batch(entries)
    at = entries[-1].at if entries else None
    row = {"id": conversation, "epoch": epoch, "first": first, "count": len(entries), "wake_at": wake_at, "at": at}
    last = first + len(entries) - 1
    catalog_entries = select_catalog_entries(entries)

    def work(connection: sqlite3.Connection) -> int:
        if not connection.execute(_ADVANCE, row).rowcount:
            raise Fenced(_explain_fence(connection, conversation, epoch, first))
        if lines:
            connection.execute(_INSERT, (conversation, last, lines))
        for entry in catalog_entries:
            _catalog.project(connection, conversation, entry)
        return last

    return work, len(lines)
