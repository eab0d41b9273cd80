"""The tokens of sessions and of shared conversations in the SQLite store."""

import sqlite3
from collections.abc import Sequence

from toolyard.core.store import AccessToken

FORGET_TOKENS = "DELETE FROM access_tokens WHERE conversation = ?"
_DROP_EXPIRED = "DELETE FROM access_tokens WHERE expires_at <= ?"
_SAVE = """INSERT INTO access_tokens (kind, hash, conversation, created_at, expires_at, body)
SELECT :kind, :hash, nullif(:conversation, ''), :created_at, :expires_at, :body
WHERE :conversation = '' OR EXISTS (SELECT 1 FROM conversations WHERE id = :conversation AND epoch > 0)"""
_OF = "(conversation = ?2 OR (?2 = '' AND conversation IS NULL))"
_COLUMNS = "kind, hash, created_at, expires_at, coalesce(conversation, ''), body"
_READ = f"SELECT {_COLUMNS} FROM access_tokens WHERE kind = ? AND hash = ?"
_LIST = f"SELECT {_COLUMNS} FROM access_tokens WHERE kind = ?1 AND {_OF} ORDER BY created_at, hash"
_EXTEND = "UPDATE access_tokens SET expires_at = ? WHERE kind = ? AND hash = ?"
_DELETE = "DELETE FROM access_tokens WHERE kind = ? AND hash = ?"


def save_token(connection: sqlite3.Connection, token: AccessToken) -> int:
    connection.execute(_DROP_EXPIRED, (token.created_at,))
    values = {name: getattr(token, name) for name in AccessToken.__struct_fields__}
    return connection.execute(_SAVE, values).rowcount


def read_token(connection: sqlite3.Connection, kind: str, hash: str) -> AccessToken | None:
    row = connection.execute(_READ, (kind, hash)).fetchone()
    return _build_token(row) if row else None


def list_tokens(connection: sqlite3.Connection, kind: str, conversation: str) -> list[AccessToken]:
    return [_build_token(row) for row in connection.execute(_LIST, (kind, conversation)).fetchall()]


def extend_token(connection: sqlite3.Connection, kind: str, hash: str, expires_at: float) -> int:
    return connection.execute(_EXTEND, (expires_at, kind, hash)).rowcount


def delete_token(connection: sqlite3.Connection, kind: str, hash: str) -> int:
    return connection.execute(_DELETE, (kind, hash)).rowcount


def _build_token(row: Sequence[object]) -> AccessToken:
    return AccessToken(**dict(zip(AccessToken.__struct_fields__, row, strict=True)))  # pyright: ignore[reportArgumentType]
