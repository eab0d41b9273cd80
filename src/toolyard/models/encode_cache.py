"""What a conversation's earlier turns encoded, kept as bytes: a turn costs what it adds. It does not know any wire.

Items are encoded by groups: one message from outside, or all that the model said in a row with the results of its
calls. A group is kept once nothing that comes later can belong to it.
"""

from collections.abc import Callable, Sequence

from toolyard.core.items import Call, Item, ModelText, Reasoning, Result, SystemText, UserMessage
from toolyard.core.ports import ModelRequest

NO_RESULT = "no result was recorded"
"""What stands in for the result of a call that has none."""

EncodeGroup = Callable[[Sequence[Item], str, bool], tuple[bytes, str]]
"""A group, the role of the message before it, and whether it is the last → its bytes, the role of its last message."""


class EncodeCache:
    """The items of one history that are encoded for good."""

    __slots__ = ("_system", "count", "encodes", "joined", "mark", "role", "root", "system")

    def __init__(self, root: object) -> None:
        self.root = root
        self.count = 0
        """How many items of the history are in `joined`."""
        self.joined = bytearray()
        self.role = ""
        """Of the last message in `joined`, for wires whose roles must alternate."""
        self.mark = 0
        """Where the messages of the last request ended, for wires that mark what is to be cached."""
        self.encodes = 0
        """How many items were encoded so far: what the turns cost, for tests to count."""
        self._system = ""
        self.system = b""

    def set_system(self, text: str, encode: Callable[[str], bytes]) -> None:
        if text != self._system:
            self._system = text
            self.system = encode(text) if text else b""

    def extend(self, items: Sequence[Item], encode: EncodeGroup) -> tuple[bytes, str]:
        """Encode the items: the groups that are complete are kept; an open end is returned, with its role."""
        self.encodes += len(items)
        start = 0
        for number in range(1, len(items)):
            if _starts_group(items[number - 1], items[number]):
                self._append(*encode(items[start:number], self.role, False))
                start = number
        group = items[start:]
        if not group:
            return b"", self.role
        last, role = encode(group, self.role, True)
        if not _is_complete(group):
            self.count += start
            return last, role
        self._append(last, role)
        self.count += len(items)
        return b"", role

    def _append(self, encoded: bytes, role: str) -> None:
        self.joined += encoded
        self.role = role


def get_encode_cache(request: ModelRequest, wire: str) -> EncodeCache:
    """What this wire keeps of the request's conversation; begun anew if the history is not the one that it knew."""
    known = request.memo.get(wire)
    history = request.history
    if not isinstance(known, EncodeCache) or known.root is not history.root or known.count > len(history):
        known = request.memo[wire] = EncodeCache(history.root)
    return known


def _starts_group(previous: Item, item: Item) -> bool:
    if isinstance(item, Result):
        return False
    return isinstance(item, SystemText | UserMessage) or isinstance(previous, SystemText | UserMessage | Result)


def _is_complete(group: Sequence[Item]) -> bool:
    """Whether nothing that comes later can belong to the group at the end of the history."""
    calls = {item.id for item in group if isinstance(item, Call)}
    answered = {item.call_id for item in group if isinstance(item, Result)}
    return calls <= answered if calls else not isinstance(group[-1], ModelText | Reasoning)
