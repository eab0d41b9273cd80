"""`/conversations/{id}/rewind` and `…/fork`: go back in a conversation, or go on from a place in a new one."""

from typing import Annotated

from litestar import Response, post
from litestar.params import JSONBody
from msgspec import Meta, Struct

from toolyard.core.conversation.commands import Rewind
from toolyard.surfaces.conversations.conversations import ConversationAnswer, load_answer
from toolyard.surfaces.http.authorization import PathId, load_state
from toolyard.surfaces.http.idempotency import REPLAYED_HEADERS, read_request_key
from toolyard.surfaces.http.openapi import ERRORS
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context

ItemId = Annotated[str, Meta(max_length=200)]


class RewindBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """The id of the message that is to be the last one; an empty id goes back to the beginning."""

    to: ItemId


class ForkBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """The id of a run or of a message to fork after; by default all messages are copied."""

    after: ItemId = ""


@post("/conversations/{conversation_id:str}/rewind", status_code=200, responses=ERRORS, tags=["branches"])
async def rewind(
    request: HttpRequest, conversation_id: PathId, data: JSONBody[RewindBody]
) -> Response[ConversationAnswer]:
    """Let the conversation end with an earlier message, or with a message of another branch.

    To edit a message, rewind to the one before it and send the new one; to have one answered again, rewind to it
    and send a chat without content. Nothing is deleted: the messages after it are a branch, to which the
    conversation can be rewound in turn. Refused while a run is open.
    """
    service = request.backend.service
    context = get_request_context(request.scope)
    await load_state(service, conversation_id, context.caller)
    key = await read_request_key(request)
    command = Rewind(by=context.caller, correlation_id=context.correlation_id, request=key, to=data.to)
    record = await service.conversations.submit_once(conversation_id, command)
    answer = await load_answer(service, request, conversation_id, "Conversation rewound")
    return Response(answer, headers=REPLAYED_HEADERS if record else {})


@post("/conversations/{conversation_id:str}/fork", responses=ERRORS, tags=["branches"])
async def fork(
    request: HttpRequest, conversation_id: PathId, data: JSONBody[ForkBody | None] = None
) -> Response[ConversationAnswer]:
    """Copy the messages, up to the end of a run or up to a message, to a new conversation, which names its origin.

    Settings and whole results are copied too; approvals that were given for the whole conversation are not.
    """
    service = request.backend.service
    context, target = get_request_context(request.scope), service.clock.new_id("conversation")
    record = await service.conversations.fork(
        conversation_id,
        target,
        context.caller,
        after=(data or ForkBody()).after,
        correlation_id=context.correlation_id,
        request=await read_request_key(request),
    )
    created = record.conversation if record else target
    answer = await load_answer(service, request, created, f"Conversation forked from {conversation_id!r}")
    return Response(answer, status_code=201, headers=REPLAYED_HEADERS if record else {})


ROUTES = (rewind, fork)
