"""What people got for servers by signing in, as the store keeps it. It does not know how a token is had, or used.

The store's file is readable by its owner alone. A grant is for one address, and one caller or (of a shared server) all.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from toolyard.core.store import KeyValue

Json = dict[str, object]
TOKENS = "mcp.tokens"


class Grant(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A token with what is needed to renew it, each as the protocol has it."""

    url: str
    """Of the server that it is for: it is shown to no other."""
    issuer: str
    """Who gave it: only there it is renewed."""
    token: Json
    client: Json
    metadata: Json = {}
    resource: Json = {}
    expires_at: float | None = None
    wanted: str = ""
    """Scopes that the server asked for beyond those of the token: the next sign-in asks for them, too."""

    def __repr__(self) -> str:
        return f"Grant(url={self.url!r}, issuer={self.issuer!r}, …)"


_grant_decoder = msgspec.json.Decoder(Grant)


class GrantStore:
    """Keeps the grant of one server, for one caller or for all."""

    def __init__(self, store: KeyValue, server: str, caller_key: Sequence[str], url: str) -> None:
        self._store = store
        self._name = msgspec.json.encode([server, *caller_key]).decode()
        self._url = url

    async def load(self) -> Grant | None:
        """None also for a grant of an address that the server no longer has."""
        body = dict(await self._store.list_records(TOKENS)).get(self._name)
        found = _grant_decoder.decode(body) if body is not None else None
        return found if found is not None and found.url == self._url else None

    async def save(self, grant: Grant) -> None:
        await self._store.set(TOKENS, self._name, msgspec.json.encode(grant))

    async def forget(self) -> None:
        await self._store.delete(TOKENS, self._name)


async def forget_grants(store: KeyValue, server: str) -> None:
    """Of a server that is taken away."""
    for name, _ in await store.list_records(TOKENS):
        if msgspec.json.decode(name, type=list[str])[0] == server:
            await store.delete(TOKENS, name)
