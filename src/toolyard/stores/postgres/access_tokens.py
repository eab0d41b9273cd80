"""The tokens of sessions and of shared conversations in the PostgreSQL store."""

from collections.abc import Sequence

from asyncpg import Record

from toolyard.core.store import AccessToken
from toolyard.stores.postgres.lease import LeasedPorts

FORGET_TOKENS = "DELETE FROM access_tokens WHERE conversation = $1"
# The row of the conversation is locked: a token that is saved while the conversation is being deleted is either seen by
# the deletion or not saved, as the condition is checked again after the wait.
_SAVE = """WITH expired AS (DELETE FROM access_tokens WHERE expires_at <= $4),
existing AS (SELECT 1 FROM conversations WHERE id = $3 AND epoch > 0 FOR SHARE)
INSERT INTO access_tokens (kind, hash, conversation, created_at, expires_at, body)
SELECT $1, $2, nullif($3, ''), $4, $5, $6 WHERE $3 = '' OR EXISTS (SELECT 1 FROM existing)"""
_OF = "(conversation = $2 OR ($2 = '' AND conversation IS NULL))"
_COLUMNS = "kind, hash, created_at, expires_at, coalesce(conversation, ''), body"
_READ = f"SELECT {_COLUMNS} FROM access_tokens WHERE kind = $1 AND hash = $2"
_LIST = f"SELECT {_COLUMNS} FROM access_tokens WHERE kind = $1 AND {_OF} ORDER BY created_at, hash"
_EXTEND = "UPDATE access_tokens SET expires_at = $3 WHERE kind = $1 AND hash = $2"
_DELETE = "DELETE FROM access_tokens WHERE kind = $1 AND hash = $2"


class PostgresAccessTokens(LeasedPorts):
    async def save_token(self, token: AccessToken) -> None:
        await self._database.fetch(
            _SAVE, token.kind, token.hash, token.conversation, token.created_at, token.expires_at, token.body
        )

    async def read_token(self, kind: str, hash: str) -> AccessToken | None:
        row = await self._database.fetch_row(_READ, kind, hash)
        return _build_token(row) if row else None

    async def list_tokens(self, kind: str, conversation: str) -> Sequence[AccessToken]:
        return [_build_token(row) for row in await self._database.fetch(_LIST, kind, conversation)]

    async def extend_token(self, kind: str, hash: str, expires_at: float) -> None:
        await self._database.fetch(_EXTEND, kind, hash, expires_at)

    async def delete_token(self, kind: str, hash: str) -> None:
        await self._database.fetch(_DELETE, kind, hash)


def _build_token(row: Record) -> AccessToken:
    return AccessToken(**dict(zip(AccessToken.__struct_fields__, row, strict=True)))
