"""Estimates the memory that items take, by the lengths of their texts."""

from collections.abc import Iterable
from itertools import chain

from msgspec import Struct

from toolyard.core.conversation.branches import Branches
from toolyard.core.conversation.history import History
from toolyard.core.conversation.state import State
from toolyard.core.items import Call, Item, ModelText, Part, Reasoning, Result, TextPart, UserMessage
from toolyard.core.json_types import is_list, is_object

ITEM_BYTES = 500
"""The memory of an item without its texts."""
VALUE_BYTES = 80
"""The memory of a value inside arguments without its text."""


class StateSize(Struct, frozen=True, eq=False):
    """The estimated bytes of a conversation's items. Only new items are counted when it is updated."""

    history_bytes: int = 0
    hidden_bytes: int = 0
    """The items that the model is not shown: those that were compacted, and those of branches."""
    root: object = None
    length: int = 0
    past: History | None = None
    branches: Branches = ()

    @property
    def total(self) -> int:
        return self.history_bytes + self.hidden_bytes

    def update(self, state: State) -> "StateSize":
        """Return the size of a state, which usually extends the one that was measured before."""
        history, past, branches = state.history, state.window.past, state.branches
        is_longer = history.root is self.root and len(history) >= self.length
        length, size = (self.length, self.history_bytes) if is_longer else (0, 0)
        size += estimate_bytes(history.items_from(length))
        hidden = self._update_hidden(state)
        return StateSize(size, hidden, history.root, len(history), past, branches)

    def _update_hidden(self, state: State) -> int:
        past, branches, before = state.window.past, state.branches, self.past
        if past is before and branches is self.branches:
            return self.hidden_bytes
        if before is None or branches is not self.branches or past.root is not before.root or len(past) < len(before):
            return _estimate_hidden(state.history, past, branches)
        # Another compaction: only the head of the history can still show items that it took out.
        shown = {id(item) for item in state.history[: state.window.head]}
        return self.hidden_bytes + estimate_bytes(
            item for item in past.items_from(len(before)) if id(item) not in shown
        )


def estimate_bytes(items: Iterable[Item]) -> int:
    """Return the estimated bytes of the items."""
    return sum(map(_estimate_item, items))


def _estimate_hidden(history: History, past: History, branches: Branches) -> int:
    """Return the estimated bytes of the items outside the history. Branches share the objects of their items."""
    shown = {id(item) for item in history}
    hidden = chain(past, *(branch.history for branch in branches))
    return estimate_bytes({id(item): item for item in hidden if id(item) not in shown}.values())


def _estimate_item(item: Item) -> int:
    if type(item) is UserMessage:
        return ITEM_BYTES + _count_part_chars(item.parts)
    if type(item) is ModelText:
        size = ITEM_BYTES * (1 + len(item.citations)) + len(item.text) + len(item.logprobs)
    elif type(item) is Result:
        size = ITEM_BYTES + len(item.content) + (_count_part_chars(item.parts) if item.parts else 0)
    elif type(item) is Call:
        size = ITEM_BYTES + _estimate_arguments(item.arguments)
    elif type(item) is Reasoning:
        return ITEM_BYTES + len(item.text) + len(item.signature)
    else:
        return ITEM_BYTES + len(item.text)
    return size + len(item.seal.data) if item.seal else size


def _count_part_chars(parts: tuple[Part, ...]) -> int:
    chars = 0
    for part in parts:
        chars += len(part.text if type(part) is TextPart else part.url)
    return chars


def _estimate_arguments(arguments: dict[str, object]) -> int:
    # A loop, not recursion: arguments may be nested deeper than Python can recurse.
    size, pending = VALUE_BYTES * len(arguments), list[object](arguments.values())
    while pending:
        value = pending.pop()
        if type(value) is str:
            size += len(value)
        elif type(value) is int or value is None:
            continue
        elif is_object(value):
            size += VALUE_BYTES * len(value)
            pending += value.values()
        elif is_list(value):
            size += VALUE_BYTES * len(value)
            pending += value
    return size
