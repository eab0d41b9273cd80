"""Decides the next step of a conversation from its state. Pure."""

from collections.abc import Sequence
from typing import TypeVar

from msgspec import Struct

from toolyard.core.conversation.context.compaction_plan import HOPELESS_SHARE, Compact, is_full, plan_compaction
from toolyard.core.conversation.events import CallJudged, Ending
from toolyard.core.conversation.run_state import CallState, QueuedRun, RunState
from toolyard.core.conversation.state import State, list_open_calls
from toolyard.core.items import Item, ModelText, Problem, Result
from toolyard.core.model_failures import BUDGET_EXCEEDED, TOO_LARGE, WAITS_UNTIL

_Runnable = TypeVar("_Runnable", CallState, CallJudged)

WAITING = ("asking", "parked")
CLIENT_GONE = "the client did not return a result in time"
"""The detail of a run that ended because a call of its client expired."""
MAX_CALL_OWNERS = 3
"""How many owners may start a repeatable call. If each of them died, it may be what killed them."""
MAX_TURN_OWNERS = 5
"""How many owners may start a turn, or take over calls and get no further. It is more than for a call: a tool that
kills its owners, one after the other, must not end the turns of other conversations that they own."""


class BeginRun(Struct, frozen=True):
    queued: QueuedRun


class AskModel(Struct, frozen=True):
    """Start the next turn, or restart a turn whose owner died."""


class GiveUpTurn(Struct, frozen=True):
    """Fail a turn that too many owners died in."""

    owners: int


class GiveUpCalls(Struct, frozen=True):
    """End calls that too many owners died with before they judged, started or recovered them."""

    calls: list[CallState]
    owners: int


class Judge(Struct, frozen=True):
    calls: list[CallState]


class RunCalls(Struct, frozen=True):
    calls: list[CallState]


class Recover(Struct, frozen=True):
    """Run again or close calls that were running when their owner died."""

    calls: list[CallState]


class Resume(Struct, frozen=True):
    """Run programs again that have results to go on with, and that this owner does not run."""

    calls: list[CallState]


class Expire(Struct, frozen=True):
    """Close calls whose approval or result did not come in time."""

    calls: list[CallState]
    ends_run: bool = False
    """Whether the run stops with them, because its client is gone."""


class StopWork(Struct, frozen=True):
    """Cancel the turn, if there is one, and these calls."""

    calls: list[CallState]


class Wait(Struct, frozen=True):
    until: float


class Suspend(Struct, frozen=True):
    """Record that the run only waits for people or for the application."""

    waiting_for: tuple[str, ...]
    wake_at: float
    budget: str = ""


class AwaitRoom(Struct, frozen=True):
    """Start the next turn once the budget that the run waits for has room for it."""

    until: float


class End(Struct, frozen=True):
    ending: Ending
    detail: str = ""


class Rest(Struct, frozen=True):
    """Nothing to do until something outside happens."""


Step = (
    BeginRun | AskModel | GiveUpTurn | GiveUpCalls | Judge | RunCalls | Recover | Resume | Expire | StopWork | Compact
    | Wait | Suspend | AwaitRoom | End | Rest
)  # fmt: skip


class Held(Struct, frozen=True):
    """What waits for the tools of a server that is starting."""

    calls: frozenset[str] = frozenset()
    turn: bool = False


NOTHING_HELD = Held()


def plan(state: State, epoch: int, now: float, held: Held = NOTHING_HELD) -> Step:
    """Return the next step, in this order: stop, recover, expire, judge, run, wait, suspend, end, compact, ask."""
    run = state.run
    if run is None:
        return BeginRun(state.queue[0]) if state.queue else Rest()
    deadline = run.find_deadline(now)
    # An owner that has written nothing yet measures the run's time up to the last entry of the previous owner. The time
    # in between, while nobody drove the run, does not count: `state` adds it to the run's waits with the first entry.
    is_late = now >= deadline if state.epoch == epoch else state.last_at >= run.find_deadline(state.last_at)
    if (is_late or state.calls or run.stopped_by is not None) and (halt := _plan_halt(state, run, is_late=is_late)):
        return halt
    if state.calls:
        return _plan_calls(state, run, epoch, now, deadline, held.calls)
    if state.turn is not None:
        if state.turn.epoch == epoch:
            return Wait(deadline)
        step = AskModel() if state.turn.owners < MAX_TURN_OWNERS else GiveUpTurn(state.turn.owners)
    else:
        step = _plan_turn(state, run, now)
    return Wait(deadline) if held.turn and isinstance(step, AskModel) else step


def _plan_halt(state: State, run: RunState, *, is_late: bool) -> Step | None:
    """Return the step of a run or call that is stopped, or of a run that is out of time; None for any other."""
    if run.stopped_by is None and not is_late:
        stopping = [call.call.id for call in state.calls.values() if call.stopping and call.phase != "closed"]
        if not stopping:
            return None
        return StopWork(
            [call for call in list_open_calls(state) if call.call.id in stopping or call.parent in stopping]
        )
    if state.turn is not None or state.calls:
        return StopWork(list_open_calls(state))
    if run.stopped_by is not None:
        return End("cancelled", run.stop_detail or f"stopped by {run.stopped_by}")
    return End("limit", "run_seconds")


def _plan_calls(state: State, run: RunState, epoch: int, now: float, deadline: float, held: frozenset[str]) -> Step:
    if run.idle_owners >= MAX_TURN_OWNERS:
        return GiveUpCalls(list_unsettled(state), run.idle_owners)
    calls: dict[str, list[CallState]] = {}
    for call in state.calls.values():
        calls.setdefault("waiting" if call.phase in WAITING else call.phase, []).append(call)
    running, waiting = calls.get("running", []), calls.get("waiting", [])
    # A running call of another epoch has lost its task: its owner died, or was fenced and has stopped writing.
    if running and (lost := [call for call in running if call.epoch != epoch and call.call.id not in held]):
        return Recover(lost)
    nested = calls.get("nested", [])
    programs = _leave_out([call for call in nested if call.has_news], held) if nested else nested
    if programs and (lost := [call for call in programs if call.epoch != epoch]):
        return Resume(lost)
    if waiting and (expired := [call for call in waiting if now >= call.expires_at]):
        return Expire(expired, ends_run=run.request.ends_on_expiry and any(map(_waits_for_client, expired)))
    if requested := _leave_out(calls.get("requested", []), held):
        return Judge(requested)
    allowed = _leave_out(calls.get("allowed", []), held)
    if allowed and (chosen := _select_runnable(allowed, running, run.limits.parallel_calls)):
        return RunCalls(chosen)
    wake_at = min(call.expires_at for call in waiting) if waiting else deadline
    if running or programs or held:
        return Wait(min(wake_at, deadline))
    if run.suspended_at is not None:
        return Rest()
    return Suspend(tuple(call.call.id for call in waiting), wake_at)


def list_unsettled(state: State) -> list[CallState]:
    """Return the calls that an owner has to do something with."""
    return [call for call in state.calls.values() if call.phase in ("requested", "allowed", "running")]


def _waits_for_client(call: CallState) -> bool:
    return call.phase == "parked" and call.parked is not None and call.parked.kind == "client"


def _leave_out(calls: list[CallState], held: frozenset[str]) -> list[CallState]:
    return [call for call in calls if call.call.id not in held] if held else calls


def select_starting(state: State, allowed: Sequence[CallJudged]) -> Sequence[CallJudged]:
    """Return which of the calls that were just allowed may start at once."""
    run = state.run
    if run is None or state.calls_in("allowed"):  # those were allowed before, and start before
        return ()
    return _select_runnable(allowed, state.calls_in("running"), run.limits.parallel_calls)


def _select_runnable(calls: Sequence[_Runnable], running: Sequence[CallState], max_parallel: int) -> list[_Runnable]:
    """Return those of the allowed calls that may start now, in the model's order.

    An exclusive call waits until no other call runs, and later calls wait for it.
    """
    chosen: list[_Runnable] = []
    for call in calls:
        others = [*running, *chosen]
        alone_needed = call.exclusive or any(other.exclusive for other in others)
        if others and (len(others) >= max_parallel or alone_needed):
            break
        chosen.append(call)
    return chosen


def _plan_turn(state: State, run: RunState, now: float) -> Step:
    if run.failure is not None:
        if run.failure.error_type == BUDGET_EXCEEDED:
            return _plan_without_room(run, run.failure, now)
        compaction = (
            plan_compaction(state, run, run.find_deadline(now)) if run.failure.error_type == TOO_LARGE else None
        )
        return compaction or End("failed", f"{run.failure.error_type}: {run.failure.error}")
    if run.direct:
        return End("done")
    last = state.history[-1] if state.history else None
    answered = run.finish not in (None, "paused") and not (isinstance(last, Result) and not last.ran_at)
    if answered and not run.needs_repair:
        return _plan_ending(last, run)
    turns = run.tool_turns + run.pauses
    limit = run.limits.find_reached(turns=turns, conversation_turns=state.tool_turns, tokens=run.usage.total)
    if limit:
        return End("limit", limit)
    return _plan_full_window(state, run, now) if is_full(state, run) else AskModel()


def _plan_without_room(run: RunState, failure: Problem, now: float) -> Step:
    """Return the step of a run whose budget has no room: it ends, or waits if the budget asks for a higher amount."""
    until = failure.details.get(WAITS_UNTIL)
    if not isinstance(until, int | float) or now >= until:
        return End("limit", BUDGET_EXCEEDED)
    if run.suspended_at is None:
        return Suspend((), until, budget=str(failure.details.get("budget", "")))
    return AwaitRoom(until)


def _plan_full_window(state: State, run: RunState, now: float) -> Step:
    if compaction := plan_compaction(state, run, run.find_deadline(now)):
        return compaction
    if run.window and state.tokens > HOPELESS_SHARE * run.window:
        size = f"about {state.tokens:,} tokens, and {run.model} takes {run.window:,}"
        return End("failed", f"too_large: this message with all that it needs is {size}; send less of it")
    return AskModel()


def _plan_ending(last: Item | None, run: RunState) -> End:
    if run.finish == "length":
        return End("limit", "length")
    if run.output_problem is not None:
        return End("failed", f"{run.output_problem.error_type}: {run.output_problem.error}")
    if not isinstance(last, ModelText):
        return End("failed", "empty_answer: the model ended its turn without a word")
    return End("done", "refused" if run.finish == "refused" else "")
