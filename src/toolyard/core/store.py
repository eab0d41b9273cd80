"""The ports of a store: small protocols, and `Store`, which combines them."""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from toolyard.core.events import Entry
from toolyard.core.setting_types import Hash, Name, RecordedTime


class FutureLike(Protocol):
    """The part of a future that the journal uses."""

    def done(self) -> bool: ...

    def exception(self) -> BaseException | None: ...

    def add_done_callback(self, callback: Callable[["FutureLike"], object], /) -> None: ...


class Log(Protocol):
    """The append-only logs of conversations."""

    def begin_append(
        self, conversation: str, epoch: int, entries: Sequence[Entry], wake_at: float | None
    ) -> FutureLike | None:
        """Start an append and return its future, or None without starting it if the store has no room."""
        ...

    async def append(self, conversation: str, epoch: int, entries: Sequence[Entry], wake_at: float | None) -> None:
        """Commit the entries and the next wake-up time in one transaction, if `epoch` is current.

        Raises Fenced if another owner has claimed the conversation, StoreDown, or RequestRepeated for an entry whose
        request was stored with another entry in the last 24 hours.
        """
        ...

    async def read(self, conversation: str, after: int = 0, limit: int = 0) -> Sequence[Entry]: ...

    def subscribe(self, conversation: str, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` after entries were committed, by whatever owner, or the conversation was deleted.

        Return a function that unsubscribes it.
        """
        ...


class Claims(Protocol):
    """The ownership of conversations."""

    async def claim(self, conversation: str) -> int:
        """Become the owner and return the new epoch. Appends of every earlier owner are rejected from now on."""
        ...

    async def due(self, now: float) -> tuple[Sequence[str], float | None]:
        """Return the conversations that must be driven now, and when the next one is due."""
        ...


class Blobs(Protocol):
    """Whole results by random handle, scoped to a conversation and deleted with it."""

    async def put(self, conversation: str, handle: str, body: bytes) -> None: ...

    async def get(self, conversation: str, handle: str) -> bytes | None: ...


class RequestRecord(Struct, frozen=True, kw_only=True):
    """A request that took effect: the hash of its body, and the last entry that it led to."""

    body_hash: str
    conversation: str
    seq: int
    run: str
    at: float


ListPosition = tuple[float, str]
"""The position of a conversation in a list: the time of its last change, then its id."""


class ConversationCard(Struct, frozen=True, kw_only=True):
    """A conversation as a list shows it."""

    id: str
    user: str
    tenant: str
    title: str
    description: str
    created_at: float
    updated_at: float
    unlisted: bool = False
    """Whether lists for people leave it out."""

    @property
    def position(self) -> ListPosition:
        return self.updated_at, self.id


class CatalogQuery(Struct, frozen=True, kw_only=True):
    """A query for conversations of a tenant and of one user, or of all users if `user` is empty. Newest first."""

    tenant: str
    user: str = ""
    text: str = ""
    """Text in the title, the description or a message, ignoring case; empty means any."""
    after: ListPosition | None = None
    """Only conversations after this position: the `position` of a page's last card leads to the next page."""
    limit: int = 50
    unlisted: bool = False
    """Whether to include unlisted conversations."""


class Catalog(Protocol):
    """Projections of the logs, written in the same transaction as the entries."""

    async def card(self, conversation: str) -> ConversationCard | None: ...

    async def cards(self, query: CatalogQuery) -> Sequence[ConversationCard]: ...

    async def find_runs(self, correlation_id: str) -> Sequence[tuple[str, str]]:
        """Return the conversations and runs with this correlation id, oldest first."""
        ...

    async def find_request(self, key: str) -> RequestRecord | None:
        """Return the request with this key, if an entry with it was stored and the request is not expired."""
        ...

    async def list_expired_requests(self, before: float, limit: int) -> Sequence[str]:
        """Return the conversations of up to `limit` requests that took effect before that time, oldest first."""
        ...

    async def drop_request(self, conversation: str, before: float) -> None:
        """Forget the requests of a conversation that took effect before that time."""
        ...

    async def forget(self, conversation: str) -> None:
        """Delete a conversation with everything that belongs to it, and fence its owner."""
        ...


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
    created_at: RecordedTime = 0.0

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


class Allowance(Struct, frozen=True, kw_only=True):
    """The answer of the limiter. If it is not `granted`, the request did not count."""

    granted: bool
    remaining: int
    retry_after_s: float


class Limiter(Protocol):
    """Limits requests per minute by caller, exact at the boundary (GCRA)."""

    async def take(self, key: str, per_minute: int, now: float) -> Allowance: ...


class KeyValue(Protocol):
    """Small records by kind and name, such as servers, pins and tokens. Their content is opaque to the store."""

    async def list_records(self, kind: str) -> Sequence[tuple[str, bytes]]:
        """Return all records of a kind, in the order in which they were first set."""
        ...

    async def set(self, kind: str, name: str, body: bytes) -> None: ...

    async def delete(self, kind: str, name: str) -> None: ...


class Store(Log, Claims, Blobs, Catalog, Keys, Limiter, KeyValue, Protocol):
    """All ports of a store."""

    async def close(self) -> None: ...
