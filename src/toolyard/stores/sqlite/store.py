"""Keeps conversations and keys in one SQLite file, which one process owns. `catalog` reads the entries' content."""

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Literal, TypeVar, get_args

import msgspec

from toolyard.core.conversation.events import Entry
from toolyard.core.errors import Fenced, Misconfigured, StoreDown, Unavailable
from toolyard.core.store import (
    AccessToken,
    Append,
    CatalogQuery,
    Claim,
    ConversationCard,
    FigureRow,
    Key,
    OpenCounts,
    RequestRecord,
    SnapshotHead,
    SnapshotUpdate,
)
from toolyard.core.store.audit_chain import AuditEntry, AuditQuery, AuditRecord
from toolyard.stores.entries import build_closed_error, decode_batch, encode_batch, has_texts, select_catalog_entries
from toolyard.stores.single_process import SingleProcessPorts
from toolyard.stores.sqlite import access_tokens, audit, export
from toolyard.stores.sqlite import catalog as _catalog
from toolyard.stores.sqlite import figures as _figures
from toolyard.stores.sqlite import search as _search
from toolyard.stores.sqlite import snapshots as _snapshots
from toolyard.stores.sqlite.lock import exclusive_lock
from toolyard.stores.sqlite.schema import migrate
from toolyard.stores.sqlite.writer import SqliteWriter, Work, build_store_down

Synchronous = Literal["NORMAL", "FULL"]
"""NORMAL survives a crash of the process; FULL also survives a power cut, at the cost of a disk flush per commit."""

MAX_ROWS_PER_JOB = 32
MAX_SEARCH_S = 2.0
"""A search that takes longer answers with what it has found. It may happen while a large file is indexed."""
SEARCH_TOO_LONG = "the search took too long: the search index is being built; try again later or with another text"
# The first epoch of a row is the time in milliseconds: a conversation that was copied from another store never has an
# epoch that an owner had there.
_CLAIM = """INSERT INTO conversations (id, epoch) VALUES (?, ?)
ON CONFLICT (id) DO UPDATE SET epoch = abs(epoch) + 1 RETURNING epoch, last_seq"""
CHECKPOINT_PAGES = 4000
"""16 MB of write-ahead log: a page that many appends change is copied into the file once for all of them."""
# The fence: one statement compares the epoch and advances the sequence, in the transaction that inserts the batch. No
# row matches if another owner has claimed the conversation, if it was deleted (a negative epoch) or if entries would
# leave a gap. An append without entries only sets `wake_at`.
_ADVANCE = """UPDATE conversations
SET last_seq = last_seq + :count, wake_at = :wake_at
WHERE id = :id AND epoch = :epoch AND epoch > 0 AND (:count = 0 OR last_seq + 1 = :first)"""
_INSERT = "INSERT INTO batches (conversation, last_seq, entries) VALUES (?, ?, ?)"
_READ = "SELECT entries FROM batches WHERE conversation = ? AND last_seq > ? ORDER BY last_seq"
_DUE = """SELECT * FROM (SELECT id, wake_at FROM conversations WHERE wake_at <= :now ORDER BY wake_at LIMIT :limit)
UNION ALL SELECT NULL, min(wake_at) FROM conversations WHERE wake_at > :now"""
_PUT = """INSERT OR REPLACE INTO blobs (conversation, handle, body) SELECT :id, :handle, :body
WHERE NOT EXISTS (SELECT 1 FROM conversations WHERE id = :id AND epoch < 0)"""
_GET = "SELECT body FROM blobs WHERE conversation = ? AND handle = ?"
_KEYS = "SELECT key FROM keys ORDER BY name"
_SAVE_KEY = "INSERT OR REPLACE INTO keys (name, key) VALUES (?, ?)"
_REVOKE_KEY = "DELETE FROM keys WHERE name = ?"
_LIST_RECORDS = "SELECT name, body FROM shelf WHERE kind = ? ORDER BY rowid"
_READ_RECORD = "SELECT body FROM shelf WHERE kind = ? AND name = ?"
_SET_RECORD = "INSERT INTO shelf (kind, name, body) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET body = ?3"
# An update that changes nothing returns the row that is there already.
_ADD_RECORD = """INSERT INTO shelf (kind, name, body) VALUES (?1, ?2, ?3)
ON CONFLICT DO UPDATE SET body = shelf.body RETURNING body"""
_DELETE_RECORD = "DELETE FROM shelf WHERE kind = ? AND name = ?"

_T = TypeVar("_T")
_key_decoder = msgspec.json.Decoder(Key)


class SqliteStore(SingleProcessPorts):
    """The embedded store: one writer thread with group commit, and one reader thread. Use `open` to create one."""

    def __init__(self, file: "_StoreFile") -> None:
        super().__init__()
        self._file = file
        self._indexer = _search.SearchIndexer()
        self._writer = SqliteWriter(file.writing, file.path, file.resources, self._indexer.step)

    @classmethod
    async def open(cls, path: str | Path, synchronous: Synchronous = "NORMAL") -> "SqliteStore":
        """Open the file at `path` as its owner, creating it if needed. Raises StoreDown or Misconfigured."""
        return cls(_open_file(Path(path), synchronous))

    @property
    def commits(self) -> int:
        """How many transactions were committed since the store was opened."""
        return self._writer.commits

    def begin_append(self, append: Append) -> asyncio.Future[bool] | None:
        return self._writer.run_now(*_build_append(append))

    async def append(self, append: Append) -> bool:
        return await self._writer.run(*_build_append(append))

    async def read(self, conversation: str, after: int = 0, limit: int = 0) -> Sequence[Entry]:
        def query(connection: sqlite3.Connection) -> list[Entry]:
            with closing(connection.execute(_READ, (conversation, after))) as batches:
                entries = (entry for (lines,) in batches for entry in decode_batch(lines) if entry.seq > after)
                return list(islice(entries, limit or None))

        return await self._query(query)

    async def claim(self, conversation: str) -> Claim:
        (claim,) = await self.claim_many((conversation,))
        return claim

    async def claim_many(self, conversations: Sequence[str]) -> Sequence[Claim]:
        def work(connection: sqlite3.Connection) -> list[Claim]:
            now_ms = time.time_ns() // 1_000_000
            rows = [(id, *connection.execute(_CLAIM, (id, now_ms)).fetchone()) for id in conversations]
            return [Claim(conversation=id, epoch=epoch, last_seq=last_seq) for id, epoch, last_seq in rows]

        return await self._writer.run(work)

    async def find_due(self, now: float, limit: int) -> tuple[Sequence[str], float | None]:
        def query(connection: sqlite3.Connection) -> tuple[list[str], float | None]:
            *due, (_, later) = connection.execute(_DUE, {"now": now, "limit": limit}).fetchall()
            return [conversation for conversation, _ in due], later

        return await self._query(query)

    async def put_blob(self, conversation: str, handle: str, body: bytes) -> None:
        row = {"id": conversation, "handle": handle, "body": body}

        def work(connection: sqlite3.Connection) -> int:
            return connection.execute(_PUT, row).rowcount

        await self._writer.run(work, len(body))

    async def get_blob(self, conversation: str, handle: str) -> bytes | None:
        def query(connection: sqlite3.Connection) -> bytes | None:
            row = connection.execute(_GET, (conversation, handle)).fetchone()
            return row[0] if row else None

        return await self._query(query)

    async def save_snapshot(self, conversation: str, update: SnapshotUpdate) -> bool:
        size_bytes = len(update.head.body) + sum(len(body) for _, body in update.pieces)
        return await self._writer.run(
            lambda connection: _snapshots.save_snapshot(connection, conversation, update), size_bytes
        )

    async def read_snapshot(self, conversation: str) -> SnapshotHead | None:
        return await self._query(lambda connection: _snapshots.read_snapshot(connection, conversation))

    async def read_snapshot_pieces(self, conversation: str, names: Sequence[str]) -> Sequence[bytes]:
        return await self._query(lambda connection: _snapshots.read_snapshot_pieces(connection, conversation, names))

    async def add_figures(self, rows: Sequence[FigureRow]) -> None:
        # A few rows in each job: a job holds up the appends that wait behind it.
        for start in range(0, len(rows), MAX_ROWS_PER_JOB):
            some = rows[start : start + MAX_ROWS_PER_JOB]
            await self._writer.run(partial(_figures.add_figures, rows=some), sum(len(row.body) for row in some))

    async def read_figures(self, tenant: str, user: str, step_s: float, since: float) -> Sequence[tuple[float, bytes]]:
        return await self._query(lambda connection: _figures.read_figures(connection, tenant, user, step_s, since))

    async def drop_figures(self, step_s: float, before: float) -> None:
        await self._writer.run(lambda connection: _figures.drop_figures(connection, step_s, before))

    async def card(self, conversation: str) -> ConversationCard | None:
        return await self._query(lambda connection: _catalog.read_card(connection, conversation))

    async def cards(self, query: CatalogQuery) -> Sequence[ConversationCard]:
        if not query.text:
            return await self._query(lambda connection: _catalog.read_page(connection, query))
        return await self._search(query)

    async def _search(self, query: CatalogQuery) -> Sequence[ConversationCard]:
        matches: list[ConversationCard] = []
        try:
            async with asyncio.timeout(MAX_SEARCH_S):
                steps = _search.search(self._file.reading, query)
                # A job for each step, so that other reads run in between.
                while (
                    len(matches) < query.limit and (cards := await self._query(lambda _: next(steps, None))) is not None
                ):
                    matches += cards
        except TimeoutError:
            if not matches:
                raise Unavailable(SEARCH_TOO_LONG) from None
        return matches[: query.limit]

    async def index_texts(self) -> None:
        """Complete the search index now. It is completed in the background anyway."""
        while await self._writer.run(self._indexer.step):
            pass

    async def list_open(self, tenant: str, user: str, limit: int) -> Sequence[ConversationCard]:
        return await self._query(lambda connection: _catalog.list_open(connection, tenant, user, limit))

    async def count_open(self, now: float) -> OpenCounts:
        return await self._query(lambda connection: _catalog.count_open(connection, now))

    async def find_runs(self, correlation_id: str) -> Sequence[tuple[str, str]]:
        return await self._query(lambda connection: _catalog.find_runs(connection, correlation_id))

    async def find_request(self, key: str) -> RequestRecord | None:
        return await self._query(lambda connection: _catalog.find_request(connection, key))

    async def list_expired_requests(self, before: float, limit: int) -> Sequence[str]:
        return await self._query(lambda connection: _catalog.list_expired_requests(connection, before, limit))

    async def drop_request(self, conversation: str, before: float) -> None:
        await self._writer.run(lambda connection: _catalog.drop_request(connection, conversation, before))

    async def delete_conversation(self, conversation: str) -> Sequence[str]:
        await self._writer.run(lambda connection: _catalog.delete_conversation(connection, conversation))
        return ()

    async def keys(self) -> Sequence[Key]:
        def query(connection: sqlite3.Connection) -> list[Key]:
            return [_key_decoder.decode(key) for (key,) in connection.execute(_KEYS).fetchall()]

        return await self._query(query)

    async def save_key(self, key: Key) -> None:
        row = (key.name, msgspec.json.encode(key))
        await self._writer.run(lambda connection: connection.execute(_SAVE_KEY, row).rowcount)

    async def revoke_key(self, name: str) -> bool:
        return bool(await self._writer.run(lambda connection: connection.execute(_REVOKE_KEY, (name,)).rowcount))

    async def save_token(self, token: AccessToken) -> None:
        await self._writer.run(lambda connection: access_tokens.save_token(connection, token), len(token.body))

    async def read_token(self, kind: str, hash: str) -> AccessToken | None:
        return await self._query(lambda connection: access_tokens.read_token(connection, kind, hash))

    async def list_tokens(self, kind: str, conversation: str) -> Sequence[AccessToken]:
        return await self._query(lambda connection: access_tokens.list_tokens(connection, kind, conversation))

    async def extend_token(self, kind: str, hash: str, expires_at: float) -> None:
        await self._writer.run(lambda connection: access_tokens.extend_token(connection, kind, hash, expires_at))

    async def delete_token(self, kind: str, hash: str) -> None:
        await self._writer.run(lambda connection: access_tokens.delete_token(connection, kind, hash))

    async def list_records(self, kind: str) -> Sequence[tuple[str, bytes]]:
        return await self._query(lambda connection: connection.execute(_LIST_RECORDS, (kind,)).fetchall())

    async def read_record(self, kind: str, name: str) -> bytes | None:
        row = await self._query(lambda connection: connection.execute(_READ_RECORD, (kind, name)).fetchone())
        return row[0] if row else None

    async def set_record(self, kind: str, name: str, body: bytes) -> None:
        row = (kind, name, body)
        await self._writer.run(lambda connection: connection.execute(_SET_RECORD, row).rowcount, len(body))

    async def add_records(self, kind: str, records: Mapping[str, bytes]) -> Mapping[str, bytes]:
        def add(connection: sqlite3.Connection) -> dict[str, bytes]:
            rows = ((name, connection.execute(_ADD_RECORD, (kind, name, body))) for name, body in records.items())
            return {name: row.fetchone()[0] for name, row in rows}

        return await self._writer.run(add, sum(map(len, records.values())))

    async def delete_record(self, kind: str, name: str) -> None:
        await self._writer.run(lambda connection: connection.execute(_DELETE_RECORD, (kind, name)).rowcount)

    async def append_audit(self, record: AuditRecord) -> AuditEntry:
        return await self._writer.run(lambda connection: audit.append_audit(connection, record))

    async def read_audit(self, query: AuditQuery) -> Sequence[AuditEntry]:
        return await self._query(lambda connection: audit.read_audit(connection, query))

    async def trim_audit(self, record: AuditRecord, before: float, limit: int) -> AuditEntry | None:
        return await self._writer.run(lambda connection: audit.trim_audit(connection, record, before, limit))

    async def copy_audit(self, entries: Sequence[AuditEntry]) -> None:
        await self._writer.run(lambda connection: audit.copy_audit(connection, entries))

    async def list_stored_conversations(self, after: str, limit: int) -> Sequence[tuple[str, float | None]]:
        return await self._query(lambda connection: export.list_stored_conversations(connection, after, limit))

    async def list_blob_handles(self, conversation: str) -> Sequence[str]:
        return await self._query(lambda connection: export.list_blob_handles(connection, conversation))

    async def list_record_kinds(self) -> Sequence[str]:
        return await self._query(export.list_record_kinds)

    async def list_figures(self, offset: int, limit: int) -> Sequence[FigureRow]:
        return await self._query(lambda connection: export.list_figures(connection, offset, limit))

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
            raise StoreDown(reason, address=str(path)) from error

    def _require_open(self) -> None:
        if self._writer.closed:
            raise build_closed_error(str(self._file.path))


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
            _require_one_name(path)
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


def _require_one_name(path: Path) -> None:
    """Raise Misconfigured for a file with hard links: the lock and the write-ahead log belong to one name of it."""
    # The file is not opened for this: closing it would drop the locks that SQLite has on it in this process.
    names = path.stat().st_nlink if path.is_file() else 1
    if names > 1:
        remedy = "Remove the others, and copy the file instead of linking it"
        raise Misconfigured(f"{path} has {names} names (hard links), and two processes could open it at once. {remedy}")


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


def _build_append(append: Append) -> tuple[Work[bool], int]:
    """Return the job that appends a batch, and its size in bytes. Its result is that the ownership is kept.

    Encoding happens here, in the caller's thread, so that the writer thread only runs statements.
    """
    conversation, epoch, entries = append.conversation, append.epoch, append.entries
    first = entries[0].seq if entries else 0
    for seq, entry in enumerate(entries, first):
        if entry.seq != seq:
            raise Fenced(f"entry {entry.seq} of conversation {conversation!r} is out of order: {seq} comes next")
    lines = encode_batch(entries)
    catalog_entries = select_catalog_entries(entries)
    updated_at = catalog_entries[-1].at if catalog_entries else None
    is_touched = updated_at is not None or has_texts(entries)
    row = {
        "id": conversation,
        "epoch": epoch,
        "first": first,
        "count": len(entries),
        "wake_at": append.wake_at,
    }
    last = first + len(entries) - 1

    def work(connection: sqlite3.Connection) -> bool:
        if not connection.execute(_ADVANCE, row).rowcount:
            raise Fenced(_explain_fence(connection, conversation, epoch, first))
        if lines:
            connection.execute(_INSERT, (conversation, last, lines))
        for entry in catalog_entries:
            _catalog.project(connection, conversation, entry)
        if is_touched:
            _catalog.touch_card(connection, conversation, updated_at)
        return False

    return work, len(lines)
