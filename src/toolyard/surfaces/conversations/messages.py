"""`/conversations/{id}/messages`: list, add and delete messages, without starting a run."""

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from litestar import Response, delete, get, post
from litestar.params import JSONBody, QueryParameter
from msgspec import Meta, Struct

from toolyard.core.conversation.commands import AddMessage, RemoveMessage
from toolyard.core.conversation.events import MessageAdded
from toolyard.core.conversation.history import History, find_trailing_calls
from toolyard.core.conversation.state import State
from toolyard.core.errors import Invalid, NotFound
from toolyard.core.items import (
    MAX_ID_CHARS,
    Call,
    Item,
    ModelText,
    Result,
    SystemText,
    TextPart,
    UserMessage,
    result_id,
)
from toolyard.core.ports import Clock
from toolyard.core.store import RequestRecord
from toolyard.core.tools.definition import NAME_PATTERN
from toolyard.core.tools.trust import APPLICATION, SENT_HISTORY
from toolyard.engine.service import Service
from toolyard.surfaces.http.authorization import PathId, load_state
from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.http.idempotency import REPLAYED_HEADERS, read_request_key
from toolyard.surfaces.http.openapi import ERRORS
from toolyard.surfaces.http.request_body import LenientBody
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context
from toolyard.surfaces.shared.chat_messages import (
    ChatMessage,
    ChatToolCall,
    MessageId,
    find_removable_items,
    group_items,
    is_message_id,
    parse_time,
    to_message,
    to_messages,
)

MAX_CALLS = 64


class NewMessage(LenientBody, Struct, kw_only=True):
    """A text message; an assistant's may have calls, and a tool's is the result of a call that has none yet."""

    role: Literal["user", "assistant", "system", "tool"]
    content: Annotated[str, Meta(max_length=1_000_000)] = ""
    tool_calls: Annotated[list[ChatToolCall], Meta(max_length=MAX_CALLS)] = []
    tool_call_id: Annotated[str, Meta(max_length=1000)] = ""
    """The `id` of the call, as it was sent or as the conversation lists it."""
    message_id: MessageId = ""
    """The id of the message's text. One that is in the conversation already is refused with 409."""
    id: object = None
    """The same for messages that are imported: one that is not valid, or used already, is replaced."""
    timestamp: object = None
    """When an imported message was written. One that is not a time, or in the future, is replaced by the current."""


def parse_new_message(message: NewMessage, state: State, clock: Clock) -> tuple[Item, ...]:
    """Return the items of a message. Raise Invalid for one that does not fit the history."""
    if message.tool_calls and message.role != "assistant":
        raise invalid_field("tool_calls", "are an assistant's: send them with the role assistant")
    at = parse_time(message.timestamp, clock.now())
    if message.role == "tool":
        return (_parse_result(message, state.history, at),)
    if not message.content and not message.tool_calls:
        raise invalid_field("content", "must not be empty" + " without tool_calls" * (message.role == "assistant"))
    text, item_id = message.content, message.message_id or _choose_id(message.id, state, clock)
    match message.role:
        case "user":
            return (UserMessage(id=item_id, at=at, parts=(TextPart(text=text),)),)
        case "system":
            return (SystemText(id=item_id, at=at, text=text),)
        case "assistant":
            texts = [ModelText(id=item_id, at=at, text=text, untrusted=SENT_HISTORY)] if text else []
            return (*texts, *_parse_calls(message.tool_calls, state, clock, at))


def _choose_id(message_id: object, state: State, clock: Clock) -> str:
    if is_message_id(message_id) and not state.find_used_ids({message_id}):
        return message_id
    return clock.new_id("item")


def _parse_calls(calls: Sequence[ChatToolCall], state: State, clock: Clock, at: float) -> list[Call]:
    sent = [call.id for call in calls]
    parsed: list[Call] = []
    for index, call in enumerate(calls):
        if not call.id or sent.index(call.id) < index:
            raise _invalid_call(index, "id", "must be there, and be another one for each call")
        if not NAME_PATTERN.fullmatch(call.function.name):
            raise _invalid_call(index, "function.name", "must be 1 to 64 letters, digits, underscores or hyphens")
        try:
            arguments = msgspec.json.decode(call.function.arguments or "{}", type=dict[str, object])
        except (msgspec.DecodeError, RecursionError):
            raise _invalid_call(index, "function.arguments", "must be a JSON object, written as a text") from None
        # A client's own id is kept if it is free, so that the client can refer to the call by it. The id of the call's
        # result is derived from it and must fit as well.
        is_taken = bool(state.find_used_ids({call.id}))
        is_long = len(result_id(call.id)) > MAX_ID_CHARS
        parsed.append(
            Call(
                id=clock.new_id("call") if is_taken or is_long or not NAME_PATTERN.fullmatch(call.id) else call.id,
                at=at,
                tool=call.function.name,
                arguments=arguments,
                provider_id=call.id,
            )
        )
    return parsed


def _parse_result(message: NewMessage, history: History, at: float) -> Result:
    waiting = find_trailing_calls(history)
    call = next((call for call in waiting if message.tool_call_id in (call.id, call.provider_id)), None)
    if call is None or not message.tool_call_id:
        open_ids = ", ".join(call.id for call in waiting) or "none; add the assistant's message with the call first"
        raise invalid_field("tool_call_id", f"answers no call that waits for its result. Those that do: {open_ids}")
    return Result(
        id=result_id(call.id),
        at=at,
        call_id=call.id,
        tool=call.tool,
        outcome="ok",
        content=message.content,
        untrusted=APPLICATION,
    )


def _invalid_call(index: int, field: str, why: str) -> Invalid:
    return invalid_field(f"tool_calls.{index}.{field}", why)


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


@get(MESSAGES_PATH, responses=ERRORS, tags=["messages"])
async def list_messages(
    request: HttpRequest,
    conversation_id: PathId,
    limit: Annotated[int, QueryParameter(ge=1, le=10_000)] = 1000,
    after: Annotated[str, QueryParameter(max_length=1000, description="The id of the last message seen")] = "",
) -> MessageList:
    """List messages, including calls and results, oldest first."""
    state = await load_state(request.backend.service, conversation_id, get_request_context(request.scope).caller, "see")
    return build_page(state.full_history, limit, after)


@post(MESSAGES_PATH, responses=ERRORS, tags=["messages"])
async def add_message(
    request: HttpRequest, conversation_id: PathId, data: JSONBody[NewMessage]
) -> Response[MessageAnswer]:
    """Add a message without asking the model. Refused while a run is open.

    A tool's message needs an earlier call without a result. A call that still has none when the next message or
    request arrives gets a result that says so.
    """
    service = request.backend.service
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
    service = request.backend.service
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


ROUTES = (list_messages, add_message, delete_message)


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
