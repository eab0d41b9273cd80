"""How a reply is written down for the tests: its bytes, and what it must be read as."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from toolyard.core.conversation.events import Finish

CallSpec = tuple[str, dict[str, object]]
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, kw_only=True)
class Stream:
    name: str
    body: bytes
    text: str = ""
    reasoning: str = ""
    calls: Sequence[CallSpec] = ()
    """Tool and arguments, in order."""
    ids: Sequence[str] | None = None
    """The provider's ids, where the test is about them."""
    unreadable: dict[int, str] = field(default_factory=dict[int, str])
    """For calls that must not run: what the reason says."""
    finish: Finish = "stop"
    sdk: bool = True
    """The official SDK, used the usual way, reads the same text and calls."""
    content_type: str = "text/event-stream"


@dataclass(frozen=True, kw_only=True)
class FailingStream:
    name: str
    body: bytes
    error_type: str
    says: str
    content_type: str = "text/event-stream"


def event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def chunk(finish: str | None = None, **delta: object) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return event({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m-1", "choices": [choice]})


def piece(name: str | None = None, arguments: object = None, **more: object) -> bytes:
    """A chunk with one piece of one call; `index` and `id` only if they are given."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return chunk(tool_calls=[{"type": "function", **more, "function": function}])


def usage(prompt: int, completion: int, cached: int) -> bytes:
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    details = {"prompt_tokens_details": {"cached_tokens": cached}}
    return event(
        {"id": "c1", "object": "chat.completion.chunk", "model": "m-1", "choices": [], "usage": {**counts, **details}}
    )


TOOLS = chunk("tool_calls")
STOP = chunk("stop")
ADD_1_2: CallSpec = ("add", {"a": 1, "b": 2})
ADD_3_4: CallSpec = ("add", {"a": 3, "b": 4})
NOW: CallSpec = ("now", {})
