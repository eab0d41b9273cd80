"""What every store promises. Each promise is kept by every store, and broken by a store made to break it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from postgres import create_database
from stores.memory_replicas import MemoryDatabase, SharedMemoryStore
from support import find_break
from toolyard import codec
from toolyard.app import SystemClock
from toolyard.core.caller import Caller
from toolyard.core.conversation.events import (
    REQUEST_KEY_S,
    ConversationChanged,
    ConversationOpened,
    Durable,
    Entry,
    HistoryCompacted,
    MessageAdded,
    MessageRemoved,
    RequestKey,
    RunEnded,
    RunQueued,
    StopRequested,
    TurnEnded,
)
from toolyard.core.conversation.notes import Note
from toolyard.core.conversation.settings import Settings
from toolyard.core.errors import Fenced, RequestRepeated, StoreDown, ToolyardError
from toolyard.core.items import Call, FilePart, Item, ModelText, Reasoning, Result, SystemText, TextPart, UserMessage
from toolyard.core.store import (
    AccessToken,
    Allowance,
    Append,
    CatalogQuery,
    Claim,
    ConversationCard,
    Key,
    ListPosition,
    OpenCounts,
    RequestRecord,
    Store,
)
from toolyard.core.store.audit_chain import AuditEntry, AuditQuery, AuditRecord, seal_record
from toolyard.engine.access.presets import Presets
from toolyard.stores.memory import MemoryStore
from toolyard.stores.postgres import PostgresStore
from toolyard.stores.sqlite import SqliteStore

Promise = Callable[[Store], Awaitable[None]]
LOG = Path(__file__).parent.parent / "stores" / "logs" / "format-1.jsonl"


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


async def every_kind_of_entry_is_read_back_identical(store: Store) -> None:
    log = [codec.decode_entry(line) for line in LOG.read_bytes().splitlines()]
    epoch = await claim(store, "conversation_1")
    await append(store, "conversation_1", epoch, log[:7], None)
    await append(store, "conversation_1", epoch, log[7:], None)
    assert list(await store.read("conversation_1")) == log


async def a_batch_is_whole_or_not_at_all(store: Store) -> None:
    epoch = await claim(store, "c")
    await append(store, "c", epoch, make_entries("c", 1, 3), None)
    torn = [*make_entries("c", 4, 2), *make_entries("c", 7, 1)]
    await assert_refused(Fenced, append(store, "c", epoch, torn, 1.0))
    assert await read_seqs(store, "c") == [1, 2, 3]
    assert await store.count_open(1.0) == OpenCounts(running=0, waiting=0)


async def an_older_epoch_is_fenced(store: Store) -> None:
    old = await claim(store, "c")
    await append(store, "c", old, make_entries("c", 1), None)
    new = await claim(store, "c")
    await assert_refused(Fenced, append(store, "c", old, make_entries("c", 2), 1.0))
    await assert_refused(Fenced, append(store, "c", new + 1, make_entries("c", 2), 1.0))
    assert await store.count_open(1.0) == OpenCounts(running=0, waiting=0)
    await append(store, "c", new, make_entries("c", 2, by="the new owner"), None)
    assert list(await store.read("c", after=1)) == make_entries("c", 2, by="the new owner")


async def a_conversation_that_nobody_claimed_is_fenced(store: Store) -> None:
    for epoch in (0, 1):
        await assert_refused(Fenced, append(store, "c", epoch, make_entries("c", 1), None))
    assert await read_seqs(store, "c") == []


async def a_gap_or_a_repeat_is_fenced(store: Store) -> None:
    epoch = await claim(store, "c")
    for first in (-1, 0, 2):
        await assert_refused(Fenced, append(store, "c", epoch, make_entries("c", first), None))
    await append(store, "c", epoch, make_entries("c", 1, 2), None)
    for first in (1, 2, 4):
        await assert_refused(Fenced, append(store, "c", epoch, make_entries("c", first), None))
    assert await read_seqs(store, "c") == [1, 2]


async def each_claim_raises_the_epoch_of_its_conversation(store: Store) -> None:
    first = await claim(store, "c")
    assert first > 0
    assert [await claim(store, "c") for _ in range(2)] == [first + 1, first + 2]
    await claim(store, "other")
    again, new = await store.claim_many(["c", "new"])
    assert (again.epoch, new.epoch > 0) == (first + 3, True)


async def a_store_by_itself_has_no_other_replicas(store: Store) -> None:
    await claim(store, "c")
    assert await store.count_other_replicas() == 0


async def a_claim_tells_where_the_log_ends_and_keeps_the_wake_up(store: Store) -> None:
    await append(store, "c", await claim(store, "c"), make_entries("c", 1, 3), 5.0)
    answer = await store.claim("c")
    assert isinstance(answer, Claim)
    assert (answer.conversation, answer.last_seq, answer.has_forwarded, answer.deaths) == ("c", 3, False, 0)
    assert await read_seqs(store, "c") == [1, 2, 3]
    assert await store.count_open(5.0) == OpenCounts(running=1, waiting=0)
    assert await store.release("c", answer.epoch, 0, 5.0)
    assert await find_due(store, 5.0) == (["c"], None)


async def reading_goes_on_after_a_seq_and_stops_at_most(store: Store) -> None:
    epoch = await claim(store, "c")
    for first, count in ((1, 1), (2, 4), (6, 3)):
        await append(store, "c", epoch, make_entries("c", first, count), None)
    assert await read_seqs(store, "c", after=3) == [4, 5, 6, 7, 8]
    assert await read_seqs(store, "c", after=5, limit=2) == [6, 7]
    assert await read_seqs(store, "c", limit=3) == [1, 2, 3]
    assert await read_seqs(store, "c", after=8) == []
    assert await read_seqs(store, "c", after=7, limit=9) == [8]
    assert await read_seqs(store, "nobody") == []


async def what_is_due_is_named_and_what_is_next_is_timed(store: Store) -> None:
    assert await find_due(store, 9.0) == ([], None)
    for conversation, wake_at in (("at once", 0.0), ("soon", 10.0), ("later", 20.0), ("never", None)):
        epoch = await claim(store, conversation)
        await append(store, conversation, epoch, make_entries(conversation, 1), wake_at, release=True)
    due, later = await find_due(store, 10.0)
    assert (sorted(due), later) == (["at once", "soon"], 20.0)
    assert await find_due(store, -1.0) == ([], 0.0)
    due, later = await find_due(store, 20.0)
    assert (sorted(due), later) == (["at once", "later", "soon"], None)
    assert len((await store.find_due(20.0, 2))[0]) == 2
    assert await store.count_open(10.0) == OpenCounts(running=2, waiting=1)


async def an_append_moves_or_ends_the_wake_up(store: Store) -> None:
    await append(store, "c", await claim(store, "c"), make_entries("c", 1), 5.0, release=True)
    await append(store, "c", await claim(store, "c"), [], 7.0, release=True)
    assert await find_due(store, 6.0) == ([], 7.0)
    epoch = await claim(store, "c")
    await append(store, "c", epoch, make_entries("c", 2), None)
    await assert_refused(Fenced, append(store, "c", epoch - 1, [], 5.0))
    await append(store, "c", epoch, make_entries("c", 3), None, release=True)
    assert await find_due(store, 9.0) == ([], None)


async def blobs_are_scoped_to_their_conversation(store: Store) -> None:
    body = bytes(range(256)) * 1000
    await store.put_blob("c", "blob_1", body)
    assert await store.get_blob("c", "blob_1") == body
    assert await store.get_blob("other", "blob_1") is None
    assert await store.get_blob("c", "blob_2") is None
    await store.put_blob("other", "blob_1", b"")
    assert await store.get_blob("other", "blob_1") == b""
    assert await store.get_blob("c", "blob_1") == body


async def many_conversations_keep_their_order_side_by_side(store: Store) -> None:
    async def talk(conversation: str) -> None:
        epoch = await claim(store, conversation)
        for first in range(1, 60, 3):
            await append(store, conversation, epoch, make_entries(conversation, first, 3, by=conversation), None)

    names = [f"c{number}" for number in range(50)]
    await asyncio.gather(*map(talk, names))
    for name in names:
        assert list(await store.read(name)) == make_entries(name, 1, 60, by=name)


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


async def a_forgotten_conversation_is_gone_and_the_others_stay(store: Store) -> None:
    for name in ("c", "other"):
        epoch = await append_events(
            store, name, conversation_opened(), run_queued(user_says("m", "hello")), run="run_1", correlation_id="t"
        )
        await store.put_blob(name, "blob_1", b"whole")
        await append(store, name, epoch, [], 5.0, release=True)
    assert list(await store.delete_conversation("c")) == []
    await store.delete_conversation("c")
    await store.delete_conversation("nobody")
    assert await read_seqs(store, "c") == []
    assert await store.get_blob("c", "blob_1") is None
    assert await store.card("c") is None
    assert await list_ids(store) == await list_ids(store, "hello") == ["other"]
    assert list(await store.find_runs("t")) == [("other", "run_1")]
    assert await find_due(store, 9.0) == (["other"], None)
    assert await read_seqs(store, "other") == [1, 2]
    assert await store.get_blob("other", "blob_1") == b"whole"


async def a_forgotten_conversation_fences_its_owners_for_good(store: Store) -> None:
    old = [await append_events(store, "c", conversation_opened(), at=1.0) for _ in range(3)]
    for _ in range(2):
        await store.delete_conversation("c")
        for epoch in (*old, 0, -max(old), max(old) + 1):
            await assert_refused(Fenced, append(store, "c", epoch, make_entries("c", 1), 1.0))
            await assert_refused(Fenced, append(store, "c", epoch, [], 1.0))
        await store.put_blob("c", "blob_1", b"too late")
    new = await claim(store, "c")
    assert new > max(old)
    assert await store.get_blob("c", "blob_1") is None
    assert await read_seqs(store, "c") == []
    for epoch in old:
        await assert_refused(Fenced, append(store, "c", epoch, make_entries("c", 1), 1.0))
    await append(store, "c", new, make_entries("c", 1, 2), None)
    await store.put_blob("c", "blob_1", b"of the new owner")
    assert await read_seqs(store, "c") == [1, 2]
    assert await store.get_blob("c", "blob_1") == b"of the new owner"
    assert await store.card("c") is None


async def a_key_is_kept_by_name_until_it_is_revoked(store: Store) -> None:
    plain = Key(name="shop", hash="h1", user="shop")
    full = Key(
        name="app",
        hash="h2",
        user="世界",
        roles=frozenset({"admin", "approver"}),
        tenant="acme",
        divisions=frozenset({"north"}),
        trusted=True,
        created_at=1.5,
    )
    assert list(await store.keys()) == []
    await store.save_key(plain)
    await store.save_key(full)
    assert list(await store.keys()) == [full, plain]
    newer = replace(plain, hash="h3")
    await store.save_key(newer)
    assert list(await store.keys()) == [full, newer]
    assert await store.revoke_key("app") is True
    assert await store.revoke_key("app") is False
    assert list(await store.keys()) == [newer]


async def a_token_is_read_by_its_hash_until_it_is_deleted_or_its_conversation_is(store: Store) -> None:
    await claim(store, "c")
    session = AccessToken(kind="session", hash="h1", created_at=1.0, expires_at=5.0, body=b"\x00\xff")
    share = AccessToken(kind="share", hash="h1", created_at=2.0, expires_at=9.0, conversation="c", body=b"{}")
    later = replace(share, hash="h0", created_at=3.0)
    for token in (session, later, share):
        await store.save_token(token)
    await store.save_token(replace(share, hash="h2", conversation="unknown"))
    assert await store.read_token("session", "h1") == session
    assert await store.read_token("share", "h1") == share
    assert await store.read_token("session", "h0") is await store.read_token("share", "h2") is None
    assert list(await store.list_tokens("share", "c")) == [share, later]
    assert list(await store.list_tokens("session", "")) == [session]
    assert list(await store.list_tokens("share", "")) == list(await store.list_tokens("session", "c")) == []
    await store.extend_token("session", "h1", 8.0)
    assert await store.read_token("session", "h1") == replace(session, expires_at=8.0)
    await store.delete_token("share", "h1")
    assert list(await store.list_tokens("share", "c")) == [later]
    await store.delete_conversation("c")
    assert await store.read_token("share", "h0") is None
    await store.save_token(replace(share, hash="h3"))
    assert await store.read_token("share", "h3") is None, "of a conversation that was deleted"
    assert await store.read_token("session", "h1") is not None


async def a_deleted_token_is_not_revived_and_an_expired_one_makes_room(store: Store) -> None:
    session = AccessToken(kind="session", hash="h1", created_at=1.0, expires_at=5.0)
    await store.save_token(session)
    await store.delete_token("session", "h1")
    await store.extend_token("session", "h1", 9.0)
    assert await store.read_token("session", "h1") is None
    await store.save_token(session)
    await store.save_token(replace(session, hash="h2", created_at=5.0, expires_at=6.0))
    assert await store.read_token("session", "h1") is None
    assert await store.read_token("session", "h2") is not None


async def a_rate_limit_is_exact_at_the_boundary(store: Store) -> None:
    now = 1_700_000_000.123456
    left = [await store.take_allowance("ana", 30, now) for _ in range(30)]
    assert [allowance.remaining for allowance in left] == list(range(29, -1, -1))
    assert all(allowance.granted and not allowance.retry_after_s for allowance in left)
    too_many = Allowance(granted=False, remaining=0, retry_after_s=2.0)
    assert [await store.take_allowance("ana", 30, now) for _ in range(3)] == [too_many] * 3
    assert await store.take_allowance("ana", 30, now + 1.5) == replace(too_many, retry_after_s=0.5)
    for later in (2.0, 4.0):
        assert await store.take_allowance("ana", 30, now + later) == Allowance(
            granted=True, remaining=0, retry_after_s=0.0
        )
        assert await store.take_allowance("ana", 30, now + later) == too_many
    assert (await store.take_allowance("bo", 30, now)).remaining == 29
    await store.return_allowance("bo", 30)
    await store.return_allowance("nobody", 30)
    for returned in range(3):
        assert (await store.take_allowance("bo", 30, now)).remaining == 29, returned
        await store.return_allowance("bo", 30)
    assert (await store.take_allowance("ana", 30, now + 64.0)).remaining == 29


def with_request(entry: Entry, key: str, body: str = "body") -> Entry:
    return replace(entry, request=RequestKey(key_hash=key, body_hash=body))


async def a_request_is_recorded_with_its_entry_and_refused_a_second_time(store: Store) -> None:
    epoch = await claim(store, "c")
    first = replace(with_request(make_entries("c", 1)[0], "k"), run="r")
    assert await store.find_request("k") is None
    await append(store, "c", epoch, [first, *make_entries("c", 2)], None)
    record = RequestRecord(body_hash="body", conversation="c", seq=1, run="r", at=1.0)
    assert await store.find_request("k") == record
    other = await claim(store, "d")
    again = [*make_entries("d", 1), with_request(make_entries("d", 2)[0], "k")]
    await assert_refused(RequestRepeated, append(store, "d", other, again, None))
    assert await read_seqs(store, "d") == [] and await store.find_request("k") == record
    await append(store, "d", other, make_entries("d", 1), None)
    await store.delete_conversation("c")
    assert await store.find_request("k") == record, "a late repetition must not start it again"


def with_replacement(conversation: str, run: str, replaces: str) -> Entry:
    """Return the first entry of a conversation, whose run takes the request `k` over from another run."""
    entry = with_request(make_entries(conversation, 1)[0], "k")
    assert entry.request is not None
    return replace(entry, run=run, request=replace(entry.request, replaces=replaces))


async def find_winner(store: Store, *appends: Awaitable[object]) -> str:
    """Do the appends at once, of which one may succeed, and return the run that the request `k` is recorded with."""
    outcomes = await asyncio.gather(*appends, return_exceptions=True)
    errors = [type(outcome) for outcome in outcomes if isinstance(outcome, BaseException)]
    assert errors == [RequestRepeated] * (len(appends) - 1)
    record = await store.find_request("k")
    assert record is not None
    return record.run


async def a_request_is_taken_over_by_one_run_from_the_run_that_it_is_recorded_with(store: Store) -> None:
    first = replace(with_request(make_entries("c", 1)[0], "k"), run="failed")
    await append(store, "c", await claim(store, "c"), [first], None)
    epochs = {name: await claim(store, name) for name in "def"}
    winner = await find_winner(
        store, *(append(store, name, epochs[name], [with_replacement(name, name, "failed")], None) for name in "de")
    )
    assert winner in ("d", "e")
    for replaces in ("failed", "other", ""):
        late = with_replacement("f", "late", replaces)
        await assert_refused(RequestRepeated, append(store, "f", epochs["f"], [late], None))
    await append(store, "f", epochs["f"], [with_replacement("f", "next", winner)], None)
    record = await store.find_request("k")
    assert record is not None and (record.conversation, record.run) == ("f", "next")


async def an_old_request_is_listed_dropped_and_may_come_again(store: Store) -> None:
    epochs: dict[str, int] = {}
    for conversation, key, at in (("old", "a1", 1.0), ("older", "a2", 0.0), ("new", "a3", 100.0)):
        epochs[conversation] = await claim(store, conversation)
        entry = replace(with_request(make_entries(conversation, 1)[0], key), at=at)
        await append(store, conversation, epochs[conversation], [entry], None)
    assert list(await store.list_expired_requests(50.0, 10)) == ["older", "old"]
    assert list(await store.list_expired_requests(50.0, 1)) == ["older"]
    await store.drop_request("old", 50.0)
    await store.drop_request("new", 50.0)
    assert await store.find_request("a1") is None and await store.find_request("a3") is not None
    late = replace(with_request(make_entries("new", 2)[0], "a2"), at=REQUEST_KEY_S + 1.0)
    await append(store, "new", epochs["new"], [late], None)
    record = await store.find_request("a2")
    assert record is not None and (record.conversation, record.seq) == ("new", 2)


async def the_last_request_whose_key_begins_with_a_text_is_found(store: Store) -> None:
    for key in ("a05f", "a06f", "b01f"):
        await append(store, key, await claim(store, key), [with_request(make_entries(key, 1)[0], key)], None)
    records = [await store.find_request(prefix) for prefix in ("a0", "a05f", "b", "a1")]
    assert [record and record.conversation for record in records] == ["a06f", "a05f", "b01f", None]


async def a_request_that_is_kept_for_less_expires_earlier(store: Store) -> None:
    epoch = await claim(store, "c")
    entry = with_request(make_entries("c", 1)[0], "a1")
    assert entry.request is not None
    entry = replace(entry, at=1000.0, request=replace(entry.request, kept_s=600.0))
    await append(store, "c", epoch, [entry], None)
    before = 1000.0 - REQUEST_KEY_S
    assert list(await store.list_expired_requests(before + 599.0, 10)) == []
    assert list(await store.list_expired_requests(before + 601.0, 10)) == ["c"]


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


async def records_are_kept_by_kind_in_the_order_of_their_first_setting(store: Store) -> None:
    for name, body in (("b", b"1"), ("a", b"\0"), ("b", b"2")):
        await store.set_record("server", name, body)
    await store.set_record("pin", "b", b"3")
    assert list(await store.list_records("server")) == [("b", b"2"), ("a", b"\0")]
    await store.delete_record("server", "b")
    await store.delete_record("server", "nobody")
    assert list(await store.list_records("server")) == [("a", b"\0")]
    assert list(await store.list_records("pin")) == [("b", b"3")]


async def a_record_that_is_added_replaces_none_and_the_stored_one_is_returned(store: Store) -> None:
    await store.set_record("name", "b", b"old")
    assert dict(await store.add_records("name", {"c": b"1", "b": b"new", "a": b"\0"})) == {
        "c": b"1",
        "b": b"old",
        "a": b"\0",
    }
    assert dict(await store.add_records("name", {"a": b"2"})) == {"a": b"\0"}
    assert dict(await store.add_records("name", {})) == {}
    assert dict(await store.list_records("name")) == {"b": b"old", "c": b"1", "a": b"\0"}
    assert await store.read_record("other", "a") is None
    added = await asyncio.gather(*(store.add_records("race", {"x": bytes([number])}) for number in range(8)))
    assert len({records["x"] for records in added}) == 1


async def a_lock_keeps_other_tasks_waiting_until_its_block_ends(store: Store) -> None:
    steps: list[str] = []

    async def work(name: str) -> None:
        async with store.lock("oauth", "server"):
            steps.append(f"{name} begins")
            await asyncio.sleep(0)
            async with store.lock("oauth", "another"):
                steps.append(f"{name} ends")

    with suppress(ValueError):
        async with store.lock("oauth", "server"):
            raise ValueError("a block that fails frees its lock")
    await asyncio.gather(work("first"), work("second"))
    assert [step.partition(" ")[2] for step in steps] == ["begins", "ends"] * 2


async def presets_that_are_shared_at_the_same_time_are_all_kept(store: Store) -> None:
    presets, callers = Presets(store, SystemClock()), [Caller(user=user, tenant="t") for user in ("ana", "bo", "cy")]
    await asyncio.gather(*(presets.save(caller, caller.user, b"{}", shared=True) for caller in callers))
    await presets.save(callers[0], "own", b"{}", shared=False)
    await presets.save(Caller(user="ana", tenant="t2"), "elsewhere", b"{}", shared=True)
    assert [preset.name for preset in await presets.list(callers[0])] == ["ana", "bo", "cy", "own"]
    await presets.delete(callers[1], "bo", shared=True)
    assert [preset.name for preset in await presets.list(callers[1])] == ["ana", "cy"]


async def audit_entries_are_one_chain_however_many_are_written_at_once(store: Store) -> None:
    records = [AuditRecord(at=float(number), action="key.add", target=f"key-{number}") for number in range(20)]
    written = await asyncio.gather(*map(store.append_audit, records))
    entries = list(await store.read_audit(AuditQuery(oldest_first=True)))
    assert [entry.number for entry in entries] == list(range(1, 21))
    assert sorted(written, key=lambda entry: entry.number) == entries
    assert find_break(entries) == ""
    assert {entry.target for entry in entries} == {record.target for record in records}


async def audit_entries_are_selected_and_paged_in_both_orders(store: Store) -> None:
    for number in range(1, 9):
        await store.append_audit(
            AuditRecord(
                at=float(number),
                action="key.add" if number % 2 else "key.revoke",
                actor="ann" if number > 4 else "bob",
                tenant="" if number == 8 else "acme",
                outcome="refused" if number == 3 else "allowed",
                count=number,
            )
        )

    async def list_numbers(**fields: object) -> list[int]:
        return [entry.number for entry in await store.read_audit(AuditQuery(**fields))]  # pyright: ignore[reportArgumentType]

    assert await list_numbers(limit=3) == [8, 7, 6]
    assert await list_numbers(limit=3, cursor=6) == [5, 4, 3]
    assert await list_numbers(limit=3, oldest_first=True) == [1, 2, 3]
    assert await list_numbers(limit=3, cursor=6, oldest_first=True) == [7, 8]
    assert await list_numbers(tenant="acme", action="key.revoke") == [6, 4, 2]
    assert await list_numbers(tenant="") == [8]
    assert await list_numbers(outcome="refused") == [3]
    assert await list_numbers(actor="bob", since=3.0) == [4, 3]
    (last,) = await store.read_audit(AuditQuery(limit=1))
    assert last.count == 8 and isinstance(last.at, float)


async def old_audit_entries_are_trimmed_up_to_the_first_that_stays(store: Store) -> None:
    # The fifth was written while a clock was behind: it stays with the one before it.
    for at in (1.0, 2.0, 3.0, 10.0, 4.0, 11.0):
        await store.append_audit(AuditRecord(at=at, action="key.add"))
    hashes = {entry.number: entry.hash for entry in await store.read_audit(AuditQuery())}
    record = AuditRecord(at=12.0, action="audit.trim")
    assert await store.trim_audit(record, 1.0, 100) is None
    first = await store.trim_audit(record, 5.0, 2)
    assert first and (first.number, first.target, first.count, first.content_hash) == (7, "2", 2, hashes[2])
    second = await store.trim_audit(record, 5.0, 2)
    assert second and (second.number, second.target, second.count, second.content_hash) == (8, "3", 1, hashes[3])
    assert await store.trim_audit(record, 5.0, 2) is None
    entries = await store.read_audit(AuditQuery(oldest_first=True))
    assert [entry.number for entry in entries] == [4, 5, 6, 7, 8] and entries[-1] == second
    assert find_break(entries) == ""
    everything = await store.trim_audit(record, 100.0, 100)
    assert everything and await store.read_audit(AuditQuery()) == [everything]
    after = await store.append_audit(AuditRecord(at=13.0, action="key.add"))
    assert find_break([everything, after]) == ""


async def a_closed_store_is_down_and_may_be_closed_again(store: Store) -> None:
    epoch = await claim(store, "c")
    await append(store, "c", epoch, make_entries("c", 1), None)
    await asyncio.gather(store.close(), store.close())
    await store.close()
    await assert_refused(StoreDown, append(store, "c", epoch, make_entries("c", 2), None))
    await assert_refused(StoreDown, store.claim("c"))
    await assert_refused(StoreDown, store.read("c"))
    await assert_refused(StoreDown, store.find_due(1.0, 10))
    await assert_refused(StoreDown, store.put_blob("c", "blob_1", b""))
    await assert_refused(StoreDown, store.get_blob("c", "blob_1"))
    await assert_refused(StoreDown, store.card("c"))
    await assert_refused(StoreDown, store.cards(CatalogQuery(tenant="")))
    await assert_refused(StoreDown, store.cards(CatalogQuery(tenant="", text="x")))
    await assert_refused(StoreDown, store.find_runs("t"))
    await assert_refused(StoreDown, store.find_request("k"))
    await assert_refused(StoreDown, store.list_expired_requests(1.0, 1))
    await assert_refused(StoreDown, store.drop_request("c", 1.0))
    await assert_refused(StoreDown, store.delete_conversation("c"))
    await assert_refused(StoreDown, store.keys())
    await assert_refused(StoreDown, store.save_key(Key(name="k", hash="h", user="u")))
    await assert_refused(StoreDown, store.revoke_key("k"))
    token = AccessToken(kind="session", hash="h", created_at=1.0, expires_at=2.0)
    await assert_refused(StoreDown, store.save_token(token))
    await assert_refused(StoreDown, store.read_token("session", "h"))
    await assert_refused(StoreDown, store.add_records("name", {"a": b""}))
    await assert_refused(StoreDown, store.take_allowance("u", 1, 1.0))
    await assert_refused(StoreDown, store.append_audit(AuditRecord(at=1.0, action="key.add")))
    await assert_refused(StoreDown, store.read_audit(AuditQuery()))
    await assert_refused(StoreDown, store.trim_audit(AuditRecord(at=1.0, action="audit.trim"), 1.0, 1))


class LosesLastEntryStore(MemoryStore):
    """Loses the last entry of what it is asked for."""

    async def read(self, conversation: str, after: int = 0, limit: int = 0) -> Sequence[Entry]:
        return (await super().read(conversation, after, limit))[:-1]


class SplitBatchStore(MemoryStore):
    """Takes a batch apart."""

    async def append(self, append: Append) -> bool:
        return [
            await super(SplitBatchStore, self).append(replace(append, entries=[entry])) for entry in append.entries
        ][-1]


class UnfencedStore(MemoryStore):
    """Lets everybody write, as whoever owns the conversation now."""

    def __init__(self) -> None:
        super().__init__()
        self.owners: dict[str, int] = {}

    async def claim(self, conversation: str) -> Claim:
        answer = await super().claim(conversation)
        self.owners[conversation] = answer.epoch
        return answer

    async def append(self, append: Append) -> bool:
        owner = self.owners.get(append.conversation) or await claim(self, append.conversation)
        return await super().append(replace(append, epoch=owner))


class DropsOutOfOrderStore(MemoryStore):
    """Drops what is out of order without a word."""

    async def append(self, append: Append) -> bool:
        try:
            return await super().append(append)
        except Fenced:
            return False


class SharedEpochStore(MemoryStore):
    """Counts the claims of all conversations together."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch = 0

    async def claim(self, conversation: str) -> Claim:
        self.epoch += 1
        return replace(await super().claim(conversation), epoch=self.epoch)


class CountsItselfStore(SharedMemoryStore):
    """Counts itself among the others, and the dead."""

    async def count_other_replicas(self) -> int:
        return 1


class NoWakeUpStore(MemoryStore):
    """Keeps no wake-up."""

    async def append(self, append: Append) -> bool:
        return await super().append(replace(append, wake_at=None))


class SharedBlobStore(MemoryStore):
    """Shows everybody's blobs to everybody."""

    async def get_blob(self, conversation: str, handle: str) -> bytes | None:
        return await super().get_blob("all", handle)

    async def put_blob(self, conversation: str, handle: str, body: bytes) -> None:
        await super().put_blob("all", handle, body)


class NeverClosedStore(MemoryStore):
    """Goes on after it was closed."""

    async def close(self) -> None:
        return


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


class KeepsBlobsStore(MemoryStore):
    """Keeps the blobs of what it should forget."""

    async def delete_conversation(self, conversation: str) -> Sequence[str]:
        blobs = self._data.blobs
        replicas = await super().delete_conversation(conversation)
        self._data.blobs = blobs
        return replicas


class ForgetsEpochsStore(MemoryStore):
    """Forgets also which epochs there were."""

    async def delete_conversation(self, conversation: str) -> Sequence[str]:
        replicas = await super().delete_conversation(conversation)
        self._data.conversations.pop(conversation, None)
        return replicas


class FirstKeyStore(MemoryStore):
    """Does not replace a key."""

    async def save_key(self, key: Key) -> None:
        if key.name not in [stored.name for stored in await self.keys()]:
            await super().save_key(key)


class KeepsTokensStore(MemoryStore):
    """Keeps the tokens of what it should forget."""

    async def delete_conversation(self, conversation: str) -> Sequence[str]:
        tokens = self._data.tokens
        replicas = await super().delete_conversation(conversation)
        self._data.tokens = tokens
        return replicas


class RevivesTokensStore(MemoryStore):
    """Writes a token whose expiry is set as if it were new."""

    async def extend_token(self, kind: str, hash: str, expires_at: float) -> None:
        self._data.tokens[kind, hash] = AccessToken(kind=kind, hash=hash, created_at=0.0, expires_at=expires_at)


class MinuteCountStore(MemoryStore):
    """Counts anew each minute."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[tuple[str, float], int] = {}

    async def take_allowance(self, key: str, per_minute: int, now: float) -> Allowance:
        count = self.counts[key, now // 60] = self.counts.get((key, now // 60), 0) + 1
        late = count > per_minute
        return Allowance(
            granted=not late, remaining=max(per_minute - count, 0), retry_after_s=60 - now % 60 if late else 0.0
        )


class ForgetfulRequestStore(SharedMemoryStore):
    """Forgets every request but the last one."""

    def _record_requests(self, conversation: str, entries: Sequence[Entry]) -> None:
        self._data.requests.clear()
        super()._record_requests(conversation, entries)


class KeepsRequestsStore(MemoryStore):
    """Keeps every request for ever."""

    async def drop_request(self, conversation: str, before: float) -> None:
        return


class ExactRequestStore(MemoryStore):
    """Finds a request by its whole key only."""

    async def find_request(self, key: str) -> RequestRecord | None:
        return self._data.requests.get(key)


class KeepsAllRequestsAlikeStore(MemoryStore):
    """Keeps every request for the same time."""

    def _record_requests(self, conversation: str, entries: Sequence[Entry]) -> None:
        alike = [
            replace(entry, request=replace(entry.request, kept_s=REQUEST_KEY_S)) if entry.request else entry
            for entry in entries
        ]
        super()._record_requests(conversation, alike)


class OpenForEverStore(MemoryStore):
    """Lists every conversation as open."""

    async def list_open(self, tenant: str, user: str, limit: int) -> Sequence[ConversationCard]:
        return await self.cards(CatalogQuery(tenant=tenant, user=user, limit=limit))


class NewestRecordFirstStore(MemoryStore):
    """Lists records the other way round."""

    async def list_records(self, kind: str) -> Sequence[tuple[str, bytes]]:
        return (await super().list_records(kind))[::-1]


class OverwritesRecordsStore(SharedMemoryStore):
    """Adds a record whether its name is free or not."""

    async def add_records(self, kind: str, records: Mapping[str, bytes]) -> Mapping[str, bytes]:
        for name, body in records.items():
            await self.set_record(kind, name, body)
        return records


class UnlockedStore(SharedMemoryStore):
    """Lets everybody in."""

    def __init__(self, database: MemoryDatabase | None = None) -> None:
        super().__init__(database)
        self.lock = self.let_in

    @asynccontextmanager
    async def let_in(self, kind: str, name: str) -> AsyncGenerator[None]:
        yield


class UnlockedSlowStore(UnlockedStore):
    """Lets everybody in, and lets others write while it reads."""

    async def read_record(self, kind: str, name: str) -> bytes | None:
        body = await super().read_record(kind, name)
        await asyncio.sleep(0)
        return body


class ForkingAuditStore(MemoryStore):
    """Lets other tasks append between reading the last entry and writing the next one."""

    async def append_audit(self, record: AuditRecord) -> AuditEntry:
        entry = seal_record(record, self._data.audit[-1] if self._data.audit else None)
        await asyncio.sleep(0)
        self._data.audit.append(entry)
        return entry


class AllTenantsAuditStore(MemoryStore):
    """Returns the entries of all tenants."""

    async def read_audit(self, query: AuditQuery) -> Sequence[AuditEntry]:
        return await super().read_audit(replace(query, tenant=None))


class SilentTrimStore(MemoryStore):
    """Deletes old entries wherever they are, and says so with an entry that names none of them."""

    async def trim_audit(self, record: AuditRecord, before: float, limit: int) -> AuditEntry | None:
        self._data.audit = [entry for entry in self._data.audit if entry.at >= before]
        return await self.append_audit(record)


BROKEN_BY: dict[Promise, type[MemoryStore]] = {
    every_kind_of_entry_is_read_back_identical: LosesLastEntryStore,
    a_batch_is_whole_or_not_at_all: SplitBatchStore,
    an_older_epoch_is_fenced: UnfencedStore,
    a_conversation_that_nobody_claimed_is_fenced: UnfencedStore,
    a_gap_or_a_repeat_is_fenced: DropsOutOfOrderStore,
    each_claim_raises_the_epoch_of_its_conversation: SharedEpochStore,
    a_store_by_itself_has_no_other_replicas: CountsItselfStore,
    a_claim_tells_where_the_log_ends_and_keeps_the_wake_up: NoWakeUpStore,
    reading_goes_on_after_a_seq_and_stops_at_most: LosesLastEntryStore,
    what_is_due_is_named_and_what_is_next_is_timed: NoWakeUpStore,
    an_append_moves_or_ends_the_wake_up: NoWakeUpStore,
    blobs_are_scoped_to_their_conversation: SharedBlobStore,
    many_conversations_keep_their_order_side_by_side: LosesLastEntryStore,
    a_card_follows_the_log: StaleCardStore,
    a_list_is_of_one_tenant_and_of_one_user_or_all_with_the_newest_change_first: EveryUserStore,
    a_list_leaves_out_what_is_unlisted_unless_it_is_asked_for: ListsUnlistedStore,
    pages_lose_and_repeat_nothing_even_among_changes_of_one_moment: TimePagedStore,
    a_text_is_found_in_a_title_a_description_or_a_message: TitleSearchStore,
    only_what_people_and_models_said_is_searched: RawSearchStore,
    a_message_that_was_removed_is_no_longer_found: RawSearchStore,
    what_is_refused_is_not_in_the_catalog: CatalogFirstStore,
    a_trace_leads_to_its_runs_oldest_first: NewestRunFirstStore,
    a_forgotten_conversation_is_gone_and_the_others_stay: KeepsBlobsStore,
    a_forgotten_conversation_fences_its_owners_for_good: ForgetsEpochsStore,
    a_key_is_kept_by_name_until_it_is_revoked: FirstKeyStore,
    a_token_is_read_by_its_hash_until_it_is_deleted_or_its_conversation_is: KeepsTokensStore,
    a_deleted_token_is_not_revived_and_an_expired_one_makes_room: RevivesTokensStore,
    a_rate_limit_is_exact_at_the_boundary: MinuteCountStore,
    a_request_is_recorded_with_its_entry_and_refused_a_second_time: ForgetfulRequestStore,
    a_request_is_taken_over_by_one_run_from_the_run_that_it_is_recorded_with: ForgetfulRequestStore,
    an_old_request_is_listed_dropped_and_may_come_again: KeepsRequestsStore,
    the_last_request_whose_key_begins_with_a_text_is_found: ExactRequestStore,
    a_request_that_is_kept_for_less_expires_earlier: KeepsAllRequestsAlikeStore,
    open_runs_are_listed_with_their_cards_and_counted: OpenForEverStore,
    records_are_kept_by_kind_in_the_order_of_their_first_setting: NewestRecordFirstStore,
    a_record_that_is_added_replaces_none_and_the_stored_one_is_returned: OverwritesRecordsStore,
    a_lock_keeps_other_tasks_waiting_until_its_block_ends: UnlockedStore,
    presets_that_are_shared_at_the_same_time_are_all_kept: UnlockedSlowStore,
    audit_entries_are_one_chain_however_many_are_written_at_once: ForkingAuditStore,
    audit_entries_are_selected_and_paged_in_both_orders: AllTenantsAuditStore,
    old_audit_entries_are_trimmed_up_to_the_first_that_stays: SilentTrimStore,
    a_closed_store_is_down_and_may_be_closed_again: NeverClosedStore,
}


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


@pytest.mark.parametrize("promise", BROKEN_BY, ids=get_function_name)
@pytest.mark.parametrize("open_store", [memory, memory_shared, sqlite, sqlite_full, postgres], ids=get_function_name)
async def test_every_store_keeps_every_promise(
    open_store: Callable[[Path], AbstractAsyncContextManager[Store]], promise: Promise, tmp_path: Path
) -> None:
    async with open_store(tmp_path) as store:
        await check_promise(promise, store)


@pytest.mark.parametrize("promise", BROKEN_BY, ids=get_function_name)
async def test_a_store_that_breaks_the_promise_is_found_out(promise: Promise) -> None:
    with pytest.raises(AssertionError):
        await check_promise(promise, BROKEN_BY[promise]())
