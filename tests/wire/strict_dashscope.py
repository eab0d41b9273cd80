"""DashScope's Chat Completions: OpenAI's, with what Qwen's models refuse besides and the way their answers are written.

It answers 400 to a choice that forces a call, files, blank messages, a body of system messages only, `developer`, and
to arguments that are no JSON text; ids, names and `content` are restated in every chunk.
"""

import json
from collections.abc import Sequence

import msgspec

from wire.strict import Reply, StrictServer
from wire.strict_chat import ChatToolChoice, FileContent, StrictChatBody, SystemMessage, TextContent, UserMessage
from wire.strict_chat import faults_of as chat_faults

Json = dict[str, object]
UNKNOWN = (
    "max_completion_tokens",
    "logit_bias",
    "verbosity",
    "service_tier",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "metadata",
    "store",
    "prediction",
)


def faults_of(body: bytes) -> list[str]:
    """Return why DashScope refuses this body; empty if it accepts it."""
    if faults := chat_faults(body):
        return [_wrap_fault(fault) for fault in faults]
    request_body = msgspec.json.decode(body, type=StrictChatBody)
    faults: list[str] = []
    if request_body.tool_choice == "required" or isinstance(request_body.tool_choice, ChatToolChoice):
        faults.append("The tool_choice parameter does not support being set to required or object in thinking mode")
    faults += [f"Unknown parameter: {name}" for name in UNKNOWN if getattr(request_body, name) is not None]
    if all(isinstance(message, SystemMessage) for message in request_body.messages):
        faults.append('The messages list should not contain only messages with role "system".')
    for message in request_body.messages:
        if isinstance(message, SystemMessage | UserMessage):
            faults += _content_faults(message)
    return faults


def _content_faults(message: SystemMessage | UserMessage) -> list[str]:
    if isinstance(message.content, str):
        return [] if message.content else ["Content length must be greater than 0"]
    faults = ["Invalid content type: file" for part in message.content if isinstance(part, FileContent)]
    blank = any(isinstance(part, TextContent) and not part.text for part in message.content)
    return [*faults, *(["Content length must be greater than 0"] if blank else [])]


def _wrap_fault(fault: str) -> str:
    return f"<400> InternalError.Algo.InvalidParameter: {fault}"


def refuses(status: int, message: str) -> Reply:
    """An error as DashScope wraps it, with the id of the request in its body."""
    error = {"code": "invalid_parameter_error", "param": None, "message": message, "type": "invalid_request_error"}
    body = {"error": error, "id": "chatcmpl-9", "request_id": "req-9"}
    return Reply(
        packets=[json.dumps(body).encode()],
        status=status,
        headers={"Content-Type": "application/json", "x-request-id": "req-9"},
    )


def chunk(finish: str | None = None, **delta: object) -> bytes:
    choices = [{"delta": {"content": None, **delta}, "finish_reason": finish, "index": 0, "logprobs": None}]
    return _event({**_HEAD, "choices": choices, "usage": None})


def says(*pieces: str, thought: str = "") -> Reply:
    """A text, after a thought if there is one."""
    thoughts = [chunk(reasoning_content=thought)] if thought else []
    texts = [chunk(content=piece, reasoning_content=None) for piece in pieces]
    return Reply(packets=[chunk(content="", role="assistant"), *thoughts, *texts, chunk("stop", content=""), *_END])


def asks(*calls: tuple[str, Sequence[str]]) -> Reply:
    """Calls by tool and pieces of their arguments: the id and the name come again, empty, with every piece."""
    packets = [chunk(content="", role="assistant")]
    for index, (tool, pieces) in enumerate(calls):
        for number, piece in enumerate(pieces):
            function: Json = {"name": tool, "arguments": piece} if number == 0 else {"arguments": piece}
            call_delta: Json = {"index": index, "id": f"call_{index}" if number == 0 else "", "type": "function"}
            packets.append(chunk(tool_calls=[{**call_delta, "function": function}]))
        packets.append(
            chunk(tool_calls=[{"index": index, "id": "", "type": "function", "function": {"arguments": ""}}])
        )
    return Reply(packets=[*packets, chunk("tool_calls", content=""), *_END])


def _event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


_HEAD: Json = {
    "object": "chat.completion.chunk",
    "created": 1,
    "system_fingerprint": None,
    "model": "qwen-plus",
    "id": "chatcmpl-9",
}
_USAGE: Json = {
    "prompt_tokens": 10,
    "completion_tokens": 5,
    "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 4},
}
_END = (_event({**_HEAD, "choices": [], "usage": _USAGE}), b"data: [DONE]\n\n")


def strict_dashscope(*replies: Reply) -> StrictServer:
    return StrictServer("/chat/completions", faults_of, *replies, refuse=refuses)
