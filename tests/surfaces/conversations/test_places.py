"""Conversations are pinned, archived, found with the passage that was searched for, deleted and restored."""

import asyncio
from pathlib import Path
from time import time

import pytest

from contracts.store_contract import append_events, conversation_opened
from surfaces.api_client import ApiClient, build_key, build_yard, connect_api_client, open_api_client
from toolyard import Caller, tool
from toolyard.core.conversation.commands import Change, Start
from toolyard.core.conversation.decide import decide
from toolyard.core.conversation.events import ConversationChanged
from toolyard.core.conversation.search_texts import PASSAGE_CHARS, cut_passage
from toolyard.core.conversation.settings import Settings, SettingsChange
from toolyard.core.conversation.state import State
from toolyard.core.errors import NotFound
from toolyard.engine.replicas.housekeeping import UNDO_S
from toolyard.stores.memory import MemoryStore
from toolyard.testing import call, say


@tool(approval="always")
def order(item: str) -> str:
    """Order something."""
    return f"{item} ordered"


async def list_titles(http: ApiClient, query: str = "") -> list[str]:
    return [conversation["title"] for conversation in (await http.get(f"/conversations{query}"))["conversations"]]


async def test_pinned_and_archived_conversations_are_listed_where_they_are_asked_for() -> None:
    async with open_api_client(lambda _: say("ok")) as http:
        plain, pinned, archived = [await http.create_conversation(title) for title in ("Plain", "Pinned", "Archived")]
        assert (await http.put(pinned, {"place": "pinned"}))["conversation"]["place"] == "pinned"
        await http.put(archived, {"place": "archived"})
        assert await list_titles(http) == ["Pinned", "Plain"]
        assert await list_titles(http, "?place=pinned") == ["Pinned"]
        assert await list_titles(http, "?place=archived") == ["Archived"]
        assert await list_titles(http, "/search?q=a") == ["Plain"]
        assert await list_titles(http, "/search?q=A&place=any") == ["Archived", "Plain"]
        await http.put(archived, {"place": "", "title": "Back"})
        assert "Back" in await list_titles(http)
        await http.put(plain, {"title": "Still plain"})
        assert (await http.get(pinned))["conversation"]["place"] == "pinned"
        await http.get("/conversations?place=deleted", expect=422)
        await http.put(plain, {"place": "deleted"}, expect=422)


@pytest.mark.parametrize("store", ["memory:", "sqlite"])
async def test_a_search_shows_the_passage_and_its_message(tmp_path: Path, store: str) -> None:
    name = "memory:" if store == "memory:" else f"sqlite:///{tmp_path}/x.db"
    answer = "Take two eggs.\n\n" + "Stir it. " * 60 + "Then add FLOUR and salt. " + "Wait. " * 60
    async with open_api_client(lambda _: say(answer), store=name) as http:
        cake = await http.create_conversation("Cake")
        await http.post(f"{cake}/chat", {"content": "How do I bake?"})
        await http.create_conversation("Flour mills")
        first, second = (await http.get("/conversations/search?q=flour"))["conversations"]
        assert (first["title"], first["passage"]) == ("Flour mills", None)
        passage, message = second["passage"], (await http.list_messages(cake))[1]
        assert passage["message_id"] == message["id"]
        found = passage["text"][passage["start"] : passage["start"] + passage["length"]]
        assert (found, len(passage["text"]) <= PASSAGE_CHARS + 10) == ("FLOUR", True)
        assert passage["text"].startswith("…")
        assert "Stir it. Then add FLOUR and salt. Wait." in passage["text"]
        await http.post(f"{cake}/messages", {"role": "user", "content": "Which flour?"}, expect=201)
        await http.delete(f"{cake}/messages/{message['id']}")
        (found,) = (await http.get("/conversations/search?q=which%20FLOUR"))["conversations"]
        cake_result, _ = (await http.get("/conversations/search?q=flour"))["conversations"]
        assert cake_result["passage"] == {**found["passage"], "start": 6, "length": 5}
        assert found["passage"]["text"] == "Which flour?"


@pytest.mark.parametrize(
    ("text", "start", "length", "shown"),
    [("milk", 0, 4, ("milk", 0)), ("a\n\n milk\tb", 4, 4, ("a milk b", 2)), ("é" * 100 + "m", 100, 1, ("…", 54))],
)
def test_a_passage_is_one_line_around_the_match(text: str, start: int, length: int, shown: tuple[str, int]) -> None:
    passage = cut_passage("id", text, start, length)
    assert passage.text.startswith(shown[0])
    assert (passage.start, passage.text[passage.start : passage.start + passage.length]) == (
        shown[1],
        text[start : start + length],
    )


async def test_a_deletion_can_be_undone_and_hides_the_conversation_until_then() -> None:
    keys = [build_key("ann"), build_key("bob")]
    turns = [call("order", item="milk")]
    async with open_api_client(turns, keys=keys, tools=[order]) as anybody:
        ann, bob = anybody.with_key("ann"), anybody.with_key("bob")
        path = await ann.create_conversation("Mine")
        await ann.put(path, {"place": "pinned"})
        await ann.post(f"{path}/chat", {"content": "order milk"}, expect=202)
        shared = f"/shares/{(await ann.post(f'{path}/shares', {}, expect=201))['token']}"
        await bob.delete(f"{path}?undo=true", expect=404)
        await ann.delete(f"{path}?undo=true")
        for gone in (path, f"{path}/messages", f"{path}/export", shared):
            await ann.get(gone, expect=404)
        await ann.post(f"{path}/chat", {"content": "again"}, expect=404)
        await ann.put(path, {"title": "Other"}, expect=404)
        await ann.delete(path, expect=404)
        assert (await list_titles(ann, "?place=any"), (await ann.get("/live"))["runs"]) == ([], [])
        await bob.post(f"{path}/restore", expect=404)
        restored = (await ann.post(f"{path}/restore"))["conversation"]
        assert (restored["title"], restored["place"], restored["status"]) == ("Mine", "pinned", "idle")
        await ann.get(shared)
        await ann.post(f"{path}/restore", expect=404)


def test_a_deleted_conversation_takes_no_command_but_its_restoration() -> None:
    caller = Caller(user="ann")
    state = State(owner=caller, settings=Settings(deleted_at=1.0))
    with pytest.raises(NotFound):
        decide(state, Start(by=caller, run_id="r", input=()), 2.0)
    (changed,) = decide(state, Change(by=caller, change=SettingsChange(deleted_at=0.0)), 2.0)
    assert changed == ConversationChanged(settings=Settings())


async def test_a_deletion_cannot_be_undone_later() -> None:
    yard = build_yard(lambda _: say("ok"))
    async with asyncio.timeout(30), yard, connect_api_client(yard) as http:
        path = await http.create_conversation("Mine")
        conversation, now = path.rpartition("/")[2], yard.service.clock.now()
        owner = (await yard.service.conversations.view(conversation)).owner
        assert owner is not None
        late = SettingsChange(deleted_at=now - UNDO_S - 1)
        await yard.service.conversations.submit(conversation, Change(by=owner, change=late))
        await http.post(f"{path}/restore", expect=404)


async def test_what_was_deleted_a_while_ago_is_removed_from_the_store() -> None:
    store, now = MemoryStore(), time()
    for conversation, at in (("long ago", now - UNDO_S - 1), ("just now", now)):
        deleted = ConversationChanged(settings=Settings(deleted_at=at))
        await append_events(store, conversation, conversation_opened("ana", "acme", "x"), deleted, at=at)
    async with asyncio.timeout(30), build_yard(lambda _: say("ok"), opened_store=store):
        while await store.card("long ago"):  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)
        assert await store.read("long ago") == []
        assert await store.card("just now")
