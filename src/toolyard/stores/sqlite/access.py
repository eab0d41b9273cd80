"""Who may use the server: API keys, and the tokens of sessions and of shared conversations."""

import sqlite3
from collections.abc import Sequence

import msgspec

from toolyard.core.store import AccessToken, Key
from toolyard.stores.sqlite.connections import SqlitePorts

_KEYS = "SELECT key FROM keys ORDER BY name"
SAVE_KEY = "INSERT OR REPLACE INTO keys (name, key) VALUES (?, ?)"
REVOKE_KEY = "DELETE FROM keys WHERE name = ?"
FORGET_TOKENS = "DELETE FROM access_tokens WHERE conversation = ?"
_DROP_EXPIRED = "DELETE FROM access_tokens WHERE expires_at <= ?"
_SAVE_TOKEN = """INSERT INTO access_tokens (kind, hash, conversation, created_at, expires_at, body)
SELECT :kind, :hash, nullif(:conversation, ''), :created_at, :expires_at, :body
WHERE :conversation = '' OR EXISTS (SELECT 1 FROM conversations WHERE id = :conversation AND epoch > 0)"""
_IS_OF = "(conversation = ?2 OR (?2 = '' AND conversation IS NULL))"
_TOKEN_COLUMNS = "kind, hash, created_at, expires_at, coalesce(conversation, ''), body"
_READ_TOKEN = f"SELECT {_TOKEN_COLUMNS} FROM access_tokens WHERE kind = ? AND hash = ?"
_LIST_TOKENS = f"SELECT {_TOKEN_COLUMNS} FROM access_tokens WHERE kind = ?1 AND {_IS_OF} ORDER BY created_at, hash"
_EXTEND_TOKEN = "UPDATE access_tokens SET expires_at = ?3 WHERE kind = ?1 AND hash = ?2"
_DELETE_TOKEN = "DELETE FROM access_tokens WHERE kind = ? AND hash = ?"
_key_decoder = msgspec.json.Decoder(Key)


class SqliteAccess(SqlitePorts):
    async def keys(self) -> Sequence[Key]:
        def query(connection: sqlite3.Connection) -> list[Key]:
            return [_key_decoder.decode(key) for (key,) in connection.execute(_KEYS)]

        return await self._database.read(query)

    async def save_key(self, key: Key) -> None:
        await self._database.execute(SAVE_KEY, key.name, msgspec.json.encode(key))

    async def revoke_key(self, name: str) -> bool:
        return bool(await self._database.execute(REVOKE_KEY, name))

    async def save_token(self, token: AccessToken) -> None:
        values = {name: getattr(token, name) for name in AccessToken.__struct_fields__}

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(_DROP_EXPIRED, (token.created_at,))
            connection.execute(_SAVE_TOKEN, values)

        await self._database.write(work, len(token.body))

    async def read_token(self, kind: str, hash: str) -> AccessToken | None:
        row = await self._database.fetch_row(_READ_TOKEN, kind, hash)
        return _build_token(row) if row else None

    async def list_tokens(self, kind: str, conversation: str) -> Sequence[AccessToken]:
        return [_build_token(row) for row in await self._database.fetch(_LIST_TOKENS, kind, conversation)]

    async def extend_token(self, kind: str, hash: str, expires_at: float) -> None:
        await self._database.execute(_EXTEND_TOKEN, kind, hash, expires_at)

    async def delete_token(self, kind: str, hash: str) -> None:
        await self._database.execute(_DELETE_TOKEN, kind, hash)


def _build_token(row: Sequence[object]) -> AccessToken:
    return AccessToken(**dict(zip(AccessToken.__struct_fields__, row, strict=True)))  # pyright: ignore[reportArgumentType]
