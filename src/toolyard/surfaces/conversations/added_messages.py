"""Parse a message that a client adds to a conversation without asking the model."""

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from toolyard.core.conversation.history import History, find_trailing_calls
from toolyard.core.conversation.state import State
from toolyard.core.errors import Invalid
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
from toolyard.core.tools.definition import NAME_PATTERN
from toolyard.core.tools.trust import APPLICATION, SENT_HISTORY
from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.http.request_body import LenientBody
from toolyard.surfaces.shared.chat_messages import ChatToolCall, MessageId, is_message_id, parse_time

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
