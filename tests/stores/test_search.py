"""A search finds the same conversations in every store: by any part of a text, in any script, whatever is indexed."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from postgres import create_database
from toolyard.core.caller import Caller
from toolyard.core.conversation.events import (
    ConversationChanged,
    ConversationOpened,
    Durable,
    Entry,
    MessageAdded,
    MessageRemoved,
    TurnEnded,
)
from toolyard.core.conversation.settings import Settings
from toolyard.core.items import ModelText, TextPart, UserMessage
from toolyard.core.store import Append, CatalogQuery, Claim, Store
from toolyard.stores.memory import MemoryStore
from toolyard.stores.postgres import PostgresStore
from toolyard.stores.postgres.connections import Database
from toolyard.stores.postgres.search import index_some
from toolyard.stores.postgres_settings import PostgresSettings
from toolyard.stores.search_terms import SCAN_SIZE
from toolyard.stores.sqlite import SqliteStore
from toolyard.stores.sqlite.search import MAX_POSTPONED_S

Index = Callable[[], Awaitable[None]]
TEXTS = st.text(alphabet="abAB \"'*%_\\\n\x00é中文字典İKς", max_size=12)


class Writer:
    """Writes conversations of one user into a store, a second apart."""

    def __init__(self, store: Store, tenant: str = "acme", *, at: float = 0.0) -> None:
        self._store = store
        self._tenant = tenant
        self._seqs: dict[str, int] = {}
        self._at = at

    async def add(self, conversation: str, *events: Durable, wake_at: float | None = None) -> None:
        claim = await self._store.claim(conversation)
        assert isinstance(claim, Claim)
        seq = self._seqs.get(conversation, 0)
        self._at += 1.0
        entries = [
            Entry(conversation=conversation, seq=number, at=self._at, event=event, epoch=claim.epoch)
            for number, event in enumerate(events, seq + 1)
        ]
        self._seqs[conversation] = seq + len(entries)
        append = Append(conversation=conversation, epoch=claim.epoch, entries=entries, wake_at=wake_at)
        await self._store.append(append)

    async def open(self, conversation: str, title: str = "", *texts: str, unlisted: bool = False) -> None:
        settings = Settings(title=title, unlisted=unlisted)
        opened = ConversationOpened(owner=Caller(user="ana", tenant=self._tenant), settings=settings)
        await self.add(conversation, opened, *(say(f"{conversation}.{n}", text) for n, text in enumerate(texts)))

    async def find(self, text: str, limit: int = 50, *, unlisted: bool = False) -> list[str]:
        query = CatalogQuery(tenant=self._tenant, text=text, limit=limit, unlisted=unlisted)
        return [card.id for card in await self._store.cards(query)]


def say(item_id: str, text: str) -> MessageAdded:
    return MessageAdded(item=UserMessage(id=item_id, at=0.0, parts=(TextPart(text=text),)))


@asynccontextmanager
async def open_sqlite(path: Path) -> AsyncGenerator[tuple[Store, Index], None]:
    store = await SqliteStore.open(path)
    try:
        yield store, store.index_texts
    finally:
        await store.close()


@asynccontextmanager
async def open_postgres() -> AsyncGenerator[tuple[Store, Index], None]:
    async with create_database() as url:
        store = await PostgresStore.open(url)
        try:
            yield store, store.index_texts
        finally:
            await store.close()


@pytest.fixture(params=["sqlite", "postgres"])
async def indexed_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[tuple[Store, Index], None]:
    opening = open_sqlite(tmp_path / "toolyard.db") if request.param == "sqlite" else open_postgres()
    async with opening as opened:
        yield opened


async def test_a_text_is_found_by_any_part_of_it_in_any_script(indexed_store: tuple[Store, Index]) -> None:
    store, index = indexed_store
    writer = Writer(store)
    await writer.open("milk", "Groceries", "Please buy milk, bread & 3 eggs")
    await writer.open("天气", "", "明天北京的天气怎么样？")
    await writer.open("code", "", 'print("x*y")', "100% _sure_")
    for _ in range(2):  # before and after it is indexed
        assert await writer.find("MILK") == ["milk"]
        assert await writer.find("rocer") == ["milk"]
        assert await writer.find("北京") == ["天气"]
        assert await writer.find("样") == ["天气"]
        assert await writer.find("？") == ["天气"]
        assert await writer.find('"x*') == ["code"]
        assert await writer.find("% _") == ["code"]
        assert await writer.find("e") == ["code", "milk"]
        assert await writer.find("milk bread") == []
        assert await writer.find("京北") == []
        await index()


async def test_messages_that_were_removed_and_conversations_that_were_deleted_are_not_found(
    indexed_store: tuple[Store, Index],
) -> None:
    store, index = indexed_store
    writer = Writer(store)
    await writer.open("a", "first", "a secret plan", "lunch")
    await writer.open("b", "", "a secret, too")
    await index()
    await writer.add("a", MessageRemoved(ids=frozenset({"a.0"})))
    assert await writer.find("secret") == ["b"]
    await index()
    assert await writer.find("secret") == ["b"]
    assert await writer.find("lunch") == ["a"]
    await store.delete_conversation("b")
    assert await writer.find("secret") == []
    await index()
    assert await writer.find("secret") == []


async def test_unlisted_conversations_are_found_if_they_are_asked_for(indexed_store: tuple[Store, Index]) -> None:
    store, index = indexed_store
    writer = Writer(store)
    for number in range(SCAN_SIZE + 2):  # more than a search compares before it asks the index
        await writer.open(f"other {number:04}", "", "nothing")
    await writer.open("listed", "", "a rare word")
    await writer.open("unlisted", "", "a rare word", unlisted=True)
    await writer.add("unlisted", say("later", "and another one"))
    for number in range(SCAN_SIZE + 2):
        await writer.open(f"newer {number:04}", "", "nothing")
    for _ in range(2):
        assert await writer.find("rare word") == ["listed"]
        assert await writer.find("rare word", unlisted=True) == ["unlisted", "listed"]
        assert await writer.find("another one", unlisted=True) == ["unlisted"]
        assert await writer.find("rarely", unlisted=True) == []
        await index()


async def test_texts_of_unlisted_conversations_are_not_indexed(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "a.db") as (store, index):
        writer = Writer(store)
        await writer.open("listed", "", "said in public")
        await writer.open("unlisted", "its title", "said in passing", unlisted=True)
        await writer.add("unlisted", say("later", "said later"))
        await index()
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        assert connection.execute("SELECT text FROM search_texts").fetchall() == [("said in public",)]


async def test_texts_are_indexed_once_their_run_has_ended_or_waits(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with open_sqlite(path) as (store, index):
        writer = Writer(store, at=time.time())
        for conversation in ("ending", "waiting"):
            await writer.open(conversation)
            await writer.add(conversation, say(f"{conversation}.0", "look that up"), wake_at=0.0)
        await index()
        assert read_indexed(path) == set()
        assert await writer.find("look that") == ["waiting", "ending"]
        await writer.add("ending", say("ending.1", "found"))
        await writer.add("waiting", wake_at=1e12)
        await index()
        assert read_indexed(path) == {"ending", "waiting"}
        assert await writer.find("look that") == ["ending", "waiting"]


async def test_texts_of_a_run_that_takes_long_are_indexed_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with open_sqlite(path) as (store, index):
        writer = Writer(store, at=time.time() - MAX_POSTPONED_S - 10)
        await writer.open("waits for a budget")
        await writer.add("waits for a budget", say("1", "look that up"), wake_at=0.0)
        await index()
        assert read_indexed(path) == {"waits for a budget"}


def read_indexed(path: Path) -> set[str]:
    """Return the conversations whose texts are indexed."""
    with closing(sqlite3.connect(path)) as connection:
        return {row[0] for row in connection.execute("SELECT conversation FROM search_texts")}


async def test_a_new_title_replaces_the_old_one(indexed_store: tuple[Store, Index]) -> None:
    store, index = indexed_store
    writer = Writer(store)
    await writer.open("a", "Old name")
    await index()
    await writer.add("a", ConversationChanged(settings=Settings(title="New name", description="with words")))
    await index()
    assert await writer.find("old") == []
    assert await writer.find("new n") == await writer.find("words") == ["a"]


async def test_a_long_text_is_found_across_the_parts_that_it_is_indexed_in(indexed_store: tuple[Store, Index]) -> None:
    store, index = indexed_store
    writer = Writer(store)
    text = "".join(f"{number:05}." for number in range(50_000))
    await writer.open("long", "", text)
    await index()
    for start in range(0, len(text) - 600, 9_977):
        assert await writer.find(text[start : start + 500]) == ["long"]
        assert await writer.find(text[start : start + 600]) == ["long"]
        assert await writer.find(text[start : start + 499] + "x" + text[start + 500 : start + 600]) == []


async def test_long_conversations_are_indexed_in_steps_of_their_own() -> None:
    async with create_database() as url:
        store, database = await PostgresStore.open(url), Database(url, PostgresSettings())
        # The store's own task leaves alone what changes later than now.
        writer = Writer(store, at=1e12)
        text = "".join(f"{number:05}." for number in range(50_000))
        for conversation in ("a", "b", "c"):
            await writer.open(conversation, "", text, "the end")
        steps = 0
        while await index_some(database, quiet_s=float("-inf")):
            steps += 1
        assert steps == 3
        assert await writer.find("49999.") == await writer.find("the end") == ["c", "b", "a"]
        database.close()
        await store.close()


async def test_what_a_model_says_in_a_run_that_goes_on_is_found(indexed_store: tuple[Store, Index]) -> None:
    store, index = indexed_store
    writer = Writer(store)
    await writer.open("a")
    await index()
    text = ModelText(id="t", at=0.0, text="let me look that up")
    await writer.add("a", TurnEnded(items=(text,), finish="calls"))
    assert await writer.find("look that") == ["a"]


async def test_old_conversations_are_found_in_order_and_page_by_page(indexed_store: tuple[Store, Index]) -> None:
    store, index = indexed_store
    writer, other = Writer(store), Writer(store, "other")
    for number in range(1_500):
        await writer.open(f"c{number:04}", "", f"number {number}" if number % 300 else "the rare word 龙")
    await other.open("elsewhere", "", "the rare word 龙")
    await index()
    await writer.add("c0300", say("late", "an answer"))
    for text in ("rare", "龙", "word 龙", "e w"):
        assert await writer.find(text) == ["c0300", "c1200", "c0900", "c0600", "c0000"]
        assert await writer.find(text, limit=2) == ["c0300", "c1200"]
        cards = list(await store.cards(CatalogQuery(tenant="acme", text=text, limit=2)))
        while page := await store.cards(CatalogQuery(tenant="acme", text=text, limit=2, after=cards[-1].position)):
            cards += page
        assert [card.id for card in cards] == ["c0300", "c1200", "c0900", "c0600", "c0000"]


@effort(max_examples=40, deadline=None)
@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=8), st.lists(TEXTS, min_size=1, max_size=8))
def test_every_store_finds_the_same(conversations: list[tuple[str, str]], needles: list[str]) -> None:
    async def compare() -> None:
        with TemporaryDirectory() as folder:
            async with open_sqlite(Path(folder) / "toolyard.db") as (store, index):
                writers = Writer(MemoryStore()), Writer(store)
                for number, (title, text) in enumerate(conversations):
                    for writer in writers:
                        await writer.open(f"c{number}", title, text)
                    if number == len(conversations) // 2:
                        await index()
                parts = [text[start : start + 3] for _, text in conversations for start in range(len(text))]
                for needle in (*needles, *parts[:20]):
                    expected, answer = [await writer.find(needle) for writer in writers]
                    assert answer == expected, needle
                await index()
                for needle in (*needles, *parts[:20]):
                    expected, answer = [await writer.find(needle) for writer in writers]
                    assert answer == expected, needle

    asyncio.run(compare())
