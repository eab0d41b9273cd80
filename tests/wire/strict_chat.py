"""A Chat Completions server that is as strict as the strictest provider, answers by script, and keeps what it was sent.

It answers 400 to an orphaned call or result, arguments that are no JSON object, a bad or doubled tool name, a doubled
call id, an unknown key, and a tool message that does not follow its call.
"""

import json
import re
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from models.schema_dialects.dialect_rules import openai_faults
from wire.strict import Reply, Strict

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class _Strict(Struct, forbid_unknown_fields=True):
    pass


class _Part(Struct, forbid_unknown_fields=True, tag_field="type"):
    pass


class TextContent(_Part, tag="text"):
    text: str


class ImageUrl(_Strict):
    url: str


class ImageContent(_Part, tag="image_url"):
    image_url: ImageUrl


class FileData(_Strict):
    file_data: str
    filename: str


class FileContent(_Part, tag="file"):
    file: FileData


class CalledFunction(_Strict):
    name: str
    arguments: str


class ToolCall(_Strict):
    id: Annotated[str, Meta(min_length=1)]
    type: Literal["function"]
    function: CalledFunction


class _Message(Struct, forbid_unknown_fields=True, tag_field="role"):
    pass


class SystemMessage(_Message, tag="system"):
    content: str


class UserMessage(_Message, tag="user"):
    content: str | Annotated[list[TextContent | ImageContent | FileContent], Meta(min_length=1)]


class AssistantMessage(_Message, tag="assistant"):
    content: str | None
    tool_calls: Annotated[list[ToolCall], Meta(min_length=1)] | None = None


class ToolMessage(_Message, tag="tool"):
    tool_call_id: str
    content: str


class FunctionDefinition(_Strict):
    name: str
    parameters: dict[str, object]
    description: str = ""


class ToolDefinition(_Strict):
    type: Literal["function"]
    function: FunctionDefinition


class ChosenFunction(_Strict):
    name: str


class Choice(_Strict):
    type: Literal["function"]
    function: ChosenFunction


class StreamOptions(_Strict):
    include_usage: bool


Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage


class Body(_Strict):
    model: Annotated[str, Meta(min_length=1)]
    messages: Annotated[list[Message], Meta(min_length=1)]
    stream: Literal[True] | bool = False
    stream_options: StreamOptions | None = None
    tools: Annotated[list[ToolDefinition], Meta(min_length=1)] | None = None
    tool_choice: Literal["auto", "none", "required"] | Choice | None = None


def faults_of(body: bytes) -> list[str]:
    """Why a strict provider refuses this body; empty if it takes it."""
    try:
        asked = msgspec.json.decode(body, type=Body)
    except (msgspec.DecodeError, UnicodeError) as error:
        return [str(error)]
    return [*_message_faults(asked.messages), *_tool_faults(asked)]


def _message_faults(messages: Sequence[Message]) -> list[str]:
    found: list[str] = []
    seen: set[str] = set()
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if message.tool_call_id in waiting:
                waiting.remove(message.tool_call_id)
            else:
                found.append(f"the tool message for {message.tool_call_id!r} does not follow its call")
            continue
        found += [f"call {call_id!r} has no result before the next message" for call_id in waiting]
        calls = message.tool_calls or [] if isinstance(message, AssistantMessage) else []
        waiting = [call.id for call in calls]
        found += [f"call id {call_id!r} is used twice" for call_id in _doubles([*seen, *waiting])]
        seen.update(waiting)
        found += [fault for call in calls for fault in _call_faults(call)]
        if isinstance(message, AssistantMessage) and message.content is None and not calls:
            found.append("an assistant message needs content or tool_calls")
    return found + [f"call {call_id!r} has no result" for call_id in waiting]


def _call_faults(call: ToolCall) -> list[str]:
    found = [] if NAME.fullmatch(call.function.name) else [f"bad tool name {call.function.name!r} in a call"]
    try:
        if not isinstance(json.loads(call.function.arguments), dict):
            found.append("arguments are not an object")
    except ValueError:
        found.append("arguments are not JSON")
    return found


def _tool_faults(asked: Body) -> list[str]:
    names = [tool.function.name for tool in asked.tools or ()]
    found = [f"bad tool name {name!r}" for name in names if not NAME.fullmatch(name)]
    found += [f"tool name {name!r} is used twice" for name in _doubles(names)]
    found += [fault for tool in asked.tools or () for fault in openai_faults(tool.function.parameters)]
    if asked.tool_choice is not None and not names:
        found.append("tool_choice needs tools")
    if isinstance(asked.tool_choice, Choice) and asked.tool_choice.function.name not in names:
        found.append(f"tool_choice names {asked.tool_choice.function.name!r}, which is not offered")
    return found


def _doubles(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def says(*pieces: str) -> Reply:
    """A text, streamed in these pieces."""
    return Reply(packets=[*[_chunk({"content": piece}) for piece in pieces], _chunk({}, "stop"), _USAGE, _DONE])


def asks(*calls: tuple[str, object], text: str = "") -> Reply:
    """Calls by tool and arguments; arguments that are a text are sent as they are."""
    packets = [_chunk({"content": text})] if text else []
    for index, (tool, arguments) in enumerate(calls):
        written = arguments if isinstance(arguments, str) else json.dumps(arguments)
        begun = {"index": index, "id": f"call_{index}", "type": "function", "function": {"name": tool, "arguments": ""}}
        packets.append(_chunk({"tool_calls": [begun]}))
        packets.append(_chunk({"tool_calls": [{"index": index, "function": {"arguments": written}}]}))
    return Reply(packets=[*packets, _chunk({}, "tool_calls"), _USAGE, _DONE])


def _chunk(delta: object, finish: str | None = None) -> bytes:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return _event({"id": "c", "object": "chat.completion.chunk", "model": "strict-1", "choices": choices})


def _event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


_USAGE = _event({"id": "c", "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}})
_DONE = b"data: [DONE]\n\n"


class StrictChat(Strict):
    """Serves the replies in order; a request that is refused uses none up."""

    def __init__(self, *replies: Reply) -> None:
        super().__init__("/chat/completions", faults_of, *replies)

    @property
    def requests(self) -> list[Body]:
        return [msgspec.json.decode(body, type=Body) for body in self.bodies]
