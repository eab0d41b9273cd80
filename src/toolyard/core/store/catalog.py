"""The port for lists of conversations, runs and requests: projections of the logs."""

from collections.abc import Sequence
from typing import Literal, Protocol

from msgspec import Struct

from toolyard.core.conversation.settings import Settings


class RequestRecord(Struct, frozen=True, kw_only=True):
    """A request that took effect: the hash of its body, and the last entry that it led to."""

    body_hash: str
    conversation: str
    seq: int
    run: str
    at: float


ListPosition = tuple[float, str]
"""The position of a conversation in a list: the time of its last change, then its id."""


CardPlace = Literal["", "pinned", "archived", "deleted"]
"""Where lists for people show a conversation; a deleted one, which can still be restored, is in none."""
LISTED: tuple[CardPlace, ...] = ("", "pinned")
KEPT: tuple[CardPlace, ...] = ("", "pinned", "archived")


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
    place: CardPlace = ""

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
    places: tuple[CardPlace, ...] = LISTED


def find_place(settings: Settings) -> CardPlace:
    """Return the place of a conversation with these settings."""
    return "deleted" if settings.deleted_at else settings.place


class OpenCounts(Struct, frozen=True, kw_only=True):
    """How many conversations have a run that is driven, and how many one that waits for people or applications."""

    running: int
    waiting: int


class Catalog(Protocol):
    """Projections of the logs, written in the same transaction as the entries."""

    async def card(self, conversation: str) -> ConversationCard | None: ...

    async def cards(self, query: CatalogQuery) -> Sequence[ConversationCard]: ...

    async def list_deleted(self, before: float, limit: int) -> Sequence[str]:
        """Return up to `limit` conversations that were deleted before that time and can be restored no longer."""
        ...

    async def find_runs(self, correlation_id: str) -> Sequence[tuple[str, str]]:
        """Return the conversations and runs with this correlation id, oldest first."""
        ...

    async def find_request(self, key: str) -> RequestRecord | None:
        """Return the last of the requests whose keys begin with this text, if an entry with one was stored."""
        ...

    async def list_expired_requests(self, before: float, limit: int) -> Sequence[str]:
        """Return the conversations of up to `limit` requests that took effect before that time, oldest first."""
        ...

    async def drop_request(self, conversation: str, before: float) -> None:
        """Forget the requests of a conversation that took effect before that time."""
        ...

    async def list_open(self, tenant: str, user: str, limit: int) -> Sequence[ConversationCard]:
        """Return conversations with an open run, of all users if `user` is empty, the last changed first."""
        ...

    async def count_open(self, now: float) -> OpenCounts:
        """Return how many conversations have an open run, in all replicas."""
        ...

    async def delete_conversation(self, conversation: str) -> Sequence[str]:
        """Delete a conversation with everything that belongs to it, and fence its owner.

        Return the other replicas that own or follow it.
        """
        ...
