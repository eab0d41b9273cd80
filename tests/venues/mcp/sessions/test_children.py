"""A server that dies comes back; what was lost with it is told honestly; nothing is left behind."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from support import TEST_TIMEOUT_S, collect_events, get_problem, get_result, open_yard, wait_for_event, wait_until
from toolyard import Caller, Yard
from toolyard.core.conversation.events import CallEnded, CallProgressed, CallStarted
from toolyard.core.tools.mcp_servers import ServerCard
from toolyard.venues.mcp.sessions.child_reaper import ChildReaper
from toolyard.venues.mcp.sessions.supervisor import FIRST_DELAY_S, MAX_DELAY_S, OPEN_AFTER, Backoff
from venues.mcp.plain import PlainServer, is_alive, state_of


@asynccontextmanager
async def open_plain_yard(plain: PlainServer) -> AsyncGenerator[Yard, None]:
    async with open_yard([], servers={"plain": plain.spec}) as yard:
        yield yard


def only_card(yard: Yard) -> ServerCard:
    (only,) = yard.servers.cards()
    return only


def find_shell(name: str) -> list[str]:
    """Return the command of a shell; empty if it is not installed."""
    program, *args = name.split()
    path = shutil.which(program)
    return [path, *args] if path else []


async def call_tool(yard: Yard, tool: str) -> CallEnded:
    return (await wait_for_event(yard.call(tool, {}), CallEnded))[0]


async def test_a_killed_server_is_back_for_the_next_call(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, trust=True)
    async with open_plain_yard(plain) as yard:
        assert get_result(await collect_events(yard.call("add", {}))).outcome == "ok"
        plain.kill()
        while plain.alive:  # without a chance for us to notice
            pass
        after = get_result(await collect_events(yard.call("add", {})))
        assert after.outcome == "ok", after
        assert str(plain.processes[-1]) in after.content and len(plain.processes) == 2
    assert plain.alive == []


async def test_a_call_lost_with_its_server_may_have_taken_effect(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, trust=True)
    async with open_plain_yard(plain) as yard:
        run = yard.call("slow", {})
        await wait_for_event(run, CallStarted)
        await wait_until(lambda: plain.read_notes("began") == ["slow"])
        plain.kill()
        (lost,) = [event.result async for event in run if isinstance(event, CallEnded)]
        assert get_problem(lost) == ("unknown", "unknown_outcome"), lost
    assert plain.read_notes("began") == ["slow"]


async def test_a_lost_call_that_only_reads_is_made_again(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, env={"SLOW_TENTHS": "10"})
    async with open_plain_yard(plain) as yard:
        run = yard.call("slow_look", {})
        await wait_for_event(run, CallStarted)
        await wait_until(lambda: plain.read_notes("began") == ["slow_look"])
        plain.kill()
        (again,) = [event.result async for event in run if isinstance(event, CallEnded)]
        assert again.outcome == "ok", again
    assert plain.read_notes("began") == ["slow_look"] * 2


async def test_a_request_that_the_dead_server_never_read_is_sent_again(tmp_path: Path) -> None:
    """It is stopped when the call is written to it, and killed then: it cannot have read a byte."""
    plain = PlainServer(tmp_path, trust=True)
    async with open_plain_yard(plain) as yard:
        pid = plain.processes[-1]
        os.kill(pid, signal.SIGSTOP)
        await wait_until(lambda: state_of(pid) == "T")  # until then it may read on, on a busy machine
        run = yard.call("add", {})
        await wait_for_event(run, CallStarted)
        await wait_until(lambda: yard.servers.get_connection("plain", Caller()).describe().in_flight == 1)
        os.kill(pid, signal.SIGKILL)
        (done,) = [event.result async for event in run if isinstance(event, CallEnded)]
        assert done.outcome == "ok", done
    assert plain.read_notes("began") == ["add"]


async def test_ten_calls_that_fail_together_cause_one_new_session(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, trust=True)
    async with open_plain_yard(plain) as yard:
        runs = [asyncio.create_task(call_tool(yard, "slow")) for _ in range(10)]
        await wait_until(lambda: len(plain.read_notes("began")) == 10)
        plain.kill()
        ended_calls = await asyncio.gather(*runs)
        assert [get_problem(call.result) for call in ended_calls] == [("unknown", "unknown_outcome")] * 10
        assert (await call_tool(yard, "add")).result.outcome == "ok"
        assert len(plain.processes) == 2


async def test_a_server_that_crashes_at_its_start_is_given_up_with_its_last_words(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, "crashes")
    async with open_plain_yard(plain) as yard:
        await wait_until(lambda: only_card(yard).status == "failed")
        assert "it cannot find its configuration" in only_card(yard).error
        assert "add" not in yard.tool_names
    assert plain.alive == []


async def test_a_command_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path)
    plain.spec = type(plain.spec)(command="no-such-command-anywhere")
    async with open_plain_yard(plain) as yard:
        await wait_until(lambda: only_card(yard).status == "failed")
        assert "no-such-command-anywhere" in only_card(yard).error


async def test_a_server_that_never_answers_is_given_up(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, "hangs", connect_s=0.3)
    async with open_plain_yard(plain) as yard:
        await wait_until(lambda: only_card(yard).status == "failed")
        assert "did not answer in time" in only_card(yard).error
    assert plain.alive == []


async def test_stopping_a_call_tells_the_server(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, trust=True)
    async with open_plain_yard(plain) as yard:
        run = yard.call("slow", {})
        await wait_for_event(run, CallStarted)
        await wait_until(lambda: plain.read_notes("began") == ["slow"])
        await run.stop()
        await wait_until(lambda: plain.read_notes("cancelled") == ["slow"])
        assert len(plain.processes) == 1


async def test_progress_is_told_while_it_runs(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, trust=True)
    async with open_plain_yard(plain) as yard:
        events = await collect_events(yard.call("steps", {}))
        progress_events = [event for event in events if isinstance(event, CallProgressed)]
        assert [(progress.progress, progress.total, progress.message) for progress in progress_events] == [
            (1.0, 3.0, "step 1"), (2.0, 3.0, "step 2"), (3.0, 3.0, "step 3"),
        ]  # fmt: skip


async def test_a_session_that_nobody_uses_is_closed_and_opened_again_by_a_call(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, trust=True, idle_s=0.2)
    async with open_plain_yard(plain) as yard:
        await wait_until(lambda: only_card(yard).status == "idle")
        assert plain.alive == [] and "add" in yard.tool_names
        assert (await call_tool(yard, "add")).result.outcome == "ok"
        assert len(plain.processes) == 2


async def test_a_server_that_hangs_in_every_call_is_started_anew(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, trust=True, call_s=0.2)
    async with open_plain_yard(plain) as yard:
        os.kill(plain.processes[-1], signal.SIGSTOP)
        for _ in range(3):
            assert get_problem((await call_tool(yard, "add")).result) == ("timeout", "timeout")
        await wait_until(lambda: len(plain.processes) == 2)
        assert (await call_tool(yard, "add")).result.outcome == "ok"
    assert plain.alive == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_children_and_their_children_end_with_us_however_we_end(tmp_path: Path, number: signal.Signals) -> None:
    """A yard in a process of its own, whose server is started by a shell, as npx does it, and ignores our end."""
    plain = PlainServer(tmp_path, "stays")
    script = f"""
import asyncio
from toolyard import (Yard)
from toolyard.testing import (Scripted)
from toolyard.core.tools.mcp_servers import ServerSpec
async def main():
    line = {" ".join([plain.spec.command, *plain.spec.args])!r} + "; exit 0"
    async with Yard(model=Scripted([]), servers={{"plain": ServerSpec(command="/bin/sh", args=("-c", line))}}):
        print("open", flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""
    yard = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    try:
        assert yard.stdout is not None and yard.stdout.readline() == b"open\n"
        (child,) = plain.alive
        assert os.getpgid(child) != os.getpgid(yard.pid)
        yard.send_signal(number)
        yard.wait(TEST_TIMEOUT_S)
        await wait_until(lambda: not is_alive(child))
    finally:
        yard.kill()
        assert yard.stdout is not None
        yard.stdout.close()


@pytest.mark.parametrize("shell", [path for name in ("sh", "dash", "bash", "busybox sh") if (path := find_shell(name))])
async def test_the_reaper_ends_what_a_wrapper_forked_in_every_shell(shell: Sequence[str]) -> None:
    """The wrapper waits for its child, as npx does. The reaper loses its pipe, as it does when we are killed."""
    wrapper = subprocess.Popen(
        ["/bin/sh", "-c", "sleep 1000 & echo $!; wait"], stdout=subprocess.PIPE, start_new_session=True
    )
    with wrapper:
        try:
            assert wrapper.stdout is not None
            grandchild = int(wrapper.stdout.readline())
            reaper = ChildReaper(shell)
            reaper.add(wrapper.pid)
            reaper.close()
            assert not is_alive(wrapper.pid)
            await wait_until(lambda: not is_alive(grandchild))
        finally:
            os.killpg(wrapper.pid, signal.SIGKILL)  # safe: the wrapper is reaped only after it


async def test_a_server_is_removed_once_however_many_ask_for_it(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, trust=True)
    async with open_yard([]) as yard:
        await yard.servers.add("twice", plain.spec)
        both = await asyncio.gather(*(yard.servers.act("twice", "remove") for _ in range(2)), return_exceptions=True)
        assert sorted(type(outcome).__name__ for outcome in both) == ["NotFound", "ServerCard"], both
        await wait_until(lambda: plain.alive == [])
        assert "add" not in yard.tool_names


def test_the_first_attempt_after_an_end_comes_at_once_and_the_others_wait_longer_and_longer() -> None:
    patience, waits = Backoff(), list[float]()
    for _ in range(12):
        patience = patience.after_session(answered=False, lived_s=1.0)
        waits.append(patience.delay_s(jitter=0.5))
    assert (
        waits[:5] == [0.0, FIRST_DELAY_S, FIRST_DELAY_S * 2, FIRST_DELAY_S * 4, FIRST_DELAY_S * 8]
        and waits[-1] == MAX_DELAY_S
    )
    assert patience.is_open and not Backoff(failures=OPEN_AFTER - 1).is_open
    assert (
        patience.after_session(answered=True, lived_s=0.1)
        == patience.after_session(answered=False, lived_s=60.0)
        == Backoff()
    )
    assert patience.delay_s(0.0) < patience.delay_s(1.0) <= MAX_DELAY_S * 1.5
