"""The one decision of the system: given where a conversation stands, what is next? Pure."""

from msgspec import Struct

from toolyard.core.compaction import HOPELESS_SHARE, TOO_LARGE, Compact, is_full, plan_compaction
from toolyard.core.events import Ending, Finish
from toolyard.core.items import Item, ModelText, Result
from toolyard.core.run_state import CallState, QueuedRun, RunState
from toolyard.core.state import State

WAITING = ("asking", "parked")
MAX_OWNERS = 3
"""A turn or a repeatable call that was started by this many owners that died is given up."""


class BeginRun(Struct, frozen=True):
    queued: QueuedRun


class AskModel(Struct, frozen=True):
    """Begin the next turn, or begin the turn again whose owner died."""


class GiveUpTurn(Struct, frozen=True):
    owners: int


class Judge(Struct, frozen=True):
    calls: list[CallState]


class RunCalls(Struct, frozen=True):
    calls: list[CallState]


class Recover(Struct, frozen=True):
    calls: list[CallState]


class Expire(Struct, frozen=True):
    calls: list[CallState]


class StopWork(Struct, frozen=True):
    """Stop the turn, if there is one, and these calls."""

    calls: list[CallState]


class Wait(Struct, frozen=True):
    until: float


class Suspend(Struct, frozen=True):
    waiting_for: tuple[str, ...]
    wake_at: float


class End(Struct, frozen=True):
    ending: Ending
    detail: str = ""


class Rest(Struct, frozen=True):
    """Nothing to do until something outside happens."""


Step = (
    BeginRun | AskModel | GiveUpTurn | Judge | RunCalls | Recover | Expire | StopWork | Compact
    | Wait | Suspend | End | Rest
)  # fmt: skip


def plan(state: State, epoch: int, now: float) -> Step:
    """What to do next, in this order: stop, recover, expire, judge, run, wait, suspend, end, compact, ask."""
    run = state.run
    if run is None:
        return BeginRun(state.queue[0]) if state.queue else Rest()
    if halt := _plan_halt(state, run, now if state.epoch == epoch else state.last_at):
        return halt
    if state.calls:
        return _plan_calls(state, run, epoch, now)
    if state.turn is not None:
        if state.turn.epoch == epoch:
            return Wait(_compute_deadline(run, now))
        return AskModel() if state.turn.owners < MAX_OWNERS else GiveUpTurn(state.turn.owners)
    return _plan_turn(state, run, now)


def _plan_halt(state: State, run: RunState, now: float) -> Step | None:
    late = run.active_s(now) >= run.limits.run_seconds
    if run.stopped_by is None and not late:
        stopping = [call for call in state.calls.values() if call.stopping and call.phase != "closed"]
        return StopWork(stopping) if stopping else None
    if state.turn is not None or state.calls:
        return StopWork([call for call in state.calls.values() if call.phase != "closed"])
    if run.stopped_by is not None:
        return End("cancelled", run.stop_detail or f"stopped by {run.stopped_by}")
    return End("limit", "run_seconds")


def _plan_calls(state: State, run: RunState, epoch: int, now: float) -> Step:
    open_calls = list(state.calls.values())
    running = [call for call in open_calls if call.phase == "running"]
    if lost := [call for call in running if call.epoch != epoch]:
        return Recover(lost)
    waiting = [call for call in open_calls if call.phase in WAITING]
    if over := [call for call in waiting if now >= call.expires_at]:
        return Expire(over)
    if requested := [call for call in open_calls if call.phase == "requested"]:
        return Judge(requested)
    if chosen := _select_runnable(open_calls, running, run.limits.parallel_calls):
        return RunCalls(chosen)
    wake_at = _compute_deadline(run, now)
    if waiting:
        wake_at = min(call.expires_at for call in waiting)
    if running:
        return Wait(min(wake_at, _compute_deadline(run, now)))
    if run.suspended_at is not None:
        return Rest()
    return Suspend(tuple(call.call.id for call in waiting), wake_at)


def _select_runnable(calls: list[CallState], running: list[CallState], max_parallel: int) -> list[CallState]:
    """The next ones in the model's order; an exclusive one waits until it is alone, and the later ones wait for it."""
    chosen: list[CallState] = []
    for call in calls:
        if call.phase != "allowed":
            continue
        others = len(running) + len(chosen)
        alone_needed = call.exclusive or any(other.exclusive for other in (*running, *chosen))
        if others and (others >= max_parallel or alone_needed):
            break
        chosen.append(call)
    return chosen


def _plan_turn(state: State, run: RunState, now: float) -> Step:
    if run.failure is not None:
        room = plan_compaction(state, run, _compute_deadline(run, now)) if run.failure.error_type == TOO_LARGE else None
        return room or End("failed", f"{run.failure.error_type}: {run.failure.error}")
    if run.direct:
        return End("done")
    last = state.history[-1] if state.history else None
    if run.finish not in (None, "paused") and not (isinstance(last, Result) and not last.ran_at):
        return _plan_ending(last, run.finish)
    limits = run.limits
    if run.tool_turns + run.pauses >= limits.turns_per_request:
        return End("limit", "turns_per_request")
    if state.tool_turns >= limits.turns_per_conversation:
        return End("limit", "turns_per_conversation")
    if limits.run_tokens and run.usage.total >= limits.run_tokens:
        return End("limit", "run_tokens")
    return _plan_full_window(state, run, now) if is_full(state, run) else AskModel()


def _plan_full_window(state: State, run: RunState, now: float) -> Step:
    if room := plan_compaction(state, run, _compute_deadline(run, now)):
        return room
    if run.window and state.tokens > HOPELESS_SHARE * run.window:
        size = f"about {state.tokens:,} tokens, and {run.model} takes {run.window:,}"
        return End("failed", f"too_large: this message with all that it needs is {size}; send less of it")
    return AskModel()


def _plan_ending(last: Item | None, finish: Finish) -> End:
    if finish == "length":
        return End("limit", "length")
    if not isinstance(last, ModelText):
        return End("failed", "empty_answer: the model ended its turn without a word")
    return End("done", "refused" if finish == "refused" else "")


def _compute_deadline(run: RunState, now: float) -> float:
    return now + run.limits.run_seconds - run.active_s(now)
