"""A conversation that nobody asked to keep is forgotten when it rests, unless somebody outside was given an id."""

import asyncio
import itertools
from pathlib import Path

import pytest

from support import append_entries, claim_epoch, collect_events, wait_for_event
from toolyard import Settings, Tool, Yard, tool
from toolyard.app import SystemClock, Wiring
from toolyard.core.conversation.events import (
    REQUEST_KEY_S,
    CallEnded,
    CallParked,
    CallStarted,
    ConversationChanged,
    ConversationOpened,
    Entry,
    RequestKey,
    RunEnded,
    RunSuspended,
)
from toolyard.stores.memory import MemoryStore
from toolyard.testing import Scripted, call, say, together
from toolyard.yard import LOCAL_CALLER

STORES = pytest.mark.parametrize("kind", ["memory", "sqlite"])
EPHEMERAL = Settings(ephemeral=True)
SEARCH = Tool(name="search", venue="client")


async def wait_until_gone(yard: Yard, conversation: str) -> None:
    """Wait until nothing of it is left."""
    for _ in itertools.repeat(None):
        if (await yard.service.conversations.view(conversation)).owner is None:
            return
        await asyncio.sleep(0)


async def wait_until_dropped(store: MemoryStore, conversation: str) -> None:
    for _ in itertools.repeat(None):
        if await store.find_request(f"key of {conversation}") is None:
            return
        await asyncio.sleep(0)


@STORES
async def test_it_is_forgotten_once_nobody_reads_it_any_more(kind: str, tmp_path: Path) -> None:
    store = "memory:" if kind == "memory" else f"sqlite:///{tmp_path}/yard.db"
    async with asyncio.timeout(20), Yard(model=Scripted([say("hi")]), store=store) as yard:
        reader = await yard.follow("c")
        assert isinstance((await collect_events(yard.run("go", conversation="c", settings=EPHEMERAL)))[-1], RunEnded)
        assert len(await yard.history("c")) == 2, "somebody still reads it"
        reader.detach()
        await wait_until_gone(yard, "c")
        assert not await yard.service.conversations.read_entries("c")


async def test_a_call_that_is_handed_out_makes_it_one_to_keep_even_while_a_sibling_runs() -> None:
    go_on = asyncio.Event()

    @tool
    async def slow() -> str:
        """Waits."""
        await go_on.wait()
        return "done"

    model = Scripted([together(call("slow"), call("search")), say("ok")])
    async with asyncio.timeout(20), Yard(model=model, tools=[slow]) as yard:
        run = yard.run("go", conversation="c", settings=EPHEMERAL, app_tools=[SEARCH])
        parked, _ = await wait_for_event(run, CallParked)
        await yard.deliver("c", parked.call_id, "found")
        go_on.set()
        assert isinstance((await collect_events(run))[-1], RunEnded)
        assert len(await yard.history("c")) == 6


async def test_a_run_that_waits_is_kept_over_a_restart_and_after_its_end(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/yard.db"

    async def before() -> str:
        async with Yard(model=Scripted([call("search")]), store=store) as yard:
            run = yard.run("go", conversation="c", settings=EPHEMERAL, app_tools=[SEARCH])
            suspended, _ = await wait_for_event(run, RunSuspended)
            return suspended.waiting_for[0]

    async def after(call_id: str) -> None:
        async with asyncio.timeout(20), Yard(model=Scripted([say("ok"), say("hi")]), store=store) as yard:
            await yard.deliver("c", call_id, "found")
            assert await yard.ask("and?", conversation="c") == "hi"

    await after(await before())


async def test_one_that_was_cut_off_is_finished_and_forgotten_by_the_next_process(tmp_path: Path) -> None:
    store, call_started = f"sqlite:///{tmp_path}/yard.db", asyncio.Event()

    @tool
    async def slow() -> str:
        """Waits."""
        call_started.set()
        await asyncio.Event().wait()
        return "never"

    async with Yard(model=Scripted([call("slow")]), tools=[slow], store=store, grace_s=0) as yard:
        await wait_for_event(yard.run("go", conversation="c", settings=EPHEMERAL), CallStarted)
        await call_started.wait()
    async with asyncio.timeout(20), Yard(model=Scripted([say("sorry")]), tools=[slow], store=store) as yard:
        reader = await yard.follow("c")
        async for item in reader:
            event = getattr(item, "event", None)
            if isinstance(event, CallEnded):
                assert event.result.outcome == "unknown"
            if isinstance(event, RunEnded):
                break
        reader.detach()
        await wait_until_gone(yard, "c")


async def test_it_is_kept_for_the_key_of_its_request_and_forgotten_after_a_day() -> None:
    store = MemoryStore()
    now = SystemClock().now()
    expired_at = now - REQUEST_KEY_S - 1
    for conversation, times, settings in (
        ("expired", (expired_at,), EPHEMERAL),
        ("recent", (now - 60,), EPHEMERAL),
        ("both", (expired_at, now - 60), EPHEMERAL),
        ("kept", (expired_at,), Settings()),
    ):
        entries = [
            Entry(
                conversation=conversation,
                seq=seq,
                at=at,
                event=ConversationOpened(owner=LOCAL_CALLER, settings=settings)
                if seq == 1
                else ConversationChanged(settings=settings),
                request=RequestKey(key_hash="again " * (seq - 1) + f"key of {conversation}", body_hash="b"),
            )
            for seq, at in enumerate(times, 1)
        ]
        await append_entries(store, conversation, await claim_epoch(store, conversation), entries, None)
    wiring = Wiring(model=Scripted([]), opened_store=store)
    async with asyncio.timeout(20), Yard.from_wiring(wiring) as yard:
        await wait_until_gone(yard, "expired")
        for name in ("expired", "both", "kept"):
            await wait_until_dropped(store, name)
        assert await store.find_request("key of recent") is not None
        assert await store.find_request("again key of both") is not None
        assert [
            (await yard.service.conversations.view(name)).owner is not None for name in ("recent", "both", "kept")
        ] == [True] * 3
