"""The cache of a conversation's encoded items, so that a turn encodes only its own.

Items are encoded by groups: one message from outside, or all consecutive items of the model with the results of its
calls. A group is kept once no later item can belong to it. The wires supply the encoding.
"""

from collections.abc import Callable, Sequence

from toolyard.core.items import Call, Item, ModelText, Reasoning, Result, SystemText, UserMessage
from toolyard.core.ports import ModelRequest

NO_RESULT = "no result was recorded"
"""Stands in for the result of a call that has none: providers refuse a call without a result."""

EncodeGroup = Callable[[Sequence[Item], str, bool], tuple[bytes, str]]
"""Takes a group, the role of the message before it, and whether it is the last; returns its bytes and role."""


class EncodeCache:
    """The encoded beginning of one history, for one wire and target."""

    __slots__ = ("_system", "count", "encodes", "joined", "mark", "role", "root", "system")

    def __init__(self, root: object) -> None:
        self.root = root
        self.count = 0
        """The number of items of the history in `joined`."""
        self.joined = bytearray()
        self.role = ""
        """The role of the last message in `joined`, for wires whose roles must alternate."""
        self.mark = 0
        """The end of the last request's messages, for wires that mark the prefix to cache."""
        self.encodes = 0
        """The number of items encoded so far, for tests of the cost of a turn."""
        self._system = ""
        self.system = b""

    def set_system(self, text: str, encode: Callable[[str], bytes]) -> None:
        if text != self._system:
            self._system = text
            self.system = encode(text) if text else b""

    def extend(self, items: Sequence[Item], encode: EncodeGroup) -> tuple[bytes, str]:
        """Encode items: append the complete groups to `joined`; return the bytes and role of an incomplete last group.

        An incomplete group is encoded again in the next turn: a result that arrives later belongs before the next
        message, so its bytes may still change.
        """
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
    """Return the cache of a request's conversation under `wire`; a new one if the history was replaced.

    `wire` must name everything that changes the encoding, such as the provider, and the model where seals or images
    depend on it: a conversation may change its model at any turn, and bytes meant for one may be refused by another.
    """
    cache = request.memo.get(wire)
    history = request.history
    # Histories with one root only differ in length; compaction, removed messages and forks make a new root.
    if not isinstance(cache, EncodeCache) or cache.root is not history.root or cache.count > len(history):
        cache = request.memo[wire] = EncodeCache(history.root)
    return cache


_ALONE = frozenset({SystemText, UserMessage})
_LAST_OF_GROUP = _ALONE | {Result}


def _starts_group(previous: Item, item: Item) -> bool:
    # Compared by type, not by `isinstance`: a request may bring thousands of items.
    kind = type(item)
    return kind is not Result and (kind in _ALONE or type(previous) in _LAST_OF_GROUP)


def _is_complete(group: Sequence[Item]) -> bool:
    """Return whether no later item can belong to the group at the end of the history."""
    calls = {item.id for item in group if isinstance(item, Call)}
    answered = {item.call_id for item in group if isinstance(item, Result)}
    return calls <= answered if calls else not isinstance(group[-1], ModelText | Reasoning)
