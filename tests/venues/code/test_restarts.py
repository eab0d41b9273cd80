"""Programs whose process ends while they wait: what a person decides afterwards, and what has changed meanwhile."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import msgspec
import pytest

from support import TEST_TIMEOUT_S, find_history_faults
from toolyard import Yard, tool
from toolyard.core.conversation.events import CallEnded, CallsRequested, Entry, RunEnded, RunSuspended
from toolyard.core.items import Result
from toolyard.core.settings.redact_rules import RedactRules
from toolyard.testing import Scripted, Turn, call, say
from venues.code.shop import ProgramShop

THREE = """
import asyncio
async def attempt(order):
    try:
        return await refund(order=order)
    except Exception as error:
        return type(error).__name__
await asyncio.gather(attempt("1"), attempt("2"), attempt("3"))
"""

REDACT = RedactRules(own={"staff_number": r"EMP-\d{6}"})


class Restarts:
    """A conversation on one database, in one process after the other."""

    def __init__(self, folder: Path, code: str) -> None:
        self._store = f"sqlite:///{folder}/yard.db"
        self._program: list[Turn] = [call("run_code", code=code)]

    @asynccontextmanager
    async def open(self, tools: Sequence[object], *, ends: bool = False) -> AsyncGenerator[Yard]:
        """Open the next process. In the one that `ends` the run the model is asked once more."""
        script = [*self._program, *([say("ok")] if ends else [])]
        self._program = []
        async with Yard(tools=tools, model=Scripted(script), store=self._store, code=True, redact=REDACT) as yard:  # pyright: ignore[reportArgumentType]
            yield yard

    async def begin(self, tools: Sequence[object]) -> None:
        """Run the program until it waits."""
        async with self.open(tools) as yard:
            async for event in yard.run("go", conversation="c"):
                if isinstance(event, RunSuspended):
                    return


async def _list_asked(yard: Yard) -> dict[str, str]:
    """Return the ids of the calls that ask, by the order that they refund."""
    state = await yard.service.conversations.view("c")
    return {str(asked.call.arguments["order"]): asked.call.id for asked in state.calls_in("asking")}


async def _wait_for(yard: Yard, kind: type[RunSuspended | RunEnded], times: int = 1) -> list[Result]:
    """Wait until the log has so many entries of this type, and return its results up to there."""
    results, reader = list[Result](), await yard.follow("c")
    async with asyncio.timeout(TEST_TIMEOUT_S):
        async for item in reader:
            if isinstance(item, Entry):
                if isinstance(item.event, CallEnded):
                    results.append(item.event.result)
                times -= isinstance(item.event, kind)
                if not times:
                    break
    reader.detach()
    return results


async def _read_end(yard: Yard) -> dict[str, object]:
    results = await _wait_for(yard, RunEnded)
    assert not await find_history_faults(yard, "c")
    assert results[-1].tool == "run_code"
    assert results[-1].outcome == "ok", results[-1].content
    return msgspec.json.decode(results[-1].content, type=dict[str, object])


async def test_decisions_of_three_processes_in_another_order_than_the_calls(tmp_path: Path) -> None:
    """The first to be decided is the last of the program, with other arguments; the second is denied."""
    shop, restarts = ProgramShop(), Restarts(tmp_path, THREE)
    await restarts.begin(shop.tools)
    async with restarts.open(shop.tools) as yard:
        await yard.approve("c", (await _list_asked(yard))["3"], arguments={"order": "30", "amount": 5})
        await _wait_for(yard, RunSuspended, times=2)
    async with restarts.open(shop.tools) as yard:
        await yard.deny("c", (await _list_asked(yard))["2"])
        await _wait_for(yard, RunSuspended, times=3)
    async with restarts.open(shop.tools, ends=True) as yard:
        await yard.approve("c", (await _list_asked(yard))["1"])
        answer = await _read_end(yard)
    assert answer["value"] == ["refunded 1", "PermissionError", "refunded 30"]
    edited = {"tool": "refund", "arguments": {"order": "3"}, "changed_to": {"order": "30", "amount": 5}}
    assert answer["edited_by_a_person"] == [edited]
    assert shop.actions == ["refund 30 5", "refund 1 1"]


async def test_what_a_program_prints_is_in_the_log_before_each_wait_and_once_however_often_it_is_run_again(
    tmp_path: Path,
) -> None:
    code = """
print("first")
await refund(order="1")
print("second EMP-1", end="23456\\n")
await refund(order="2")
print("third")
"""
    shop, restarts = ProgramShop(), Restarts(tmp_path, code)
    await restarts.begin(shop.tools)
    async with restarts.open(shop.tools) as yard:
        assert await _list_printed(yard) == ["first\n"]
        await yard.approve("c", (await _list_asked(yard))["1"])
        await _wait_for(yard, RunSuspended, times=2)
    async with restarts.open(shop.tools, ends=True) as yard:
        *_, second = printed = await _list_printed(yard)
        assert [text for text in printed if text] == ["first\n", second]
        assert second.startswith("second") and "EMP-123456" not in second, "it is redacted like a result"
        await yard.approve("c", (await _list_asked(yard))["2"])
        answer = await _read_end(yard)
        assert "".join(await _list_printed(yard)) + "third\n" == answer["printed"]


async def _list_printed(yard: Yard) -> list[str]:
    entries = await yard.service.conversations.read_entries("c")
    return [entry.event.printed for entry in entries if isinstance(entry.event, CallsRequested)]


async def test_a_sibling_that_expires_while_no_process_runs_is_a_timeout(tmp_path: Path) -> None:
    expiring, lasting = ProgramShop(approval_s=0.05), ProgramShop()
    code = THREE.replace('attempt("3")', 'send(text="x")').replace('attempt("2")', "hold_on()")
    shop, restarts = expiring, Restarts(tmp_path, code)

    @tool(approval="ask")
    async def hold_on() -> str:
        """Wait for a person, for long."""
        return "held on"

    await restarts.begin([*shop.tools, hold_on])
    async with restarts.open([*lasting.tools, hold_on], ends=True) as yard:
        state = await yard.service.conversations.view("c")
        (asked,) = [call for call in state.calls_in("asking") if call.call.tool == "hold_on"]
        await yard.approve("c", asked.call.id)
        answer = await _read_end(yard)
    assert answer["value"] == ["TimeoutError", "held on", "sent"]
    assert shop.actions == ["send x"]
    assert lasting.actions == []


async def test_a_changed_tool_is_not_called_again_and_further_calls_are_of_the_new_one(
    tmp_path: Path,
) -> None:
    @tool
    async def price(item: str) -> int:
        """Return a price."""
        return 5

    @tool(name="price")
    async def new_price(item: str, currency: str) -> dict[str, object]:
        """Return a price in a currency."""
        return {"price": 7, "currency": currency}

    shop = ProgramShop()
    code = """
before = await price(item="a")
await refund(order="7")
try:
    after = await price(item="a")
except RuntimeError as error:
    after = str(error)
[before, after]
"""
    restarts = Restarts(tmp_path, code)
    await restarts.begin([*shop.tools, price])
    async with restarts.open([*shop.tools, new_price], ends=True) as yard:
        await yard.approve("c", (await _list_asked(yard))["7"])
        before, after = cast("list[object]", (await _read_end(yard))["value"])
    assert before == 5
    assert "currency" in str(after), "the new tool refuses the old arguments"


@pytest.mark.parametrize("whole_run", [True, False])
async def test_a_program_that_waits_is_stopped_by_a_process_that_has_not_run_it(
    tmp_path: Path, whole_run: bool
) -> None:
    shop, restarts = ProgramShop(), Restarts(tmp_path, f"await add(item='a')\n{THREE}")
    await restarts.begin(shop.tools)
    async with restarts.open(shop.tools, ends=not whole_run) as yard:
        program = next(iter((await yard.service.conversations.view("c")).calls))
        await yard.stop("c", call_id="" if whole_run else program)
        results = await _wait_for(yard, RunEnded)
        assert not await find_history_faults(yard, "c")
    outcomes = [(result.tool, result.outcome) for result in results]
    assert outcomes == [("add", "ok"), *[("refund", "cancelled")] * 3, ("run_code", "cancelled")]
    assert results[-1].error is not None
    assert results[-1].error.details["calls"] == [{"tool": "add", "arguments": {"item": "a"}, "outcome": "ok"}]
    assert shop.actions == ["add a"]
