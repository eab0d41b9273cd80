"""The loop that drives a conversation: `plan` decides each step, workers carry it out, the journal records it."""

from collections.abc import Sequence
from typing import assert_never

from msgspec.structs import replace

from toolyard.core.conversation.context.compaction_plan import Compact
from toolyard.core.conversation.events import (
    CallEnded,
    ConversationChanged,
    Durable,
    RunEnded,
    RunStarted,
    RunSuspended,
    StopRequested,
    TurnFailed,
)
from toolyard.core.conversation.plan import (
    CLIENT_GONE,
    NOTHING_HELD,
    AskModel,
    AwaitRoom,
    BeginRun,
    End,
    Expire,
    GiveUpCalls,
    GiveUpTurn,
    Judge,
    Recover,
    Rest,
    Resume,
    RunCalls,
    StopWork,
    Suspend,
    Wait,
    list_unsettled,
    plan,
)
from toolyard.core.conversation.run_state import CallState
from toolyard.core.conversation.state import State, find_run_settings, list_open_calls
from toolyard.core.failed_results import (
    build_expired_result,
    build_failed_result,
    build_given_up_program_result,
    build_unknown_result,
)
from toolyard.core.items import ModelText, Problem, Result
from toolyard.core.model_failures import BUDGET_EXCEEDED
from toolyard.core.settings.prices import Cost
from toolyard.core.settings.texts import TextName, fill_text, get_text
from toolyard.engine.dependencies import Deps
from toolyard.engine.log.journal import Journal
from toolyard.engine.loop.call_attempts import find_started_cost, price_started_calls
from toolyard.engine.loop.program_calls import list_effects
from toolyard.engine.loop.starting_tools import POLL_S, find_held
from toolyard.engine.loop.workers import Workers
from toolyard.engine.spending.spending import LostCosts

STOPPED_BY_SERVER = "toolyard"
"""Who stopped a run that no person stopped."""
_LIMIT_TEXTS: dict[str, TextName] = {
    "turns_per_request": "max_tool_turns",
    "turns_per_conversation": "max_session_turns",
    BUDGET_EXCEEDED: "budget",
}


async def drive(journal: Journal, deps: Deps) -> None:
    """Advance a conversation until it rests. Safe to call again at any time, by any owner.

    Turns and calls run in workers that end by emitting, so that an approval, a client's result or a stop is handled
    while they run.
    """
    async with Workers(journal, deps) as workers:
        is_takeover = await record_takeover(journal, deps)
        while not (deps.draining or journal.is_releasing):
            state = await read_stored_state(journal) if is_takeover else journal.require_state()
            workers.notify_programs()
            now = deps.clock.now()
            held = find_held(state, journal.epoch, deps.registry, now) if deps.registry.is_starting else NOTHING_HELD
            limited = follow_lowered_limits(state, deps) if deps.limits_changed_at else state
            step = plan(limited, journal.epoch, now, held)
            match step:  # frequent steps first
                case Wait():
                    until = step.until if held is NOTHING_HELD else min(step.until, now + POLL_S)
                    await journal.wait_changed(state, until)
                case RunCalls() | Judge():
                    workers.start_calls(step, limited, now)
                case AskModel():
                    workers.ask(state)
                case BeginRun() | Suspend() | Expire() | GiveUpCalls():
                    workers.cancel_preparation()
                    journal.emit(*build_events(step, state, deps))
                    workers.forget_waiting_programs(journal.state)
                case Compact() | AwaitRoom():
                    workers.prepare(step, state)
                    # Returns at once if no summary was needed: the state has changed already.
                    await journal.wait_changed(state, step.until)
                case Recover(calls) | Resume(calls):
                    workers.recover(calls, state)
                case StopWork() | GiveUpTurn() | End():
                    await end_work(step, workers, journal, deps, is_takeover=is_takeover)
                case Rest():
                    return
                case _:
                    assert_never(step)


def follow_lowered_limits(state: State, deps: Deps) -> State:
    """Return the state to plan with if the server's limits were changed since its run began."""
    run = state.run
    if run is None or run.started_at >= deps.limits_changed_at:
        return state
    return replace(state, run=replace(run, limits=deps.cap_limits(run)))


async def record_takeover(journal: Journal, deps: Deps) -> bool:
    """Record that this owner takes over calls of an earlier one, before it judges, starts or recovers any of them.

    Doing so may be what killed the earlier owner: `plan` gives up calls that many owners got no further with. Return
    whether there was an earlier owner.
    """
    state = journal.require_state()
    if state.epoch == journal.epoch or deps.draining:
        return False
    if list_unsettled(state):
        journal.emit(ConversationChanged(settings=state.settings))
        await journal.wait_committed()
    return True


async def end_work(
    step: StopWork | GiveUpTurn | End, workers: Workers, journal: Journal, deps: Deps, *, is_takeover: bool
) -> None:
    """End a turn, calls or the whole run, with the cost of a request whose answer nobody will see."""
    if not isinstance(step, End):
        await workers.break_off(step)
        return
    state = journal.require_state()
    workers.cancel_preparation()
    cost = await workers.price_lost_summary(state, is_takeover=is_takeover)
    if journal.state is state and not journal.is_releasing:  # else another step may come first
        journal.emit(build_run_ended(step, state, deps, cost))


async def read_stored_state(journal: Journal) -> State:
    """Return the state to plan with after a takeover: it is stored before calls are judged in it.

    If judging kills this owner too, the next one sees how far it came.
    """
    state = journal.require_state()
    if not journal.is_committed and any(call.phase == "requested" for call in state.calls.values()):
        await journal.wait_committed()
        return journal.require_state()
    return state


def build_events(step: BeginRun | GiveUpCalls | Expire | Suspend, state: State, deps: Deps) -> Sequence[Durable]:
    """Return the events of a step that needs no worker."""
    now = deps.clock.now()
    match step:
        case BeginRun():
            return (build_run_started(state, deps),)
        case GiveUpCalls(calls, owners):
            error = f"the server stopped {owners} times with this call; it is not tried again"
            return end_open_calls(calls, Problem(error=error, error_type="unavailable"), state, deps)
        case Expire():
            return price_started_calls(build_expiry(step, now), state, deps.registry)
        case Suspend(waiting_for, wake_at, budget):
            return (RunSuspended(waiting_for=waiting_for, wake_at=wake_at, budget=budget),)
        case _:
            assert_never(step)


def build_expiry(step: Expire, now: float) -> list[Durable]:
    """Return the ends of calls that expired, and the stop of their run if it is to end with them.

    One append holds them all: a server that dies after it leaves a run that is stopped, not one that goes on.
    """
    ended: list[Durable] = [
        CallEnded(result=build_expired_result(call.call, now, awaiting_approval=call.phase == "asking"))
        for call in step.calls
    ]
    return [*ended, StopRequested(by=STOPPED_BY_SERVER, detail=CLIENT_GONE)] if step.ends_run else ended


def build_abandonment(state: State, deaths: int, deps: Deps, lost: LostCosts) -> list[Durable]:
    """Return the end of a run that may be what killed its owners: nothing of it runs again.

    Its owners may have sent its requests: those cost what `lost` says.
    """
    error = f"the server stopped {deaths} times during this request; it is not tried again"
    problem = Problem(error=error, error_type="unavailable")
    failed_turn: list[Durable] = [TurnFailed(problem=problem, cost=lost.turn)] if state.turn is not None else []
    ended = end_open_calls(list_open_calls(state), problem, state, deps)
    return [*failed_turn, *ended, RunEnded(ending="failed", detail=f"unavailable: {error}", cost=lost.summary)]


def end_open_calls(calls: Sequence[CallState], problem: Problem, state: State, deps: Deps) -> list[Durable]:
    """Return the ends of calls that are not run again. The outcome of one that had started is unknown."""
    now = deps.clock.now()
    return [
        CallEnded(
            result=_build_given_up_result(call, state, deps)
            if call.attempt
            else build_failed_result(call.call, "cancelled", problem, now),
            cost=find_started_cost(call, state, deps.registry),
        )
        for call in calls
    ]


def _build_given_up_result(call: CallState, state: State, deps: Deps) -> Result:
    """Return the result of a call that had started and is not run again. That of a program tells of its calls."""
    now = deps.clock.now()
    if not deps.registry.runs_program(call, state):
        return build_unknown_result(call.call, now, read_only=deps.policy_check.is_read_only(call, state))
    effects = list_effects(call.program, state, deps.registry) if call.program is not None else []
    for child in state.calls.values():
        if child.parent == call.call.id and child.attempt and not deps.policy_check.is_read_only(child, state):
            effects.append({"tool": child.call.tool, "arguments": child.arguments, "outcome": "unknown"})
    return build_given_up_program_result(call.call, effects, now, untrusted=call.program_sources)


def build_run_started(state: State, deps: Deps) -> RunStarted:
    """Return the start of the first queued run, with the model, limits and language that apply to it.

    The request's own values come first, then the conversation's, the division's and the server's. A division's limits
    also cap the others.
    """
    request = state.queue[0].request
    settings = find_run_settings(state.settings, request)
    division = deps.division_for(request.caller)
    limits = request.limits or settings.limits or division.limits or deps.limits
    model = request.model or settings.model or deps.default_model
    language = request.language or settings.language or division.language or deps.language or request.caller.locale
    return RunStarted(
        model=model,
        limits=limits.cap_to(division.limits) if division.limits else limits,
        window=deps.windows(model),
        language=language,
    )


def build_run_ended(step: End, state: State, deps: Deps, cost: Cost | None) -> RunEnded:
    """Return the end of the run. A run that reached a limit ends with a message in the caller's language.

    `cost` is that of a summary that the end cuts off.
    """
    assert state.run is not None
    cut_short = step.detail == "length" and isinstance(state.history[-1], ModelText)
    message = None
    if step.ending == "limit" and not cut_short:
        text = get_text(_LIMIT_TEXTS.get(step.detail, "limit"), state.run.language, deps.texts)
        if step.detail == BUDGET_EXCEEDED and state.run.failure is not None:
            text = fill_text(text, budget=str(state.run.failure.details.get("budget", "")))
        message = ModelText(id=deps.clock.new_id("item"), at=deps.clock.now(), text=text)
    return RunEnded(ending=step.ending, detail=step.detail, message=message, cost=cost)
