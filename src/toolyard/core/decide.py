"""Whether a command fits the state, and the events that it becomes. Pure; Refused is the 409."""

from typing import assert_never

from toolyard.core.caller import Caller
from toolyard.core.commands import (
    AddMessage,
    Answer,
    Approve,
    Change,
    Command,
    Deliver,
    Deny,
    Open,
    RemoveMessage,
    Start,
    Stop,
)
from toolyard.core.errors import Refused
from toolyard.core.events import (
    CallAnswered,
    CallApproved,
    CallDenied,
    CallEnded,
    ConversationChanged,
    ConversationOpened,
    Durable,
    MessageAdded,
    MessageRemoved,
    ParkedKind,
    RunQueued,
    StopRequested,
)
from toolyard.core.items import Call, Result
from toolyard.core.results import denied_by_user
from toolyard.core.settings import Settings
from toolyard.core.state import CallState, State

Events = tuple[Durable, ...]


def decide(state: State, command: Command, now: float) -> Events:
    match command:
        case Start():
            return _start(state, command)
        case Open() | Change():
            return _set(state, command)
        case AddMessage() | RemoveMessage():
            return _edit_history(state, command)
        case Approve() | Deny():
            return _decide_call(state, command, now)
        case Deliver():
            call = _parked(state, command.result.call_id, "client", command.by)
            if call.call.tool != command.result.tool:
                raise Refused(f"call {call.call.id!r} is for {call.call.tool!r}, not {command.result.tool!r}")
            return (CallEnded(result=command.result),)
        case Answer():
            _parked(state, command.call_id, "question", command.by)
            return (
                CallAnswered(call_id=command.call_id, by=command.by.user, reply=command.reply, content=command.content),
            )
        case Stop():
            return _stop(state, command)
        case _:
            assert_never(command)


def _set(state: State, command: Open | Change) -> Events:
    if isinstance(command, Change):
        _opened(state)
        return (ConversationChanged(settings=command.change.applied_to(state.settings)),)
    if state.owner:
        raise Refused("the conversation is open already")
    return _opening(state, command.by, command.settings)


def _start(state: State, command: Start) -> Events:
    opening = _opening(state, command.by, command.settings)
    waiting = len(state.queue) - (0 if state.run else 1)  # the first in line does not wait when nothing runs
    if waiting >= command.queue_limit:
        raise Refused(f"{waiting} requests wait in this conversation already; wait for one to end, or stop the run")
    if command.run_id in {run.id for run in (*state.queue, *((state.run,) if state.run else ()))}:
        raise Refused(f"run {command.run_id!r} was started already")
    stop = (StopRequested(by=command.by.user),) if command.interrupt and state.run else ()
    queued = RunQueued(
        caller=command.by,
        input=command.input,
        app_tools=command.app_tools,
        tool_choice=command.tool_choice,
        model=command.model,
        limits=command.limits,
    )
    return (*opening, *stop, queued)


def _edit_history(state: State, command: AddMessage | RemoveMessage) -> Events:
    if state.run is not None or state.queue:
        raise Refused("a run is open; wait for it to end, or stop it, before changing the messages")
    if isinstance(command, AddMessage):
        if isinstance(command.item, Call | Result):
            raise Refused("a call or a result cannot be added by hand: it would have no counterpart")
        return (*_opening(state, command.by, command.settings), MessageAdded(item=command.item))
    item = next((item for item in state.history if item.id == command.item_id), None)
    if item is None:
        raise Refused(f"there is no message {command.item_id!r} in this conversation")
    call_id = item.id if isinstance(item, Call) else item.call_id if isinstance(item, Result) else None
    if call_id is None:
        return (MessageRemoved(ids=frozenset({item.id})),)
    pair = {other.id for other in state.history if isinstance(other, Result) and other.call_id == call_id}
    return (MessageRemoved(ids=frozenset({call_id, *pair})),)


def _decide_call(state: State, command: Approve | Deny, now: float) -> Events:
    call = state.calls.get(command.call_id)
    if call is None or call.phase != "asking":
        raise Refused(f"call {command.call_id!r} is not asking for a decision{_phase_of(call)}")
    if now >= call.expires_at:
        raise Refused(f"call {command.call_id!r} asked until {call.expires_at:.0f}; the time to decide is over")
    _may_decide(state, command.by)
    if isinstance(command, Deny):
        denied = CallDenied(call_id=command.call_id, by=command.by.user, reason=command.reason)
        return denied, CallEnded(result=denied_by_user(call.call, command.reason, now))
    return (
        CallApproved(
            call_id=command.call_id, by=command.by.user, arguments=command.arguments, remember=command.remember
        ),
    )


def _parked(state: State, call_id: str, kind: ParkedKind, by: Caller) -> CallState:
    call = state.calls.get(call_id)
    if call is None or call.phase != "parked" or call.parked is None or call.parked.kind != kind:
        raise Refused(f"call {call_id!r} does not wait for the {_AWAITED[kind]}{_phase_of(call)}")
    _may_decide(state, by)
    return call


_AWAITED: dict[ParkedKind, str] = {"client": "application's result", "question": "answer to a question"}


def _stop(state: State, command: Stop) -> Events:
    if state.run is None:
        raise Refused("nothing is running in this conversation")
    call = state.calls.get(command.call_id)
    if command.call_id and (call is None or call.phase == "closed"):
        raise Refused(f"call {command.call_id!r} has ended or never was")
    if state.run.stopped_by is not None:
        return ()
    return (StopRequested(by=command.by.user, call_id=command.call_id),)


def _opening(state: State, owner: Caller, settings: Settings) -> Events:
    return () if state.owner else (ConversationOpened(owner=owner, settings=settings),)


def _opened(state: State) -> Caller:
    if state.owner is None:
        raise Refused("there is no such conversation yet")
    return state.owner


def _may_decide(state: State, by: Caller) -> None:
    if not by.may_decide_for(_opened(state)):
        raise Refused(f"{by.user!r} may not decide in this conversation: its owner or an approver of the tenant may")


def _phase_of(call: CallState | None) -> str:
    return f": it is {call.phase}" if call else ": it has ended or never was"
