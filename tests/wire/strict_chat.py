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

from models.schema_dialects.dialect_rules import openai_faults, strict_faults
from wire.strict import Reply, StrictServer

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class _ChatStruct(Struct, forbid_unknown_fields=True):
    pass


class _ChatPart(Struct, forbid_unknown_fields=True, tag_field="type"):
    pass


class TextContent(_ChatPart, tag="text"):
    text: str


class ImageUrl(_ChatStruct):
    url: str


class ImageContent(_ChatPart, tag="image_url"):
    image_url: ImageUrl


class ChatFileData(_ChatStruct):
    file_data: str
    filename: str


class FileContent(_ChatPart, tag="file"):
    file: ChatFileData


class CalledFunction(_ChatStruct):
    name: str
    arguments: str


class StrictChatToolCall(_ChatStruct):
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
    tool_calls: Annotated[list[StrictChatToolCall], Meta(min_length=1)] | None = None


class ToolMessage(_Message, tag="tool"):
    tool_call_id: str
    content: str


class FunctionDefinition(_ChatStruct):
    name: str
    parameters: dict[str, object]
    description: str = ""


class ToolDefinition(_ChatStruct):
    type: Literal["function"]
    function: FunctionDefinition


class ChosenFunction(_ChatStruct):
    name: str


class ChatToolChoice(_ChatStruct):
    type: Literal["function"]
    function: ChosenFunction


class StreamOptions(_ChatStruct):
    include_usage: bool


Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage


class OutputSchema(_ChatStruct):
    name: Annotated[str, Meta(pattern="^[a-zA-Z0-9_-]{1,64}$")]
    schema: dict[str, object]
    strict: bool


class SchemaFormat(_ChatPart, tag="json_schema"):
    json_schema: OutputSchema


class JsonFormat(_ChatPart, tag="json_object"):
    pass


class Prediction(_ChatStruct):
    type: Literal["content"]
    content: str | Annotated[list[TextContent], Meta(min_length=1)]


Penalty = Annotated[float, Meta(ge=-2, le=2)]
Metadata = Annotated[
    dict[Annotated[str, Meta(max_length=64)], Annotated[str, Meta(max_length=512)]], Meta(max_length=16)
]
REASONS = re.compile(r"(?:^|/)(o\d|gpt-5(?!.*chat))")
REFUSED_BY_REASONING = (
    "frequency_penalty",
    "presence_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "prediction",
)


class StrictChatBody(_ChatStruct):
    model: Annotated[str, Meta(min_length=1)]
    messages: Annotated[list[Message], Meta(min_length=1)]
    stream: Literal[True] | bool = False
    stream_options: StreamOptions | None = None
    tools: Annotated[list[ToolDefinition], Meta(min_length=1)] | None = None
    tool_choice: Literal["auto", "none", "required"] | ChatToolChoice | None = None
    parallel_tool_calls: bool | None = None
    max_completion_tokens: Annotated[int, Meta(ge=1)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    stop: Annotated[list[str], Meta(min_length=1, max_length=4)] | None = None
    seed: int | None = None
    response_format: SchemaFormat | JsonFormat | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    logit_bias: dict[str, Annotated[float, Meta(ge=-100, le=100)]] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    service_tier: Literal["auto", "default", "flex", "scale", "priority"] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    metadata: Metadata | None = None
    store: bool | None = None
    prediction: Prediction | None = None


def faults_of(body: bytes) -> list[str]:
    """Return why a strict provider refuses this body; empty if it accepts it."""
    try:
        request_body = msgspec.json.decode(body, type=StrictChatBody)
    except (msgspec.DecodeError, UnicodeError) as error:
        return [str(error)]
    faults = [*_message_faults(request_body.messages), *_tool_faults(request_body), *_option_faults(request_body)]
    match request_body.response_format:
        case SchemaFormat(json_schema=output):
            return [*faults, *(strict_faults if output.strict else openai_faults)(output.schema)]
        case JsonFormat() if not any("json" in str(message.content).lower() for message in request_body.messages):
            return [*faults, "'messages' must contain the word 'json' to use 'response_format' of type 'json_object'"]
        case _:
            return faults


def _message_faults(messages: Sequence[Message]) -> list[str]:
    faults: list[str] = []
    seen: set[str] = set()
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if message.tool_call_id in waiting:
                waiting.remove(message.tool_call_id)
            else:
                faults.append(f"the tool message for {message.tool_call_id!r} does not follow its call")
            continue
        faults += [f"call {call_id!r} has no result before the next message" for call_id in waiting]
        calls = message.tool_calls or [] if isinstance(message, AssistantMessage) else []
        waiting = [call.id for call in calls]
        faults += [f"call id {call_id!r} is used twice" for call_id in _find_duplicates([*seen, *waiting])]
        seen.update(waiting)
        faults += [fault for call in calls for fault in _call_faults(call)]
        if isinstance(message, AssistantMessage) and message.content is None and not calls:
            faults.append("an assistant message needs content or tool_calls")
    return faults + [f"call {call_id!r} has no result" for call_id in waiting]


def _call_faults(call: StrictChatToolCall) -> list[str]:
    faults = [] if NAME.fullmatch(call.function.name) else [f"bad tool name {call.function.name!r} in a call"]
    try:
        if not isinstance(json.loads(call.function.arguments), dict):
            faults.append("arguments are not an object")
    except ValueError:
        faults.append("arguments are not JSON")
    return faults


def _tool_faults(request_body: StrictChatBody) -> list[str]:
    names = [tool.function.name for tool in request_body.tools or ()]
    faults = [f"bad tool name {name!r}" for name in names if not NAME.fullmatch(name)]
    faults += [f"tool name {name!r} is used twice" for name in _find_duplicates(names)]
    faults += [fault for tool in request_body.tools or () for fault in openai_faults(tool.function.parameters)]
    if request_body.tool_choice is not None and not names:
        faults.append("tool_choice needs tools")
    if request_body.parallel_tool_calls is not None and not names:
        faults.append("'parallel_tool_calls' is only allowed when 'tools' are specified")
    if isinstance(request_body.tool_choice, ChatToolChoice) and request_body.tool_choice.function.name not in names:
        faults.append(f"tool_choice names {request_body.tool_choice.function.name!r}, which is not offered")
    return faults


def _option_faults(request_body: StrictChatBody) -> list[str]:
    faults: list[str] = []
    if REASONS.search(request_body.model):
        set_names = [name for name in REFUSED_BY_REASONING if getattr(request_body, name) is not None]
        faults += [f"Unsupported parameter: {name!r} is not supported with this model." for name in set_names]
    elif request_body.model.startswith("gpt-4") and request_body.verbosity not in (None, "medium"):
        faults.append("Unsupported value: 'verbosity' is not supported with this model. Supported values: 'medium'.")
    if request_body.top_logprobs is not None and not request_body.logprobs:
        faults.append("'top_logprobs' needs 'logprobs'")
    if request_body.metadata is not None and not request_body.store:
        faults.append("The 'metadata' parameter is only allowed when 'store' is enabled.")
    return faults


def _find_duplicates(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def says(*pieces: str) -> Reply:
    """A text, streamed in these pieces."""
    return Reply(packets=[*[_chunk({"content": piece}) for piece in pieces], _chunk({}, "stop"), _USAGE, _DONE])


def says_with_logprobs(*pieces: str) -> Reply:
    """A text, streamed in these pieces, each a token with its probability."""
    packets: list[bytes] = []
    for piece in pieces:
        token = {"token": piece, "logprob": -0.5, "bytes": list(piece.encode()), "top_logprobs": []}
        logprobs = {"content": [token], "refusal": None}
        choice = {"index": 0, "delta": {"content": piece}, "logprobs": logprobs, "finish_reason": None}
        packets.append(_event({"id": "c", "model": "strict-1", "choices": [choice]}))
    return Reply(packets=[*packets, _chunk({}, "stop"), _USAGE, _DONE])


def asks(*calls: tuple[str, object], text: str = "") -> Reply:
    """Calls by tool and arguments; arguments that are a text are sent as they are."""
    packets = [_chunk({"content": text})] if text else []
    for index, (tool, arguments) in enumerate(calls):
        arguments_text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        call_start = {
            "index": index,
            "id": f"call_{index}",
            "type": "function",
            "function": {"name": tool, "arguments": ""},
        }
        packets.append(_chunk({"tool_calls": [call_start]}))
        packets.append(_chunk({"tool_calls": [{"index": index, "function": {"arguments": arguments_text}}]}))
    return Reply(packets=[*packets, _chunk({}, "tool_calls"), _USAGE, _DONE])


def _chunk(delta: object, finish: str | None = None) -> bytes:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return _event({"id": "c", "object": "chat.completion.chunk", "model": "strict-1", "choices": choices})


def _event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


_USAGE = _event({"id": "c", "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}})
_DONE = b"data: [DONE]\n\n"


class StrictChat(StrictServer):
    """Serves the replies in order; a request that is refused uses none up."""

    def __init__(self, *replies: Reply) -> None:
        super().__init__("/chat/completions", faults_of, *replies)

    @property
    def requests(self) -> list[StrictChatBody]:
        return [msgspec.json.decode(body, type=StrictChatBody) for body in self.bodies]
