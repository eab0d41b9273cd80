"""Compare the ledger of payments with the logs of the conversations that made them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from crash.ledger import Line
from toolyard.core.conversation.events import CallEnded, CallsRequested, CallStarted, Entry, RunEnded
from toolyard.core.conversation.history import find_faults
from toolyard.core.conversation.state import State, fold
from toolyard.core.errors import ToolyardError
from toolyard.core.items import Call, Result

FaultKind = Literal["kill", "stop", "long cut", "short cut", "database", "term"]
EXCUSES: frozenset[FaultKind] = frozenset({"kill", "stop", "long cut"})
"""The faults after which a call in flight may be unknown: its replica was dead, or dead to all others."""
GIVEN_UP = "the server stopped 5 times during this turn"
PAYING_TOOLS = frozenset({"pay", "pay_approved"})
Problem = Literal["doubled", "lost", "unfinished", "unexplained", "unusable"]


@dataclass(frozen=True, slots=True)
class Fault:
    """What was done to a replica, or to all of them if `pid` is 0, from when until when."""

    kind: FaultKind
    pid: int
    at: float
    until: float


@dataclass(frozen=True, slots=True)
class Violation:
    problem: Problem
    text: str


@dataclass(frozen=True, slots=True)
class Expected:
    """A conversation and the amounts that it has to pay, each once."""

    conversation: str
    amounts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    outcomes: Counter[str]
    given_up: int
    violations: Sequence[Violation]


def check_cluster(
    expected: Sequence[Expected], logs: Mapping[str, Sequence[Entry]], lines: Sequence[Line], faults: Sequence[Fault]
) -> Verdict:
    """Return how the calls ended and everything that must never be."""
    lines_by_conversation: defaultdict[str, list[Line]] = defaultdict(list)
    for line in lines:
        lines_by_conversation[line.conversation].append(line)
    violations: list[Violation] = []
    outcomes, given_up = Counter[str](), 0
    for payer in expected:
        try:
            log = _Log(logs.get(payer.conversation, ()))
        except ToolyardError as error:
            violations.append(Violation("unusable", f"{payer.conversation} has a log that cannot be: {error}"))
            log = _Log(())
        outcomes.update(result.outcome for result in log.results.values())
        given_up += log.was_given_up
        own_lines = lines_by_conversation.pop(payer.conversation, [])
        violations += _check_conversation(payer, log, own_lines, faults)
    violations += [Violation("lost", f"{id} has payments but no log") for id in lines_by_conversation]
    return Verdict(outcomes, given_up, violations)


class _Log:
    """What the log of a conversation says about its calls and the end of its first run."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.state: State = fold(entries)
        self.calls = {item.id: item for item in self.state.full_history if isinstance(item, Call)}
        self.started_at: dict[str, float] = {}
        self.ended_at: dict[str, float] = {}
        self.results: dict[str, Result] = {}
        self.endings: list[RunEnded] = []
        for entry in entries:
            if isinstance(entry.event, CallStarted):
                self.started_at.setdefault(entry.event.call_id, entry.at)
            elif isinstance(entry.event, CallEnded):
                self.results[entry.event.result.call_id] = entry.event.result
                self.ended_at[entry.event.result.call_id] = entry.at
            elif isinstance(entry.event, CallsRequested):
                self.calls |= {call.id: call for call in entry.event.calls}
            elif isinstance(entry.event, RunEnded):
                self.endings.append(entry.event)

    @property
    def was_given_up(self) -> bool:
        return bool(self.endings) and GIVEN_UP in self.endings[0].detail


def _check_conversation(
    payer: Expected, log: _Log, lines: Sequence[Line], faults: Sequence[Fault]
) -> Iterator[Violation]:
    name = payer.conversation
    if not log.endings or not (log.endings[0].ending == "done" or log.was_given_up):
        yield Violation("unfinished", f"{name} ended as {log.endings}")
    for text in find_faults(log.state.full_history):
        yield Violation("unusable", f"{name}: {text}")
    yield from _check_amounts(payer, log, lines)
    payments = Counter(line.call for line in lines if line.step == "pay")
    for call in payments.keys() - log.results.keys():
        yield Violation("lost", f"{name}: {call} was paid, and its log has no result")
    for call in log.calls.keys() - log.results.keys():
        yield Violation("unfinished", f"{name}: {call} has no result")
    for call, result in log.results.items():
        if result.tool not in PAYING_TOOLS:
            yield from _check_harmless(f"{name}: {call}", result, log)
            continue
        yield from _check_result(f"{name}: {call}", result, payments[call])
        if result.outcome == "unknown" and not _is_excused(call, log, lines, faults):
            yield Violation("unexplained", f"{name}: {call} is unknown, and its replica was not killed or stopped")


def _check_amounts(payer: Expected, log: _Log, lines: Sequence[Line]) -> Iterator[Violation]:
    """Each amount is paid once at most, by whatever calls, and was asked for unless the run was given up."""
    times_paid = Counter(line.amount for line in lines if line.step == "pay")
    for amount, times in times_paid.items():
        if times > 1:
            yield Violation("doubled", f"{payer.conversation}: {amount} was paid {times} times")
    requested = {call.arguments.get("amount") for call in log.calls.values()}
    if not log.was_given_up and (missing := set(payer.amounts) - requested):
        yield Violation("lost", f"{payer.conversation}: nobody was asked to pay {sorted(missing)}")


def _check_result(name: str, result: Result, times: int) -> Iterator[Violation]:
    if result.outcome == "ok":
        if times == 0:
            yield Violation("lost", f"{name} is ok, and was not paid")
    elif result.outcome != "unknown":
        yield Violation("lost", f"{name} ended as {result.outcome}, and was paid {times} times")


def _check_harmless(name: str, result: Result, log: _Log) -> Iterator[Violation]:
    """A program ends well, whatever its calls did. A call that only reads may be given up, and then says so."""
    if result.outcome == "ok" or log.was_given_up:
        return
    if result.tool != "look" or result.outcome != "unknown" or "taken effect" in result.content:
        yield Violation("unfinished", f"{name} ended as {result.outcome}: {result.content}")


def _is_excused(call: str, log: _Log, lines: Sequence[Line], faults: Iterable[Fault]) -> bool:
    """Return whether a fault that excuses an unknown outcome hit the process of the call while the call was open."""
    begin = next((line for line in lines if line.call == call and line.step == "begin"), None)
    # A call is in flight from its intent on: its process may have been stopped before it noted the first line. A call
    # whose replica died before that line could be anybody's.
    since = log.started_at.get(call, begin.at if begin else 0.0)
    return any(
        fault.kind in EXCUSES
        and (begin is None or fault.pid == begin.pid)
        and fault.at <= log.ended_at[call]
        and fault.until >= since
        for fault in faults
    )
