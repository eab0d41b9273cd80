"""What of a conversation its model is shown: the history, less what had to make room. Pure; it decides nothing.

Whatever was left out or summarised is still there for people to read. A call and its result are never parted.
"""

from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.errors import Refused
from toolyard.core.events import HistoryCompacted
from toolyard.core.history import History
from toolyard.core.items import Call, Item, Result, SystemText, UserMessage
from toolyard.core.token_estimate import estimate_tokens


class Window(Struct, frozen=True, gc=False, kw_only=True):
    past: History = History()
    """What was said in place of the head of the history."""
    head: int = 0
    """How many items at the beginning of the history stand for the past."""

    def join_past(self, history: History) -> History:
        """All that was said, whether the model is still shown it or not."""
        return History((*self.past, *history.items_from(self.head))) if self.past else history


def apply_compaction(history: History, window: Window, event: HistoryCompacted) -> tuple[History, Window]:
    """The history and the window after room was made. Raises Refused if there is nothing of that name."""
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
    """Without these items. If one of them made room already, all is shown again: a summary would still tell of it."""
    if any(map(window.past.contains_id, ids)):
        return window.join_past(history).without(ids), Window()
    return history.without(ids), window


def stub_result(result: Result) -> Result:
    """What stands for a result that made room. Whatever it was kept under stays readable."""
    kept = f'; read_result(handle="{result.handle}") reads it' if result.handle else ""
    said = f"[this result was left out to make room{kept}]"
    return replace(result, content=said, parts=())


def _stub_results(items: Iterable[Item], ids: Collection[str]) -> tuple[Item, ...]:
    return tuple(stub_result(item) if isinstance(item, Result) and item.id in ids else item for item in items)


def count_saved_tokens(result: Result) -> int:
    """How many tokens it gives to leave a result out. What a provider sealed is not ours to change."""
    return 0 if result.seal or result.ran_at else estimate_tokens(result) - estimate_tokens(stub_result(result))


def find_blocks(items: Sequence[Item]) -> list[int]:
    """Where each piece begins that may be left out without the one before or after it: a message, or a turn."""
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
