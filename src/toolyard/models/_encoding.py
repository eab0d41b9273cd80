"""What a conversation has said so far, encoded once for each wire and joined into every request as bytes.

An item is encoded once: what earlier turns encoded is kept in the request's memo, so that a turn costs what it adds,
and each body begins with the bytes of the one before. It does not know what a dialect makes of an item.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from toolyard.core.items import Call, Item, ModelText, Reasoning, Result, SystemText, UserMessage
from toolyard.core.ports import ModelRequest
from toolyard.core.tools import NAME
from toolyard.models._unicode import mended

Piece = bytes | bytearray | memoryview

_encoder = msgspec.json.Encoder()
_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")


def begins_group(previous: Item, item: Item) -> bool:
    """A group is one message from outside, or all that the model said in a row with the results of its calls."""
    if isinstance(item, Result):
        return False
    return isinstance(item, SystemText | UserMessage) or isinstance(previous, SystemText | UserMessage | Result)


def is_complete(group: Sequence[Item]) -> bool:
    """Whether nothing that comes later can belong to the group at the end of the history."""
    calls = {item.id for item in group if isinstance(item, Call)}
    answered = {item.call_id for item in group if isinstance(item, Result)}
    return calls <= answered if calls else not isinstance(group[-1] if group else None, ModelText | Reasoning)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How one wire writes a history: what a group of items becomes, and where one ends."""

    memo: str
    messages: Callable[[Sequence[Item]], Iterable[object]]
    system: Callable[[str], object]
    begins_group: Callable[[Item, Item], bool] = begins_group
    is_complete: Callable[[Sequence[Item]], bool] = is_complete


class Encoded:
    """The messages of a conversation that are encoded for good."""

    __slots__ = ("_dialect", "_system", "count", "encodes", "joined", "root", "system")

    def __init__(self, root: object, dialect: Dialect) -> None:
        self.root = root
        self._dialect = dialect
        self.count = 0
        """How many items of the history are in `joined`."""
        self.joined = bytearray()
        """Their messages, each with a comma after it."""
        self.encodes = 0
        """How many items were encoded so far: what the turns cost, for tests to count."""
        self._system = ""
        self.system = b""
        """What stands for the system text; empty if there is none."""

    def set_system(self, text: str) -> None:
        if text != self._system:
            self._system = text
            self.system = encoded(self._dialect.system(text)) if text else b""

    def extend(self, items: Sequence[Item]) -> bytes:
        """Encode the items: the groups that are complete join the kept bytes, an open end is returned."""
        self.encodes += len(items)
        begins, start = self._dialect.begins_group, 0
        for number in range(1, len(items)):
            if begins(items[number - 1], items[number]):
                self.joined += self._group(items[start:number])
                start = number
        group = items[start:]
        last = self._group(group)
        complete = self._dialect.is_complete(group)
        if complete:
            self.joined += last
        self.count += len(items) if complete else start
        return b"" if complete else last

    def _group(self, group: Sequence[Item]) -> bytes:
        return b"".join([encoded(message) + b"," for message in self._dialect.messages(group)])


def encoded_history(request: ModelRequest, dialect: Dialect) -> tuple[Encoded, bytes]:
    """What is kept of the conversation, and what may still change at its end: messages with a comma after each."""
    kept = request.memo.get(dialect.memo)
    history = request.history
    if not isinstance(kept, Encoded) or kept.root is not history.root or kept.count > len(history):
        kept = request.memo[dialect.memo] = Encoded(history.root, dialect)
    kept.set_system(request.system)
    return kept, kept.extend(history.since(kept.count))


def array(*pieces: Piece) -> list[Piece]:
    """An array of what the pieces hold, each of them values with a comma after each."""
    held = [piece for piece in pieces if piece]
    if held:
        held[-1] = memoryview(held[-1])[:-1]
    return [b"[", *held, b"]"]


def encoded(value: object) -> bytes:
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:  # half a character, which a tool may return and no provider takes
        return mended(json.dumps(value).encode())


def sendable_name(tool: str) -> str:
    """The name as a provider takes it; a model may have made one up that no provider takes back."""
    if NAME.fullmatch(tool):
        return tool
    return _NOT_IN_A_NAME.sub("_", tool)[:64] or "unnamed"
