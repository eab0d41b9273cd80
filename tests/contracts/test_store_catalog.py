"""What every store promises of lists, searches and traces; each promise has a store that breaks it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from contracts.store_contract import (
    OpenStore,
    Promise,
    append,
    append_events,
    assert_refused,
    check_promise,
    claim,
    conversation_opened,
    every_store,
    expect_break,
    get_function_name,
    list_ids,
    model_says,
    run_queued,
    user_says,
)
from toolyard.core.caller import Caller
from toolyard.core.conversation.context.notes import Note
from toolyard.core.conversation.events import (
    ConversationChanged,
    ConversationOpened,
    Entry,
    HistoryCompacted,
    MessageAdded,
    MessageRemoved,
    RunEnded,
    StopRequested,
    TurnEnded,
)
from toolyard.core.conversation.settings import Settings
from toolyard.core.errors import Fenced
from toolyard.core.items import Call, FilePart, Reasoning, Result, SystemText, UserMessage
from toolyard.core.store import (
    KEPT,
    Append,
    CatalogQuery,
    ConversationCard,
    ListPosition,
    OpenCounts,
    Store,
)
from toolyard.stores.memory import MemoryStore


async def a_card_follows_the_log(store: Store) -> None:
    assert await store.card("c") is None
    await append_events(store, "c", StopRequested(by="ana"), at=1.0)
    assert await store.card("c") is None
    epoch = await append_events(store, "c", conversation_opened("ana", "acme", "Milk", "and eggs"), at=2.5)
    card = ConversationCard(
        id="c", user="ana", tenant="acme", title="Milk", description="and eggs", created_at=2.5, updated_at=2.5
    )
    assert await store.card("c") == card
    epoch = await append_events(store, "c", StopRequested(by="ana"), run_queued(), at=3.0)
    await append(store, "c", epoch, [], 9.0)
    await append_events(store, "c", StopRequested(by="ana"), at=3.5)
    assert await store.card("c") == replace(card, updated_at=3.0)
    await append_events(store, "c", ConversationChanged(settings=Settings(title="Bread")), at=4.0)
    card = replace(card, title="Bread", description="", updated_at=4.0)
    assert await store.card("c") == card
    assert await store.cards(CatalogQuery(tenant="acme")) == [card]


async def a_list_is_of_one_tenant_and_of_one_user_or_all_with_the_newest_change_first(store: Store) -> None:
    for at, (conversation, user, tenant) in enumerate(
        [("a", "ana", "acme"), ("b", "bo", "acme"), ("c", "ana", "acme"), ("d", "ana", "other"), ("e", "ana", "")]
    ):
        await append_events(store, conversation, conversation_opened(user, tenant), at=float(at))
    await append_events(store, "unopened", run_queued(user_says("m", "hello")), at=9.0)
    assert await list_ids(store) == ["c", "b", "a"]
    await append_events(store, "a", RunEnded(ending="done"), at=10.0)
    assert await list_ids(store) == ["a", "c", "b"]
    assert await list_ids(store, user="ana") == ["a", "c"]
    assert await list_ids(store, user="nobody") == []
    assert await list_ids(store, tenant="other") == ["d"]
    assert await list_ids(store, tenant="") == ["e"]


async def a_list_leaves_out_what_is_unlisted_unless_it_is_asked_for(store: Store) -> None:
    hidden = ConversationOpened(owner=Caller(user="ana", tenant="acme"), settings=Settings(title="x", unlisted=True))
    await append_events(store, "a", conversation_opened("ana", "acme", "x"), at=1.0)
    await append_events(store, "b", hidden, at=2.0)
    await append_events(store, "b", ConversationChanged(settings=replace(hidden.settings, title="xy")), at=3.0)
    for text in ("", "x"):
        assert await list_ids(store, text) == ["a"]
        query = CatalogQuery(tenant="acme", text=text, unlisted=True)
        assert [(card.id, card.unlisted) for card in await store.cards(query)] == [("b", True), ("a", False)]
    card = await store.card("b")
    assert card is not None
    assert card.unlisted


async def a_list_is_of_the_places_that_it_asks_for(store: Store) -> None:
    def changed(**changes: Any) -> ConversationChanged:
        return ConversationChanged(settings=Settings(title="x", **changes))

    await append_events(store, "plain", conversation_opened("ana", "acme", "x"), at=1.0)
    await append_events(store, "pin", conversation_opened("ana", "acme", "x"), changed(place="pinned"), at=2.0)
    await append_events(store, "old", conversation_opened("ana", "acme", "x"), at=3.0)
    await append_events(store, "old", changed(place="archived"), at=4.0)
    await append_events(store, "gone", conversation_opened("ana", "acme", "x"), at=5.0)
    await append_events(store, "gone", changed(place="pinned", deleted_at=6.0), at=6.0)
    places = {"pin": "pinned", "plain": "", "old": "archived"}
    for text in ("", "x"):
        assert await list_ids(store, text) == ["pin", "plain"]
        kept = await store.cards(CatalogQuery(tenant="acme", text=text, places=KEPT))
        assert {card.id: card.place for card in kept} == places
        archived = await store.cards(CatalogQuery(tenant="acme", text=text, places=("archived",)))
        assert [card.id for card in archived] == ["old"]
    assert (await store.list_deleted(6.0, 10), await store.list_deleted(6.5, 10)) == ([], ["gone"])
    await append_events(store, "gone", changed(place="pinned"), at=7.0)
    assert (await list_ids(store), await store.list_deleted(9.0, 10)) == (["gone", "pin", "plain"], [])


async def pages_lose_and_repeat_nothing_even_among_changes_of_one_moment(store: Store) -> None:
    names = [f"c{number:02d}" for number in range(23)]
    for number, name in enumerate(names):
        await append_events(
            store, name, conversation_opened(title="找 it" if number % 2 else ""), at=float(number // 8)
        )
    for text, expected in (("", names[::-1]), ("找", names[1::2][::-1])):
        paged_ids: list[str] = []
        after: ListPosition | None = None
        while page := await store.cards(CatalogQuery(tenant="acme", text=text, after=after, limit=3)):
            assert len(page) <= 3
            paged_ids += [card.id for card in page]
            after = page[-1].position
        assert paged_ids == expected


async def a_text_is_found_in_a_title_a_description_or_a_message(store: Store) -> None:
    message = user_says("m1", "Zwei Teile: ÄPFEL", 'und 牛奶\n"frisch" C:\\neu')
    turn = TurnEnded(items=(model_says("m2", "Ok, 100% σοφός_x"),), finish="stop")
    end = RunEnded(ending="limit", message=model_says("m3", "Enough for TODAY"))
    await append_events(store, "titled", conversation_opened(title="GRÖßE und 名称"), at=5.0)
    await append_events(store, "described", conversation_opened(description="İstanbul \0 Ωmega"), at=4.0)
    await append_events(store, "added", conversation_opened(), MessageAdded(item=message), at=3.0)
    await append_events(store, "asked", conversation_opened(), run_queued(message), at=2.0)
    await append_events(store, "answered", conversation_opened(), turn, end, at=1.0)
    await append_events(
        store, "compacted", conversation_opened(), HistoryCompacted(through="m0", items=(model_says("m4", "Kurz"),))
    )
    for text, names in {
        "größe": ["titled"], "GRÖẞE UND": ["titled"], "名称": ["titled"], "称": ["titled"],
        "İSTANBUL": ["described"], "ωMEGA": ["described"], "\0 ω": ["described"],
        "äpfel": ["added", "asked"], "牛奶\n": ["added", "asked"], '"FRISCH"': ["added", "asked"],
        "c:\\NEU": ["added", "asked"], "zwei teile: äpfel": ["added", "asked"],
        "100%": ["answered"], "ΣΟΦΌΣ_": ["answered"], "today": ["answered"], "kurz": ["compacted"],
        "äpfelund": [], "名名": [], "nothing of it": [], "x" * 100_000: [],
    }.items():  # fmt: skip
        assert await list_ids(store, text) == names, text
    assert await list_ids(store, "ÄPFEL", limit=1) == ["added"]
    assert await list_ids(store, "äpfel", tenant="other") == []


async def only_what_people_and_models_said_is_searched(store: Store) -> None:
    unsaid = (
        SystemText(id="item_1", at=0.0, text="systematic"),
        Reasoning(id="item_2", at=0.0, text="pondering"),
        Call(id="call_1", at=0.0, tool="lookup", arguments={"query": "cheese"}),
        Result(id="call_1.result", at=0.0, call_id="call_1", tool="lookup", outcome="ok", content="gouda"),
        UserMessage(id="item_3", at=0.0, parts=(FilePart(url="https://example.org/x.pdf", name="x.pdf"),)),
    )
    settings = Settings(system_prompt="briefly", context={"note": Note(name="shop", text="closed")})
    changed = ConversationChanged(settings=settings)
    turn = TurnEnded(items=(*unsaid, model_says("item_4", "hi 'there'")), finish="stop")
    await append_events(
        store, "conversation_1", conversation_opened(), changed, turn, run="run_1", correlation_id="trace_1"
    )
    for text in (
        "systematic", "pondering", "lookup", "query", "cheese", "gouda", "x.pdf", "briefly", "closed", "ana", "acme",
        "text", "type", "model_text", "turn.ended", "item_4", "run_1", "trace_1", "conversation", "call", "{", "\\",
        ":", "h%t", "h_", "%", "_", "*", "?", '"hi', "'; --",
    ):  # fmt: skip
        assert await list_ids(store, text) == [], text
    assert await list_ids(store, "i 'THERE'") == ["conversation_1"]


async def a_message_that_was_removed_is_no_longer_found(store: Store) -> None:
    await append_events(store, "c", conversation_opened(), MessageAdded(item=user_says("m1", "a secret")))
    await append_events(store, "c", MessageAdded(item=user_says("m2", "no Secret")))
    await append_events(store, "c", MessageRemoved(ids=frozenset({"m1"})))
    assert await list_ids(store, "secret") == ["c"]
    await append_events(store, "c", MessageRemoved(ids=frozenset({"m2", "m3"})))
    assert await list_ids(store, "secret") == []


async def what_is_refused_is_not_in_the_catalog(store: Store) -> None:
    events = [conversation_opened(), run_queued()]
    torn = [
        Entry(conversation="c", seq=seq, at=1.0, event=event, run="r", correlation_id="trace_1")
        for seq, event in zip((1, 3), events, strict=True)
    ]
    epoch = await claim(store, "c")
    await assert_refused(Fenced, append(store, "c", epoch, torn, None))
    await assert_refused(Fenced, append(store, "c", epoch + 1, torn[:1], None))
    await assert_refused(Fenced, append(store, "c", epoch, torn[1:], None))
    assert list(await store.find_runs("trace_1")) == []
    assert await store.card("c") is None
    assert await list_ids(store) == []


async def a_trace_leads_to_its_runs_oldest_first(store: Store) -> None:
    await append_events(
        store, "late", conversation_opened(), run_queued(), at=3.0, run="run_3", correlation_id="trace_1"
    )
    await append_events(
        store, "early", conversation_opened(), run_queued(), at=1.0, run="run_1", correlation_id="trace_1"
    )
    await append_events(
        store, "early", StopRequested(by="ana"), run_queued(), at=2.0, run="run_2", correlation_id="trace_1"
    )
    await append_events(store, "early", run_queued(), at=4.0, run="run_4", correlation_id="trace_2")
    await append_events(store, "untraced", conversation_opened(), run_queued(), at=5.0, run="run_5")
    await append_events(store, "early", StopRequested(by="ana"), at=6.0, run="run_6", correlation_id="trace_3")
    assert list(await store.find_runs("trace_1")) == [("early", "run_1"), ("early", "run_2"), ("late", "run_3")]
    assert list(await store.find_runs("trace_2")) == [("early", "run_4")]
    for nothing in ("trace_3", "TRACE_1", ""):
        assert list(await store.find_runs(nothing)) == []


async def open_runs_are_listed_with_their_cards_and_counted(store: Store) -> None:
    for at, (name, user, tenant, wake_at) in enumerate(
        [
            ("now", "ana", "acme", 0.0),
            ("waits", "bo", "acme", 50.0),
            ("ended", "ana", "acme", None),
            ("other", "ana", "else", 1.0),
        ]
    ):
        events = [conversation_opened(user, tenant), run_queued()]
        entries = [Entry(conversation=name, seq=seq, at=float(at), event=event) for seq, event in enumerate(events, 1)]
        await append(store, name, await claim(store, name), entries, wake_at)
    assert [card.id for card in await store.list_open("acme", "", 10)] == ["waits", "now"]
    assert [card.id for card in await store.list_open("acme", "ana", 10)] == ["now"]
    assert [card.id for card in await store.list_open("acme", "", 1)] == ["waits"]
    assert await store.count_open(10.0) == OpenCounts(running=2, waiting=1)
    epoch = await claim(store, "now")
    end = Entry(conversation="now", seq=3, at=9.0, event=RunEnded(ending="done"))
    await append(store, "now", epoch, [end], None)
    assert [card.id for card in await store.list_open("acme", "", 10)] == ["waits"]
    assert await store.count_open(10.0) == OpenCounts(running=1, waiting=1)


class StaleCardStore(MemoryStore):
    """Shows a conversation as it was opened."""

    async def card(self, conversation: str) -> ConversationCard | None:
        card = await super().card(conversation)
        return card and replace(card, updated_at=card.created_at)


class EveryUserStore(MemoryStore):
    """Shows everybody's conversations to everybody of the tenant."""

    async def cards(self, query: CatalogQuery) -> Sequence[ConversationCard]:
        return await super().cards(replace(query, user=""))


class ListsUnlistedStore(MemoryStore):
    """Lists also what is unlisted."""

    async def cards(self, query: CatalogQuery) -> Sequence[ConversationCard]:
        return await super().cards(replace(query, unlisted=True))


class ListsArchivedStore(MemoryStore):
    """Lists also what is archived."""

    async def cards(self, query: CatalogQuery) -> Sequence[ConversationCard]:
        return await super().cards(replace(query, places=KEPT))


class TimePagedStore(MemoryStore):
    """Goes on with what changed earlier than the last page, whatever changed at the same time."""

    async def cards(self, query: CatalogQuery) -> Sequence[ConversationCard]:
        after = query.after and (query.after[0], "")
        return await super().cards(replace(query, after=after))


class TitleSearchStore(MemoryStore):
    """Looks for a text in titles."""

    async def cards(self, query: CatalogQuery) -> Sequence[ConversationCard]:
        cards = await super().cards(replace(query, text=""))
        return [card for card in cards if query.text.lower() in card.title.lower()]


class RawSearchStore(MemoryStore):
    """Looks for a text in whatever was written."""

    async def cards(self, query: CatalogQuery) -> Sequence[ConversationCard]:
        cards = await super().cards(replace(query, text=""))
        return [card for card in cards if query.text.lower() in str(await self.read(card.id)).lower()]


class CatalogFirstStore(MemoryStore):
    """Writes the catalog first, and then sees whether the entries may be written."""

    async def append(self, append: Append) -> bool:
        self._project(append.conversation, append.entries)
        return await super().append(append)


class NewestRunFirstStore(MemoryStore):
    """Shows the runs of a trace the other way round."""

    async def find_runs(self, correlation_id: str) -> Sequence[tuple[str, str]]:
        return (await super().find_runs(correlation_id))[::-1]


class OpenForEverStore(MemoryStore):
    """Lists every conversation as open."""

    async def list_open(self, tenant: str, user: str, limit: int) -> Sequence[ConversationCard]:
        return await self.cards(CatalogQuery(tenant=tenant, user=user, limit=limit))


BROKEN_BY: dict[Promise, type[MemoryStore]] = {
    a_card_follows_the_log: StaleCardStore,
    a_list_is_of_one_tenant_and_of_one_user_or_all_with_the_newest_change_first: EveryUserStore,
    a_list_leaves_out_what_is_unlisted_unless_it_is_asked_for: ListsUnlistedStore,
    a_list_is_of_the_places_that_it_asks_for: ListsArchivedStore,
    pages_lose_and_repeat_nothing_even_among_changes_of_one_moment: TimePagedStore,
    a_text_is_found_in_a_title_a_description_or_a_message: TitleSearchStore,
    only_what_people_and_models_said_is_searched: RawSearchStore,
    a_message_that_was_removed_is_no_longer_found: RawSearchStore,
    what_is_refused_is_not_in_the_catalog: CatalogFirstStore,
    a_trace_leads_to_its_runs_oldest_first: NewestRunFirstStore,
    open_runs_are_listed_with_their_cards_and_counted: OpenForEverStore,
}


@pytest.mark.parametrize("promise", BROKEN_BY, ids=get_function_name)
@every_store
async def test_every_store_keeps_every_promise(open_store: OpenStore, promise: Promise, tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        await check_promise(promise, store)


@pytest.mark.parametrize("promise", BROKEN_BY, ids=get_function_name)
async def test_a_store_that_breaks_the_promise_is_found_out(promise: Promise) -> None:
    await expect_break(promise, BROKEN_BY[promise]())
