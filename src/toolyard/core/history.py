"""The items of a conversation as an append-only sequence that many states can point into.

Extending costs what is added, never what is there: two histories share one list and differ in length.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from toolyard.core.items import Call, Item, ModelText, Reasoning, Result
from toolyard.core.tokens import tokens_of


class History(Sequence[Item]):
    """An immutable view of the first `length` items of a list that only grows, and what they come to."""

    __slots__ = ("_ids", "_items", "_length", "_sums")

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._items = list(items)
        self._ids = {item.id for item in self._items}
        self._length = len(self._items)
        self._sums = [(0, 0)]

    def plus(self, items: Sequence[Item]) -> "History":
        """This history with the items after it. Only a fork copies: one that another extension overtook."""
        if not items:
            return self
        longer = self if 0 < self._length == len(self._items) else History(self._items[: self._length])
        longer._items.extend(items)
        longer._ids.update(item.id for item in items)
        view = History.__new__(History)
        view._items, view._ids, view._length = longer._items, longer._ids, len(longer._items)
        view._sums = longer._sums
        return view

    @property
    def tokens(self) -> int:
        """By estimate."""
        return self.sums(self._length)[0]

    @property
    def messages(self) -> int:
        return self.sums(self._length)[1]

    def sums(self, length: int) -> tuple[int, int]:
        """The tokens and messages of the first items: each item is looked at once, when somebody first asks."""
        sums, items = self._sums, self._items
        for at in range(len(sums) - 1, length):
            tokens, messages = sums[at]
            last = at - 1
            while last >= 0 and isinstance(items[last], Reasoning):
                last -= 1
            begun = messages_in((items[at],), items[last] if last >= 0 else None)
            sums.append((tokens + tokens_of(items[at]), messages + begun))
        return sums[length]

    def has(self, item_id: str) -> bool:
        """Whether an item of that id is here (or was taken back a moment ago): such an id is not used again."""
        return item_id in self._ids

    def without(self, ids: frozenset[str]) -> "History":
        return History(item for item in self if item.id not in ids)

    def since(self, start: int) -> list[Item]:
        return self._items[start : self._length]

    @property
    def root(self) -> object:
        """Histories with one root agree on every item that both have: what was encoded for one holds for the other."""
        return self._items

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


def messages_in(items: Iterable[Item], before: Item | None = None) -> int:
    """As how many chat messages the items are told: what the model says and calls in one go is one."""
    count = 0
    for item in items:
        if isinstance(item, Reasoning):
            continue
        if not (isinstance(item, Call) and isinstance(before, ModelText | Call)):
            count += 1
        before = item
    return count


def faults(items: Iterable[Item], *, open_end: bool = False) -> list[str]:
    """What a strict provider would refuse: orphans, doubles, and results that do not follow their calls.

    With an open end the last calls may still wait for their results.
    """
    found: list[str] = []
    seen: set[str] = set()
    waiting: list[str] = []
    answering = False
    for item in items:
        if item.id in seen:
            found.append(f"id {item.id!r} is used twice")
        seen.add(item.id)
        if isinstance(item, Call | Result) and item.ran_at:
            continue  # the provider's own business: one that it has paused may be without a result
        if isinstance(item, Result):
            answering = True
            if item.call_id in waiting:
                waiting.remove(item.call_id)
            else:
                found.append(f"result {item.id!r} answers no open call")
            continue
        if waiting and (answering or not isinstance(item, Call)):
            found.append(f"calls {waiting} have no result before {item.id!r}")
            waiting = []
        answering = False
        if isinstance(item, Call):
            waiting.append(item.id)
    if waiting and not (open_end and not answering):
        found.append(f"calls {waiting} have no result")
    return found
