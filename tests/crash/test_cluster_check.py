"""The checker of the cluster storm finds each thing that must never be, and nothing else; the proxy can be cut."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from crash.cluster_check import Expected, Fault, FaultKind, Problem, check_cluster
from crash.ledger import STEPS, LedgerReader, LedgerWriter, Line, Step
from crash.tcp_proxy import TcpProxy
from tcp_servers import serve_connections
from toolyard import Yard, tool
from toolyard.core.conversation.events import CallEnded, CallStarted, Entry, RunEnded, TurnEnded
from toolyard.core.items import Outcome
from toolyard.testing import Scripted, call, say

PID = 7
PAID: tuple[Step, ...] = STEPS


@tool
def pay(amount: int) -> str:
    """Pay an amount."""
    return "paid"


async def record_log() -> list[Entry]:
    """Return the log of a run that paid 5."""
    async with Yard(tools=[pay], model=Scripted([call("pay", amount=5), say("done")])) as yard:
        await yard.ask("pay", conversation="c")
        return list(await yard.service.conversations.read_entries("c"))


def list_lines(log: Sequence[Entry], *steps: Step) -> list[Line]:
    started = next(entry for entry in log if isinstance(entry.event, CallStarted))
    assert isinstance(started.event, CallStarted)
    return [Line(step, "a", PID, started.at, "c", started.event.call_id, 5) for step in steps]


def set_outcome(log: Sequence[Entry], outcome: Outcome) -> list[Entry]:
    """Return the log with another outcome of its call."""
    return [
        replace(entry, event=replace(entry.event, result=replace(entry.event.result, outcome=outcome)))
        if isinstance(entry.event, CallEnded)
        else entry
        for entry in log
    ]


def find_problems(log: Sequence[Entry], lines: Sequence[Line], *faults: Fault, amount: int = 5) -> list[Problem]:
    verdict = check_cluster([Expected("c", (amount,))], {"c": log}, lines, faults)
    return [violation.problem for violation in verdict.violations]


def build_fault(log: Sequence[Entry], kind: FaultKind, pid: int = PID) -> Fault:
    return Fault(kind, pid, log[0].at, log[-1].at)


async def test_a_payment_that_its_log_calls_ok_is_right() -> None:
    log = await record_log()
    assert find_problems(log, list_lines(log, *PAID)) == []


async def test_a_second_payment_is_doubled_also_by_another_call() -> None:
    log = await record_log()
    assert find_problems(log, list_lines(log, *PAID, "begin", "pay")) == ["doubled"]
    other_call = Line("pay", "b", 8, log[0].at, "c", "call_2", 5)
    assert set(find_problems(log, [*list_lines(log, *PAID), other_call])) == {"doubled", "lost"}


async def test_a_result_without_its_payment_is_lost() -> None:
    log = await record_log()
    assert find_problems(log, list_lines(log, "begin")) == ["lost"]
    assert find_problems(set_outcome(log, "error"), []) == ["lost"]
    assert find_problems(log, list_lines(log, *PAID), amount=6) == ["lost"]


async def test_a_payment_without_a_log_is_lost() -> None:
    log = await record_log()
    verdict = check_cluster([], {}, list_lines(log, *PAID), [])
    assert [violation.problem for violation in verdict.violations] == ["lost"]


async def test_a_run_without_its_end_is_unfinished() -> None:
    log = await record_log()
    cut_off = [entry for entry in log if not isinstance(entry.event, RunEnded)]
    assert find_problems(cut_off, list_lines(log, *PAID)) == ["unfinished"]
    until_turn = next(index for index, entry in enumerate(log) if isinstance(entry.event, TurnEnded))
    assert "unfinished" in find_problems(log[:until_turn], list_lines(log))


@pytest.mark.parametrize("kind", ["kill", "stop", "long cut"])
async def test_an_unknown_outcome_is_right_if_its_replica_was_dead_paid_or_not(kind: FaultKind) -> None:
    log = set_outcome(await record_log(), "unknown")
    for steps in (PAID[:1], PAID[:2], PAID):
        assert find_problems(log, list_lines(log, *steps), build_fault(log, kind)) == []
        assert find_problems(log, list_lines(log, *steps), build_fault(log, kind, pid=8)) == ["unexplained"]
    assert find_problems(log, [], build_fault(log, kind, pid=8)) == []


@pytest.mark.parametrize("kind", ["database", "short cut", "term"])
async def test_an_unknown_outcome_is_wrong_if_its_replica_lived(kind: FaultKind) -> None:
    log = set_outcome(await record_log(), "unknown")
    assert find_problems(log, list_lines(log, *PAID), build_fault(log, kind)) == ["unexplained"]


def test_the_ledger_tells_which_calls_a_process_is_in(tmp_path: Path) -> None:
    writer, reader = LedgerWriter(tmp_path / "ledger", "a"), LedgerReader(tmp_path / "ledger")
    writer.note("begin", "c", "call_1", 5)
    writer.note("begin", "c", "call_2", 6)
    writer.note("pay", "c", "call_1", 5)
    writer.note("end", "c", "call_1", 5)
    reader.update()
    pid = reader.lines[0].pid
    assert [line.call for line in reader.list_in_flight(pid)] == ["call_2"]
    reader.forget_process(pid)
    assert reader.list_in_flight(pid) == []
    reader.close()


async def test_a_proxy_that_is_cut_holds_bytes_back_and_delivers_them_when_it_is_mended() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(100):
            writer.write(chunk)

    async with serve_connections(echo) as port:
        proxy = TcpProxy(port)
        await proxy.open()
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"before")
        assert await reader.readexactly(6) == b"before"
        proxy.cut()
        writer.write(b"during")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await reader.readexactly(1)
        proxy.mend()
        assert await reader.readexactly(6) == b"during"
        writer.close()
        await writer.wait_closed()
        await proxy.close()
