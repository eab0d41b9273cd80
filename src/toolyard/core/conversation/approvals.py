"""Decides approvals: whether a person may approve or deny a call now, and the events that follow. Pure."""

from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.conversation.commands import Approve, Deny
from toolyard.core.conversation.events import CallApproved, CallDenied, CallEnded, Durable
from toolyard.core.conversation.run_state import CallState
from toolyard.core.conversation.state import State
from toolyard.core.errors import Refused
from toolyard.core.failed_results import build_user_denied_result
from toolyard.core.items import ApprovalRecord
from toolyard.core.tools.approval_terms import ApprovalTerms, is_same_person


def decide_approval(state: State, command: Approve | Deny, now: float) -> tuple[Durable, ...]:
    """Return the events of a person's decision on a call that asks for it. Raises Refused."""
    call = state.calls.get(command.call_id)
    if call is None or call.phase != "asking":
        raise Refused(f"call {command.call_id!r} is not asking for a decision{describe_phase(call)}")
    if now >= call.expires_at:
        raise Refused(f"call {command.call_id!r} asked until {call.expires_at:.0f}; the time to decide is over")
    if refusal := find_refusal(state, call, command.by):
        raise Refused(refusal)
    _check_terms(call, command)
    # A remembered approval would let later calls of the tool run unasked, and `confirm` asks for each one.
    if isinstance(command, Approve) and command.remember != "no" and call.call.confirm == "ask":
        raise Refused("this call has to be confirmed each time: approve it without `remember`")
    if isinstance(command, Deny):
        denied = CallDenied(call_id=command.call_id, by=command.by.user, reason=command.reason)
        # A reason that every decision needs is for people. Any other one is given to tell the model.
        reason = "" if call.terms is not None and call.terms.reason_required else command.reason
        return denied, CallEnded(result=build_user_denied_result(call.call, reason, now))
    return (
        CallApproved(
            call_id=command.call_id,
            by=command.by.user,
            # A call that is asked about again after an edit is approved with the edited arguments.
            arguments=command.arguments if command.arguments is not None else _get_edited_arguments(call),
            remember=command.remember,
            reason=command.reason,
            remaining=count_remaining(call) - 1,
        ),
    )


def _check_terms(call: CallState, command: Approve | Deny) -> None:
    """Raise Refused for a decision that the terms of the call do not admit."""
    terms = call.terms
    if terms is None:
        return
    if terms.reason_required and not command.reason.strip():
        raise Refused("a decision on this call needs a reason: send it as `reason`")
    if isinstance(command, Deny):
        return
    if is_same_person(command.by.user, (approval.by for approval in call.approvals)):
        missing = count_remaining(call)
        raise Refused(f"{command.by.user!r} has approved this call already; it needs {missing} more, each by another")
    if command.remember != "no":
        raise Refused("this call has to be approved each time: approve it without `remember`")
    if terms.quorum > 1 and command.arguments is not None:
        # The people would not have approved the same call.
        raise Refused("this call needs several approvals of the same arguments: approve it as it is, or deny it")


def _get_edited_arguments(call: CallState) -> dict[str, object] | None:
    return call.approved.arguments if call.approved is not None else None


def count_remaining(call: CallState) -> int:
    """Return how many more approvals a call needs that asks."""
    return max(1, (call.terms.quorum if call.terms else 1) - len(call.approvals))


def find_refusal(state: State, call: CallState | None, by: Caller) -> str:
    """Return why this caller may not decide a call, or anything in the conversation; empty if they may."""
    owner = get_owner(state)
    if call is not None and call.terms is not None:
        return call.terms.find_refusal(by, owner, state.run.request.caller if state.run else owner)
    if by.may_decide_for(owner):
        return ""
    return f"{by.user!r} may not decide in this conversation: its owner or an approver of the tenant may"


def require_decider(state: State, by: Caller) -> None:
    if refusal := find_refusal(state, None, by):
        raise Refused(refusal)


class ApprovalView(Struct, frozen=True, kw_only=True):
    """A call that asks, for the people who decide it."""

    rule: str
    """The rule that asks."""
    approvers: str
    """Who may decide, in words."""
    other: bool = False
    """Whether the caller who asked may not decide."""
    needed: int = 1
    remaining: int = 1
    """How many more approvals the call needs."""
    approved_by: tuple[str, ...] = ()
    decisions: tuple[ApprovalRecord, ...] = ()
    """The decisions so far, with their reasons."""
    reason_required: bool = False
    expires_at: float
    may_decide: bool
    """Whether the caller of this request may decide."""
    refusal: str = ""
    """Why the caller may not decide."""


def build_approval_view(state: State, call: CallState, caller: Caller) -> ApprovalView | None:
    """Return who may decide a call, how many are left and until when; None if the call does not ask."""
    if call.phase != "asking":
        return None
    terms, refusal = call.terms or ApprovalTerms(), find_refusal(state, call, caller)
    approved_by = tuple(approval.by for approval in call.approvals)
    if not refusal and is_same_person(caller.user, approved_by):
        refusal = f"{caller.user!r} has approved this call already"
    return ApprovalView(
        rule=call.rule,
        approvers=terms.describe_approvers(),
        other=terms.other,
        needed=terms.quorum,
        remaining=count_remaining(call),
        approved_by=approved_by,
        decisions=call.decisions,
        reason_required=terms.reason_required,
        expires_at=call.expires_at,
        may_decide=not refusal,
        refusal=refusal,
    )


def get_owner(state: State) -> Caller:
    if state.owner is None:
        raise Refused("there is no such conversation yet")
    return state.owner


def describe_phase(call: CallState | None) -> str:
    return f": it is {call.phase}" if call else ": it has ended or does not exist"
