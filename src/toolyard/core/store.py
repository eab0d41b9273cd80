"""The seams of a store. Each is one small protocol; a store that keeps everything has them all."""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from toolyard.core.events import Entry


class FutureLike(Protocol):
    """What was begun, as a future tells it."""

    def done(self) -> bool: ...

    def exception(self) -> BaseException | None: ...

    def add_done_callback(self, callback: Callable[["FutureLike"], object], /) -> None: ...


class Log(Protocol):
    """Where the entries of conversations are kept."""

    def begin_append(
        self, conversation: str, epoch: int, entries: Sequence[Entry], wake_at: float | None
    ) -> FutureLike | None:
        """Begin to `append`. None, and nothing begun, where there is no room."""
        ...

    async def append(self, conversation: str, epoch: int, entries: Sequence[Entry], wake_at: float | None) -> None:
        """Commit the batch whole, together with when its owner must look again. Raises Fenced or StoreDown."""
        ...

    async def read(self, conversation: str, after: int = 0, limit: int = 0) -> Sequence[Entry]: ...


class Claims(Protocol):
    """Who drives a conversation."""

    async def claim(self, conversation: str) -> int:
        """Become its owner; the new epoch fences every earlier owner's appends."""
        ...

    async def due(self, now: float) -> tuple[Sequence[str], float | None]:
        """The conversations whose owner must look at them now, and when the next one is due."""
        ...


class Blobs(Protocol):
    """Whole results, by random handle, scoped to a conversation."""

    async def put(self, conversation: str, handle: str, body: bytes) -> None: ...

    async def get(self, conversation: str, handle: str) -> bytes | None: ...


ListPosition = tuple[float, str]
"""Where a conversation stands in a list: when it changed last and, among those of one moment, its id."""


class ConversationCard(Struct, frozen=True, kw_only=True):
    """What a list of conversations shows of one."""

    id: str
    user: str
    tenant: str
    title: str
    description: str
    created_at: float
    updated_at: float
    unlisted: bool = False
    """Not for people's lists."""

    @property
    def position(self) -> ListPosition:
        return self.updated_at, self.id


class CatalogQuery(Struct, frozen=True, kw_only=True):
    """Which conversations: of one tenant, of one user or (empty) of all its users, newest change first."""

    tenant: str
    user: str = ""
    text: str = ""
    """In the title, the description or a message, in upper or lower case; empty means any."""
    after: ListPosition | None = None
    """Only those that come later in the list; the `place` of a page's last card leads to the next page."""
    limit: int = 50
    unlisted: bool = False
    """Whether those that are not for people's lists are wanted as well."""


class Catalog(Protocol):
    """What there is, as projections that are written together with the entries they come from."""

    async def card(self, conversation: str) -> ConversationCard | None: ...

    async def cards(self, query: CatalogQuery) -> Sequence[ConversationCard]: ...

    async def find_runs(self, correlation_id: str) -> Sequence[tuple[str, str]]:
        """The conversations and runs that carry this id, oldest first."""
        ...

    async def forget(self, conversation: str) -> None:
        """Delete a conversation with everything that belongs to it; whoever owns it is fenced."""
        ...


class Key(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An API key as it is kept: never itself, only its hash, and the caller it stands for."""

    name: str
    hash: str
    user: str
    roles: frozenset[str] = frozenset()
    tenant: str = ""
    divisions: frozenset[str] = frozenset()
    trusted: bool = False
    """It may name the end user it speaks for."""
    created_at: float = 0.0

    def administers(self, tenant: str) -> bool:
        """Whether this is the key of an administrator of the tenant, or of the whole server."""
        return "admin" in self.roles and self.tenant in ("", tenant)


class Keys(Protocol):
    async def keys(self) -> Sequence[Key]: ...

    async def save_key(self, key: Key) -> None: ...

    async def revoke_key(self, name: str) -> bool:
        """Whether there was such a key."""
        ...


class Allowance(Struct, frozen=True, kw_only=True):
    """What is left of a rate limit; not `granted` means that nothing was taken."""

    granted: bool
    remaining: int
    retry_after_s: float


class Limiter(Protocol):
    """Requests per minute by caller, exact at the boundary (GCRA)."""

    async def take(self, who: str, per_minute: int, now: float) -> Allowance: ...


class KeyValue(Protocol):
    """Small records by kind and name; what is in one, only whoever put it there knows: servers, pins, tokens."""

    async def list_records(self, kind: str) -> Sequence[tuple[str, bytes]]:
        """All of a kind, in the order in which they were put there first."""
        ...

    async def set(self, kind: str, name: str, body: bytes) -> None: ...

    async def delete(self, kind: str, name: str) -> None: ...


class Store(Log, Claims, Blobs, Catalog, Keys, Limiter, KeyValue, Protocol):
    """All the ports that one place keeps."""

    async def close(self) -> None: ...
