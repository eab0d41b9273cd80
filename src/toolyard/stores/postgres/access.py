"""Who may use the server: API keys, the tokens of sessions and of shared conversations, and rate limits."""

from collections.abc import Sequence
from math import floor

import msgspec
from asyncpg import Record

from toolyard.core.store import AccessToken, Allowance, Key
from toolyard.stores.postgres.lease import LeasedPorts
from toolyard.stores.postgres.records import BUMP_VERSION
from toolyard.stores.rate_limit import MINUTE_TICKS, TICKS_PER_S, build_allowance

_KEYS = "SELECT body FROM keys ORDER BY name"
_BUMP_KEYS = BUMP_VERSION.format(kind="'key'")
SAVE_KEY = f"""WITH bump AS ({_BUMP_KEYS})
INSERT INTO keys (name, body) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET body = excluded.body"""
REVOKE_KEY = f"WITH bump AS ({_BUMP_KEYS}) DELETE FROM keys WHERE name = $1 RETURNING 1"
FORGET_TOKENS = "DELETE FROM access_tokens WHERE conversation = $1"
# The row of the conversation is locked: a token that is saved while the conversation is being deleted is either seen by
# the deletion or not saved, as the condition is checked again after the wait.
_SAVE_TOKEN = """WITH expired AS (DELETE FROM access_tokens WHERE expires_at <= $4),
existing AS (SELECT 1 FROM conversations WHERE id = $3 AND epoch > 0 FOR SHARE)
INSERT INTO access_tokens (kind, hash, conversation, created_at, expires_at, body)
SELECT $1, $2, nullif($3, ''), $4, $5, $6 WHERE $3 = '' OR EXISTS (SELECT 1 FROM existing)"""
_IS_OF = "(conversation = $2 OR ($2 = '' AND conversation IS NULL))"
_TOKEN_COLUMNS = "kind, hash, created_at, expires_at, coalesce(conversation, ''), body"
_READ_TOKEN = f"SELECT {_TOKEN_COLUMNS} FROM access_tokens WHERE kind = $1 AND hash = $2"
_LIST_TOKENS = f"SELECT {_TOKEN_COLUMNS} FROM access_tokens WHERE kind = $1 AND {_IS_OF} ORDER BY created_at, hash"
_EXTEND_TOKEN = "UPDATE access_tokens SET expires_at = $3 WHERE kind = $1 AND hash = $2"
_DELETE_TOKEN = "DELETE FROM access_tokens WHERE kind = $1 AND hash = $2"
# GCRA: `free_at` is when the allowance is full again, in ticks times `per_minute`. In this unit a request costs a
# minute of ticks, always an integer. `used` never exceeds the allowance, also after a clock was set back.
_USED = "least(greatest(r.free_at - ($3::bigint)::numeric * $2, 0), ($2 * $4)::numeric)"
_TAKE = f"""INSERT INTO rates AS r (key, per_minute, free_at)
VALUES ($1, $2::bigint, ($3::bigint)::numeric * $2 + $4::bigint)
ON CONFLICT (key, per_minute) DO UPDATE SET free_at = ($3::bigint)::numeric * $2 + {_USED} + $4
WHERE {_USED} + $4 <= ($2 * $4)::numeric
RETURNING r.free_at - ($3::bigint)::numeric * $2"""
_RETURN = "UPDATE rates SET free_at = free_at - $3::bigint WHERE key = $1 AND per_minute = $2::bigint"
_READ_RATE = f"SELECT {_USED} + $4::bigint FROM rates r WHERE key = $1 AND per_minute = $2::bigint"
_key_decoder = msgspec.json.Decoder(Key)


class PostgresAccess(LeasedPorts):
    async def keys(self) -> Sequence[Key]:
        return [_key_decoder.decode(body) for (body,) in await self._database.fetch(_KEYS)]

    async def save_key(self, key: Key) -> None:
        await self._database.fetch(SAVE_KEY, key.name, msgspec.json.encode(key))

    async def revoke_key(self, name: str) -> bool:
        return bool(await self._database.fetch(REVOKE_KEY, name))

    async def save_token(self, token: AccessToken) -> None:
        await self._database.fetch(
            _SAVE_TOKEN, token.kind, token.hash, token.conversation, token.created_at, token.expires_at, token.body
        )

    async def read_token(self, kind: str, hash: str) -> AccessToken | None:
        row = await self._database.fetch_row(_READ_TOKEN, kind, hash)
        return _build_token(row) if row else None

    async def list_tokens(self, kind: str, conversation: str) -> Sequence[AccessToken]:
        return [_build_token(row) for row in await self._database.fetch(_LIST_TOKENS, kind, conversation)]

    async def extend_token(self, kind: str, hash: str, expires_at: float) -> None:
        await self._database.fetch(_EXTEND_TOKEN, kind, hash, expires_at)

    async def delete_token(self, kind: str, hash: str) -> None:
        await self._database.fetch(_DELETE_TOKEN, kind, hash)

    async def take_allowance(self, key: str, per_minute: int, now: float) -> Allowance:
        if per_minute < 1:
            raise ValueError(f"per_minute must be at least 1, not {per_minute}")
        values = key.encode(), per_minute, floor(now * TICKS_PER_S), MINUTE_TICKS
        while True:
            # A refusal is explained by a second statement: the first one is refused by the row as it is now, but reads
            # it as it was at its start, before other replicas changed it. Only a row that was tidied away in between
            # explains none, and the next attempt is granted.
            if row := await self._database.fetch_row(_TAKE, *values):
                return build_allowance(int(row[0]) - per_minute * MINUTE_TICKS, per_minute)
            row = await self._database.fetch_row(_READ_RATE, *values)
            if row and (excess := int(row[0]) - per_minute * MINUTE_TICKS) > 0:
                return build_allowance(excess, per_minute)

    async def return_allowance(self, key: str, per_minute: int) -> None:
        await self._database.fetch(_RETURN, key.encode(), per_minute, MINUTE_TICKS)


def _build_token(row: Record) -> AccessToken:
    return AccessToken(**dict(zip(AccessToken.__struct_fields__, row, strict=True)))
