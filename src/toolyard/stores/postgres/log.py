"""The logs of conversations, and what belongs to each: whole results and snapshots. The writer commits appends."""

import asyncio
from collections.abc import Sequence
from itertools import chain, islice

import msgspec

from toolyard.core.conversation.events import Entry
from toolyard.core.errors import StoreDown
from toolyard.core.store import Append, SnapshotHead, SnapshotUpdate
from toolyard.stores.entries import decode_batch
from toolyard.stores.postgres.connections import Database
from toolyard.stores.postgres.lease import MAX_BACKOFF_S, Lease, LeasedPorts
from toolyard.stores.postgres.writer import PostgresWriter

_READ = "SELECT entries FROM batches WHERE conversation = $1 AND last_seq > $2 ORDER BY last_seq"
_READ_SOME = f"{_READ} LIMIT $3"
_PUT = """INSERT INTO blobs (conversation, handle, body) SELECT $1, $2, $3
WHERE NOT EXISTS (SELECT 1 FROM conversations WHERE id = $1 AND epoch < 0)
ON CONFLICT (conversation, handle) DO UPDATE SET body = excluded.body"""
_GET = "SELECT body FROM blobs WHERE conversation = $1 AND handle = $2"
_CONVERSATIONS = """SELECT id, wake_at FROM conversations WHERE id > $1 AND epoch > 0 AND last_seq > 0
ORDER BY id LIMIT $2"""
_HANDLES = "SELECT handle FROM blobs WHERE conversation = $1 ORDER BY handle"
# A conversation that was deleted meanwhile must not get its content back.
# The lock keeps a deletion waiting: else a snapshot could be stored after its conversation was deleted.
_IS_STORED = "SELECT 1 FROM conversations WHERE id = $1 AND epoch > 0 AND last_seq >= $2 FOR SHARE"
_REPLACE_SNAPSHOT = """INSERT INTO snapshots (conversation, token, seq, body) VALUES ($1, $2, $3, $4)
ON CONFLICT (conversation) DO UPDATE SET token = $2, seq = $3, body = $4"""
_CONTINUE_SNAPSHOT = (
    "UPDATE snapshots SET token = $2, seq = $3, body = $4 WHERE conversation = $1 AND token = $5 RETURNING 1"
)
_DROP_ALL_PIECES = "DELETE FROM snapshot_pieces WHERE conversation = $1"
_DROP_PIECES = "DELETE FROM snapshot_pieces WHERE conversation = $1 AND name = ANY($2)"
_ADD_PIECES = """INSERT INTO snapshot_pieces (conversation, name, body)
SELECT $1, name, body FROM unnest($2::text[], $3::bytea[]) AS piece (name, body)"""
_READ_SNAPSHOT = "SELECT token, seq, body FROM snapshots WHERE conversation = $1"
_READ_PIECES = """SELECT body FROM unnest($2::text[]) WITH ORDINALITY AS piece (name, position)
JOIN snapshot_pieces USING (name) WHERE conversation = $1 ORDER BY position"""


class PostgresLog(LeasedPorts):
    def __init__(self, database: Database, lease: Lease) -> None:
        super().__init__(database, lease)
        self._writer = PostgresWriter(database, lease.owned, lambda: lease.id)

    @property
    def commits(self) -> int:
        """How many groups of appends were committed since the store was opened."""
        return self._writer.commits

    def begin_append(self, append: Append) -> asyncio.Future[bool] | None:
        return self._writer.begin(append)

    async def append(self, append: Append) -> bool:
        return await self._writer.append(append)

    async def read(self, conversation: str, after: int = 0, limit: int = 0) -> Sequence[Entry]:
        if limit:  # each batch has an entry at least
            rows = await self._database.fetch(_READ_SOME, conversation, after, limit)
        else:
            rows = await self._database.fetch(_READ, conversation, after)
        try:
            entries = chain.from_iterable(decode_batch(lines) for (lines,) in rows)
            return list(islice((entry for entry in entries if entry.seq > after), limit or None))
        except msgspec.DecodeError as error:
            reason = f"it holds an entry that cannot be read: {error}. A newer version may read it"
            raise StoreDown(reason, address=self._database.address) from error

    async def put_blob(self, conversation: str, handle: str, body: bytes) -> None:
        """Store a blob. While the database is down, wait for the time of a lease: a call in flight needs it."""
        deadline = asyncio.get_running_loop().time() + self._database.settings.lease_s
        while True:
            try:
                await self._database.fetch(_PUT, conversation, handle, body)
                return
            except StoreDown:
                if self._database.closed or asyncio.get_running_loop().time() > deadline:
                    raise
            await asyncio.sleep(MAX_BACKOFF_S / 5)

    async def get_blob(self, conversation: str, handle: str) -> bytes | None:
        row = await self._database.fetch_row(_GET, conversation, handle)
        return row[0] if row else None

    async def list_stored_conversations(self, after: str, limit: int) -> Sequence[tuple[str, float | None]]:
        return [(id, wake_at) for id, wake_at in await self._database.fetch(_CONVERSATIONS, after, limit)]

    async def list_blob_handles(self, conversation: str) -> Sequence[str]:
        return [handle for (handle,) in await self._database.fetch(_HANDLES, conversation)]

    async def save_snapshot(self, conversation: str, update: SnapshotUpdate) -> bool:
        head = update.head
        values = conversation, head.token, head.seq, head.body
        async with self._database.transaction() as connection:
            if not await connection.fetchval(_IS_STORED, conversation, head.seq):
                return False
            if not update.previous:
                await connection.execute(_REPLACE_SNAPSHOT, *values)
                await connection.execute(_DROP_ALL_PIECES, conversation)
            elif not await connection.fetchval(_CONTINUE_SNAPSHOT, *values, update.previous):
                return False
            await connection.execute(_DROP_PIECES, conversation, list(update.dropped))
            names, bodies = [name for name, _ in update.pieces], [body for _, body in update.pieces]
            await connection.execute(_ADD_PIECES, conversation, names, bodies)
        return True

    async def read_snapshot(self, conversation: str) -> SnapshotHead | None:
        row = await self._database.fetch_row(_READ_SNAPSHOT, conversation)
        return SnapshotHead(token=row[0], seq=row[1], body=row[2]) if row else None

    async def read_snapshot_pieces(self, conversation: str, names: Sequence[str]) -> Sequence[bytes]:
        return [body for (body,) in await self._database.fetch(_READ_PIECES, conversation, list(names))]
