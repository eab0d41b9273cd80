"""`/conversations/{id}/calls/{call_id}/…`: approve or deny a call, answer its question, or send its result.

The id is that of the log, or the one that the application and links have (`call_ids`).

Each is accepted once: a second or late one, or one that the call does not wait for, is refused.
"""

from collections.abc import Awaitable

from litestar import get, post
from litestar.params import JSONBody
from msgspec import UNSET, Struct, UnsetType

from toolyard.core.caller import Caller
from toolyard.core.conversation.approvals import count_remaining
from toolyard.core.conversation.commands import Answer, Approve, Deny
from toolyard.core.conversation.events import CallJudged, Remember, Reply
from toolyard.core.conversation.state import State
from toolyard.core.errors import NotFound, Refused
from toolyard.core.items import Call, get_program_id
from toolyard.engine.service import Service
from toolyard.surfaces.http.authorization import PathId, load_state, require_admin
from toolyard.surfaces.http.openapi import ERRORS
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context
from toolyard.surfaces.shared.call_ids import parse_call_id
from toolyard.surfaces.shared.client_tools import ClientToolError, LongText, parse_client_result

CALL_PATH = "/conversations/{conversation_id:str}/calls/{call_id:str}"


class ApproveBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """`arguments` replaces the model's; `remember` approves further calls of this tool, or all of this conversation.

    `reason` is kept with the decision; a tool with `approval_reason` requires it.
    """

    arguments: dict[str, object] | None = None
    remember: Remember = "no"
    reason: LongText = ""


class DenyBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """`reason` is shown to the model."""

    reason: LongText = ""


class AnswerBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """`content` holds the fields of the question's form; a reply other than `accepted` needs none."""

    content: dict[str, object] = {}
    reply: Reply = "accepted"


class ResultBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """Either the result, any JSON, or the error: a message, or an object with its type and details."""

    result: object = UNSET
    error: LongText | ClientToolError | UnsetType = UNSET


class CallAnswer(Struct, kw_only=True):
    call_id: str
    message: str
    remaining: int = 0
    """How many more approvals the call needs before it runs."""
    success: bool = True


class OriginalResult(Struct, kw_only=True):
    call_id: str
    content: str
    success: bool = True


@post(f"{CALL_PATH}/approve", status_code=200, responses=ERRORS, tags=["calls"])
async def approve(
    request: HttpRequest, conversation_id: PathId, call_id: PathId, data: JSONBody[ApproveBody | None] = None
) -> CallAnswer:
    """Approve a call, optionally with other arguments, which are validated as the model's were."""
    service = request.backend.service
    call_id = parse_call_id(call_id)[1]
    context, decision = get_request_context(request.scope), data or ApproveBody()
    state = await load_state_to_decide(service, conversation_id, call_id, context.caller)
    command = Approve(
        by=context.caller,
        correlation_id=context.correlation_id,
        call_id=call_id,
        arguments=decision.arguments,
        remember=decision.remember,
        reason=decision.reason,
    )
    await submit_for_call(service.conversations.submit(conversation_id, command), state, call_id)
    remaining = await _count_remaining(service, conversation_id, call_id)
    message = f"Approval counted; {remaining} more needed" if remaining else "Call approved"
    return CallAnswer(call_id=call_id, message=message, remaining=remaining)


@post(f"{CALL_PATH}/deny", status_code=200, responses=ERRORS, tags=["calls"])
async def deny(
    request: HttpRequest, conversation_id: PathId, call_id: PathId, data: JSONBody[DenyBody | None] = None
) -> CallAnswer:
    """Deny a call. It does not run, and the model is told so."""
    service = request.backend.service
    call_id = parse_call_id(call_id)[1]
    context, reason = get_request_context(request.scope), data.reason if data else ""
    state = await load_state_to_decide(service, conversation_id, call_id, context.caller)
    command = Deny(by=context.caller, correlation_id=context.correlation_id, call_id=call_id, reason=reason)
    await submit_for_call(service.conversations.submit(conversation_id, command), state, call_id)
    return CallAnswer(call_id=call_id, message="Call denied")


@post(f"{CALL_PATH}/answer", status_code=200, responses=ERRORS, tags=["calls"])
async def answer(
    request: HttpRequest, conversation_id: PathId, call_id: PathId, data: JSONBody[AnswerBody]
) -> CallAnswer:
    """Answer the question that a call asks."""
    service = request.backend.service
    call_id = parse_call_id(call_id)[1]
    context = get_request_context(request.scope)
    state = await load_state(service, conversation_id, context.caller, "decide")
    command = Answer(
        by=context.caller,
        correlation_id=context.correlation_id,
        call_id=call_id,
        reply=data.reply,
        content=data.content,
    )
    await submit_for_call(service.conversations.submit(conversation_id, command), state, call_id)
    return CallAnswer(call_id=call_id, message="Question answered")


@post(f"{CALL_PATH}/result", status_code=200, responses=ERRORS, tags=["calls"])
async def result(
    request: HttpRequest, conversation_id: PathId, call_id: PathId, data: JSONBody[ResultBody]
) -> CallAnswer:
    """Send the result of a call that the application ran."""
    service = request.backend.service
    call_id = parse_call_id(call_id)[1]
    context, outcome = get_request_context(request.scope), parse_client_result(data.result, data.error, "result")
    state = await load_state(service, conversation_id, context.caller, "decide")
    await submit_for_call(service.runs.deliver(conversation_id, {call_id: outcome}, context.caller), state, call_id)
    return CallAnswer(call_id=call_id, message="Result received")


@get(f"{CALL_PATH}/original", responses=ERRORS, tags=["calls"])
async def get_original(request: HttpRequest, conversation_id: PathId, call_id: PathId) -> OriginalResult:
    """Get the result of a call as it was before `[redact]` replaced secrets in it. That needs the role admin."""
    service = request.backend.service
    call_id = parse_call_id(call_id)[1]
    caller = require_admin(request, "reading a result with its secrets")
    await load_state(service, conversation_id, caller, "see")
    body = await service.conversations.read_original(conversation_id, call_id)
    if body is None:
        raise NotFound(f"nothing was redacted in the result of the call {call_id[:80]!r}")
    await service.auditor.write("original.read", f"{conversation_id}/{call_id}", by=caller)
    return OriginalResult(call_id=call_id, content=body.decode())


ROUTES = (approve, deny, answer, result, get_original)


async def load_state_to_decide(service: Service, conversation: str, call_id: str, caller: Caller) -> State:
    """Return the state of a conversation for a caller who decides a call, if only as an approver that its terms name.

    Raise NotFound for anybody else, as for a conversation that does not exist.
    """
    try:
        return await load_state(service, conversation, caller, "decide")
    except NotFound:
        state = await service.conversations.view(conversation)
        if state.owner is None or state.owner.tenant != caller.tenant:
            raise
        # From the log, not from the state, so that an approver who comes too late is told that the call was decided.
        entries = await service.conversations.read_entries(conversation)
        judged = (entry.event for entry in entries if isinstance(entry.event, CallJudged))
        if any(event.call_id == call_id and event.terms and event.terms.names(caller) for event in judged):
            return state
        raise


async def _count_remaining(service: Service, conversation: str, call_id: str) -> int:
    call = (await service.conversations.view(conversation)).calls.get(call_id)
    return count_remaining(call) if call is not None and call.phase == "asking" else 0


async def submit_for_call(submission: Awaitable[object], state: State, call_id: str) -> None:
    """Await a command for a call. Raise Refused if the call does not wait for it, NotFound if there is no such call."""
    try:
        await submission
    except Refused:
        # The calls of a program that has ended are in the log only.
        ids = {call_id, get_program_id(call_id)}
        if call_id in state.calls or any(isinstance(item, Call) and item.id in ids for item in state.full_history):
            raise
        raise NotFound(f"there is no call {call_id[:80]!r} in this conversation") from None
