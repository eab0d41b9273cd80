"""The cache of a conversation's encoded items, so that a turn encodes only its own.

Items are encoded by groups: one message from outside, or all consecutive items of the model with the results of its
calls. A group is kept once no later item can belong to it. The wires supply the encoding.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import pairwise

from toolyard.core.conversation.history import History, HistoryRoot
from toolyard.core.items import Call, Item, ModelText, Reasoning, Result, SystemText, UserMessage
from toolyard.core.ports import ModelRequest

NO_RESULT = "no result was recorded"
"""Stands in for the result of a call that has none: providers refuse a call without a result."""
STEP_ITEMS = 250
"""How many items `extend_in_steps` encodes before other tasks get their turn: about a millisecond of work."""

Piece = bytes | bytearray | memoryview
"""A part of a body. A view of a cache's bytes must not be kept: while there is one, they cannot be added to."""
EncodeGroup = Callable[[Sequence[Item], str, bool], tuple[bytes, str]]
"""Takes a group, the role of the message before it, and whether it is the last; returns its bytes and role."""


class EncodeCache:
    """The encoded beginning of one history, for one wire and target."""

    __slots__ = ("_encode", "_system", "count", "encodes", "joined", "mark", "role", "root", "system")

    def __init__(self, root: HistoryRoot, encode: EncodeGroup) -> None:
        self.root = root
        self._encode = encode
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

    async def extend_in_steps(self, history: History) -> None:
        """Append all but the last groups to `joined`, and let other tasks run in between: a history may be long.

        `extend` then has at most one step left. A step that is cancelled leaves nothing half done.
        """
        size = STEP_ITEMS
        while len(history) - self.count > size:
            before = self.count
            self._append_groups(history.first(before + size).items_from(before))
            size = STEP_ITEMS if self.count > before else size + STEP_ITEMS  # one group may be longer than a step
            await asyncio.sleep(0)

    def extend(self, history: History) -> tuple[bytes, str]:
        """Append the groups that are not in `joined` yet; return the bytes and role of an incomplete last group.

        An incomplete group is encoded again in the next turn: a result that arrives later belongs before the next
        message, so its bytes may still change.
        """
        group = self._append_groups(history.items_from(self.count))
        if not group:
            return b"", self.role
        last, role = self._encode(group, self.role, True)
        self.encodes += len(group)
        if not _is_complete(group):
            return last, role
        self._append(last, role, len(group))
        return b"", role

    def _append_groups(self, items: Sequence[Item]) -> Sequence[Item]:
        """Append all groups of the items but the last, and return that one: more items may follow that belong to it."""
        encoded: list[bytes] = []
        start, role, encode = 0, self.role, self._encode
        # Compared by type, not by `isinstance`, for speed: a request may bring thousands of items.
        for number, (previous, kind) in enumerate(pairwise(map(type, items)), 1):
            if kind is not Result and (kind in _ALONE or previous in _LAST_OF_GROUP):
                group, role = encode(items[start:number], role, False)
                encoded.append(group)
                start = number
        self._append(b"".join(encoded), role, start)
        self.encodes += start
        return items[start:]

    def _append(self, encoded: bytes, role: str, items: int) -> None:
        self.joined += encoded
        self.role = role
        self.count += items


def get_encode_cache(request: ModelRequest, wire: str, encode: EncodeGroup) -> EncodeCache:
    """Return the cache of a request's conversation under `wire`; a new one if the history was replaced.

    `wire` must name everything that changes the encoding, such as the provider, and the model where seals or images
    depend on it: a conversation may change its model at any turn, and bytes meant for one may be refused by another.
    """
    cache = request.memo.get(wire)
    history = request.history
    # Histories with one root only differ in length; compaction, removed messages and forks make a new root.
    if not isinstance(cache, EncodeCache) or cache.root is not history.root or cache.count > len(history):
        cache = request.memo[wire] = EncodeCache(history.root, encode)
    return cache


def insert_first_part(pieces: Sequence[Piece], head: bytes, part: bytes) -> list[Piece]:
    """Return encoded messages with a part before those of the first message.

    The first piece that is not empty begins with all of `head`, and the message has at least one part.
    """
    first = next(number for number, piece in enumerate(pieces) if piece)
    return [head, part, b",", memoryview(pieces[first])[len(head) :], *pieces[first + 1 :]]


_ALONE = frozenset({SystemText, UserMessage})
"""Items that are a group by themselves."""
_LAST_OF_GROUP = _ALONE | {Result}
"""Items after which the model's next item begins a group."""


def _is_complete(group: Sequence[Item]) -> bool:
    """Return whether no later item can belong to the group at the end of the history."""
    calls, answered = set[str](), set[str]()
    for item in group:
        if type(item) is Call:
            calls.add(item.id)
        elif type(item) is Result:
            answered.add(item.call_id)
    return calls <= answered if calls else not isinstance(group[-1], ModelText | Reasoning)
