"""Decides approvals: whether a person may approve or deny a call now, and the events that follow. Pure."""

from toolyard.core.caller import Caller
from toolyard.core.commands import Approve, Deny
from toolyard.core.errors import Refused
from toolyard.core.events import CallApproved, CallDenied, CallEnded, Durable
from toolyard.core.results import build_user_denied_result
from toolyard.core.run_state import CallState
from toolyard.core.state import State


def decide_approval(state: State, command: Approve | Deny, now: float) -> tuple[Durable, ...]:
    """Return the events of a person's decision on a call that asks for it. Raises Refused."""
    call = state.calls.get(command.call_id)
    if call is None or call.phase != "asking":
        raise Refused(f"call {command.call_id!r} is not asking for a decision{describe_phase(call)}")
    if now >= call.expires_at:
        raise Refused(f"call {command.call_id!r} asked until {call.expires_at:.0f}; the time to decide is over")
    require_decider(state, command.by)
    # A remembered approval would let later calls of the tool run unasked, and `confirm` asks for each one.
    if isinstance(command, Approve) and command.remember != "no" and call.call.confirm == "ask":
        raise Refused("this call has to be confirmed each time: approve it without `remember`")
    if isinstance(command, Deny):
        denied = CallDenied(call_id=command.call_id, by=command.by.user, reason=command.reason)
        return denied, CallEnded(result=build_user_denied_result(call.call, command.reason, now))
    return (
        CallApproved(
            call_id=command.call_id, by=command.by.user, arguments=command.arguments, remember=command.remember
        ),
    )


def require_decider(state: State, by: Caller) -> None:
    if not by.may_decide_for(get_owner(state)):
        raise Refused(f"{by.user!r} may not decide in this conversation: its owner or an approver of the tenant may")


def get_owner(state: State) -> Caller:
    if state.owner is None:
        raise Refused("there is no such conversation yet")
    return state.owner


def describe_phase(call: CallState | None) -> str:
    return f": it is {call.phase}" if call else ": it has ended or never was"
