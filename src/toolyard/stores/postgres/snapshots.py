"""The snapshots of the PostgreSQL store."""

from collections.abc import Sequence

from toolyard.core.store import SnapshotHead, SnapshotUpdate
from toolyard.stores.postgres.lease import LeasedPorts

# A conversation that was deleted meanwhile must not get its content back.
# The lock keeps a deletion waiting: else a snapshot could be stored after its conversation was deleted.
_IS_STORED = "SELECT 1 FROM conversations WHERE id = $1 AND epoch > 0 AND last_seq >= $2 FOR SHARE"
_REPLACE = """INSERT INTO snapshots (conversation, token, seq, body) VALUES ($1, $2, $3, $4)
ON CONFLICT (conversation) DO UPDATE SET token = $2, seq = $3, body = $4"""
_GO_ON = "UPDATE snapshots SET token = $2, seq = $3, body = $4 WHERE conversation = $1 AND token = $5 RETURNING 1"
_DROP_ALL = "DELETE FROM snapshot_pieces WHERE conversation = $1"
_DROP = "DELETE FROM snapshot_pieces WHERE conversation = $1 AND name = ANY($2)"
_ADD = """INSERT INTO snapshot_pieces (conversation, name, body)
SELECT $1, name, body FROM unnest($2::text[], $3::bytea[]) AS piece (name, body)"""
_READ = "SELECT token, seq, body FROM snapshots WHERE conversation = $1"
_READ_PIECES = """SELECT body FROM unnest($2::text[]) WITH ORDINALITY AS piece (name, position)
JOIN snapshot_pieces USING (name) WHERE conversation = $1 ORDER BY position"""


class PostgresSnapshots(LeasedPorts):
    async def save_snapshot(self, conversation: str, update: SnapshotUpdate) -> bool:
        head = update.head
        values = conversation, head.token, head.seq, head.body
        async with self._database.transaction() as connection:
            if not await connection.fetchval(_IS_STORED, conversation, head.seq):
                return False
            if not update.previous:
                await connection.execute(_REPLACE, *values)
                await connection.execute(_DROP_ALL, conversation)
            elif not await connection.fetchval(_GO_ON, *values, update.previous):
                return False
            await connection.execute(_DROP, conversation, list(update.dropped))
            names, bodies = [name for name, _ in update.pieces], [body for _, body in update.pieces]
            await connection.execute(_ADD, conversation, names, bodies)
        return True

    async def read_snapshot(self, conversation: str) -> SnapshotHead | None:
        row = await self._database.fetch_row(_READ, conversation)
        return SnapshotHead(token=row[0], seq=row[1], body=row[2]) if row else None

    async def read_snapshot_pieces(self, conversation: str, names: Sequence[str]) -> Sequence[bytes]:
        return [body for (body,) in await self._database.fetch(_READ_PIECES, conversation, list(names))]
