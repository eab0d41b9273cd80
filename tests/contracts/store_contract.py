"""What the promises of a store are checked with: entries, the stores that keep them, and how to expect a break."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from postgres import create_database
from stores.memory_replicas import SharedMemoryStore
from toolyard.core.caller import Caller
from toolyard.core.conversation.events import (
    ConversationOpened,
    Durable,
    Entry,
    RunQueued,
    StopRequested,
)
from toolyard.core.conversation.settings import Settings
from toolyard.core.errors import ToolyardError
from toolyard.core.items import Item, ModelText, TextPart, UserMessage
from toolyard.core.store import (
    Append,
    CatalogQuery,
    Claim,
    ListPosition,
    Store,
)
from toolyard.stores.memory import MemoryStore
from toolyard.stores.postgres import PostgresStore
from toolyard.stores.sqlite import SqliteStore

Promise = Callable[[Store], Awaitable[None]]


def make_entries(conversation: str, first: int, count: int = 1, by: str = "ana") -> list[Entry]:
    return [
        Entry(conversation=conversation, seq=seq, at=float(seq), event=StopRequested(by=by))
        for seq in range(first, first + count)
    ]


def user_says(id: str, *texts: str) -> UserMessage:
    return UserMessage(id=id, at=0.0, parts=tuple(TextPart(text=text) for text in texts))


def model_says(id: str, text: str) -> ModelText:
    return ModelText(id=id, at=0.0, text=text)


def conversation_opened(
    user: str = "ana", tenant: str = "acme", title: str = "", description: str = ""
) -> ConversationOpened:
    settings = Settings(title=title, description=description)
    return ConversationOpened(owner=Caller(user=user, tenant=tenant), settings=settings)


def run_queued(*items: Item) -> RunQueued:
    return RunQueued(caller=Caller(), input=items)


async def claim(store: Store, conversation: str) -> int:
    """Claim the conversation; the epoch."""
    answer = await store.claim(conversation)
    assert isinstance(answer, Claim)
    return answer.epoch


async def append(
    store: Store,
    conversation: str,
    epoch: int,
    entries: Sequence[Entry],
    wake_at: float | None,
    *,
    release: bool = False,
) -> bool:
    return await store.append(
        Append(
            conversation=conversation,
            epoch=epoch,
            entries=entries,
            wake_at=wake_at,
            release_at=0 if release else None,
        )
    )


async def find_due(store: Store, now: float) -> tuple[Sequence[str], float | None]:
    return await store.find_due(now, 10)


async def append_events(
    store: Store, conversation: str, *events: Durable, at: float = 0.0, run: str = "", correlation_id: str = ""
) -> int:
    """Claim the conversation and append the events to it; the epoch of the claim."""
    epoch, last = await claim(store, conversation), len(await store.read(conversation))
    batch = [
        Entry(conversation=conversation, seq=seq, at=at, event=event, run=run, correlation_id=correlation_id)
        for seq, event in enumerate(events, last + 1)
    ]
    await append(store, conversation, epoch, batch, None)
    return epoch


async def list_ids(
    store: Store,
    text: str = "",
    *,
    tenant: str = "acme",
    user: str = "",
    after: ListPosition | None = None,
    limit: int = 50,
) -> list[str]:
    query = CatalogQuery(tenant=tenant, user=user, text=text, after=after, limit=limit)
    return [card.id for card in await store.cards(query)]


async def assert_refused(error: type[ToolyardError], awaitable: Awaitable[object]) -> None:
    try:
        await awaitable
    except ToolyardError as raised:
        assert type(raised) is error, f"{raised!r} instead of {error.__name__}"
    else:
        raise AssertionError(f"it was not refused with {error.__name__}")


async def read_seqs(store: Store, conversation: str, after: int = 0, limit: int = 0) -> list[int]:
    return [entry.seq for entry in await store.read(conversation, after, limit)]


@asynccontextmanager
async def memory(directory: Path) -> AsyncGenerator[Store]:
    yield MemoryStore()


@asynccontextmanager
async def memory_shared(directory: Path) -> AsyncGenerator[Store]:
    yield SharedMemoryStore()


@asynccontextmanager
async def sqlite(directory: Path) -> AsyncGenerator[Store]:
    yield await SqliteStore.open(directory / "store.db")


@asynccontextmanager
async def sqlite_full(directory: Path) -> AsyncGenerator[Store]:
    yield await SqliteStore.open(directory / "store.db", synchronous="FULL")


@asynccontextmanager
async def postgres(directory: Path) -> AsyncGenerator[Store]:
    async with create_database() as url:
        yield await PostgresStore.open(url)


async def check_promise(promise: Promise, store: Store) -> None:
    try:
        await promise(store)
    finally:
        await store.close()


def get_function_name(function: Callable[..., object]) -> str:
    return function.__name__


every_store = pytest.mark.parametrize(
    "open_store", [memory, memory_shared, sqlite, sqlite_full, postgres], ids=get_function_name
)
OpenStore = Callable[[Path], AbstractAsyncContextManager[Store]]


async def expect_break(promise: Promise, broken: MemoryStore) -> None:
    """Check that a store which was made to break the promise is found out."""
    with pytest.raises(AssertionError):
        await check_promise(promise, broken)
