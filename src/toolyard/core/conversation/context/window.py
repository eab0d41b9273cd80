"""The part of a conversation that the model is shown: the history without the items that were compacted. Pure.

People can still read items that were left out or summarised. A call and its result are never separated.
"""

from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.conversation.context.token_estimate import estimate_tokens
from toolyard.core.conversation.events import HistoryCompacted
from toolyard.core.conversation.history import History
from toolyard.core.errors import Refused
from toolyard.core.items import Call, Item, Result, SystemText, UserMessage


class Window(Struct, frozen=True, gc=False, kw_only=True):
    """The items that a compaction took out of the history, and how many items stand in their place."""

    past: History = History()
    """The original items that the head of the history replaces."""
    head: int = 0
    """How many items at the beginning of the history stand for `past`."""

    def join_past(self, history: History) -> History:
        """Return all items, including those that the model is no longer shown."""
        return History((*self.past, *history.items_from(self.head))) if self.past else history


def apply_compaction(history: History, window: Window, event: HistoryCompacted) -> tuple[History, Window]:
    """Return the history and the window after a compaction. Raises Refused if `event.through` is unknown."""
    at = next((i for i, item in enumerate(history) if item.id == event.through), None)
    if at is None:
        raise Refused(f"no item {event.through!r} to compact through")
    before, after = history.items_from(0)[: at + 1], history.items_from(at + 1)
    items = _stub_results(before, frozenset(event.dropped)) if event.dropped else event.items
    moved = len(items) - len(before)
    return History((*items, *after)), Window(
        past=window.past.plus(before[window.head :]), head=max(len(items), window.head + moved)
    )


def remove_items(history: History, window: Window, ids: frozenset[str]) -> tuple[History, Window]:
    """Return the history and the window without these items."""
    # A summary may still mention an item that was compacted. Removing such an item undoes the compaction, so that the
    # model sees the original items without it.
    if any(map(window.past.contains_id, ids)):
        return window.join_past(history).without(ids), Window()
    return history.without(ids), window


def stub_result(result: Result) -> Result:
    """Return a short result in place of one that is left out. A stored whole result stays readable by its handle."""
    hint = f'; read_result(handle="{result.handle}") reads it' if result.handle else ""
    return replace(result, content=f"[this result was left out to make room{hint}]", parts=())


def _stub_results(items: Iterable[Item], ids: Collection[str]) -> tuple[Item, ...]:
    return tuple(stub_result(item) if isinstance(item, Result) and item.id in ids else item for item in items)


def count_saved_tokens(result: Result) -> int:
    """Return the tokens that leaving out a result saves; 0 for a provider's result, which must stay as it was sent."""
    return 0 if result.seal or result.ran_at else estimate_tokens(result) - estimate_tokens(stub_result(result))


def find_blocks(items: Sequence[Item]) -> list[int]:
    """Return the start of each block that can be left out on its own: a message, or a turn with its results."""
    starts, unanswered = list[int](), set[str]()
    for at, item in enumerate(items):
        if not unanswered and (at == 0 or _starts_block(items[at - 1], item)):
            starts.append(at)
        if isinstance(item, Call):
            unanswered.add(item.id)
        elif isinstance(item, Result):
            unanswered.discard(item.call_id)
    return starts


def _starts_block(before: Item, item: Item) -> bool:
    if isinstance(item, SystemText | UserMessage) or isinstance(before, SystemText | UserMessage):
        return True
    return isinstance(before, Result) and not before.ran_at and not isinstance(item, Result)
