"""A server that is slow to start: whoever needs its tools waits for it, and nobody else does."""

import asyncio
from pathlib import Path

import pytest

from support import collect_events, get_problem, get_result, get_results, open_yard, wait_until
from toolyard import Run, Yard, tool
from toolyard.core.conversation.events import CallEnded, CallStarted, Event, TurnStarted
from toolyard.engine.loop import starting_tools
from toolyard.testing import call, say, together
from toolyard.venues.mcp import manager
from venues.mcp.plain import PlainServer


@pytest.fixture(autouse=True)
def open_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open yards before their servers have started."""
    monkeypatch.setattr(manager, "START_S", 0.0)


@tool
def local() -> str:
    """Runs here."""
    return "here"


class WatchedRun:
    """Collects the events of a run while a test does something else."""

    def __init__(self, run: Run, tasks: asyncio.TaskGroup) -> None:
        self.events: list[Event] = []
        self.ended = tasks.create_task(self._collect(run))

    async def _collect(self, run: Run) -> None:
        async for event in run:
            self.events.append(event)

    def has(self, kind: type[Event]) -> bool:
        return any(isinstance(event, kind) for event in self.events)


async def call_local_tool(yard: Yard) -> None:
    """Take a run from its beginning to its end, in which time another one could have gone on."""
    assert get_result(await collect_events(yard.call("local", {}))).outcome == "ok"


async def test_a_call_waits_for_a_server_that_has_never_listed_its_tools(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, "gated")
    async with open_yard([], [local], servers={"plain": plain.spec}) as yard, asyncio.TaskGroup() as tasks:
        run = WatchedRun(yard.call("add", {}), tasks)
        await call_local_tool(yard)
        plain.open_gate()
        await run.ended
        result = get_result(run.events)
        assert result.outcome == "ok" and "add of process" in result.content, result


async def test_the_other_calls_of_a_turn_do_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting_tools, "MAX_LISTING_S", 0.0)
    plain = PlainServer(tmp_path, "gated")
    script = [together(call("add"), call("local")), say("done")]
    async with open_yard(script, [local], servers={"plain": plain.spec}) as yard, asyncio.TaskGroup() as tasks:
        run = WatchedRun(yard.run("both, please"), tasks)
        await wait_until(lambda: run.has(CallEnded))
        assert [result.tool for result in get_results(run.events)] == ["local"]
        plain.open_gate()
        await run.ended
        assert [result.outcome for result in get_results(run.events)] == ["ok", "ok"]


async def test_a_turn_is_offered_the_tools_of_a_server_that_lists_them_for_the_first_time(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, "gated")
    async with open_yard([say("hello")], [local], servers={"plain": plain.spec}) as yard, asyncio.TaskGroup() as tasks:
        run = WatchedRun(yard.run("hello"), tasks)
        await call_local_tool(yard)
        plain.open_gate()
        await run.ended
        (turn,) = [event for event in run.events if isinstance(event, TurnStarted)]
        assert {"add", "local"} <= set(turn.added)


async def test_the_start_of_a_server_is_not_part_of_the_time_of_a_call(tmp_path: Path) -> None:
    """The tools are known from the start before; the call begins once the server has started."""
    plain, store = PlainServer(tmp_path, "gated"), f"sqlite:///{tmp_path}/yard.db"
    plain.open_gate()
    async with open_yard([], servers={"plain": plain.spec}, store=store) as yard:
        await wait_until(lambda: "add" in yard.tool_names)
    plain.close_gate()
    async with (
        open_yard([], [local], servers={"plain": plain.spec}, store=store) as yard,
        asyncio.TaskGroup() as tasks,
    ):
        run = WatchedRun(yard.call("add", {}), tasks)
        await call_local_tool(yard)
        assert not run.has(CallStarted)
        plain.open_gate()
        await run.ended
        assert run.has(CallStarted) and get_result(run.events).outcome == "ok"


async def test_a_call_waits_no_longer_than_the_server_may_take_to_start(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, "gated", connect_s=0.3)
    async with open_yard([], servers={"plain": plain.spec}) as yard:
        result = get_result(await collect_events(yard.call("add", {})))
        assert get_problem(result) == ("error", "unknown_tool")
        assert yard.tool_names == ["read_result", "find_tools"]
