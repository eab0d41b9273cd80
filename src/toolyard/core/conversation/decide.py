"""Decides commands: returns the events of a command that fits the state, or raises Refused (HTTP 409). Pure."""

from collections.abc import Collection, Sequence
from typing import assert_never

from toolyard.core.caller import Caller
from toolyard.core.conversation.approvals import decide_approval, describe_phase, get_owner, require_decider
from toolyard.core.conversation.branches import rewind
from toolyard.core.conversation.commands import (
    AddMessage,
    Answer,
    Approve,
    Change,
    Deliver,
    Deny,
    Fork,
    Open,
    RemoveMessage,
    Rewind,
    Start,
    StateCommand,
    Stop,
)
from toolyard.core.conversation.events import (
    CallAnswered,
    CallDenied,
    CallEnded,
    ConversationChanged,
    ConversationOpened,
    Durable,
    HistoryRewound,
    MessageAdded,
    MessageRemoved,
    ParkedKind,
    RunEnded,
    RunQueued,
    StopRequested,
)
from toolyard.core.conversation.history import History, find_trailing_calls
from toolyard.core.conversation.run_state import CallState
from toolyard.core.conversation.state import State, list_open_calls
from toolyard.core.errors import NotFound, Refused
from toolyard.core.failed_results import (
    CONTINUED,
    WENT_ON,
    WITHDRAWN,
    build_cancelled_program_result,
    build_cancelled_result,
    build_unanswered_result,
    build_user_denied_result,
    build_withdrawn_result,
)
from toolyard.core.items import Call, Item, Result, UserMessage

Events = tuple[Durable, ...]


def decide(state: State, command: StateCommand, now: float) -> Events:
    """Return the events that the command leads to. Raises Refused, or NotFound and Invalid for some commands."""
    if state.settings.deleted_at and not isinstance(command, Change):
        raise NotFound("the conversation was deleted")
    match command:
        case Start():
            return _start(state, command, now)
        case Open() | Change() | Fork():
            return _decide_conversation(state, command)
        case AddMessage() | RemoveMessage() | Rewind():
            return _edit_history(state, command, now)
        case Approve() | Deny():
            return decide_approval(state, command, now)
        case Deliver():
            return tuple(_deliver(state, result, command.by) for result in command.results)
        case Answer():
            _require_parked(state, command.call_id, "question", command.by)
            return (
                CallAnswered(call_id=command.call_id, by=command.by.user, reply=command.reply, content=command.content),
            )
        case Stop():
            return _let_go(state, command, now) if command.went_on else _stop(state, command)
        case _:
            assert_never(command)


def _decide_conversation(state: State, command: Open | Change | Fork) -> Events:
    match command:
        case Change():
            _require_ownership(state, command.by)
            return (ConversationChanged(settings=command.change.apply_to(state.settings), preset=command.preset),)
        case Open() | Fork():
            if state.owner:
                raise Refused("the conversation is open already")
            if isinstance(command, Open):
                return (ConversationOpened(owner=command.by, settings=command.settings),)
            opened = ConversationOpened(owner=command.by, settings=command.settings, origin=command.origin)
            return opened, *(MessageAdded(item=item) for item in command.items)
        case _:
            assert_never(command)


def _deliver(state: State, result: Result, by: Caller) -> CallEnded:
    call = _require_parked(state, result.call_id, "client", by)
    if call.call.tool != result.tool:
        raise Refused(f"call {call.call.id!r} is for {call.call.tool!r}, not {result.tool!r}")
    return CallEnded(result=result)


def _start(state: State, command: Start, now: float) -> Events:
    opening = _open_if_new(state, command)
    _require_new_items(state, command.input)
    _require_question(state, command)
    waiting = len(state.queue) - (0 if state.run else 1)  # without a current run, the first in the queue starts next
    if waiting >= command.queue_limit:
        raise Refused(f"{waiting} requests wait in this conversation already; wait for one to end, or stop the run")
    if command.run_id in {run.id for run in (*state.queue, *((state.run,) if state.run else ()))}:
        raise Refused(f"run {command.run_id!r} was started already")
    if command.delivers:
        stop = _continue_run(state, command, now)
    else:
        stop = _interrupt(state, command) if command.interrupt else _withdraw_proposals(state, command, now)
    run = command.run
    queued = RunQueued(
        caller=command.by,
        input=command.input,
        app_tools=run.app_tools,
        tool_choice=run.tool_choice,
        model=run.model,
        limits=run.limits,
        web_search=run.web_search,
        context=run.context,
        instructions=run.instructions,
        language=run.language,
        mcp_client=run.mcp_client,
        options=run.options,
        ends_on_expiry=run.ends_on_expiry,
        leave_s=run.leave_s,
        client_fields=run.client_fields,
        preset=run.preset,
        native=run.native,
    )
    return (*opening, *_close_trailing_calls(state, now), *stop, queued)


def has_question(history: History) -> bool:
    """Return whether the history ends with a message or a result that has no answer yet."""
    return bool(history) and isinstance(history[-1], UserMessage | Result)


def _require_question(state: State, command: Start) -> None:
    """Raise Refused for a request without a message, unless the history ends with one that has no answer yet."""
    if not (command.input or command.delivers) and not (state.is_idle and has_question(state.history)):
        raise Refused("there is nothing to answer: send a message")


def _edit_history(state: State, command: AddMessage | RemoveMessage | Rewind, now: float) -> Events:
    if state.run is not None or state.queue:
        raise Refused("a run is open; wait for it to end, or stop it, before changing the messages")
    if isinstance(command, Rewind):
        _require_ownership(state, command.by)
        rewind(state.history, state.window, state.branches, command.to, now)
        # A branch that ended with an open call could not be returned to.
        return *_close_trailing_calls(state, now), HistoryRewound(to=command.to, by=command.by.user)
    if isinstance(command, AddMessage):
        _require_new_items(state, command.items)
        opening = _open_if_new(state, command)
        return (
            *opening,
            *_prepare_message(state, command.items, now),
            *(MessageAdded(item=item) for item in command.items),
        )
    _require_ownership(state, command.by)
    return (MessageRemoved(ids=_expand_removal(state, command.ids)),)


def _prepare_message(state: State, items: Sequence[Item], now: float) -> Events:
    """Return the events before a message is added. Raises Refused for a result without an open call.

    What comes beside results closes the calls that are still open.
    """
    answered = {item.call_id for item in items if isinstance(item, Result)}
    waiting = {call.id for call in (*find_trailing_calls(state.history), *items) if isinstance(call, Call)}
    if missing := answered - waiting:
        raise Refused(f"call {min(missing)!r} does not wait for a result here: it has one, or does not exist")
    if answered and all(isinstance(item, Result) for item in items):
        return ()
    return _close_trailing_calls(state, now, answered)


def _close_trailing_calls(state: State, now: float, answered: Collection[str] = ()) -> Events:
    """Return a result for each call that a client added without one: no model would accept the history otherwise.

    While a run is open, its calls are open rightly, and no client can have added any.
    """
    if state.run is not None or state.queue:
        return ()
    return tuple(
        MessageAdded(item=build_unanswered_result(call, now))
        for call in find_trailing_calls(state.history)
        if call.id not in answered
    )


def _expand_removal(state: State, ids: frozenset[str]) -> frozenset[str]:
    """Return these ids and those that go with them: a call is removed with its result, and a result with its call."""
    full_history = state.full_history
    items = [item for item in full_history if item.id in ids]
    missing = ids.difference(item.id for item in items)
    if missing or not ids:
        raise Refused(f"there is no message {', '.join(sorted(missing))!r} in this conversation")
    calls = {item.id if isinstance(item, Call) else item.call_id for item in items if isinstance(item, Call | Result)}
    results = {item.id for item in full_history if isinstance(item, Result) and item.call_id in calls}
    return ids | calls | results


def _require_parked(state: State, call_id: str, kind: ParkedKind, by: Caller) -> CallState:
    call = state.calls.get(call_id)
    if call is None or call.phase != "parked" or call.parked is None or call.parked.kind != kind:
        raise Refused(f"call {call_id!r} does not wait for the {_WAITS_FOR[kind]}{describe_phase(call)}")
    require_decider(state, by)
    return call


_WAITS_FOR: dict[ParkedKind, str] = {"client": "application's result", "question": "answer to a question"}


def _stop(state: State, command: Stop) -> Events:
    if not command.by.may_decide_for(get_owner(state)):
        raise Refused(f"{command.by.user!r} may not stop anything in this conversation")
    if command.run_id and (state.run is None or state.run.id != command.run_id):
        return _end_queued_run(state, command.run_id, command.by)
    if state.run is None:
        raise Refused("nothing is running in this conversation")
    call = state.calls.get(command.call_id)
    if command.call_id and (call is None or call.phase == "closed"):
        raise Refused(f"call {command.call_id!r} has ended or does not exist")
    if state.run.stopped_by is not None:
        return ()
    return (StopRequested(by=command.by.user, call_id=command.call_id),)


def _let_go(state: State, command: Stop, now: float) -> Events:
    """Deny the calls that the run waits for, and end it. Raises Refused if others have a say, or it runs."""
    require_decider(state, command.by)
    waiting = list_open_calls(state)
    if state.run is None or state.run.id != command.run_id or state.run.suspended_at is None or not waiting:
        raise Refused("the run does not wait")
    if any(_waits_for_client(call) or (call.terms is not None and call.terms.involves_others) for call in waiting):
        raise Refused("the run waits for others")
    ended: list[Durable] = []
    for call in waiting:
        if call.phase == "asking":
            ended.append(CallDenied(call_id=call.call.id, by=command.by.user, reason=WENT_ON))
            ended.append(CallEnded(result=build_user_denied_result(call.call, WENT_ON, now)))
        else:
            ended.append(CallEnded(result=build_left_result(call, now)))
    return *ended, StopRequested(by=command.by.user, detail=CONTINUED)


def _interrupt(state: State, command: Start) -> Events:
    """Stop the current run, or remove the first queued run if it has not started."""
    if state.run is not None:
        return (StopRequested(by=command.by.user),) if state.run.stopped_by is None else ()
    return _end_queued_run(state, state.queue[0].id, command.by) if state.queue else ()


def _continue_run(state: State, command: Start, now: float) -> Events:
    """End the run that waits for its client with the client's results, so that the new run can go on from there.

    Calls that wait for people are withdrawn: the model may ask for them again.
    """
    delivered = {result.call_id: _deliver(state, result, command.by) for result in command.delivers}
    waiting = list_open_calls(state)
    missing = [call.call.id for call in waiting if _waits_for_client(call) and call.call.id not in delivered]
    if missing or state.run is None or state.run.suspended_at is None or state.queue:
        raise Refused(f"the run still needs {', '.join(missing) or 'time'}: send the results of all its calls")
    ended = (delivered.get(call.call.id) or CallEnded(result=build_left_result(call, now)) for call in waiting)
    return (StopRequested(by=command.by.user, detail=CONTINUED), *ended)


def _waits_for_client(call: CallState) -> bool:
    return call.phase == "parked" and call.parked is not None and call.parked.kind == "client"


def build_left_result(call: CallState, now: float) -> Result:
    """Return the result of a call that waits for a person when its client goes on.

    A call with a question had started, and a program had, which waits for such calls.
    """
    if call.program is not None:
        calls = call.program.list_started()
        return build_cancelled_program_result(call.call, calls, now, untrusted=call.program_sources)
    if call.phase == "parked":
        return build_cancelled_result(call.call, now, may_have_run=True)
    return build_withdrawn_result(call.call, now)


def _withdraw_proposals(state: State, command: Start, now: float) -> Events:
    """End the current run if it only waits for proposals to be confirmed: the new message replaces the confirmation.

    The model reads from the message whether it confirms.
    """
    run, waiting = state.run, [call for call in state.calls.values() if call.phase != "closed"]
    if run is None or run.stopped_by is not None or not waiting:
        return ()
    if any(call.phase != "asking" or call.call.confirm != "ask" for call in waiting):
        return ()
    ended = (CallEnded(result=build_withdrawn_result(call.call, now)) for call in waiting)
    return (StopRequested(by=command.by.user, detail=WITHDRAWN), *ended)


def _end_queued_run(state: State, run_id: str, by: Caller) -> Events:
    if run_id not in {run.id for run in state.queue}:
        raise Refused(f"run {run_id!r} has ended or does not exist")
    return (RunEnded(ending="cancelled", detail=f"stopped by {by.user}", run_id=run_id),)


def _open_if_new(state: State, command: Start | AddMessage) -> Events:
    if state.owner is not None:
        _require_ownership(state, command.by)
        return ()
    if not command.may_open:
        raise NotFound("the conversation was deleted")
    return (ConversationOpened(owner=command.by, settings=command.settings),)


def _require_ownership(state: State, by: Caller) -> None:
    if not by.owns(get_owner(state)):
        raise Refused(f"this conversation is not {by.user!r}'s")


def _require_new_items(state: State, items: Sequence[Item]) -> None:
    """Raise Refused for an item that is in the log already: a message that is sent again is not added twice."""
    ids = {item.id for item in items}
    if existing := state.find_used_ids(ids):
        raise Refused(f"{', '.join(sorted(existing))} is in this conversation already")
    if queued := {item.id for run in state.queue for item in run.request.input if item.id in ids}:
        raise Refused(f"{', '.join(sorted(queued))} waits in this conversation already")
