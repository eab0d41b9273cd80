"""The branches of a conversation: the histories that were left when it was rewound. Pure.

Branches share the lists of the histories that they were split from, so that keeping one costs no copy.
"""

from msgspec import Struct

from toolyard.core.conversation.context.window import Window
from toolyard.core.conversation.history import History, find_trailing_calls
from toolyard.core.errors import Refused
from toolyard.core.items import Call, ModelText, Reasoning

MAX_BRANCHES = 100
"""How many branches a state keeps; the oldest one is dropped first. The log keeps them all."""


class Branch(Struct, frozen=True, gc=False, kw_only=True):
    """A history that was left, from the conversation's first item to its own last one."""

    history: History
    left_at: float

    @property
    def head(self) -> str:
        """Return the id of the last item, to which a rewind returns."""
        return self.history[-1].id


Branches = tuple[Branch, ...]


def rewind(
    history: History, window: Window, branches: Branches, to: str, at: float
) -> tuple[History, Window, Branches]:
    """Return the history that ends with the item `to`, with its window, and the branches after that.

    Raises Refused if no history of this conversation can end there.
    """
    current = window.join_past(history)
    target = find_path(current, branches, to)
    left = (*branches, Branch(history=current, left_at=at)) if current else branches
    remaining = tuple(branch for number, branch in enumerate(left) if not _is_covered(number, left, target))
    if target.root is current.root or len(target) == 0:
        return (*_shorten(history, window, target), remaining[-MAX_BRANCHES:])
    return target, Window(), remaining[-MAX_BRANCHES:]


def _shorten(history: History, window: Window, target: History) -> tuple[History, Window]:
    """Return the part of the current history up to the end of `target`, and its window."""
    length = window.head + len(target) - len(window.past)
    # An item that was compacted is shown again, with those before it: the summary may be about items that were left.
    return (history.first(length), window) if window.past and length > window.head else (target, Window())


def find_path(current: History, branches: Branches, to: str) -> History:
    """Return the history from the first item to `to`, looking at the current one first. Raises Refused."""
    if not to:
        return History()
    for path in (current, *(branch.history for branch in reversed(branches))):
        position = path.find(to)
        if position is not None:
            target = path.first(position + 1)
            if _ends_in_turn(path, position) or find_trailing_calls(target):
                raise Refused(f"a history cannot end with {to!r}, in the middle of a turn: name a message or a result")
            return target
    raise Refused(f"there is no item {to!r} in this conversation")


def _ends_in_turn(path: History, position: int) -> bool:
    """Return whether more items of the same turn follow: the calls after a text, or what was reasoned for."""
    last, following = path[position], path[position + 1] if position + 1 < len(path) else None
    return isinstance(last, Call | Reasoning) or (isinstance(last, ModelText) and isinstance(following, Call))


def _is_covered(number: int, branches: Branches, target: History) -> bool:
    """Return whether the new history or another branch has all items of a branch. Of two equal ones the later stays."""
    branch = branches[number]
    longer = (
        other.history
        for position, other in enumerate(branches)
        if (len(other.history), position) > (len(branch.history), number)
    )
    return any(_begins_with(path, branch) for path in (target, *longer))


def _begins_with(path: History, branch: Branch) -> bool:
    # An id is used once in a conversation, so that two histories with the same item at one place agree before it.
    length = len(branch.history)
    return len(path) >= length and path[length - 1].id == branch.head


def remove_from_branches(branches: Branches, ids: frozenset[str]) -> Branches:
    """Return the branches without these items: a message that is removed is removed everywhere."""
    if not any(branch.history.contains_id(item_id) for branch in branches for item_id in ids):
        return branches
    pruned = (Branch(history=branch.history.without(ids), left_at=branch.left_at) for branch in branches)
    return tuple(branch for branch in pruned if branch.history)
