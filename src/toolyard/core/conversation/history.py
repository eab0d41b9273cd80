"""The items of a conversation as an append-only sequence that many states share.

Extending a history costs only what is added: the old and the new history share one list and differ in length.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import overload

from toolyard.core.conversation.context.token_estimate import estimate_tokens
from toolyard.core.items import Call, Item, ModelText, Reasoning, Result, SystemText, UserMessage
from toolyard.core.tools.trust import join_sources, name_source


class HistoryRoot:
    """The identity of a list of items, with what is known of them, computed on demand.

    It does not hold the items: others may refer to a root, also weakly, without keeping the items in memory.
    """

    __slots__ = ("__weakref__", "checked", "messages", "sources", "tokens", "untrusted")

    def __init__(self) -> None:
        self.tokens = [0]
        self.messages = [0]
        """The tokens and messages before each item."""
        self.untrusted = list[int]()
        """The positions of the untrusted items among the first `checked` ones."""
        self.sources = list[str]()
        """For each of these positions the sources of all untrusted items up to there."""
        self.checked = 0


class History(Sequence[Item]):
    """An immutable view of the first items of a list that only grows, with their token and message counts."""

    __slots__ = ("_ids", "_items", "_length", "_root")

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._items = list(items)
        self._ids = {item.id for item in self._items}
        self._length = len(self._items)
        self._root = HistoryRoot()

    def plus(self, items: Sequence[Item]) -> "History":
        """Return this history extended by the items."""
        if not items:
            return self
        # Only a view of the whole list may append to it in place. If another history has extended the list already,
        # this one is a fork and copies its items.
        longer = self if 0 < self._length == len(self._items) else History(self._items[: self._length])
        longer._items.extend(items)
        longer._ids.update([item.id for item in items])
        view = History.__new__(History)
        view._items, view._ids, view._length = longer._items, longer._ids, len(longer._items)
        view._root = longer._root
        return view

    def first(self, length: int) -> "History":
        """Return the history of the first `length` items, without copying them."""
        view = History.__new__(History)
        view._items, view._ids, view._length = self._items, self._ids, min(length, self._length)
        view._root = self._root
        return view

    def find(self, item_id: str) -> int | None:
        """Return the position of an item, or None."""
        return next((at for at in range(self._length - 1, -1, -1) if self._items[at].id == item_id), None)

    @property
    def tokens(self) -> int:
        """Return the estimated tokens of all items."""
        return self.sum_first(self._length)[0]

    @property
    def messages(self) -> int:
        return self.sum_first(self._length)[1]

    def sum_first(self, length: int) -> tuple[int, int]:
        """Return the tokens and messages of the first `length` items. Each item is counted once, on first use."""
        sums, counts, items = self._root.tokens, self._root.messages, self._items
        start = len(sums) - 1
        if start < length:
            added, messages = items[start:length], counts[start]
            # All of them before any is added: a failing estimate leaves the sums as they were.
            new_sums = list(accumulate(map(estimate_tokens, added), initial=sums[start]))
            sums += new_sums[1:]
            kinds = (type(items[at]) for at in range(start - 1, -1, -1) if type(items[at]) is not Reasoning)
            previous_kind = next(kinds, None)
            for kind in map(type, added):
                if kind is not Reasoning:
                    messages += not (kind is Call and previous_kind in (ModelText, Call))
                    previous_kind = kind
                counts.append(messages)
        return sums[length], counts[length]

    def scan(self) -> None:
        """Count the new items and find the untrusted ones now, not on first use: a long one is scanned in steps."""
        self.sum_first(self._length)
        self._index_sources()

    def list_untrusted(self) -> list[Item]:
        """Return the untrusted items, and those that the model wrote after them."""
        self._index_sources()
        return [self._items[at] for at in self._root.untrusted if at < self._length]

    @property
    def sources(self) -> str:
        """Return who may have written the untrusted items; empty if there are none."""
        self._index_sources()
        count = bisect_left(self._root.untrusted, self._length)
        return self._root.sources[count - 1] if count else ""

    def _index_sources(self) -> None:
        """Add the untrusted items that came since the last use: each item is looked at once."""
        root = self._root
        if root.checked >= self._length:
            return
        sources = root.sources[-1] if root.sources else ""
        joined = {sources}
        for at, item in enumerate(self.items_from(root.checked), root.checked):
            # A call of the function only where the parts of a message have to be looked at.
            source = name_source(item) if type(item) is UserMessage or type(item) is SystemText else item.untrusted
            if source:
                if source not in joined:
                    joined.add(source)
                    sources = join_sources(sources, source)
                root.untrusted.append(at)
                root.sources.append(sources)
        root.checked = self._length

    def shared_ids(self, ids: set[str]) -> set[str]:
        """Return the ids for which `contains_id` is true."""
        return self._ids & ids

    def contains_id(self, item_id: str) -> bool:
        """Return whether an item has that id."""
        # The set is shared by all views of the list, so that it may also hold ids of a longer view, or of an event that
        # was refused after its items were added. Such ids count as used.
        return item_id in self._ids

    def without(self, ids: frozenset[str]) -> "History":
        return History(item for item in self if item.id not in ids)

    def items_from(self, start: int) -> list[Item]:
        return self._items[start : self._length]

    @property
    def root(self) -> HistoryRoot:
        """Return the identity of the list. Histories with one root agree on all items that both have, so that the
        encoded form of one can be used for the other.
        """
        return self._root

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items[: self._length])

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        if isinstance(index, slice):
            return self._items[: self._length][index]
        if not -self._length <= index < self._length:
            raise IndexError(index)
        return self._items[index if index >= 0 else self._length + index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, History) and list(self) == list(other)

    __hash__ = None  # pyright: ignore[reportAssignmentType]


def count_messages(items: Iterable[Item], before: Item | None = None) -> int:
    """Return the number of chat messages that the items make: a text of the model and its calls are one."""
    count = 0
    for item in items:
        if isinstance(item, Reasoning):
            continue
        if not (isinstance(item, Call) and isinstance(before, ModelText | Call)):
            count += 1
        before = item
    return count


def find_direct_calls(items: Sequence[Item]) -> list[Call]:
    """Return the calls at the end of a request's input that are to run here, so that no model is asked for them."""
    return [call for call in find_open_calls(items) if not call.ran_at]


def find_open_calls(items: Sequence[Item]) -> list[Call]:
    """Return the calls without a result at the end of a request's input.

    Only the end can have any (see `find_faults`), so that the rest of a long input is not read.
    """
    calls: list[Call] = []
    answered: set[str] = set()
    for item in reversed(items):
        if type(item) is Result:
            answered.add(item.call_id)
        elif type(item) is Call:
            calls.append(item)
        else:
            break
    return [call for call in reversed(calls) if call.id not in answered]


def find_trailing_calls(history: History) -> list[Call]:
    """Return the calls without a result at the end of the history: a client added them, and no result since.

    Only the calls and results at the end are read; before the last other item every call has its result.
    """
    calls: list[Call] = []
    answered: set[str] = set()
    for at in range(len(history) - 1, -1, -1):
        item = history[at]
        if isinstance(item, Result):
            answered.add(item.call_id)
        elif isinstance(item, Call):
            calls.append(item)
        elif not isinstance(item, Reasoning):
            break
    return [call for call in reversed(calls) if call.id not in answered and not call.ran_at]


def find_faults(items: Sequence[Item], *, open_end: bool = False) -> list[str]:
    """Return the reasons for which a strict provider would reject the items: duplicate ids, calls without results,
    and results that do not follow their calls.

    With `open_end` the last calls may lack their results.
    """
    faults = _find_duplicate_ids(items)
    waiting: dict[str, None] = {}
    answering = False
    for item in items:
        # Compared by type, not by `isinstance`, for speed: a request may bring thousands of items.
        if type(item) is Result:
            if item.ran_at:
                continue  # the provider ran the call, and may have paused one without a result
            answering = True
            if item.call_id in waiting:
                del waiting[item.call_id]
            else:
                faults.append(f"result {item.id!r} answers no open call")
            continue
        is_call = type(item) is Call
        if is_call and item.ran_at:
            continue
        if waiting and (answering or not is_call):
            faults.append(f"calls {list(waiting)} have no result before {item.id!r}")
            waiting = {}
        answering = False
        if is_call:
            waiting[item.id] = None
    if waiting and not (open_end and not answering):
        faults.append(f"calls {list(waiting)} have no result")
    return faults


def _find_duplicate_ids(items: Sequence[Item]) -> list[str]:
    if len({item.id for item in items}) == len(items):
        return []
    return [
        f"id {item_id!r} is used twice" for item_id, times in Counter(item.id for item in items).items() if times > 1
    ]
