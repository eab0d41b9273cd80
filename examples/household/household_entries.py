"""The words of a household, and what can be said about its entries. It does not know where they are kept."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, Protocol, get_args

from toolyard import ToolError

Kind = Literal["grocery", "task", "event"]
GroceryStatus = Literal["Needed", "In cart", "Bought"]
TaskStatus = Literal["To do", "In progress", "Done"]

STATUSES: dict[Kind, tuple[str, ...]] = {"grocery": get_args(GroceryStatus), "task": get_args(TaskStatus), "event": ()}
"""In the order in which an entry goes through them."""
FINISHED = frozenset({"Bought", "Done"})
MOST_NEAREST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Something to buy, to do or to go to. Times are ISO 8601; what does not apply is empty."""

    kind: Kind
    name: str
    id: str = ""
    status: str = ""
    qty: int = 1
    unit: str = ""
    starts: str = ""
    ends: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expense:
    category: str
    cents: int
    example: bool = False
    """One of the rows that a new file is given, so that there is something to see."""


class Household(Protocol):
    """Where the entries are kept. Its methods block; they may be called from any thread."""

    def add(self, entry: Entry) -> Entry:
        """The entry with the id that it was given."""
        ...

    def entries(self, kind: Kind) -> Sequence[Entry]:
        """All of a kind, newest first."""
        ...

    def set_status(self, entry: Entry, status: str) -> Entry: ...

    def expenses(self, month: str) -> Sequence[Expense]:
        """What was spent in a month such as 2026-11."""
        ...


def find(entries: Sequence[Entry], wanted: str, what: str) -> Entry:
    """The entry of this id or name: an unfinished one before a finished one, a newer one before an older one.

    Raises a ToolError that lists the nearest names.
    """
    named = [one for one in entries if wanted == one.id or wanted.casefold() == one.name.casefold()]
    if named:
        return min(named, key=lambda one: one.status in FINISHED)
    near = nearest({one.name for one in entries}, wanted)
    hint = f"the nearest are {', '.join(near)}" if near else "nothing is called anything like it"
    raise ToolError(f"there is no {what} {wanted!r}: {hint}", "not_found", {"wanted": wanted, "nearest": near})


def nearest(names: Iterable[str], wanted: str) -> list[str]:
    """The names that contain the wanted one or are spelt like it, best first."""
    folded = {name.casefold(): name for name in sorted(names)}
    close = get_close_matches(wanted.casefold(), folded, n=MOST_NEAREST, cutoff=0.6)
    holding = [name for name in folded if wanted.casefold() in name]
    return [folded[name] for name in dict.fromkeys([*close, *holding])][:MOST_NEAREST]


def by_category(expenses: Sequence[Expense]) -> dict[str, float]:
    """What was spent on each category, the largest first."""
    cents: dict[str, int] = {}
    for one in expenses:
        cents[one.category] = cents.get(one.category, 0) + one.cents
    return {name: cents[name] / 100 for name in sorted(cents, key=lambda name: (-cents[name], name))}
