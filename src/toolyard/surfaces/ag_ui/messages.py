"""The messages of a conversation as AG-UI has them, and whether a client has the same. Pure.

A turn is one message of the assistant, whose id is made from the turn: a stream names it before the turn's items, which
have ids of their own, are known.
"""

import re
from collections.abc import Iterable, Sequence
from typing import cast

import msgspec
from msgspec import Struct

from toolyard.core.conversation.events import Entry, RunQueued, TurnEnded, TurnStarted
from toolyard.core.conversation.history import History
from toolyard.core.conversation.state import State
from toolyard.core.items import (
    Call,
    FilePart,
    ImagePart,
    Item,
    ModelText,
    Part,
    Reasoning,
    Result,
    SystemText,
    TextPart,
    UserMessage,
)
from toolyard.surfaces.ag_ui.parse import InputMessage, read_plain_text

MESSAGE_ID_FIELD = "messageId"
"""The field of a run's `client_fields` that holds the client's id of the message which it answers."""
_DATA_URL = re.compile(r"data:([^;,]+);base64,(.*)", re.DOTALL)
Message = dict[str, object]


def build_message_id(run_id: str, turn: int, starts: int) -> str:
    """Return the id of the assistant's message of a turn. One that started again has another: its text is another."""
    return f"{run_id}-{turn}" if starts == 1 else f"{run_id}-{turn}-{starts}"


def build_reasoning_id(message_id: str) -> str:
    return f"{message_id}-reasoning"


def list_message_ids(entries: Iterable[Entry]) -> dict[str, str]:
    """Return the ids of the messages that items belong to, by the ids of the items; others have the item's id."""
    ids: dict[str, str] = {}
    turns: dict[str, tuple[int, int]] = {}
    """The number of each run's current turn, and how often it started."""
    for entry in entries:
        match entry.event:
            case TurnStarted(number=number):
                last, starts = turns.get(entry.run, (0, 0))
                turns[entry.run] = (number, starts + 1 if number == last else 1)
            case TurnEnded(items=items):
                number, starts = turns.get(entry.run, (0, 1))
                message_id = build_message_id(entry.run, number, starts)
                ids |= {item.id: message_id for item in items if isinstance(item, ModelText | Call | Reasoning)}
            case RunQueued(input=(UserMessage(id=item_id),), client_fields={"messageId": str(client_id)}):
                ids[item_id] = client_id
            case _:
                pass
    return ids


def build_messages(state: State, message_ids: dict[str, str]) -> list[Message]:
    """Return all messages of a conversation, with the results of calls whose siblings still run."""
    messages: list[Message] = []
    # Results join the history when the last call of their turn has closed; a client has them before.
    early = [call.result for call in state.calls.values() if call.result is not None]
    for item in (*state.full_history, *early):
        _add_item(messages, item, message_ids.get(item.id, item.id))
    return messages


def _add_item(messages: list[Message], item: Item, message_id: str) -> None:
    match item:
        case UserMessage():
            messages.append({"id": message_id, "role": "user", "content": _build_content(item.parts)})
        case SystemText():
            messages.append({"id": message_id, "role": "system", "content": item.text})
        case Reasoning():
            _add_reasoning(messages, build_reasoning_id(message_id), item.text)
        case ModelText():
            message = _find_assistant(messages, message_id)
            message["content"] = f"{message.get('content', '')}{item.text}"
        case Call():
            function = {"name": item.tool, "arguments": msgspec.json.encode(item.arguments).decode()}
            message = _find_assistant(messages, message_id)
            calls = cast("list[Message]", message.setdefault("toolCalls", []))
            calls.append({"id": item.id, "type": "function", "function": function})
        case Result():
            messages.append({"id": item.id, "role": "tool", "content": item.content, "toolCallId": item.call_id})


def _add_reasoning(messages: list[Message], message_id: str, text: str) -> None:
    if messages and messages[-1]["id"] == message_id:
        messages[-1]["content"] = f"{messages[-1]['content']}{text}"
    elif text:  # a provider may sign reasoning that it does not show
        messages.append({"id": message_id, "role": "reasoning", "content": text})


def _find_assistant(messages: list[Message], message_id: str) -> Message:
    """Return the assistant's message with this id, a new one at the end if there is none."""
    for message in reversed(messages):
        if message["id"] == message_id:
            return message
        if message["role"] == "user":
            break
    messages.append({"id": message_id, "role": "assistant"})
    return messages[-1]


def _build_content(parts: Sequence[Part]) -> str | list[Message]:
    if all(isinstance(part, TextPart) for part in parts):
        return "".join(part.text for part in parts if isinstance(part, TextPart))
    return [_build_part(part) for part in parts]


def _build_part(part: Part) -> Message:
    match part:
        case TextPart(text=text):
            return {"type": "text", "text": text}
        case ImagePart(url=url):
            return {"type": "image", "source": _build_source(url)}
        case FilePart(url=url, name=name):
            return {"type": "document", "source": _build_source(url), **({"metadata": {"name": name}} if name else {})}


def _build_source(url: str) -> Message:
    if match := _DATA_URL.fullmatch(url):
        return {"type": "data", "value": match[2], "mimeType": match[1]}
    return {"type": "url", "value": url}


class Exchanged(Struct):
    """What was said after a message of the user, up to the next one."""

    question: str = ""
    """The text of that message."""
    texts: list[str] = []
    calls: set[str] = set()
    results: set[str] = set()


def has_same_messages(messages: Sequence[InputMessage], history: History) -> bool:
    """Return whether a client's messages are those of the history.

    The results of the last calls are not compared: the client may bring some, or lack those that came meanwhile. What
    a client shows before the first message of the user, a greeting for example, is its own.
    """
    sent, logged = _list_client_exchanges(messages), _list_exchanges(history)
    if len(sent) != len(logged):
        return False
    last = len(sent) - 1
    return all(
        mine.question == theirs.question
        and "".join(mine.texts) == "".join(theirs.texts)
        and mine.calls == theirs.calls
        and (index == last or mine.results == theirs.results)
        for index, (mine, theirs) in enumerate(zip(sent, logged, strict=True))
        if index > 0
    )


def _list_client_exchanges(messages: Sequence[InputMessage]) -> list[Exchanged]:
    exchanges = [Exchanged()]
    for message in messages:
        match message.role:
            case "user":
                exchanges.append(Exchanged(question=read_plain_text(message.content)))
            case "assistant":
                exchanges[-1].texts.append(read_plain_text(message.content))
                exchanges[-1].calls |= {call.id for call in message.tool_calls or ()}
            case "tool":
                exchanges[-1].results.add(message.tool_call_id or "")
            case _:
                pass
    return exchanges


def _list_exchanges(history: History) -> list[Exchanged]:
    exchanges = [Exchanged()]
    for item in history:
        match item:
            case UserMessage():
                has_only_text = all(isinstance(part, TextPart) for part in item.parts)
                exchanges.append(Exchanged(question=item.text if has_only_text else ""))
            case ModelText():
                exchanges[-1].texts.append(item.text)
            case Call():
                exchanges[-1].calls.add(item.id)
            case Result():
                exchanges[-1].results.add(item.call_id)
            case SystemText() | Reasoning():
                pass
    return exchanges
