"""Items as chat messages and back: role, content, tool_calls, tool_call_id. It does not know any route."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import UNSET, Struct, UnsetType

from toolyard.core.errors import Invalid
from toolyard.core.items import (
    Call,
    Citation,
    Item,
    ModelText,
    Part,
    Reasoning,
    Result,
    SystemText,
    TextPart,
    UserMessage,
    result_id,
)
from toolyard.core.ports import Mint


class CalledFunction(Struct, kw_only=True):
    name: str
    arguments: str = "{}"


class ToolCall(Struct, kw_only=True):
    id: str
    function: CalledFunction
    type: str = "function"


class Message(Struct, kw_only=True):
    """One chat message, in and out."""

    role: str
    content: str | None = None
    id: str = ""
    timestamp: str = ""
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    citations: list[Citation] | UnsetType = UNSET
    """Where the content comes from, if its provider told."""


class PartedMessage(Message, kw_only=True):
    """A user's message that is more than a text, on its way in."""

    parts: tuple[Part, ...]


def to_messages(items: Iterable[Item]) -> list[Message]:
    """Items as messages: the text and the calls of one turn are one assistant message."""
    return [told(group) for group in grouped(items)]


def grouped(items: Iterable[Item]) -> list[list[Item]]:
    """The items that make up each message: what the model thought, said and called in one turn belongs together."""
    groups: list[list[Item]] = []
    thought: list[Item] = []
    for item in items:
        match item:
            case Reasoning():
                thought.append(item)
                continue
            case Call() if groups and isinstance(groups[-1][-1], ModelText | Call):
                groups[-1] += [*thought, item]
            case ModelText() | Call():
                groups.append([*thought, item])
            case UserMessage() | SystemText() | Result():
                groups.append([item])
        thought = []
    return groups


def told(group: Sequence[Item]) -> Message:
    """One message. What the model thought is no part of it."""
    first = next(item for item in group if not isinstance(item, Reasoning))
    message = Message(id=first.id, role=_ROLES[type(first)], timestamp=iso(first.at))
    for item in group:
        match item:
            case UserMessage() | SystemText():
                message.content = item.text
            case ModelText():
                message.content = item.text
                message.citations = list(item.citations) or UNSET
            case Call():
                message.tool_calls = [*(message.tool_calls or ()), _tool_call(item)]
            case Result():
                message.content, message.tool_call_id, message.name = item.content, item.call_id, item.tool
            case Reasoning():
                pass
    return message


_ROLES: dict[type[Item], str] = {
    UserMessage: "user",
    SystemText: "system",
    ModelText: "assistant",
    Call: "assistant",
    Result: "tool",
}


def removable(items: Iterable[Item], message_id: str) -> frozenset[str]:
    """The items that go with a message, none if there is no such message. A call's result goes where the call goes."""
    groups = grouped(items)
    group = next((group for group in groups if told(group).id == message_id), list[Item]())
    if group and isinstance(group[0], Result):
        call_id = group[0].call_id
        asking = next((group for group in groups if any(item.id == call_id for item in group)), list[Item]())
        left = [item for item in asking if item.id != call_id and not isinstance(item, Reasoning)]
        return frozenset({message_id}) if left else frozenset(item.id for item in asking)
    return frozenset(item.id for item in group)


def iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _tool_call(call: Call) -> ToolCall:
    arguments = msgspec.json.encode(call.arguments).decode()
    return ToolCall(id=call.id, function=CalledFunction(name=call.tool, arguments=arguments))


def to_items(messages: Sequence[Message], mint: Mint, first: int = 0) -> list[Item]:
    """Messages that a caller sent as items. Raises Invalid that names the index of one that cannot be.

    `first` is the index of the first one in what the caller sent.
    """
    items: list[Item] = []
    open_calls: dict[str, Call] = {}
    for index, message in enumerate(messages, first):
        if open_calls and message.role != "tool":
            raise _wrong(index, f"the calls {', '.join(open_calls)} before it have no result")
        for item in _items(index, message, mint, open_calls):
            items.append(item)
            if isinstance(item, Call):
                if item.provider_id in open_calls:
                    raise _wrong(index, f"two calls have the id {item.provider_id[:80]!r}")
                open_calls[item.provider_id] = item
    if open_calls:
        raise _wrong(first + len(messages) - 1, f"the calls {', '.join(open_calls)} have no result")
    return items


def _items(index: int, message: Message, mint: Mint, open_calls: dict[str, Call]) -> Iterator[Item]:
    at, content = mint.now(), message.content or ""
    match message.role:
        case "user":
            parts = message.parts if isinstance(message, PartedMessage) else (TextPart(text=content),)
            yield UserMessage(id=mint.id("item"), at=at, parts=parts)
        case "system" | "developer":
            yield SystemText(id=mint.id("item"), at=at, text=content)
        case "assistant":
            if content:
                yield ModelText(id=mint.id("item"), at=at, text=content)
            for call in message.tool_calls or ():
                arguments = _arguments(index, call.function.arguments)
                yield Call(id=mint.id("call"), at=at, tool=call.function.name, arguments=arguments, provider_id=call.id)
        case "tool":
            call = open_calls.pop(message.tool_call_id or "", None)
            if call is None:
                raise _wrong(index, f"tool_call_id {message.tool_call_id!r} answers no call before it")
            yield Result(id=result_id(call.id), at=at, call_id=call.id, tool=call.tool, outcome="ok", content=content)
        case _:
            raise _wrong(index, f"role {message.role[:40]!r} is none of user, assistant, system, tool")


def _arguments(index: int, text: str) -> dict[str, object]:
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, object])
    except (msgspec.DecodeError, RecursionError):
        raise _wrong(index, "the arguments of a call are not a JSON object") from None


def _wrong(index: int, why: str) -> Invalid:
    return Invalid(f"message {index}: {why}", {"fields": [{"key": f"messages.{index}", "message": why}]})
