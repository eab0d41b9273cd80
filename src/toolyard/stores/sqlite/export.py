"""List what a SQLite store holds, for a copy of all of it."""

import sqlite3

from toolyard.core.store import FigureRow

_CONVERSATIONS = "SELECT id, wake_at FROM conversations WHERE id > ? AND epoch > 0 AND last_seq > 0 ORDER BY id LIMIT ?"
_HANDLES = "SELECT handle FROM blobs WHERE conversation = ? ORDER BY handle"
_FIGURES = "SELECT tenant, user, step_s, at, body FROM figures ORDER BY tenant, user, step_s, at LIMIT ? OFFSET ?"
_KINDS = "SELECT DISTINCT kind FROM shelf ORDER BY kind"


def list_stored_conversations(connection: sqlite3.Connection, after: str, limit: int) -> list[tuple[str, float | None]]:
    return connection.execute(_CONVERSATIONS, (after, limit)).fetchall()


def list_blob_handles(connection: sqlite3.Connection, conversation: str) -> list[str]:
    return [handle for (handle,) in connection.execute(_HANDLES, (conversation,))]


def list_figures(connection: sqlite3.Connection, offset: int, limit: int) -> list[FigureRow]:
    rows = connection.execute(_FIGURES, (limit, offset)).fetchall()
    return [
        FigureRow(tenant=tenant, user=user, step_s=step_s, at=at, body=body) for tenant, user, step_s, at, body in rows
    ]


def list_record_kinds(connection: sqlite3.Connection) -> list[str]:
    return [kind for (kind,) in connection.execute(_KINDS)]
