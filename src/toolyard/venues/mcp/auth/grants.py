"""The stored OAuth grants that people obtained by signing in to servers. `oauth` uses and renews them.

The store's file is readable by its owner alone. A grant is for one address, and for one caller or (of a shared server)
for all callers.
"""

import asyncio
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from toolyard.core.json_types import Json
from toolyard.core.store import KeyValue

TOKENS = "mcp.tokens"


class Grant(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A token with what is needed to renew it. Nested objects have the shape that OAuth gives them."""

    url: str
    """The server's address; the token is sent to no other."""
    issuer: str
    """The authorization server that issued the token; it is renewed only there."""
    token: Json
    client: Json
    metadata: Json = {}
    resource: Json = {}
    expires_at: float | None = None
    wanted: str = ""
    """Scopes that the server asked for beyond those of the token; the next sign-in requests them too."""

    def __repr__(self) -> str:
        return f"Grant(url={self.url!r}, issuer={self.issuer!r}, …)"


_grant_decoder = msgspec.json.Decoder(Grant)


class GrantStore:
    """Stores the grant of one server, for one caller or for all. The sessions that use the grant share one object."""

    def __init__(self, store: KeyValue, server: str, caller_key: Sequence[str], url: str) -> None:
        self._store = store
        self._name = msgspec.json.encode([server, *caller_key]).decode()
        self._url = url
        self.renewal_lock = asyncio.Lock()

    async def load(self) -> Grant | None:
        """Return the grant, or None if there is none or if it is for another address than the server has now."""
        body = dict(await self._store.list_records(TOKENS)).get(self._name)
        grant = _grant_decoder.decode(body) if body is not None else None
        return grant if grant is not None and grant.url == self._url else None

    async def save(self, grant: Grant) -> None:
        await self._store.set(TOKENS, self._name, msgspec.json.encode(grant))

    async def forget(self) -> None:
        await self._store.delete(TOKENS, self._name)


async def forget_grants(store: KeyValue, server: str) -> None:
    """Delete the grants of all callers for a server that is removed."""
    for name, _ in await store.list_records(TOKENS):
        if msgspec.json.decode(name, type=list[str])[0] == server:
            await store.delete(TOKENS, name)
