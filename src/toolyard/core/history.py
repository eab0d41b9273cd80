"""The items of a conversation as an append-only sequence that many states can point into.

Extending costs what is added, never what is there: two histories share one list and differ in length.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from toolyard.core.items import Call, Item, Result


class History(Sequence[Item]):
    """An immutable view of the first `length` items of a list that only grows."""

    __slots__ = ("_ids", "_items", "_length")

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._items = list(items)
        self._ids = {item.id for item in self._items}
        self._length = len(self._items)

    def plus(self, items: Sequence[Item]) -> "History":
        """This history with the items after it. Only a fork copies: one that another extension overtook."""
        if not items:
            return self
        longer = self if 0 < self._length == len(self._items) else History(self._items[: self._length])
        longer._items.extend(items)
        longer._ids.update(item.id for item in items)
        view = History.__new__(History)
        view._items, view._ids, view._length = longer._items, longer._ids, len(longer._items)
        return view

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
