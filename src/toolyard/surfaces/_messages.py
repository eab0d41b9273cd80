"""Items as chat messages and back: role, content, tool_calls, tool_call_id. It does not know any route."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from toolyard.core.errors import Invalid
from toolyard.core.items import (
    Call,
    Item,
    ModelText,
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


def to_messages(items: Iterable[Item]) -> list[Message]:
    """Items as messages: the text and the calls of one turn are one assistant message."""
    messages: list[Message] = []
    for item in items:
        match item:
            case UserMessage():
                messages.append(_message(item, "user", content=item.text))
            case SystemText(text=text):
                messages.append(_message(item, "system", content=text))
            case ModelText(text=text):
                messages.append(_message(item, "assistant", content=text))
            case Call():
                _assistant(messages, item).append(_tool_call(item))
            case Result():
                messages.append(_message(item, "tool", content=item.content, tool_call_id=item.call_id, name=item.tool))
            case Reasoning():
                pass  # what the model thought is not a message
    return messages


def _assistant(messages: list[Message], call: Call) -> list[ToolCall]:
    """The calls of the assistant message that this one belongs to: the last, or a new one."""
    if not messages or messages[-1].role != "assistant":
        messages.append(_message(call, "assistant"))
    last = messages[-1]
    if last.tool_calls is None:
        last.tool_calls = []
    return last.tool_calls


def _tool_call(call: Call) -> ToolCall:
    arguments = msgspec.json.encode(call.arguments).decode()
    return ToolCall(id=call.id, function=CalledFunction(name=call.tool, arguments=arguments))


def _message(
    item: Item, role: str, *, content: str | None = None, tool_call_id: str | None = None, name: str | None = None
) -> Message:
    at = datetime.fromtimestamp(item.at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Message(id=item.id, role=role, timestamp=at, content=content, tool_call_id=tool_call_id, name=name)


def to_items(messages: Sequence[Message], mint: Mint) -> list[Item]:
    """Messages that a caller sent as items. Raises Invalid that names the index of one that cannot be."""
    items: list[Item] = []
    open_calls: dict[str, Call] = {}
    for index, message in enumerate(messages):
        if open_calls and message.role != "tool":
            raise _wrong(index, f"the calls {', '.join(open_calls)} before it have no result")
        for item in _items(index, message, mint, open_calls):
            items.append(item)
            if isinstance(item, Call):
                open_calls[item.provider_id] = item
    if open_calls:
        raise _wrong(len(messages) - 1, f"the calls {', '.join(open_calls)} have no result")
    return items


def _items(index: int, message: Message, mint: Mint, open_calls: dict[str, Call]) -> Iterator[Item]:
    at, content = mint.now(), message.content or ""
    match message.role:
        case "user":
            yield UserMessage(id=mint.id("item"), at=at, parts=(TextPart(text=content),))
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
