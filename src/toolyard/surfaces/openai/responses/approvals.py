"""Approvals as items of responses: `mcp_approval_request`, and the client's `mcp_approval_response`.

The response decides the call as its caller would with `/approve` or `/deny`, and is answered with the run as it goes
on. A decision that comes again changes nothing: it is answered with the run as it is.
"""

from collections.abc import Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.commands import Approve, Deny
from toolyard.core.errors import Forbidden, NotFound, Refused
from toolyard.core.events import CallJudged
from toolyard.core.run_view import RunView
from toolyard.engine.service import Service, StartedRun
from toolyard.surfaces.call_ids import encode_call_id, parse_call_id
from toolyard.surfaces.errors import invalid_field
from toolyard.surfaces.openai.current_run import follow_run
from toolyard.surfaces.openai.responses.output import OutputItem
from toolyard.surfaces.request_context import RequestContext

MAX_REASON_CHARS = 2_000
_ID_PREFIX = "mcpr_"
_APPROVAL_ITEMS = ("mcp_approval_request", "mcp_approval_response")


class ApprovalDecision(Struct, frozen=True, kw_only=True):
    call_id: str
    """The id of the call as it was handed out: it names the conversation as well."""
    approve: bool
    reason: str = ""


def list_approval_requests(view: RunView, label: str) -> list[OutputItem]:
    """Return an item for each call of a waiting run that a person has to approve."""
    return [
        {
            "id": _ID_PREFIX + encode_call_id(view.conversation, call.call.id).removeprefix("call_"),
            "type": "mcp_approval_request",
            "server_label": label,
            "name": call.call.tool,
            "arguments": msgspec.json.encode(call.arguments).decode(),
        }
        for call in (view.open_calls if view.status == "waiting" else ())
        if call.awaited == "approval"
    ]


def read_decisions(items: Sequence[dict[str, object]]) -> list[ApprovalDecision]:
    """Return the decisions that an input ends with. Earlier ones are history, which the run of their time has used."""
    decisions: list[ApprovalDecision] = []
    for index in range(len(items) - 1, -1, -1):
        item = items[index]
        if item.get("type") != "mcp_approval_response":
            break
        request_id, approve, reason = item.get("approval_request_id"), item.get("approve"), item.get("reason") or ""
        if not isinstance(request_id, str) or not isinstance(approve, bool) or not isinstance(reason, str):
            raise invalid_field(f"input.{index}", "needs an approval_request_id, and approve as true or false")
        call_id = f"call_{request_id.removeprefix(_ID_PREFIX)}"
        decisions.insert(0, ApprovalDecision(call_id=call_id, approve=approve, reason=reason[:MAX_REASON_CHARS]))
    return decisions


def is_only_approvals(items: Sequence[dict[str, object]]) -> bool:
    return all(item.get("type") in _APPROVAL_ITEMS for item in items)


async def decide_calls(
    service: Service, decisions: Sequence[ApprovalDecision], context: RequestContext
) -> StartedRun | None:
    """Decide calls and follow their run from its start; None if no call of the caller has such an id.

    Raise Forbidden for a call that the caller sees and may not decide here.
    """
    places = [parse_call_id(decision.call_id) for decision in decisions]
    conversation, call_id = places[0]
    if any(place[0] != conversation for place in places):
        raise invalid_field("input", "decides calls of several responses: send one request for each")
    if not conversation or not await _may_decide(service, conversation, context.caller):
        return None
    run = await _find_run(service, conversation, call_id)
    if not run:
        return None
    for decision, (_, own_id) in zip(decisions, places, strict=True):
        by, trace = context.caller, context.correlation_id
        command = (
            Approve(by=by, correlation_id=trace, call_id=own_id)
            if decision.approve
            else Deny(by=by, correlation_id=trace, call_id=own_id, reason=decision.reason)
        )
        with suppress(Refused):  # it was decided before, or has expired: the run tells
            await service.submit(conversation, command)
    return await follow_run(service, conversation, run)


async def _may_decide(service: Service, conversation: str, caller: Caller) -> bool:
    """Return whether the run is the caller's own: the answer shows all of it, which an approver need not see."""
    try:
        await service.require_conversation(conversation, caller)
    except NotFound:
        with suppress(NotFound):
            await service.require_conversation(conversation, caller, "see")
            raise Forbidden("the run is another user's: decide its calls with POST …/calls/ID/approve") from None
        return False
    return True


async def _find_run(service: Service, conversation: str, call_id: str) -> str:
    """Return the run of a call; empty if there is none."""
    entries = await service.read_entries(conversation)
    judged = (entry for entry in entries if isinstance(entry.event, CallJudged) and entry.event.call_id == call_id)
    return next((entry.run for entry in judged), "")
