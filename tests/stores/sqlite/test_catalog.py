"""What the catalog of the SQLite store does beyond the contract: restarts, long searches, every kind of letter."""

import asyncio
import sys
import unicodedata
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stores.sqlite.opening import open_store
from support import append_entries, claim_epoch
from toolyard.core.caller import Caller
from toolyard.core.conversation.events import ConversationOpened, Entry, MessageAdded, RunQueued
from toolyard.core.conversation.search_texts import fold_case
from toolyard.core.conversation.settings import Settings
from toolyard.core.items import TextPart, UserMessage
from toolyard.core.store import CatalogQuery, Key, Store
from toolyard.stores.memory import MemoryStore
from toolyard.stores.search_terms import SCAN_SIZE
from toolyard.stores.sqlite import search
from toolyard.stores.sqlite.store import SqliteStore

OWNER = Caller(user="ana", tenant="acme")


async def write_conversation(store: Store, conversation: str, text: str, title: str = "", at: float = 1.0) -> None:
    message = UserMessage(id="m", at=at, parts=(TextPart(text=text),))
    events = [
        ConversationOpened(owner=OWNER, settings=Settings(title=title)),
        MessageAdded(item=message),
        RunQueued(caller=OWNER, input=()),
    ]
    batch = [
        Entry(conversation=conversation, seq=seq, at=at, event=event, run="run_1", correlation_id=f"trace {title}")
        for seq, event in enumerate(events, 1)
    ]
    await append_entries(store, conversation, await claim_epoch(store, conversation), batch, None)


async def search_ids(store: Store, text: str, limit: int = 50) -> list[str]:
    return [card.id for card in await store.cards(CatalogQuery(tenant="acme", text=text, limit=limit))]


async def test_the_catalog_and_the_keys_outlive_a_close_and_so_does_what_was_forgotten(tmp_path: Path) -> None:
    key = Key(name="shop", hash="h", user="shop", roles=frozenset({"admin"}))
    async with open_store(tmp_path / "store.db") as store:
        await write_conversation(store, "a", "milk", title="one")
        await write_conversation(store, "b", "milk", title="two")
        await store.put_blob("b", "blob_1", b"whole")
        await store.save_key(key)
        epoch = await claim_epoch(store, "b")
        await store.delete_conversation("b")
    async with open_store(tmp_path / "store.db") as store:
        assert await search_ids(store, "milk") == await search_ids(store, "") == ["a"]
        assert await store.find_runs("trace one") == [("a", "run_1")]
        assert await store.find_runs("trace two") == []
        assert await store.get_blob("b", "blob_1") is None
        assert await store.keys() == [key]
        assert await claim_epoch(store, "b") == epoch + 1


async def test_a_card_and_its_entries_are_one_commit(tmp_path: Path) -> None:
    async with open_store(tmp_path / "store.db") as store:
        await claim_epoch(store, "c")
        before = store.commits
        await write_conversation(store, "c", "milk")
        assert store.commits == before + 2  # the claim and the batch


async def test_who_reads_is_let_in_between_the_steps_of_a_long_search(tmp_path: Path) -> None:
    async with open_store(tmp_path / "store.db") as store:
        names = [f"c{number:03d}" for number in range(2 * SCAN_SIZE)]
        for at, name in enumerate(names):
            await write_conversation(store, name, "milk" if at % 2 else "bread", at=float(at))
        searching = asyncio.ensure_future(search_ids(store, "MILK", limit=len(names)))
        await asyncio.sleep(0)
        assert len(await store.read("c001")) == 3
        assert not searching.done()
        assert await searching == names[1::2][::-1]
        assert await search_ids(store, "milk", limit=3) == names[-1:-6:-2]


async def test_a_search_that_stopped_early_does_not_hide_what_comes_later(tmp_path: Path) -> None:
    async with open_store(tmp_path / "store.db") as store:
        await write_conversation(store, "a", "milk")
        assert await search_ids(store, "milk") == ["a"]
        await write_conversation(store, "b", "milk", at=2.0)
        assert len(await store.read("b")) == 3
        assert await search_ids(store, "milk") == ["b", "a"]


def test_folding_is_one_to_one_and_keeps_ascii_and_letters_without_case_to_themselves() -> None:
    """The pattern with which SQLite looks through batches relies on it."""
    for number in (*range(0xD800), *range(0xE000, sys.maxunicode + 1)):
        letter = chr(number)
        fold = fold_case(letter)
        assert len(fold) == 1, letter
        assert fold.isascii() == letter.isascii(), letter
        assert fold == letter or unicodedata.category(fold) != "Lo", letter
        assert fold_case(fold) == fold, letter


LETTERS = st.text(st.sampled_from("aAkKſsSßẞİıiIK%_\\\"'/\n\x00\x7f \u2028ΣσςéÉ中文牛🥛{:,[u00"), max_size=6)


@settings(deadline=None, max_examples=60)
@given(texts=st.lists(LETTERS, min_size=1, max_size=8), titles=LETTERS, sought=st.lists(LETTERS, max_size=12))
def test_every_letter_is_found_as_in_memory(texts: list[str], titles: str, sought: list[str]) -> None:
    async def main(directory: str) -> None:
        memory, sqlite = MemoryStore(), await SqliteStore.open(Path(directory) / "store.db")
        try:
            for store in (memory, sqlite):
                for number, text in enumerate(texts):
                    await write_conversation(store, f"c{number}", text, title=titles[number:])
            parts = [text[start:].swapcase() for text in texts for start in range(len(text))]
            for text in (*sought, *parts, *texts):
                assert await search_ids(sqlite, text) == await search_ids(memory, text), text
            for number, text in enumerate(texts):
                assert f"c{number}" in await search_ids(sqlite, text)
        finally:
            await sqlite.close()

    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        # Of thousands of searches, one may wait that long on a busy machine.
        patch.setattr(search, "MAX_SEARCH_S", 60.0)
        asyncio.run(main(directory))
