"""Approvals as items of responses: `mcp_approval_request`, and the client's `mcp_approval_response`.

The response decides the call as its caller would with `/approve` or `/deny`, and is answered with the run as it goes
on; or, if a message comes after it in the same conversation, with the run of that message, which is next. A decision
that comes again changes nothing: it is answered with the run as it is.
"""

from collections.abc import Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.conversation.commands import Approve, Deny
from toolyard.core.conversation.events import CallJudged
from toolyard.core.conversation.run_view import RunView
from toolyard.core.errors import Forbidden, NotFound, Refused
from toolyard.engine.service import Service
from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.http.request_context import RequestContext
from toolyard.surfaces.openai.responses.ids import APPROVAL_ID_PREFIX
from toolyard.surfaces.openai.responses.output import OutputItem
from toolyard.surfaces.openai.responses.tool_kinds import OUTPUT_KINDS
from toolyard.surfaces.shared.call_ids import encode_call_id, parse_call_id

MAX_REASON_CHARS = 2_000
_REQUEST, _RESPONSE = "mcp_approval_request", "mcp_approval_response"


class ApprovalDecision(Struct, frozen=True, kw_only=True):
    call_id: str
    """The id of the call as it was handed out: it names the conversation as well."""
    approve: bool
    reason: str = ""


class Decisions(Struct, frozen=True, kw_only=True):
    decisions: Sequence[ApprovalDecision]
    others: Sequence[dict[str, object]]
    """The items of the input that have nothing to do with approvals."""


class DecidedRun(Struct, frozen=True, kw_only=True):
    conversation: str
    run_id: str


def list_approval_requests(view: RunView, label: str) -> list[OutputItem]:
    """Return an item for each call of a waiting run that the caller has to approve."""
    return [
        {
            "id": APPROVAL_ID_PREFIX + encode_call_id(view.conversation, call.call.id).removeprefix("call_"),
            "type": _REQUEST,
            "server_label": label,
            "name": call.call.tool,
            "arguments": msgspec.json.encode(call.arguments).decode(),
        }
        for call in (view.open_calls if view.status == "waiting" else ())
        if call.awaited == "approval" and not call.needs_others
    ]


def read_decisions(items: Sequence[dict[str, object]], *, is_continued: bool) -> Decisions:
    """Return the decisions of an input, and what it brings besides. Raise Invalid if they cannot be told apart.

    A request that goes on from a response brings decisions, and then messages if any. One with its whole history ends
    with its decisions: earlier ones are history, which the run of their time has used.
    """
    positions = [index for index, item in enumerate(items) if item.get("type") == _RESPONSE]
    if not is_continued:
        positions = list(_take_last(items))
        if not positions:
            _check_not_followed(items)
    decisions = [_read_decision(index, items[index]) for index in positions]
    others = [index for index, item in enumerate(items) if item.get("type") not in (_REQUEST, _RESPONSE)]
    if is_continued and decisions and others:
        if others[0] < positions[-1]:
            raise invalid_field(f"input.{others[0]}", "comes before a decision: send the decisions first")
        if results := [index for index in others if items[index].get("type") in OUTPUT_KINDS]:
            problem = "comes beside a decision: send the decisions by themselves, and the results after their answer"
            raise invalid_field(f"input.{results[0]}", problem)
    return Decisions(decisions=decisions, others=[items[index] for index in others])


def _take_last(items: Sequence[dict[str, object]]) -> range:
    """Return the positions of the decisions that an input ends with."""
    start = len(items)
    while start and items[start - 1].get("type") == _RESPONSE:
        start -= 1
    return range(start, len(items))


def _check_not_followed(items: Sequence[dict[str, object]]) -> None:
    """Raise Invalid if nothing but the user's messages comes after a decision: no run has used it."""
    last = next((index for index in range(len(items) - 1, -1, -1) if items[index].get("role") != "user"), -1)
    if last >= 0 and items[last].get("type") == _RESPONSE:
        problem = "comes after a decision: end the input with the decision, and send the message after its answer"
        raise invalid_field(f"input.{last + 1}", problem)


def _read_decision(index: int, item: dict[str, object]) -> ApprovalDecision:
    request_id, approve, reason = item.get("approval_request_id"), item.get("approve"), item.get("reason") or ""
    if not isinstance(request_id, str) or not isinstance(approve, bool) or not isinstance(reason, str):
        raise invalid_field(f"input.{index}", "needs an approval_request_id, and approve as true or false")
    call_id = f"call_{request_id.removeprefix(APPROVAL_ID_PREFIX)}"
    return ApprovalDecision(call_id=call_id, approve=approve, reason=reason[:MAX_REASON_CHARS])


def check_same_conversation(decisions: Sequence[ApprovalDecision], conversation: str) -> None:
    """Raise Invalid if a message comes with a decision about another conversation than the one it goes on in."""
    if any(parse_call_id(decision.call_id)[0] != conversation for decision in decisions):
        raise invalid_field("input", "decides a call of another response: send the decision by itself")


async def decide_calls(
    service: Service, decisions: Sequence[ApprovalDecision], context: RequestContext
) -> DecidedRun | None:
    """Decide calls and return their run; None if no call of the caller has such an id.

    Raise Forbidden for a call that the caller sees and may not decide here.
    """
    parsed_ids = [parse_call_id(decision.call_id) for decision in decisions]
    conversation, call_id = parsed_ids[0]
    if any(parsed[0] != conversation for parsed in parsed_ids):
        raise invalid_field("input", "decides calls of several responses: send one request for each")
    if not conversation or not await _may_decide(service, conversation, context.caller):
        return None
    run = await _find_run(service, conversation, call_id)
    if not run:
        return None
    for decision, (_, own_id) in zip(decisions, parsed_ids, strict=True):
        by, trace = context.caller, context.correlation_id
        kind = Approve if decision.approve else Deny
        command = kind(by=by, correlation_id=trace, call_id=own_id, reason=decision.reason)
        with suppress(Refused):  # it was decided before, or has expired: the run tells
            await service.conversations.submit(conversation, command)
    return DecidedRun(conversation=conversation, run_id=run)


async def _may_decide(service: Service, conversation: str, caller: Caller) -> bool:
    """Return whether the run is the caller's own: the answer shows all of it, which an approver need not see."""
    try:
        await service.conversations.require(conversation, caller)
    except NotFound:
        with suppress(NotFound):
            await service.conversations.require(conversation, caller, "see")
            raise Forbidden("the run is another user's: decide its calls with POST …/calls/ID/approve") from None
        return False
    return True


async def _find_run(service: Service, conversation: str, call_id: str) -> str:
    """Return the run of a call; empty if there is none."""
    entries = await service.conversations.read_entries(conversation)
    judged = (entry for entry in entries if isinstance(entry.event, CallJudged) and entry.event.call_id == call_id)
    return next((entry.run for entry in judged), "")
