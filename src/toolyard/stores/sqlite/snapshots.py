"""The snapshots of the SQLite store: statements of its writer and reader threads."""

import sqlite3
from collections.abc import Sequence

from toolyard.core.store import SnapshotHead, SnapshotUpdate

_IS_STORED = "SELECT 1 FROM conversations WHERE id = ? AND epoch > 0 AND last_seq >= ?"
_TOKEN = "SELECT token FROM snapshots WHERE conversation = ?"
_SAVE = "INSERT OR REPLACE INTO snapshots (conversation, token, seq, body) VALUES (?, ?, ?, ?)"
_ADD_PIECE = "INSERT INTO snapshot_pieces (conversation, name, body) VALUES (?, ?, ?)"
_DROP_PIECE = "DELETE FROM snapshot_pieces WHERE conversation = ? AND name = ?"
_DROP_PIECES = "DELETE FROM snapshot_pieces WHERE conversation = ?"
_READ = "SELECT token, seq, body FROM snapshots WHERE conversation = ?"
_READ_PIECE = "SELECT body FROM snapshot_pieces WHERE conversation = ? AND name = ?"
FORGET_SNAPSHOTS = ("DELETE FROM snapshots WHERE conversation = ?", _DROP_PIECES)


def save_snapshot(connection: sqlite3.Connection, conversation: str, update: SnapshotUpdate) -> bool:
    head = update.head
    # A conversation that was deleted meanwhile must not get its content back.
    if not connection.execute(_IS_STORED, (conversation, head.seq)).fetchone():
        return False
    if not update.previous:
        connection.execute(_DROP_PIECES, (conversation,))
    elif connection.execute(_TOKEN, (conversation,)).fetchone() != (update.previous,):
        return False
    connection.executemany(_DROP_PIECE, [(conversation, name) for name in update.dropped])
    connection.executemany(_ADD_PIECE, [(conversation, name, body) for name, body in update.pieces])
    connection.execute(_SAVE, (conversation, head.token, head.seq, head.body))
    return True


def read_snapshot(connection: sqlite3.Connection, conversation: str) -> SnapshotHead | None:
    row = connection.execute(_READ, (conversation,)).fetchone()
    return SnapshotHead(token=row[0], seq=row[1], body=row[2]) if row else None


def read_snapshot_pieces(connection: sqlite3.Connection, conversation: str, names: Sequence[str]) -> list[bytes]:
    rows = (connection.execute(_READ_PIECE, (conversation, name)).fetchone() for name in names)
    return [row[0] for row in rows if row]
