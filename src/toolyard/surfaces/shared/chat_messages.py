"""Convert items to chat messages with role, content, tool_calls and tool_call_id."""

import asyncio
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, TypeGuard

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from toolyard.core.items import (
    ApprovalRecord,
    Call,
    Citation,
    Item,
    ModelText,
    Reasoning,
    Result,
    SystemText,
    UserMessage,
)

MAX_TITLE_CHARS = 60
MAX_SCANNED_CHARS = 1000
MAX_STEP_MESSAGES = 250
"""How many messages `to_messages_in_steps` builds before other tasks get their turn."""


def build_title(text: str) -> str:
    """Return the first words of a text on one line, with `…` if it is longer."""
    line = " ".join(text.lstrip()[:MAX_SCANNED_CHARS].split())
    if len(line) <= MAX_TITLE_CHARS:
        return line
    start = line[: MAX_TITLE_CHARS - 1]
    words = start.rpartition(" ")[0]
    return f"{words if len(words) > MAX_TITLE_CHARS // 2 else start}…"  # some languages have no spaces


MESSAGE_ID_PATTERN = r"^(?!\.{1,2}\Z)[A-Za-z0-9_.:~-]{0,64}\Z"
MessageId = Annotated[str, Meta(max_length=64, pattern=MESSAGE_ID_PATTERN)]
"""The id of a message that its client chose; empty for one of ours. It is part of paths, where `.` and `..` are not."""


_message_id = re.compile(MESSAGE_ID_PATTERN)


def is_message_id(value: object) -> TypeGuard[str]:
    """Return whether a client's id of a message, which may be anything, can be used."""
    return isinstance(value, str) and bool(value) and _message_id.match(value) is not None


class ChatFunctionCall(Struct, gc=False, kw_only=True):
    name: str
    arguments: str = "{}"


class ChatToolCall(Struct, gc=False, kw_only=True):
    id: str
    function: ChatFunctionCall
    type: str = "function"


class ChatMessage(Struct, gc=False, kw_only=True):
    """A chat message, in requests and responses."""

    role: str
    content: str | None = None
    id: str = ""
    timestamp: str = ""
    tool_calls: list[ChatToolCall] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    citations: list[Citation] | UnsetType = UNSET
    """The sources of the content, if the provider names them."""
    decisions: list[ApprovalRecord] | UnsetType = UNSET
    """Who approved or denied the call that the message is the result of, and why. The model is not told."""


def to_messages(items: Iterable[Item]) -> list[ChatMessage]:
    """Return the items as messages: the text and the calls of one turn are one assistant message."""
    return [to_message(group) for group in group_items(items)]


async def to_messages_in_steps(items: Iterable[Item]) -> list[ChatMessage]:
    """Return what `to_messages` does, and let other tasks run in between: a conversation may be long."""
    messages: list[ChatMessage] = []
    groups = group_items(items)
    for start in range(0, len(groups), MAX_STEP_MESSAGES):
        if len(groups) > MAX_STEP_MESSAGES:
            await asyncio.sleep(0)
        messages += map(to_message, groups[start : start + MAX_STEP_MESSAGES])
    return messages


def group_items(items: Iterable[Item]) -> list[list[Item]]:
    """Return the items of each message: the reasoning, text and calls of one turn belong together."""
    groups: list[list[Item]] = []
    reasoning: list[Item] = []
    for item in items:
        if type(item) is Reasoning:
            reasoning.append(item)
            continue
        if type(item) is Call and groups and type(groups[-1][-1]) in _JOINED_BY_CALLS:
            groups[-1] += [*reasoning, item]
        elif type(item) is ModelText or type(item) is Call:
            groups.append([*reasoning, item])
        else:
            groups.append([item])
        reasoning = []
    return groups


def to_message(group: Sequence[Item]) -> ChatMessage:
    """Return the items of one group as a message, without the model's reasoning."""
    first = next(item for item in group if type(item) is not Reasoning)
    message = ChatMessage(id=first.id, role=_ROLES[type(first)], timestamp=to_iso_time(first.at))
    for item in group:
        if type(item) is ModelText:
            message.content = item.text
            message.citations = list(item.citations) or UNSET
        elif type(item) is Call:
            message.tool_calls = [*(message.tool_calls or ()), _build_tool_call(item)]
        elif type(item) is Result:
            message.content, message.tool_call_id, message.name = item.content, item.call_id, item.tool
            message.decisions = list(item.decisions) or UNSET
        elif type(item) is not Reasoning:
            message.content = item.text
    return message


_JOINED_BY_CALLS = frozenset({ModelText, Call})
_ROLES: dict[type[Item], str] = {
    UserMessage: "user",
    SystemText: "system",
    ModelText: "assistant",
    Call: "assistant",
    Result: "tool",
}


def find_removable_items(items: Iterable[Item], message_id: str) -> frozenset[str]:
    """Return the ids of the items to remove with a message; none if there is no such message.

    For a result it is the result alone if its assistant message has other content, else all items of that message. The
    engine removes a call together with its result.
    """
    groups = group_items(items)
    group = next((group for group in groups if to_message(group).id == message_id), list[Item]())
    if group and isinstance(group[0], Result):
        call_id = group[0].call_id
        call_group = next((group for group in groups if any(item.id == call_id for item in group)), list[Item]())
        remaining = [item for item in call_group if item.id != call_id and not isinstance(item, Reasoning)]
        return frozenset({message_id}) if remaining else frozenset(item.id for item in call_group)
    return frozenset(item.id for item in group)


def to_iso_time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_time(timestamp: object, now: float) -> float:
    """Return the time of a client's message; the current one for a text that is no time, or one that cannot be."""
    if not isinstance(timestamp, str) or not timestamp:
        return now
    try:
        parsed = datetime.fromisoformat(timestamp)
        at = (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return now
    return at if 0 < at <= now else now


def _build_tool_call(call: Call) -> ChatToolCall:
    arguments = msgspec.json.encode(call.arguments).decode()
    return ChatToolCall(id=call.id, function=ChatFunctionCall(name=call.tool, arguments=arguments))
