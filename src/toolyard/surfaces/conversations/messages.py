"""`/conversations/{id}/messages`: list, add and delete messages, without starting a run."""

from collections.abc import Sequence
from typing import Annotated

from litestar import Response, delete, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody, QueryParameter
from msgspec import Struct

from toolyard.core.conversation.commands import AddMessage, RemoveMessage
from toolyard.core.conversation.events import MessageAdded
from toolyard.core.errors import NotFound
from toolyard.core.items import Item, ModelText
from toolyard.core.store import RequestRecord
from toolyard.engine.service import Service
from toolyard.surfaces.conversations.added_messages import NewMessage, parse_new_message
from toolyard.surfaces.http.authorization import PathId, load_state
from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.http.idempotency import REPLAYED_HEADERS, read_request_key
from toolyard.surfaces.http.openapi import ERRORS
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context
from toolyard.surfaces.shared.chat_messages import (
    ChatMessage,
    find_removable_items,
    group_items,
    to_message,
    to_messages,
)

MESSAGES_PATH = "/conversations/{conversation_id:str}/messages"


class MessageAnswer(Struct, kw_only=True):
    message: ChatMessage
    result_message: str
    success: bool = True


class MessageList(Struct, kw_only=True):
    """One page of messages, oldest first. `next` is the `after` of the next page, null on the last one."""

    messages: list[ChatMessage]
    count: int
    total: int
    next: str | None
    success: bool = True


class MessageDeleted(Struct, kw_only=True):
    """`deleted` lists the ids of all deleted messages: calls and their results are deleted together."""

    deleted: list[str]
    message: str
    success: bool = True


def routes(service: Service) -> list[HTTPRouteHandler]:
    @get(MESSAGES_PATH, responses=ERRORS, tags=["messages"])
    async def list_messages(
        request: HttpRequest,
        conversation_id: PathId,
        limit: Annotated[int, QueryParameter(ge=1, le=10_000)] = 1000,
        after: Annotated[str, QueryParameter(max_length=1000, description="The id of the last message seen")] = "",
    ) -> MessageList:
        """List messages, including calls and results, oldest first."""
        state = await load_state(service, conversation_id, get_request_context(request.scope).caller, "see")
        return build_page(state.full_history, limit, after)

    @post(MESSAGES_PATH, responses=ERRORS, tags=["messages"])
    async def add_message(
        request: HttpRequest, conversation_id: PathId, data: JSONBody[NewMessage]
    ) -> Response[MessageAnswer]:
        """Add a message without asking the model. Refused while a run is open.

        A tool's message needs an earlier call without a result. A call that still has none when the next message or
        request arrives gets a result that says so.
        """
        context = get_request_context(request.scope)
        state = await load_state(service, conversation_id, context.caller)
        key = await read_request_key(request)
        record = await service.conversations.find_request(key)
        if record is None:
            items = service.runs.redact_items(parse_new_message(data, state, service.clock))
            command = AddMessage(
                by=context.caller, correlation_id=context.correlation_id, request=key, items=items, may_open=False
            )
            record = await service.conversations.submit_once(conversation_id, command)
            if record is None:
                answer = MessageAnswer(message=build_last_message(state.history, items), result_message="Message added")
                return Response(answer, status_code=201)
        answer = await load_added_message(service, record)
        return Response(answer, status_code=201, headers=REPLAYED_HEADERS)

    @delete(f"{MESSAGES_PATH}/{{message_id:str}}", status_code=200, responses=ERRORS, tags=["messages"])
    async def delete_message(request: HttpRequest, conversation_id: PathId, message_id: PathId) -> MessageDeleted:
        """Delete a message: an assistant's together with its calls and their results, a tool's with its call."""
        context = get_request_context(request.scope)
        state = await load_state(service, conversation_id, context.caller)
        ids = find_removable_items(state.full_history, message_id)
        if not ids:
            raise NotFound(f"there is no message {message_id[:80]!r} in this conversation")
        before = [message.id for message in to_messages(state.full_history)]
        await service.conversations.submit(
            conversation_id, RemoveMessage(by=context.caller, correlation_id=context.correlation_id, ids=ids)
        )
        left = {message.id for message in to_messages((await service.conversations.view(conversation_id)).full_history)}
        return MessageDeleted(deleted=[id for id in before if id not in left], message="Message deleted")

    return [list_messages, add_message, delete_message]


async def load_added_message(service: Service, record: RequestRecord) -> MessageAnswer:
    """Return the message that an earlier request with the same key has added. Raise NotFound if it was deleted."""
    entry = await service.conversations.read_entry(record.conversation, record.seq)
    added = entry.event.item.id if entry and isinstance(entry.event, MessageAdded) else ""
    state = await service.conversations.view(record.conversation)
    # A rewind may have left the message on a branch.
    for path in (state.full_history, *(branch.history for branch in state.branches)):
        if path.contains_id(added):
            for group in group_items(path):
                if any(item.id == added for item in group):
                    return MessageAnswer(message=to_message(group), result_message="Message added")
    raise NotFound("the message that was added with this Idempotency-Key was deleted")


def build_page(items: Sequence[Item], limit: int, after: str) -> MessageList:
    groups = group_items(items)
    ids = [to_message(group).id for group in groups] if after else []
    if after and after not in ids:
        raise invalid_field("after", "there is no such message in this conversation")
    start = ids.index(after) + 1 if after else 0
    page = [to_message(group) for group in groups[start : start + limit]]
    more = start + limit < len(groups)
    return MessageList(messages=page, count=len(page), total=len(groups), next=page[-1].id if more else None)


def build_last_message(before: Sequence[Item], items: Sequence[Item]) -> ChatMessage:
    """Return the message that added items became: calls join the assistant's text right before them."""
    joined = [*before[-1:], *items] if before and isinstance(before[-1], ModelText) else items
    return to_message(group_items(joined)[-1])
