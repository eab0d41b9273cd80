"""Where a conversation stands: the fold of its durable events. It refuses what cannot have happened.

States are immutable and share their history, so that a step costs what it adds. No I/O, no clock: times come with
the entries.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, assert_never

from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.errors import Refused
from toolyard.core.events import (
    CallAnswered,
    CallApproved,
    CallDenied,
    CallEnded,
    CallEvent,
    CallJudged,
    CallParked,
    CallStarted,
    ConversationChanged,
    ConversationEvent,
    ConversationOpened,
    Entry,
    Finish,
    HistoryCompacted,
    MessageAdded,
    MessageRemoved,
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
)
from toolyard.core.history import History
from toolyard.core.items import Call, Item, Problem, Result, Usage
from toolyard.core.limits import Limits
from toolyard.core.settings import Settings

Phase = Literal["requested", "asking", "allowed", "running", "parked", "closed"]


class CallState(Struct, frozen=True, gc=False, kw_only=True):
    """One call of the open turn, until the last one of the turn closes."""

    call: Call
    phase: Phase = "requested"
    exclusive: bool = False
    expires_at: float = 0.0
    epoch: int = 0
    attempt: int = 0
    owners: int = 0
    """How many owners have started it: all but the last one died."""
    approved: CallApproved | None = None
    parked: CallParked | None = None
    answer: CallAnswered | None = None
    stopping: bool = False
    result: Result | None = None

    @property
    def arguments(self) -> dict[str, object]:
        """What to run it with: what the model asked for, or what the approver made of it."""
        edited = self.approved.arguments if self.approved else None
        return self.call.arguments if edited is None else edited


class TurnState(Struct, frozen=True, gc=False, kw_only=True):
    """A model request in flight."""

    number: int
    epoch: int
    owners: int = 1


class QueuedRun(Struct, frozen=True, kw_only=True):
    id: str
    correlation_id: str
    request: RunQueued


class RunState(Struct, frozen=True, gc=False, kw_only=True):
    """The run in front."""

    id: str
    correlation_id: str
    request: RunQueued
    model: str
    limits: Limits
    started_at: float
    direct: bool = False
    """It began with calls instead of a question, and ends when they close."""
    tool_turns: int = 0
    usage: Usage = Usage()
    finish: Finish | None = None
    failure: Problem | None = None
    stopped_by: str | None = None
    settings: Settings
    """What the conversation was set to when it began: a change holds from the next run on."""
    pauses: int = 0
    suspended_at: float | None = None
    waited_s: float = 0.0

    def active_s(self, now: float) -> float:
        """How long it has run, waits left out."""
        end = now if self.suspended_at is None else self.suspended_at
        return end - self.started_at - self.waited_s


class State(Struct, frozen=True, gc=False, kw_only=True):
    owner: Caller | None = None
    settings: Settings = Settings()
    history: History = History()
    queue: tuple[QueuedRun, ...] = ()
    run: RunState | None = None
    turn: TurnState | None = None
    calls: dict[str, CallState] = {}
    turns: int = 0
    tool_turns: int = 0
    offer: str = ""
    offered: dict[str, str] = {}
    looked: int = 0
    """How many items of the history the last offer was made for."""
    remembered: frozenset[str] = frozenset()
    """Tools that were approved for good in this conversation; `*` for all."""
    has_handles: bool = False
    epoch: int = 0
    """The owner that wrote last, and when."""
    last_at: float = 0.0

    def calls_in(self, *phases: Phase) -> list[CallState]:
        return [call for call in self.calls.values() if call.phase in phases]

    @property
    def spent(self) -> bool:
        """Nothing in it is open, and nobody asked to keep it."""
        return self.settings.ephemeral and self.run is None and not self.queue

    @property
    def wake_at(self) -> float | None:
        """When its owner must look at it again: 0 at once, None never."""
        if self.run is None:
            return 0.0 if self.queue or self.spent else None
        if self.run.suspended_at is None:
            return 0.0
        return min(call.expires_at for call in self.calls_in("asking", "parked"))


def apply(state: State, entry: Entry) -> State:
    return replace(_applied(_taken_over(state, entry), entry), epoch=entry.epoch, last_at=entry.at)


def _taken_over(state: State, entry: Entry) -> State:
    """Between one owner's last word and the next one's first nobody drove the run: that time is not its own."""
    run = state.run
    if run is None or run.suspended_at is not None or entry.epoch == state.epoch:
        return state
    return replace(state, run=replace(run, waited_s=run.waited_s + max(0.0, entry.at - state.last_at)))


def _applied(state: State, entry: Entry) -> State:
    event = entry.event
    match event:  # the frequent ones first
        case CallEnded() | CallStarted() | CallJudged() | CallParked() | CallApproved() | CallDenied() | CallAnswered():
            return _call(_resumed(state, entry.at), event)
        case TurnStarted() | TurnEnded() | TurnFailed():
            return _turn(state, event)
        case RunQueued() | RunStarted() | StopRequested() | RunSuspended() | RunEnded():
            return _run(state, event, entry)
        case ConversationOpened() | ConversationChanged() | MessageAdded() | MessageRemoved() | HistoryCompacted():
            return _conversation(state, event)
        case _:
            assert_never(event)


def fold(entries: Iterable[Entry]) -> State:
    state = State()
    for entry in entries:
        state = apply(state, entry)
    return state


def _conversation(state: State, event: ConversationEvent) -> State:
    match event:
        case ConversationOpened():
            _require(state.owner is None, "the conversation is open already")
            return replace(state, owner=event.owner, settings=event.settings)
        case ConversationChanged():
            return replace(state, settings=event.settings)
        case MessageAdded():
            _require(state.run is None, "a message cannot be added while a run is open")
            return replace(state, history=state.history.plus((event.item,)))
        case MessageRemoved():
            _require(state.run is None, "a message cannot be removed while a run is open")
            return replace(state, history=state.history.without(event.ids), looked=0)
        case HistoryCompacted():
            at = next((i for i, item in enumerate(state.history) if item.id == event.through), None)
            if at is None:
                raise Refused(f"no item {event.through!r} to compact through")
            return replace(state, history=History((*event.items, *state.history.since(at + 1))), looked=0)
        case _:
            assert_never(event)


def _run(state: State, event: RunEvent, entry: Entry) -> State:
    match event:
        case RunQueued():
            queued = QueuedRun(id=entry.run, correlation_id=entry.correlation_id, request=event)
            return replace(state, queue=(*state.queue, queued))
        case RunStarted():
            return _started(state, event, entry.at)
        case StopRequested():
            return _stopping(_resumed(state, entry.at), event)
        case RunSuspended():
            run = _open_run(state)
            _require(bool(state.calls_in("asking", "parked")), "a run that waits for nothing cannot be suspended")
            return replace(_kept(state), run=replace(run, suspended_at=entry.at))
        case RunEnded(run_id=run_id) if run_id:
            _require(run_id in {run.id for run in state.queue}, f"run {run_id!r} does not stand in line")
            return replace(state, queue=tuple(run for run in state.queue if run.id != run_id))
        case RunEnded():
            _open_run(state)
            _require(not state.calls and state.turn is None, "a run cannot end while its work is open")
            history = state.history.plus((event.message,)) if event.message else state.history
            return replace(state, run=None, history=history)
        case _:
            assert_never(event)


def _started(state: State, event: RunStarted, at: float) -> State:
    _require(state.run is None and bool(state.queue), "no run is waiting to start")
    first, *rest = state.queue
    calls = _open_calls(first.request.input)
    run = RunState(
        id=first.id,
        correlation_id=first.correlation_id,
        request=first.request,
        model=event.model,
        limits=event.limits,
        settings=state.settings,
        started_at=at,
        direct=bool(calls),
    )
    return replace(state, queue=tuple(rest), run=run, calls=calls, history=state.history.plus(first.request.input))


def _stopping(state: State, event: StopRequested) -> State:
    if event.call_id:
        call = _call_in(state, event.call_id, "requested", "asking", "allowed", "running", "parked")
        return _with(state, replace(call, stopping=True))
    return replace(state, run=replace(_open_run(state), stopped_by=event.by))


def _turn(state: State, event: TurnEvent) -> State:
    run = _open_run(state)
    match event:
        case TurnStarted():
            _require(not state.calls, "a turn cannot start while calls are open")
            again = state.turn is not None
            _require(event.number == state.turns + (0 if again else 1), f"turn {event.number} is out of order")
            owners = state.turn.owners + 1 if state.turn else 1
            return replace(
                state,
                turn=TurnState(number=event.number, epoch=event.epoch, owners=owners),
                turns=event.number,
                offer=event.offer,
                offered=event.applied_to(state.offered),
                looked=len(state.history),
            )
        case TurnEnded():
            return _turn_ended(state, run, event)
        case TurnFailed():
            _require(state.turn is not None, "no turn is in flight")
            return replace(state, turn=None, run=replace(run, failure=event.problem))
        case _:
            assert_never(event)


def _turn_ended(state: State, run: RunState, event: TurnEnded) -> State:
    _require(state.turn is not None, "no turn is in flight")
    ids = [item.id for item in event.items]
    _require(len(set(ids)) == len(ids) and not any(map(state.history.has, ids)), "an id in this turn is used already")
    calls = _open_calls(event.items)
    own = 1 if calls else 0
    run = replace(
        run,
        usage=run.usage.plus(event.usage),
        finish=event.finish,
        tool_turns=run.tool_turns + own,
        pauses=run.pauses + (event.finish == "paused"),
        failure=None,
    )
    history = state.history.plus(event.items)
    return replace(state, turn=None, run=run, calls=calls, history=history, tool_turns=state.tool_turns + own)


def _open_calls(items: Sequence[Item]) -> dict[str, CallState]:
    """The calls that came without their result. One that its provider runs never opens, even if it is not over yet."""
    answered = {item.call_id for item in items if isinstance(item, Result)}
    calls = [item for item in items if isinstance(item, Call) and not item.ran_at]
    return {call.id: CallState(call=call) for call in calls if call.id not in answered}


def _call(state: State, event: CallEvent) -> State:
    match event:
        case CallEnded():
            return _closed(state, event.result)
        case CallStarted():
            return _call_started(state, event)
        case CallJudged():
            return _judged(state, event)
        case CallApproved():
            call = _call_in(state, event.call_id, "asking")
            remembered = {"no": (), "tool": (call.call.tool,), "conversation": ("*",)}[event.remember]
            state = replace(state, remembered=state.remembered.union(remembered))
            return _with(state, replace(call, phase="allowed", approved=event))
        case CallDenied():
            return _with(state, _call_in(state, event.call_id, "asking"))
        case CallParked():
            call = _call_in(state, event.call_id, "running")
            # Whoever runs it next is a first owner again: this one did not die.
            parked = replace(call, phase="parked", parked=event, expires_at=event.expires_at, epoch=0, owners=0)
            return _with(_kept(state), parked)
        case CallAnswered():
            call = _call_in(state, event.call_id, "parked")
            return _with(state, replace(call, phase="allowed", answer=event))
        case _:
            assert_never(event)


def _judged(state: State, event: CallJudged) -> State:
    call = _call_in(state, event.call_id, "requested", "allowed")
    if event.verdict == "deny":
        return _with(state, call)  # its call.ended follows in the same append
    phase: Phase = "allowed" if event.verdict == "allow" else "asking"
    return _with(state, replace(call, phase=phase, exclusive=event.exclusive, expires_at=event.expires_at))


def _call_started(state: State, event: CallStarted) -> State:
    call = _call_in(state, event.call_id, "allowed", "running")
    _require(event.attempt == call.attempt + 1, f"attempt {event.attempt} of call {event.call_id!r} is out of order")
    owners = call.owners + (event.epoch != call.epoch)
    return _with(state, replace(call, phase="running", epoch=event.epoch, attempt=event.attempt, owners=owners))


def _closed(state: State, result: Result) -> State:
    call = _call_in(state, result.call_id, "requested", "asking", "allowed", "running", "parked")
    state = _with(state, replace(call, phase="closed", result=result))
    if result.handle:
        state = replace(state, has_handles=True)
    results = [call.result for call in state.calls.values() if call.result is not None]
    if len(results) < len(state.calls):
        return state
    return replace(state, calls={}, history=state.history.plus(results))


def _resumed(state: State, at: float) -> State:
    """Something happened to a run that was suspended: the wait is over and does not count as its time."""
    run = state.run
    if run is None or run.suspended_at is None:
        return state
    waited = run.waited_s + max(0.0, at - run.suspended_at)
    return replace(state, run=replace(run, suspended_at=None, waited_s=waited))


def _kept(state: State) -> State:
    """Somebody outside was given an id that must lead back here."""
    return replace(state, settings=replace(state.settings, ephemeral=False)) if state.settings.ephemeral else state


def _with(state: State, call: CallState) -> State:
    return replace(state, calls={**state.calls, call.call.id: call})


def _call_in(state: State, call_id: str, *phases: Phase) -> CallState:
    call = state.calls.get(call_id)
    phase = call.phase if call else "closed or unknown"
    if call is None or call.phase not in phases:
        raise Refused(f"call {call_id!r} is {phase}, not {' or '.join(phases)}")
    return call


def _open_run(state: State) -> RunState:
    if state.run is None:
        raise Refused("no run is open")
    return state.run


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Refused(otherwise)
