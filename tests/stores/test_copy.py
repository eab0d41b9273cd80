"""A copy of a store holds every kind of row, and a server goes on with it where the last one stopped."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Sequence
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from postgres import create_database
from support import find_break
from toolyard import Context, ToolLike, Yard, tool
from toolyard.app import open_store
from toolyard.core.caller import Caller
from toolyard.core.conversation.commands import Delete, Stop
from toolyard.core.conversation.events import CallEnded, Entry, RequestKey, RunSuspended
from toolyard.core.errors import Misconfigured, Refused, StoreDown, Unavailable
from toolyard.core.items import Result, TextPart, UserMessage
from toolyard.core.ports import ModelRequest
from toolyard.core.store import (
    Append,
    BudgetBalance,
    BudgetShare,
    CatalogQuery,
    Claim,
    ConversationCard,
    CopyableStore,
    Export,
    Key,
    Reservation,
    Settlement,
)
from toolyard.core.store.audit_chain import AuditQuery, AuditRecord
from toolyard.stores.copy import CopyCounts, EncodeRecord, copy_store
from toolyard.testing import Scripted, Turn, call, say

ANA = Caller(user="ana", tenant="acme")
BO = Caller(user="bo")
EVERYBODY = (CatalogQuery(tenant="acme", unlisted=True), CatalogQuery(tenant="", unlisted=True))
RECORDS = [("servers", "time", b'{"command":"time"}'), ("pins", "time", b"\x00\xff"), ("tokens", "time", b"{}")]


@tool
def read_report() -> str:
    """Return more than fits into a message."""
    return "x" * 200_000


@tool(approval="ask")
def order(item: str) -> str:
    """Order something."""
    return f"ordered {item}"


def build_tools(began: asyncio.Event) -> list[ToolLike]:
    @tool
    async def wait_forever(context: Context) -> str:
        """Wait until the process ends."""
        began.set()
        await asyncio.Event().wait()
        return ""

    return [read_report, order, wait_forever]


def script(request: ModelRequest) -> Turn:
    last = request.history[-1]
    if isinstance(last, Result):
        return say(f"it is {last.outcome}")
    assert isinstance(last, UserMessage)
    name, _, item = last.text.partition(" ")
    return call(name, item=item) if item else call(name) if name in ("read_report", "wait_forever") else say("hello")


async def fill(url: str) -> None:
    """Use a store for everything that it can hold."""
    began = asyncio.Event()
    async with Yard(tools=build_tools(began), model=Scripted(script), store=url, grace_s=0.0) as yard:
        await yard.ask("hello", conversation="done", caller=ANA)
        await yard.ask("read_report", conversation="large", caller=BO)
        await yard.ask("hello", conversation="rewound", caller=BO)
        first = (await yard.history("rewound"))[0]
        await yard.rewind("rewound", first.id, caller=BO)
        await yard.fork("large", caller=BO)
        await yard.ask("read_report", conversation="deleted", caller=BO)
        await yard.service.conversations.submit("deleted", Delete(by=BO))
        async for event in yard.run("order milk", conversation="waiting", caller=ANA):
            if isinstance(event, RunSuspended):
                break
        service = yard.service
        request = RequestKey(key_hash="k" * 64, body_hash="b" * 64)
        question = UserMessage(id="q", at=0.0, parts=(TextPart(text="hello"),))
        started = await service.runs.start("requested", service.runs.build_start(ANA, [question], request=request))
        started.reader.detach()
        async for _ in yard.run("wait_forever", conversation="interrupted", caller=BO):
            break
        await began.wait()
    store = await open_store(url)
    await store.save_key(Key(name="ops", hash="h", user="ops", roles=frozenset({"admin"}), created_at=5.0))
    for kind, name, body in RECORDS:
        await store.set_record(kind, name, body)
    await store.set_record("readiness", "probe", b"")
    for number in range(600):  # more than one page
        await store.append_audit(AuditRecord(at=float(number), action="key.add", target=f"key-{number}"))
    await store.trim_audit(AuditRecord(at=600.0, action="audit.trim"), 1e12, 20)
    await store.put_blob("done", "turn.run.1", b"a recorded turn")
    await store.close()


async def read_all(store: CopyableStore) -> dict[str, Sequence[Entry]]:
    return {id: await store.read(id) for id, _ in await store.list_stored_conversations("", 100)}


async def list_cards(store: CopyableStore) -> list[ConversationCard]:
    return [card for query in EVERYBODY for card in await store.cards(query)]


async def open_copyable(url: str) -> CopyableStore:
    store = await open_store(url)
    assert isinstance(store, Export)
    return cast(CopyableStore, store)


def keep_record(kind: str, name: str, body: bytes) -> bytes:
    return body


def ignore_progress(counts: CopyCounts) -> None:
    pass


@pytest.fixture
async def source_url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/source.db"
    await fill(url)
    return url


@pytest.fixture(params=["sqlite", "postgres"])
async def target_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/target.db"
        return
    async with create_database() as url:
        yield url


async def copy(source_url: str, target_url: str, encode_record: EncodeRecord = keep_record) -> CopyCounts:
    source, target = await open_copyable(source_url), await open_copyable(target_url)
    try:
        return await copy_store(source, target, ignore_progress, encode_record)
    finally:
        await target.close()
        await source.close()


async def test_a_copy_holds_every_kind_of_row(source_url: str, target_url: str) -> None:
    counts = await copy(source_url, target_url)
    source, target = await open_copyable(source_url), await open_copyable(target_url)
    logs = await read_all(source)
    assert len(logs) == counts.conversations == 7 and "deleted" not in logs
    assert await read_all(target) == logs
    assert counts.entries == sum(len(log) for log in logs.values())
    assert await list_cards(target) == await list_cards(source)
    blobs = {(id, handle) for id in logs for handle in await source.list_blob_handles(id)}
    assert len(blobs) == counts.blobs >= 3
    for id, handle in blobs:
        assert await target.get_blob(id, handle) == await source.get_blob(id, handle)
    assert await target.keys() == await source.keys()
    assert counts.records == len(RECORDS)
    for kind, name, body in RECORDS:
        assert await target.list_records(kind) == [(name, body)]
    assert await target.list_figures(0, 1000) == await source.list_figures(0, 1000)
    assert counts.figures == len(await source.list_figures(0, 1000)) > 0
    assert await target.list_usage(0, 1000) == await source.list_usage(0, 1000)
    assert counts.usage == len(await source.list_usage(0, 1000)) >= 2, "those of two users"
    every_entry = AuditQuery(oldest_first=True, limit=1000)
    audit = await target.read_audit(every_entry)
    assert audit == await source.read_audit(every_entry) and find_break(audit) == ""
    assert counts.audit == len(audit) and 500 < len(audit) < audit[-1].number
    assert find_break([*audit, await target.append_audit(AuditRecord(at=1.0, action="key.add"))]) == ""
    assert await target.find_request("k" * 64) == await source.find_request("k" * 64) is not None
    for log in logs.values():
        for trace in {entry.correlation_id for entry in log}:
            assert await target.find_runs(trace) == await source.find_runs(trace)
    await target.close()
    await source.close()


async def test_what_was_spent_of_a_budget_is_copied_and_open_reservations_are_left(
    source_url: str, target_url: str
) -> None:
    source = await open_copyable(source_url)
    share = BudgetShare(budget="team", scope="ana\0", period="2027-01", limit_micros=1_000)
    for conversation, micros in (("waiting", 100), ("interrupted", 300)):
        reservation = Reservation(
            conversation=conversation,
            turn="1",
            attempt=1,
            at=0.0,
            micros=micros,
            shares=(share,),
        )
        assert await source.reserve(reservation) is None
    claim = await source.claim("waiting")
    assert isinstance(claim, Claim)
    ended = [Settlement(turn="1", micros=150)]
    await source.append(Append(conversation="waiting", epoch=claim.epoch, wake_at=0.0, settlements=ended))
    await source.close()
    await copy(source_url, target_url)
    target = await open_copyable(target_url)
    spent = BudgetBalance(budget="team", scope="ana\0", period="2027-01", spent=150, overdraft=50)
    assert list(await target.read_balances(["2027-01"])) == [spent]
    await target.close()


async def test_a_server_goes_on_where_the_last_one_stopped(source_url: str, target_url: str) -> None:
    await copy(source_url, target_url)
    tools = build_tools(asyncio.Event())
    async with asyncio.timeout(30), Yard(tools=tools, model=Scripted(script), store=target_url) as yard:
        await wait_for_outcome(yard, "interrupted", "unknown")
        state = await yard.service.conversations.view("waiting")
        (waiting,) = state.calls_in("asking")
        await yard.approve("waiting", waiting.call.id, caller=ANA)
        await wait_for_outcome(yard, "waiting", "ok")
        assert await yard.ask("hello", conversation="rewound", caller=BO) == "hello"


async def wait_for_outcome(yard: Yard, conversation: str, outcome: str) -> None:
    reader = await yard.follow(conversation, "0")
    async for item in reader:
        if isinstance(item, Entry) and isinstance(item.event, CallEnded):
            assert item.event.result.outcome == outcome
            break
    reader.detach()


async def test_the_target_never_has_an_epoch_of_the_source_again(source_url: str, target_url: str) -> None:
    """A call of an epoch that came again would be taken for one of the new owner."""
    await copy(source_url, target_url)
    target = await open_copyable(target_url)
    log = await target.read("interrupted")
    claim = await target.claim("interrupted")
    assert isinstance(claim, Claim) and claim.epoch > max(entry.epoch for entry in log)
    await target.close()


async def test_a_target_with_data_is_refused_and_left_as_it_is(source_url: str, target_url: str) -> None:
    target = await open_copyable(target_url)
    await target.save_key(Key(name="other", hash="h", user="other"))
    await target.close()
    with pytest.raises(Misconfigured, match="empty"):
        await copy(source_url, target_url)
    target = await open_copyable(target_url)
    assert [key.name for key in await target.keys()] == ["other"] and await read_all(target) == {}
    await target.revoke_key("other")
    await target.append_audit(AuditRecord(at=1.0, action="key.revoke", target="other"))
    await target.close()
    with pytest.raises(Misconfigured, match="empty"):
        await copy(source_url, target_url)


async def test_a_target_whose_clock_is_behind_is_refused_as_its_epochs_would_come_again(
    source_url: str, target_url: str
) -> None:
    with closing(sqlite3.connect(source_url.removeprefix("sqlite:///"))) as connection, connection:
        connection.execute("UPDATE conversations SET epoch = epoch + 3600000 WHERE id = 'waiting'")
    async with Yard(tools=build_tools(asyncio.Event()), model=Scripted(script), store=source_url) as yard:
        await yard.service.conversations.submit("waiting", Stop(by=ANA))
    with pytest.raises(Unavailable, match="the clock of the target is behind"):
        await copy(source_url, target_url)


async def test_a_record_that_must_not_be_in_the_target_is_refused_before_anything_is_written(
    source_url: str, target_url: str
) -> None:
    def refuse_tokens(kind: str, name: str, body: bytes) -> bytes:
        if kind == "tokens":
            raise Refused("no tokens here")
        return body

    with pytest.raises(Refused, match="no tokens here"):
        await copy(source_url, target_url, refuse_tokens)
    await copy(source_url, target_url)


async def test_stores_that_other_replicas_use_are_refused(source_url: str, postgres_url: str, tmp_path: Path) -> None:
    replica = await open_store(postgres_url)
    with pytest.raises(Misconfigured, match="the target is in use by 1 other process"):
        await copy(source_url, postgres_url)
    with pytest.raises(Misconfigured, match="the source is in use by 1 other process"):
        await copy(postgres_url, f"sqlite:///{tmp_path}/target.db")
    await replica.close()
    await copy(source_url, postgres_url)


async def test_a_source_in_use_is_refused(source_url: str, tmp_path: Path) -> None:
    source = await open_store(source_url)
    with pytest.raises((Misconfigured, StoreDown), match="in use"):
        await copy(source_url, f"sqlite:///{tmp_path}/target.db")
    await source.close()
