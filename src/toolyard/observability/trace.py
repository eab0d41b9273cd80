"""The trace of a run: its turns, calls and waits with their times, folded from the log. Pure."""

from collections.abc import Iterable, Sequence
from typing import assert_never, cast

from msgspec import Struct, field
from msgspec.structs import replace

from toolyard.core.conversation.events import (
    CallAnswered,
    CallApproved,
    CallDenied,
    CallEnded,
    CallEvent,
    CallJudged,
    CallParked,
    CallsRequested,
    CallStarted,
    ConversationEvent,
    Decision,
    Ending,
    Entry,
    Finish,
    HistoryCompacted,
    ParkedKind,
    RunEnded,
    RunEvent,
    RunQueued,
    RunStarted,
    RunSuspended,
    StopRequested,
    TurnEnded,
    TurnEvent,
    TurnFailed,
    TurnStarted,
    is_call_event,
    is_run_event,
    is_turn_event,
)
from toolyard.core.conversation.run_view import RunStatus
from toolyard.core.items import ApprovalRecord, Call, Item, Outcome, Problem, Result, Usage
from toolyard.core.settings.prices import Cost
from toolyard.observability.telemetry import mask_secrets


class TurnSpan(Struct, frozen=True, kw_only=True):
    """A model request. Without `finish` and `problem` it is still under way."""

    number: int
    started_at: float
    ended_at: float | None = None
    offered: int = 0
    search: str = ""
    """Where a web search runs and why; empty if no search mode is set."""
    model: str = ""
    """The model that answered, by its provider's name for it."""
    finish: Finish | None = None
    problem: Problem | None = None
    """Why the turn failed, or why its text does not fit the output schema."""
    usage: Usage = field(default_factory=Usage)
    cost: Cost | None = None
    """None if it is unknown, or if the turn failed before it cost anything."""
    restarted: int = 0
    """How often the turn started again because its owner died."""


class CallSpan(Struct, frozen=True, kw_only=True):
    """A call. A time is None if that step has not happened."""

    id: str
    tool: str
    arguments: dict[str, object]
    """The arguments, with what looks like a secret masked: more people see traces than conversations."""
    requested_at: float
    turn: int = 0
    """The turn that requested the call; 0 for a call that was made without a model."""
    parent: str = ""
    """The call that runs the program which asked for this one; empty for any other call."""
    line: int = 0
    """The line of the program that makes the call."""
    edited: dict[str, object] | None = None
    """The arguments as a person changed them, if they did."""
    provider_ran_it: bool = False
    judged_at: float | None = None
    verdict: Decision | None = None
    rule: str = ""
    asked_at: float | None = None
    decided_at: float | None = None
    decided_by: str = ""
    decisions: tuple[ApprovalRecord, ...] = ()
    """Each decision on the call, with its reason."""
    started_at: float | None = None
    attempts: int = 0
    parked_at: float | None = None
    parked_for: ParkedKind | None = None
    answered_at: float | None = None
    answered_by: str = ""
    ended_at: float | None = None
    outcome: Outcome | None = None
    error: Problem | None = None
    duration_ms: float | None = None
    """The measured duration, else the time from the first start to the end; None if the call never ran."""
    cost: Cost | None = None
    """None if the tool has no price."""


class WaitSpan(Struct, frozen=True, kw_only=True):
    """A period in which the run was suspended: it waited for people or for the application."""

    started_at: float
    waiting_for: tuple[str, ...]
    budget: str = ""
    """The budget that the run waited for; empty if it waited for calls."""
    ended_at: float | None = None


class Compaction(Struct, frozen=True, kw_only=True):
    """A compaction of the history before a turn."""

    started_at: float
    """The time of the entry before: the log does not record when a compaction starts."""
    at: float
    tokens_before: int
    tokens_after: int
    results_dropped: int
    summarised: bool
    problem: Problem | None
    """Why there is no summary although one was requested."""
    usage: Usage
    cost: Cost | None = None
    """None if it is unknown, or if no model was asked."""


class RunHead(Struct, frozen=True, kw_only=True):
    """What a trace and a list say of a run as a whole."""

    run_id: str
    conversation: str
    correlation_id: str
    user: str
    status: RunStatus
    model: str
    queued_at: float
    ending: Ending | None
    detail: str
    usage: Usage


class Trace(RunHead, frozen=True, kw_only=True):
    """A run with its turns, calls, waits and compactions."""

    last_at: float
    """The time of the last entry, up to which open spans are drawn."""
    started_at: float | None = None
    ended_at: float | None = None
    turns: tuple[TurnSpan, ...] = ()
    calls: tuple[CallSpan, ...] = ()
    waits: tuple[WaitSpan, ...] = ()
    compactions: tuple[Compaction, ...] = ()
    cost: Cost | None = None
    """The estimated cost of a summary that the end of the run cut off."""


def build_trace(entries: Sequence[Entry], run_id: str) -> Trace | None:
    """Return the trace of a run from its conversation's log, or None if there is no such run."""
    run_entries = [entry for entry in entries if entry.run == run_id]
    queued = next((entry for entry in run_entries if isinstance(entry.event, RunQueued)), None)
    if queued is None or not isinstance(queued.event, RunQueued):
        return None
    builder = _TraceBuilder(queued, queued.event)
    for entry in run_entries:
        builder.add(entry)
    return builder.build()


class _TraceBuilder:
    def __init__(self, entry: Entry, queued: RunQueued) -> None:
        self._run = Trace(
            run_id=entry.run,
            conversation=entry.conversation,
            correlation_id=entry.correlation_id,
            user=queued.caller.user,
            model=queued.model,
            status="queued",
            queued_at=entry.at,
            ending=None,
            detail="",
            usage=Usage(),
            last_at=entry.at,
        )
        self._input = queued.input
        self._turns: list[TurnSpan] = []
        self._calls: dict[str, CallSpan] = {}
        self._waits: list[WaitSpan] = []

    def build(self) -> Trace:
        calls = tuple(self._calls.values())
        return replace(self._run, turns=tuple(self._turns), calls=calls, waits=tuple(self._waits))

    def add(self, entry: Entry) -> None:
        event, before = entry.event, self._run.last_at
        self._run = replace(self._run, last_at=entry.at)
        if is_run_event(event):
            self._add_run(event, entry.at)
        elif is_turn_event(event):
            self._add_turn(event, entry.at)
        elif is_call_event(event):
            self._resume(entry.at)
            self._add_call(event, entry.at)
        elif isinstance(event, CallsRequested):
            self._add_children(event, entry.at)
        else:
            self._add_conversation_event(event, before, entry.at)

    def _add_children(self, event: CallsRequested, at: float) -> None:
        self._add_calls(event.calls, at, turn=self._calls[event.parent].turn)
        for number, call in enumerate(event.calls):
            line = event.lines[number] if event.lines else 0
            self._calls[call.id] = replace(self._calls[call.id], parent=event.parent, line=line)

    def _add_conversation_event(self, event: ConversationEvent, before: float, at: float) -> None:
        if isinstance(event, HistoryCompacted):  # the others are not of a run
            self._add_compaction(event, before, at)

    def _add_run(self, event: RunEvent, at: float) -> None:
        match event:
            case RunQueued():
                pass
            case RunStarted(model=model):
                self._run = replace(self._run, status="running", model=model, started_at=at)
                self._add_calls(self._input, at, turn=0)
            case StopRequested():
                self._resume(at)
            case RunSuspended(waiting_for=waiting_for, budget=budget):
                self._run = replace(self._run, status="waiting")
                self._waits.append(WaitSpan(started_at=at, waiting_for=waiting_for, budget=budget))
            case RunEnded(ending=ending, detail=detail, cost=cost):
                self._resume(at)
                self._run = replace(self._run, status="ended", ending=ending, detail=detail, ended_at=at, cost=cost)
            case _:
                assert_never(event)

    def _add_compaction(self, event: HistoryCompacted, before: float, at: float) -> None:
        compaction = Compaction(
            started_at=before,
            at=at,
            tokens_before=event.tokens_before,
            tokens_after=event.tokens_after,
            results_dropped=len(event.dropped),
            summarised=event.summarised,
            problem=event.problem,
            usage=event.usage,
            cost=event.cost,
        )
        usage = self._run.usage.plus(event.usage)
        self._run = replace(self._run, usage=usage, compactions=(*self._run.compactions, compaction))

    def _resume(self, at: float) -> None:
        if self._run.status == "waiting":
            self._run = replace(self._run, status="running")
            self._waits[-1] = replace(self._waits[-1], ended_at=at)

    def _add_turn(self, event: TurnEvent, at: float) -> None:
        match event:
            case TurnStarted(number=number, offered=offered, search=search):
                self._resume(at)
                if self._turns and self._turns[-1].number == number:
                    previous = self._turns[-1]
                    self._turns[-1] = replace(
                        previous, offered=offered, search=search, restarted=previous.restarted + 1
                    )
                else:
                    self._turns.append(TurnSpan(number=number, started_at=at, offered=offered, search=search))
            case TurnEnded(finish=finish, usage=usage, cost=cost):
                self._turns[-1] = replace(
                    self._turns[-1],
                    ended_at=at,
                    finish=finish,
                    usage=usage,
                    cost=cost,
                    model=event.model,
                    problem=event.output_problem,
                )
                self._run = replace(self._run, usage=self._run.usage.plus(usage))
                self._add_calls(event.items, at, turn=self._turns[-1].number)
            case TurnFailed(problem=problem, cost=cost):
                self._turns[-1] = replace(self._turns[-1], ended_at=at, problem=problem, cost=cost)
            case _:
                assert_never(event)

    def _add_calls(self, items: Iterable[Item], at: float, turn: int) -> None:
        """Add the calls among the items. Calls of an input that come with their results belong to earlier runs."""
        results = {item.call_id: item for item in items if isinstance(item, Result)}
        # A provider may pause a call and send its result in a later turn.
        for call_id in results.keys() & self._calls.keys():
            self._calls[call_id] = _end_span(self._calls[call_id], results[call_id], at)
        for call in (item for item in items if isinstance(item, Call)):
            span = CallSpan(
                id=call.id,
                tool=call.tool,
                arguments=_mask_arguments(call.arguments),
                requested_at=at,
                turn=turn,
                provider_ran_it=bool(call.ran_at),
            )
            result = results.get(call.id)
            if result is None:
                self._calls[call.id] = span
            elif turn:
                self._calls[call.id] = replace(_end_span(span, result, at), provider_ran_it=True)

    def _add_call(self, event: CallEvent, at: float) -> None:
        if isinstance(event, CallEnded):
            span = self._calls[event.result.call_id]
            self._calls[span.id] = replace(_end_span(span, event.result, at), cost=event.cost)
            return
        span = self._calls[event.call_id]
        match event:
            case CallJudged(verdict=verdict, rule=rule):
                asked_at = at if verdict == "ask" else None
                span = replace(span, judged_at=at, verdict=verdict, rule=rule, asked_at=asked_at, decided_by="")
            case CallApproved(by=by, arguments=edited, remaining=remaining, reason=reason):
                everybody = f"{span.decided_by}, {by}" if span.decided_by else by
                span = replace(
                    span,
                    decided_at=None if remaining else at,
                    decided_by=everybody,
                    decisions=(*span.decisions, ApprovalRecord(by=by, approved=True, reason=reason)),
                    edited=edited and _mask_arguments(edited),
                )
            case CallDenied(by=by, reason=reason):
                record = ApprovalRecord(by=by, approved=False, reason=reason)
                span = replace(span, decided_at=at, decided_by=by, decisions=(*span.decisions, record))
            case CallStarted(attempt=attempt, rule=rule):
                started_at = at if span.started_at is None else span.started_at
                span = replace(span, started_at=started_at, attempts=attempt)
                if rule is not None:
                    span = replace(span, judged_at=at, verdict="allow", rule=rule)
            case CallParked(kind=kind):
                span = replace(span, parked_at=at, parked_for=kind)
            case CallAnswered(by=by):
                span = replace(span, answered_at=at, answered_by=by)
            case _:
                assert_never(event)
        self._calls[span.id] = span


def _mask_arguments(arguments: dict[str, object]) -> dict[str, object]:
    return cast(dict[str, object], mask_secrets(arguments))


def _end_span(span: CallSpan, result: Result, at: float) -> CallSpan:
    took_ms = result.duration_ms or None
    if took_ms is None and span.started_at is not None:
        took_ms = (at - span.started_at) * 1000
    return replace(span, ended_at=at, outcome=result.outcome, error=result.error, duration_ms=took_ms)
