"""The stored OAuth grants that people obtained by signing in to servers. `oauth` uses and renews them.

A grant is for one address, and for one caller or (of a shared server) for all callers. It is encrypted if the server
has a secret; without one it is stored only in a file that its owner alone can read.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager

import msgspec
from msgspec import Struct, field

from toolyard.core.json_types import Json
from toolyard.venues.mcp.auth.sealed_records import SealedRecords, UndecryptableRecord

TOKENS = "mcp.tokens"
SIGN_INS = "mcp.sign_ins"
SEALED_KINDS = (TOKENS, SIGN_INS)
"""The kinds of records that are encrypted if there is a secret."""


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
    sign_in_id: str = ""
    """New with each sign-in, and the same after a renewal. Empty in grants of earlier versions."""
    missing_scopes: str = field(default="", name="wanted")
    """Scopes that the server asked for beyond those of the token; the next sign-in requests them too."""

    def __repr__(self) -> str:
        return f"Grant(url={self.url!r}, issuer={self.issuer!r}, …)"


class OpenSignIn(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A sign-in that a person has begun: the page to open, and what is needed to finish with the page's answer."""

    server_url: str
    page: str
    state: str
    verifier: str
    """Proves to the authorization server that the code is meant for us (PKCE)."""
    redirect_uri: str
    scope: str
    client: Json
    metadata: Json = {}
    resource: Json = {}
    expires_at: float = 0.0

    def __repr__(self) -> str:
        return f"OpenSignIn(server_url={self.server_url!r}, …)"


_grant_decoder = msgspec.json.Decoder(Grant)


def build_record_name(server: str, caller_key: Sequence[str]) -> str:
    """Return the name of the records for a server and a caller, or for all callers if the key is empty."""
    return msgspec.json.encode([server, *(caller_key or ("", ""))]).decode()


class GrantStore:
    """Stores the grant of one server, for one caller or for all. The sessions that use the grant share one object."""

    def __init__(self, records: SealedRecords, server: str, caller_key: Sequence[str], url: str) -> None:
        self._records = records
        self._name = build_record_name(server, caller_key)
        self._url = url
        self.renewal_lock = asyncio.Lock()
        self._sign_in_id: str | None = None
        self._sealed: bytes | None = None
        """The record as `is_replaced` saw it last; None after a change that it has not seen.

        A grant that comes and goes between two looks leaves the same empty record as before, and has to be noticed.
        """
        self._loaded = False
        self._changed = False

    def lock(self) -> AbstractAsyncContextManager[None]:
        """Keep other replicas from renewing the token: an issuer takes each refresh token only once."""
        return self._records.lock(TOKENS, self._name)

    async def load(self) -> Grant | None:
        """Return the grant, or None if there is none or if it is for another address than the server has now."""
        return self._decode(await self._records.read(TOKENS, self._name))

    async def load_for_session(self) -> Grant | None:
        """Return the grant for a new session; `is_replaced` compares later grants with it."""
        while True:
            self._changed = False
            grant = await self.load()
            if not self._changed:
                break
        self._sign_in_id, self._loaded, self._sealed = grant.sign_in_id if grant else None, True, None
        return grant

    async def save(self, grant: Grant) -> None:
        self._sign_in_id, self._loaded = grant.sign_in_id, True
        await self._records.set(TOKENS, self._name, msgspec.json.encode(grant))
        self._sealed = None

    async def forget(self) -> None:
        self._sign_in_id, self._loaded = None, True
        await self._records.delete(TOKENS, self._name)

    def is_replaced(self, sealed: Mapping[str, bytes]) -> bool:
        """Return whether, by these records, somebody has signed in or out since the session began."""
        body = sealed.get(self._name, b"")
        if body == self._sealed:
            return False
        self._sealed, self._changed = body, True
        if not self._loaded:
            return False
        try:
            grant = self._decode(self._records.unseal(TOKENS, self._name, body) if body else None)
        except UndecryptableRecord:
            return True
        return (grant.sign_in_id if grant else None) != self._sign_in_id

    def _decode(self, body: bytes | None) -> Grant | None:
        grant = _grant_decoder.decode(body) if body is not None else None
        return grant if grant is not None and grant.url == self._url else None


async def list_grants(records: SealedRecords, server: str) -> list[tuple[str, str]]:
    """Return the kinds and names of the grants of all callers for a server, and of the sign-ins that are under way."""
    return [
        (kind, name)
        for kind in SEALED_KINDS
        for name, _ in await records.list_sealed(kind)
        if msgspec.json.decode(name, type=list[str])[0] == server
    ]


async def forget_grants(records: SealedRecords, server: str) -> None:
    """Delete the grants of all callers for a server that is removed, and the sign-ins that are under way."""
    for kind, name in await list_grants(records, server):
        await records.delete(kind, name)
