"""Estimates the memory that items take, by the lengths of their texts."""

from collections.abc import Iterable
from typing import cast

from msgspec import Struct

from toolyard.core.branches import Branches
from toolyard.core.history import History
from toolyard.core.items import Call, Item, ModelText, Part, Reasoning, Result, Seal, SystemText, TextPart, UserMessage

ITEM_BYTES = 500
"""The memory of an item without its texts."""
VALUE_BYTES = 80
"""The memory of a value inside arguments without its text."""


class HistorySize(Struct, frozen=True, eq=False):
    """The estimated bytes of a history and its branches. Only new items are counted when it is updated."""

    history_bytes: int = 0
    branch_bytes: int = 0
    root: object = None
    length: int = 0
    branches: Branches = ()

    @property
    def total(self) -> int:
        return self.history_bytes + self.branch_bytes

    def update(self, history: History, branches: Branches) -> "HistorySize":
        """Return the size of a history, which usually extends the one that was measured before."""
        is_longer = history.root is self.root and len(history) >= self.length
        length, size = (self.length, self.history_bytes) if is_longer else (0, 0)
        size += estimate_bytes(history.items_from(length))
        branch_bytes = self.branch_bytes if branches is self.branches else _estimate_branches(branches, history)
        return HistorySize(size, branch_bytes, history.root, len(history), branches)


def estimate_bytes(items: Iterable[Item]) -> int:
    """Return the estimated bytes of the items."""
    return sum(map(_estimate_item, items))


def _estimate_branches(branches: Branches, history: History) -> int:
    """Return the estimated bytes of the items that only branches have. Branches share the objects of their items."""
    shown = {id(item) for item in history}
    items = {id(item): item for branch in branches for item in branch.history if id(item) not in shown}
    return estimate_bytes(items.values())


def _estimate_item(item: Item) -> int:
    match item:
        case Result():
            return ITEM_BYTES + len(item.content) + _count_part_chars(item.parts) + _count_seal_chars(item.seal)
        case Call():
            return ITEM_BYTES + _estimate_arguments(item.arguments) + _count_seal_chars(item.seal)
        case ModelText():
            return ITEM_BYTES * (1 + len(item.citations)) + len(item.text) + _count_seal_chars(item.seal)
        case Reasoning():
            return ITEM_BYTES + len(item.text) + len(item.signature)
        case SystemText():
            return ITEM_BYTES + len(item.text)
        case UserMessage():
            return ITEM_BYTES + _count_part_chars(item.parts)


def _count_part_chars(parts: tuple[Part, ...]) -> int:
    return sum(len(part.text) if isinstance(part, TextPart) else len(part.url) for part in parts)


def _count_seal_chars(seal: Seal | None) -> int:
    return len(seal.data) if seal else 0


def _estimate_arguments(arguments: dict[str, object]) -> int:
    # A loop, not recursion: arguments may be nested deeper than Python can recurse.
    size, pending = 0, list[object](arguments.values())
    while pending:
        value = pending.pop()
        size += VALUE_BYTES
        if isinstance(value, str):
            size += len(value)
        elif isinstance(value, dict):
            pending += cast(dict[str, object], value).values()
        elif isinstance(value, list):
            pending += cast(list[object], value)
    return size
