"""The ports for API keys, access tokens and the rate limit."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from toolyard.core.caller import ServerTools
from toolyard.core.settings.types import Hash, Name, Origin, RecordedHash, RecordedTime, RecordedTools, Timestamp


class Key(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An API key as it is stored: its hash, never the key itself, and the caller that it stands for."""

    name: Name
    hash: Hash
    user: Name
    roles: frozenset[Name] = frozenset()
    tenant: str = ""
    divisions: frozenset[Name] = frozenset()
    trusted: bool = False
    """Whether requests with this key may name the end user whom they are made for."""
    tools: frozenset[Name] = frozenset()
    """The tools that requests with this key may use, by name or as patterns such as `stock_*`; empty means any."""
    bound_tools: RecordedTools = frozenset()
    """Those of `tools` that named a tool of a server when the key was added, with that tool."""
    models: frozenset[Name] = frozenset()
    """The models that requests with this key may use, by name or as patterns; empty means any."""
    server_tools: ServerTools = ""
    """Whether the server's tools run in requests of Anthropic's API that do not say so themselves.

    If empty, they do unless the request brings tools of its own.
    """
    origins: frozenset[Origin] = frozenset()
    """The origins of the pages that may use this key, such as `https://shop.example`; empty means any client."""
    not_before: Timestamp = 0.0
    expires_at: Timestamp = 0.0
    """When the key is no longer accepted; zero means never."""
    created_at: RecordedTime = 0.0
    previous_hash: RecordedHash = ""
    """The hash of the secret before the last rotation, which is accepted until `previous_until`."""
    previous_until: RecordedTime = 0.0

    def find_time_problem(self, now: float) -> str:
        """Return why the key is not accepted at this time; empty if it is."""
        if now < self.not_before:
            return "this API key is not valid yet"
        return "this API key has expired" if self.expires_at and now >= self.expires_at else ""

    def list_hashes(self, now: float) -> list[str]:
        """Return the hashes of the secrets that are accepted at this time."""
        return [self.hash, self.previous_hash] if self.previous_hash and now < self.previous_until else [self.hash]

    def administers(self, tenant: str) -> bool:
        """Return whether this is the key of an administrator of the tenant or of the whole server."""
        return "admin" in self.roles and self.tenant in ("", tenant)


class Keys(Protocol):
    """The API keys that were added at run time."""

    async def keys(self) -> Sequence[Key]: ...

    async def save_key(self, key: Key) -> None: ...

    async def revoke_key(self, name: str) -> bool:
        """Delete a key. Return whether it existed."""
        ...


SESSION = "session"


SHARE = "share"
"""The kinds of access tokens."""


class AccessToken(Struct, frozen=True, kw_only=True):
    """A random token that this server has handed out, as it is stored: its hash, never the token itself."""

    kind: str
    """What the token opens, such as `session`."""
    hash: str
    created_at: float
    expires_at: float
    conversation: str = ""
    """The conversation that the token is deleted with; empty if it belongs to none."""
    body: bytes = b""
    """Opaque to the store."""


class AccessTokens(Protocol):
    """Tokens of sessions and of shared conversations. The store does not check whether a token has expired."""

    async def save_token(self, token: AccessToken) -> None:
        """Store a token, unless its conversation does not exist, and delete those that had expired when it was made."""
        ...

    async def read_token(self, kind: str, hash: str) -> AccessToken | None: ...

    async def list_tokens(self, kind: str, conversation: str) -> Sequence[AccessToken]:
        """Return the tokens of a conversation, or those that belong to none, oldest first."""
        ...

    async def extend_token(self, kind: str, hash: str, expires_at: float) -> None:
        """Set when a token expires. A token that was deleted meanwhile stays deleted."""
        ...

    async def delete_token(self, kind: str, hash: str) -> None: ...


class Allowance(Struct, frozen=True, kw_only=True):
    """The answer of the limiter. If it is not `granted`, the request did not count."""

    granted: bool
    remaining: int
    retry_after_s: float


class Limiter(Protocol):
    """Limits requests per minute by caller, exact at the boundary (GCRA)."""

    async def take_allowance(self, key: str, per_minute: int, now: float) -> Allowance: ...

    async def return_allowance(self, key: str, per_minute: int) -> None:
        """Take back a request that was granted and shall not count. The allowance never becomes more than full."""
        ...
