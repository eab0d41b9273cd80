"""The logs of conversations, and what belongs to each: whole results and snapshots. The writer commits appends."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from itertools import islice

from toolyard.core.conversation.events import Entry
from toolyard.core.errors import Fenced
from toolyard.core.store import Append, FutureLike, SnapshotHead, SnapshotUpdate, UsageRow
from toolyard.stores.entries import check_order, decode_batch, encode_batch, has_texts, select_catalog_entries
from toolyard.stores.sqlite.catalog import project, touch_card
from toolyard.stores.sqlite.connections import SqlitePorts
from toolyard.stores.sqlite.ledger import end_turns
from toolyard.stores.sqlite.writer import Work

# The fence: one statement compares the epoch and advances the sequence, in the transaction that inserts the batch. No
# row matches if another owner has claimed the conversation, if it was deleted (a negative epoch) or if entries would
# leave a gap. An append without entries only sets `wake_at`.
_ADVANCE = """UPDATE conversations
SET last_seq = last_seq + ?1, wake_at = ?2
WHERE id = ?3 AND epoch = ?4 AND epoch > 0 AND (?1 = 0 OR last_seq + 1 = ?5)"""
# A conversation that is known already, even as a deleted one, keeps its row: then nothing is written, as by the fence.
_OPEN = """INSERT INTO conversations (last_seq, wake_at, id, epoch)
SELECT ?1, ?2, ?3, ?4 WHERE ?5 = 1 ON CONFLICT DO NOTHING"""
_INSERT = "INSERT INTO batches (conversation, last_seq, entries) VALUES (?, ?, ?)"
_READ = "SELECT entries FROM batches WHERE conversation = ? AND last_seq > ? ORDER BY last_seq"
_PUT = """INSERT OR REPLACE INTO blobs (conversation, handle, body) SELECT ?1, ?2, ?3
WHERE NOT EXISTS (SELECT 1 FROM conversations WHERE id = ?1 AND epoch < 0)"""
_GET = "SELECT body FROM blobs WHERE conversation = ? AND handle = ?"
_CONVERSATIONS = "SELECT id, wake_at FROM conversations WHERE id > ? AND epoch > 0 AND last_seq > 0 ORDER BY id LIMIT ?"
_HANDLES = "SELECT handle FROM blobs WHERE conversation = ? ORDER BY handle"
_IS_STORED = "SELECT 1 FROM conversations WHERE id = ? AND epoch > 0 AND last_seq >= ?"
_READ_SNAPSHOT_TOKEN = "SELECT token FROM snapshots WHERE conversation = ?"
_SAVE_SNAPSHOT = "INSERT OR REPLACE INTO snapshots (conversation, token, seq, body) VALUES (?, ?, ?, ?)"
_ADD_PIECE = "INSERT INTO snapshot_pieces (conversation, name, body) VALUES (?, ?, ?)"
_DROP_PIECE = "DELETE FROM snapshot_pieces WHERE conversation = ? AND name = ?"
_DROP_PIECES = "DELETE FROM snapshot_pieces WHERE conversation = ?"
_READ_SNAPSHOT = "SELECT token, seq, body FROM snapshots WHERE conversation = ?"
_READ_PIECE = "SELECT body FROM snapshot_pieces WHERE conversation = ? AND name = ?"


class SqliteLog(SqlitePorts):
    @property
    def commits(self) -> int:
        """How many transactions were committed since the store was opened."""
        return self._database.writer.commits

    def begin_append(self, append: Append) -> FutureLike | None:
        return self._database.writer.run_now(*_build_append(append))

    async def append(self, append: Append) -> bool:
        return await self._database.writer.run(*_build_append(append))

    async def read(self, conversation: str, after: int = 0, limit: int = 0) -> Sequence[Entry]:
        def query(connection: sqlite3.Connection) -> list[Entry]:
            with closing(connection.execute(_READ, (conversation, after))) as batches:
                entries = (entry for (lines,) in batches for entry in decode_batch(lines) if entry.seq > after)
                return list(islice(entries, limit or None))

        return await self._database.read(query)

    async def put_blob(self, conversation: str, handle: str, body: bytes) -> None:
        await self._database.execute(_PUT, conversation, handle, body, size_bytes=len(body))

    async def get_blob(self, conversation: str, handle: str) -> bytes | None:
        row = await self._database.fetch_row(_GET, conversation, handle)
        return row[0] if row else None

    async def list_stored_conversations(self, after: str, limit: int) -> Sequence[tuple[str, float | None]]:
        return [(id, wake_at) for id, wake_at in await self._database.fetch(_CONVERSATIONS, after, limit)]

    async def list_blob_handles(self, conversation: str) -> Sequence[str]:
        return [handle for (handle,) in await self._database.fetch(_HANDLES, conversation)]

    async def save_snapshot(self, conversation: str, update: SnapshotUpdate) -> bool:
        size_bytes = len(update.head.body) + sum(len(body) for _, body in update.pieces)
        return await self._database.write(
            lambda connection: _save_snapshot(connection, conversation, update), size_bytes
        )

    async def read_snapshot(self, conversation: str) -> SnapshotHead | None:
        row = await self._database.fetch_row(_READ_SNAPSHOT, conversation)
        return SnapshotHead(token=row[0], seq=row[1], body=row[2]) if row else None

    async def read_snapshot_pieces(self, conversation: str, names: Sequence[str]) -> Sequence[bytes]:
        def query(connection: sqlite3.Connection) -> list[bytes]:
            rows = (connection.execute(_READ_PIECE, (conversation, name)).fetchone() for name in names)
            return [row[0] for row in rows if row]

        return await self._database.read(query)


def _save_snapshot(connection: sqlite3.Connection, conversation: str, update: SnapshotUpdate) -> bool:
    head = update.head
    # A conversation that was deleted meanwhile must not get its content back.
    if not connection.execute(_IS_STORED, (conversation, head.seq)).fetchone():
        return False
    if not update.previous:
        connection.execute(_DROP_PIECES, (conversation,))
    elif connection.execute(_READ_SNAPSHOT_TOKEN, (conversation,)).fetchone() != (update.previous,):
        return False
    connection.executemany(_DROP_PIECE, [(conversation, name) for name in update.dropped])
    connection.executemany(_ADD_PIECE, [(conversation, name, body) for name, body in update.pieces])
    connection.execute(_SAVE_SNAPSHOT, (conversation, head.token, head.seq, head.body))
    return True


def _explain_fence(connection: sqlite3.Connection, conversation: str, epoch: int, first: int) -> str:
    row = connection.execute("SELECT epoch, last_seq FROM conversations WHERE id = ?", (conversation,)).fetchone()
    current, last_seq = row or (None, 0)
    if current is not None and current < 0:
        return f"conversation {conversation!r} was deleted"
    if epoch != current:
        return f"epoch {epoch} does not own conversation {conversation!r}: its epoch is {current}"
    return f"entry {first} of conversation {conversation!r} is out of order: {last_seq + 1} comes next"


def _build_append(append: Append) -> tuple[Work[bool], int, Sequence[UsageRow]]:
    """Return the job that appends a batch, its size in bytes, and its usage. Its result is that the ownership is kept.

    Encoding happens here, in the caller's thread, so that the writer thread only runs statements.
    """
    conversation, epoch, entries = append.conversation, append.epoch, append.entries
    first = entries[0].seq if entries else 0
    last = first + len(entries) - 1
    check_order(conversation, entries, first)
    lines = encode_batch(entries)
    catalog_entries = select_catalog_entries(entries)
    updated_at = catalog_entries[-1].at if catalog_entries else None
    is_touched = updated_at is not None or has_texts(entries)
    settlements = append.settlements
    row = (len(entries), append.wake_at, conversation, epoch, first)

    def work(connection: sqlite3.Connection) -> bool:
        written = connection.execute(_OPEN if append.opens else _ADVANCE, row)
        if not written.rowcount:
            raise Fenced(_explain_fence(connection, conversation, epoch, first))
        if lines:
            connection.execute(_INSERT, (conversation, last, lines))
        for entry in catalog_entries:
            project(connection, conversation, entry)
        if is_touched:
            touch_card(connection, conversation, updated_at)
        if settlements:
            end_turns(connection, conversation, settlements)
        return False

    return work, len(lines), append.usage
