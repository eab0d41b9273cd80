"""How a conversation shows its branches: where each leaves the current messages, and where it ends."""

from bisect import bisect_left
from collections.abc import Sequence

from msgspec import Struct

from toolyard.core.conversation.branches import Branch
from toolyard.core.conversation.history import History
from toolyard.core.items import Call, Item, Reasoning
from toolyard.surfaces.shared.chat_messages import to_iso_time, to_messages


class BranchSummary(Struct, kw_only=True):
    """Messages that the conversation had before it was rewound."""

    head: str
    """The id to rewind to in order to continue this branch."""
    parent: str | None
    """The id of the last message that it shares with the current messages; null if it shares none."""
    first: str
    """The id of the first message of its own."""
    messages: int
    """How many messages are its own."""
    left_at: str


def build_branch_summaries(history: History, branches: Sequence[Branch]) -> list[BranchSummary]:
    """Return the branches, oldest first."""
    return [_build_summary(history, branch) for branch in branches]


def _build_summary(history: History, branch: Branch) -> BranchSummary:
    shared = _count_shared(history, branch.history)
    path = branch.history
    own_ids = (path[at].id for at in range(shared, len(path)) if not isinstance(path[at], Reasoning))
    return BranchSummary(
        head=branch.head,
        parent=_find_last_message(path.first(shared)),
        first=next(own_ids, ""),
        messages=path.messages - path.sum_first(shared)[1],
        left_at=to_iso_time(branch.left_at),
    )


def _find_last_message(history: History) -> str | None:
    """Return the id of the last message. Only the items from the last one that begins a message on are read."""
    positions = range(len(history) - 1, -1, -1)
    start = next((at for at in positions if not isinstance(history[at], Call | Reasoning)), 0)
    messages = to_messages(history.items_from(start))
    return messages[-1].id if messages else None


def _count_shared(first: Sequence[Item], second: Sequence[Item]) -> int:
    """Return how many items two histories of one conversation share: those before the first difference."""
    differs = range(min(len(first), len(second)))
    return bisect_left(differs, True, key=lambda at: first[at].id != second[at].id)
