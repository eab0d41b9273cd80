"""What a process leaves open, the next one finishes; what the disk refuses is said, and nothing committed is lost."""

import asyncio
import resource
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from core.story import OWNER, Story, user
from hostile_schemas import chain
from support import (
    append_entries,
    claim_epoch,
    find_history_faults,
    get_problem,
    get_results,
    read_entries,
    wait_for_event,
)
from toolyard import Context, Limits, Tool, Yard, tool
from toolyard.core.conversation.events import (
    ArgumentsAppended,
    CallEnded,
    CallStarted,
    Entry,
    ModelDelta,
    RunEnded,
    RunQueued,
    RunStarted,
    RunSuspended,
    TurnEnded,
    TurnFailed,
    TurnStarted,
)
from toolyard.core.errors import Misconfigured, StoreDown
from toolyard.core.items import Call, Result
from toolyard.core.ports import ModelRequest
from toolyard.stores.sqlite.store import SqliteStore
from toolyard.testing import Scripted, Turn, call, say


async def test_a_run_that_was_cut_off_in_a_turn_is_finished_by_the_next_process(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/yard.db"
    model_asked = asyncio.Event()

    class HangingTurnModel:
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
            model_asked.set()
            await asyncio.Event().wait()
            yield TurnEnded(items=(), finish="stop")

        async def close(self) -> None: ...

    async with Yard(model=HangingTurnModel(), store=store, grace_s=0) as yard:
        run = yard.run("go", conversation="c")
        await wait_for_event(run, TurnStarted)
        await model_asked.wait()
    async with asyncio.timeout(20):
        async with Yard(model=Scripted([say("here")]), store=store) as yard:
            log = await read_entries(yard, "c")
            turns = [entry.event for entry in log if isinstance(entry.event, TurnStarted)]
            assert [(turn.number, turn.epoch - turns[0].epoch) for turn in turns] == [(1, 0), (1, 1)]
            assert isinstance(log[-1].event, RunEnded) and log[-1].event.ending == "done"


@pytest.mark.parametrize("is_judged", [False, True])
async def test_a_stored_call_of_a_tool_whose_schema_is_refused_now_ends_at_the_first_restart(
    tmp_path: Path, is_judged: bool
) -> None:
    large = Tool(name="large", venue="client", parameters=chain(24))
    story = Story().open()
    story.add(RunQueued(caller=OWNER, input=(user("in"),), app_tools=(large,)), run="r1")
    story.add(RunStarted(model="given", limits=Limits()))
    story.turn(Call(id="a", at=0.0, tool="large", arguments={"x": 1}))
    if is_judged:
        story.allow("a")
    store = await SqliteStore.open(tmp_path / "yard.db")
    await append_entries(store, "k", await claim_epoch(store, "k"), story.log, 0.0)
    await store.close()
    async with asyncio.timeout(20):
        async with Yard(model=Scripted([say("never mind")]), store=f"sqlite:///{tmp_path}/yard.db") as yard:
            log = await read_entries(yard, "k")
    (result,) = get_results([entry.event for entry in log])
    assert get_problem(result) == ("error", "validation_error") and "expands to more than" in result.content
    assert isinstance(log[-1].event, RunEnded) and log[-1].event.ending == "done"


async def test_pieces_of_a_call_name_it_also_in_a_turn_that_starts_again(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/yard.db"
    followed = asyncio.Event()

    class InterruptedModel:
        """Calls a tool, but before the end of the turn waits for `resume`, which the first process never sets."""

        def __init__(self, resume: asyncio.Event) -> None:
            self._resume = resume

        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
            turn = say("done") if isinstance(request.history[-1], Result) else call("missing")
            events = Scripted([turn]).stream(request)
            async for event in events:
                if isinstance(event, TurnEnded):
                    await self._resume.wait()
                yield event

        async def close(self) -> None: ...

    first_ids: set[str] = set()
    async with asyncio.timeout(20):
        async with Yard(model=InterruptedModel(asyncio.Event()), store=store, grace_s=0) as yard:
            delta, _ = await wait_for_event(yard.run("go", conversation="c"), ArgumentsAppended)
            first_ids.add(delta.call_id)
        async with Yard(model=InterruptedModel(followed), store=store) as yard:
            deltas: list[ArgumentsAppended] = []
            calls: list[Call] = []
            async for item in await yard.follow("c"):
                event = item.event if isinstance(item, Entry) else item
                if isinstance(event, ArgumentsAppended):
                    deltas.append(event)
                    followed.set()
                elif isinstance(event, TurnEnded):
                    calls += [entry for entry in event.items if isinstance(entry, Call)]
                elif isinstance(event, RunEnded):
                    break
            assert [delta.call_id for delta in deltas] == [call.id for call in calls] and len(calls) == 1
            assert first_ids.isdisjoint(delta.call_id for delta in deltas)


@pytest.mark.parametrize(("idempotent", "outcome", "attempts"), [(True, "ok", 2), (False, "unknown", 1)])
async def test_a_call_in_flight_runs_again_only_if_it_is_idempotent(
    tmp_path: Path, idempotent: bool, outcome: str, attempts: int
) -> None:
    store = f"sqlite:///{tmp_path}/yard.db"
    keys: list[str] = []
    hang = [True]
    entered = asyncio.Event()

    @tool(idempotent=idempotent, name="work")
    async def work(context: Context) -> str:
        """Hangs in the first process."""
        keys.append(context.idempotency_key)
        entered.set()
        if hang[0]:
            await asyncio.Event().wait()
        return "done"

    async with Yard(tools=[work], model=Scripted([call("work")]), store=store, grace_s=0) as yard:
        await wait_for_event(yard.run("go", conversation="c"), CallStarted)
        await entered.wait()
    async with asyncio.timeout(20):
        hang[0] = False
        async with Yard(tools=[work], model=Scripted([say("here")]), store=store) as yard:
            log = await read_entries(yard, "c")
            (ended,) = [entry.event.result for entry in log if isinstance(entry.event, CallEnded)]
            assert ended.outcome == outcome
            assert len(keys) == attempts and len(set(keys)) == 1
            assert not await find_history_faults(yard, "c")


async def test_closing_the_yard_lets_running_calls_end(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/yard.db"
    release = asyncio.Event()

    @tool
    async def work() -> str:
        """Ends soon after."""
        await release.wait()
        return "done"

    async with Yard(tools=[work], model=Scripted([call("work")]), store=store) as yard:
        await wait_for_event(yard.run("go", conversation="c"), CallStarted)
        asyncio.get_running_loop().call_later(0.05, release.set)
    async with asyncio.timeout(20):
        async with Yard(tools=[work], model=Scripted([say("here")]), store=store) as yard:
            log = await read_entries(yard, "c")
            (ended,) = [entry.event.result for entry in log if isinstance(entry.event, CallEnded)]
            assert ended.content == "done"


async def test_a_conversation_goes_on_over_a_restart_with_its_whole_history(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/yard.db?synchronous=FULL"

    async def once(model: Scripted, message: str) -> str:
        async with Yard(model=model, store=store) as yard:
            return await yard.ask(message, conversation="c")

    second = Scripted([say("Ann")])
    assert (await once(Scripted([say("hello")]), "I am Ann")) == "hello"
    assert (await once(second, "who am I?")) == "Ann"
    assert [type(item).__name__ for item in second.requests[0].history] == ["UserMessage", "ModelText", "UserMessage"]


async def test_a_disk_that_is_full_stops_the_run_with_a_clear_error_and_keeps_what_was_committed(
    tmp_path: Path,
) -> None:
    path = tmp_path / "yard.db"

    @tool(max_result_bytes=10_000_000)
    def big() -> str:
        """More than the disk has room for."""
        return "x" * 5_000_000

    def script(request: ModelRequest) -> Turn:
        return say("ok") if isinstance(request.history[-1], Result) else call("big")

    async def full() -> None:
        async with Yard(tools=[big], model=Scripted(script), store=f"sqlite:///{path}") as yard:
            with pytest.raises(StoreDown, match=r"yard\.db"):
                await yard.ask("go", conversation="c")

    async with Yard(model=Scripted([say("fine")]), store=f"sqlite:///{path}") as yard:
        assert await yard.ask("hello", conversation="before") == "fine"
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, unlimited[1]))
    try:
        await full()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    async with asyncio.timeout(20):
        async with Yard(tools=[big], model=Scripted(script), store=f"sqlite:///{path}") as yard:
            assert len(await yard.history("before")) == 2
            log = await read_entries(yard, "c")
            (ended,) = [entry.event.result for entry in log if isinstance(entry.event, CallEnded)]
            assert ended.outcome == "unknown"


@pytest.mark.parametrize(
    ("store", "why"),
    [
        ("mysql://u:secret@x/y", "is not a store"),
        ("sqlite:", "is not a store"),
        ("sqlite:///x.db?synchronous=OFF", "is not a setting"),
    ],
)
async def test_a_store_that_cannot_be_had_says_what_to_write_instead(store: str, why: str) -> None:
    async def open_and_close() -> None:
        async with Yard(model=Scripted([]), store=store):
            pass

    with pytest.raises(Misconfigured, match=why):
        await open_and_close()


@pytest.mark.parametrize(
    ("model", "why"),
    [
        ("gpt-4o", "is not a model: use toolyard:offline, one of openai:…"),
        ("http://127.0.0.1:9/v1", "names no model"),
        ("dashscope:qwen-plus", "set the environment variable DASHSCOPE_API_KEY"),
    ],
)
async def test_a_model_that_cannot_be_had_says_so_when_the_yard_opens(
    model: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DASHSCOPE_API_KEY", raising=False)

    async def open_and_close() -> None:
        async with Yard(model=model):
            pass

    with pytest.raises(Misconfigured, match=why):
        await open_and_close()


async def test_a_tool_that_is_gone_after_a_restart_is_owned_up_to(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/yard.db"

    @tool(approval="ask")
    async def delete() -> None:
        """Asks first."""

    async with Yard(tools=[delete], model=Scripted([call("delete")]), store=store) as yard:
        await wait_for_event(yard.run("go", conversation="c"), RunSuspended)
    async with asyncio.timeout(20):
        async with Yard(model=Scripted([say("sorry")]), store=store) as yard:
            (waiting,) = (await yard.service.conversations.view("c")).calls
            await yard.approve("c", waiting)
            log = await read_entries(yard, "c")
            (ended,) = [entry.event.result for entry in log if isinstance(entry.event, CallEnded)]
            assert ended.error is not None and ended.error.error_type == "unknown_tool"


def test_a_yard_that_is_not_open_says_how_to_open_it() -> None:
    with pytest.raises(Misconfigured, match="async with Yard"):
        Yard(model=Scripted([])).run("go")


async def test_a_result_that_cannot_be_kept_is_told_to_the_model_and_the_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "yard.db"

    @tool
    def big() -> str:
        """Too big for the model, and for the disk."""
        return "x" * 5_000_000

    def script(request: ModelRequest) -> Turn:
        return say("ok") if isinstance(request.history[-1], Result) else call("big")

    async with asyncio.timeout(20):
        async with Yard(tools=[big], model=Scripted(script), store=f"sqlite:///{path}") as yard:
            unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, unlimited[1]))
            try:
                assert await yard.ask("go", conversation="c") == "ok"
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
            (call_result,) = [item for item in await yard.history("c") if isinstance(item, Result)]
            assert call_result.error is not None and call_result.error.error_type == "unavailable"
            assert "the tool ran, but its result of 5,000,000 bytes could not be kept" in call_result.content
