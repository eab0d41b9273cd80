"""One turn's request → the bytes of a Chat Completions body. Pure but for the memo, which keeps what is encoded.

An item is encoded once: what earlier turns encoded is joined in as bytes, so that a turn costs what it adds. The
messages come last but for what may change from turn to turn, so each body begins with the bytes of the one before.
Whatever the history, the body is one that a strict provider takes: a call without a result gets a stand-in, a result
without its call is left out.
"""

import json
import re
from collections.abc import Sequence
from typing import assert_never
from weakref import WeakKeyDictionary

import msgspec

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
from toolyard.core.ports import ModelRequest, Offer
from toolyard.core.tools import NAME, Tool
from toolyard.models._unicode import mended

MEMO = "openai_chat"
NO_RESULT = "no result was recorded"

_encoder = msgspec.json.Encoder()
_tools: WeakKeyDictionary[Offer, bytes] = WeakKeyDictionary()
_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")


class Encoded:
    """The messages of a conversation that are encoded for good."""

    __slots__ = ("_system", "count", "encodes", "joined", "root", "system")

    def __init__(self, root: object) -> None:
        self.root = root
        self.count = 0
        """How many items of the history are in `joined`."""
        self.joined = bytearray()
        """Their messages, each with a comma after it."""
        self.encodes = 0
        """How many items were encoded so far: what the turns cost, for tests to count."""
        self._system = ""
        self.system = b""

    def set_system(self, text: str) -> None:
        if text != self._system:
            self._system = text
            self.system = _encoded({"role": "system", "content": text}) + b"," if text else b""


def to_wire(request: ModelRequest, model: str = "") -> bytes:
    """The body. `model` is the name on the wire, if it is not the request's own."""
    encoded = _memo(request)
    open_end = _extend(encoded, request.history.since(encoded.count))
    messages: list[bytes | bytearray | memoryview] = [
        part for part in (encoded.system, encoded.joined, open_end) if part
    ]
    if messages:
        messages[-1] = memoryview(messages[-1])[:-1]  # without the last comma
    tools = _encoded_tools(request.offer)
    return b"".join(
        (
            b'{"model":',
            _encoder.encode(model or request.model),
            b',"stream":true,"stream_options":{"include_usage":true}',
            tools and b',"tools":' + tools,
            b',"messages":[',
            *messages,
            b"]",
            tools and b',"tool_choice":' + _tool_choice(request.tool_choice),
            b"}",
        )
    )


def _memo(request: ModelRequest) -> Encoded:
    kept = request.memo.get(MEMO)
    history = request.history
    if not isinstance(kept, Encoded) or kept.root is not history.root or kept.count > len(history):
        kept = request.memo[MEMO] = Encoded(history.root)
    kept.set_system(request.system)
    return kept


def _extend(encoded: Encoded, items: Sequence[Item]) -> bytes:
    """Encode the items: the groups that are complete join the kept bytes, an open end is returned."""
    encoded.encodes += len(items)
    start = 0
    for number in range(1, len(items)):
        if _begins_group(items[number - 1], items[number]):
            encoded.joined += _encoded_group(items[start:number])
            start = number
    group = items[start:]
    last = _encoded_group(group)
    complete = _is_complete(group)
    if complete:
        encoded.joined += last
    encoded.count += len(items) if complete else start
    return b"" if complete else last


def _begins_group(previous: Item, item: Item) -> bool:
    """A group is one message from outside, or all that the model said in a row with the results of its calls."""
    if isinstance(item, Result):
        return False
    return isinstance(item, SystemText | UserMessage) or isinstance(previous, SystemText | UserMessage | Result)


def _is_complete(group: Sequence[Item]) -> bool:
    """Whether nothing that comes later can belong to the group at the end of the history."""
    calls = {item.id for item in group if isinstance(item, Call)}
    answered = {item.call_id for item in group if isinstance(item, Result)}
    return calls <= answered if calls else not isinstance(group[-1] if group else None, ModelText | Reasoning)


def _encoded_group(group: Sequence[Item]) -> bytes:
    return b"".join([_encoded(message) + b"," for message in _messages(group)])


def _messages(group: Sequence[Item]) -> list[dict[str, object]]:
    first = group[0] if group else None
    if isinstance(first, SystemText):
        return [{"role": "system", "content": first.text}]
    if isinstance(first, UserMessage):
        return [{"role": "user", "content": _content(first)}]
    texts = [item.text for item in group if isinstance(item, ModelText) and item.text]
    calls = {item.id: item for item in group if isinstance(item, Call)}
    if not texts and not calls:
        return []
    said: dict[str, object] = {"role": "assistant", "content": "\n\n".join(texts) if texts else None}
    if calls:
        said["tool_calls"] = [_call(call) for call in calls.values()]
    results = {item.call_id: item.content for item in reversed(group) if isinstance(item, Result)}
    answers: list[dict[str, object]] = [
        {"role": "tool", "tool_call_id": call_id, "content": results.get(call_id, NO_RESULT)} for call_id in calls
    ]
    return [said, *answers]


def _call(call: Call) -> dict[str, object]:
    arguments = _encoded(call.arguments).decode()
    return {"id": call.id, "type": "function", "function": {"name": _name(call.tool), "arguments": arguments}}


def _name(tool: str) -> str:
    """The name as a provider takes it; a model may have made one up that no provider takes back."""
    if NAME.fullmatch(tool):
        return tool
    return _NOT_IN_A_NAME.sub("_", tool)[:64] or "unnamed"


def _content(message: UserMessage) -> object:
    if all(isinstance(part, TextPart) for part in message.parts):
        return message.text
    return [_part(part) for part in message.parts]


def _part(part: Part) -> dict[str, object]:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case ImagePart():
            return {"type": "image_url", "image_url": {"url": part.url}}
        case FilePart() if part.url.startswith("data:"):
            return {"type": "file", "file": {"file_data": part.url, "filename": part.name or "file"}}
        case FilePart():
            return {"type": "text", "text": f"[file {part.name}: {part.url}]" if part.name else f"[file: {part.url}]"}
        case _:
            assert_never(part)


def _encoded_tools(offer: Offer) -> bytes:
    """The tools as JSON, once for each offer; empty if there are none. A provider's own tools have no place here."""
    kept = _tools.get(offer)
    if kept is None:
        shown = [_tool(tool) for tool in offer.tools if tool.venue != "provider"]
        kept = _tools[offer] = _encoded(shown) if shown else b""
    return kept


def _tool(tool: Tool) -> dict[str, object]:
    described = {"description": tool.description} if tool.description else {}
    return {"type": "function", "function": {"name": tool.name, **described, "parameters": tool.parameters}}


def _tool_choice(choice: str) -> bytes:
    if choice in ("auto", "none", "required"):
        return _encoder.encode(choice)
    return _encoder.encode({"type": "function", "function": {"name": choice}})


def _encoded(value: object) -> bytes:
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:  # half a character, which a tool may return and no provider takes
        return mended(json.dumps(value).encode())
