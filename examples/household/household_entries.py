"""The entries of a household and functions on them. `household_sqlite` and `household_notion` store entries."""

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
MAX_NEAREST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A grocery, a task or an event. Times are ISO 8601; a field that does not apply is empty."""

    kind: Kind
    name: str
    id: str = ""
    status: str = ""
    qty: int = 1
    unit: str = ""
    starts: str = ""
    ends: str = ""
    location: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expense:
    category: str
    cents: int
    example: bool = False
    """Whether this is one of the example rows of a new file."""


class Household(Protocol):
    """A store of entries. Its methods block; they may be called from any thread."""

    def add(self, entry: Entry) -> Entry:
        """Store an entry, and return it with its new id."""
        ...

    def entries(self, kind: Kind) -> Sequence[Entry]:
        """Return all entries of a kind, newest first."""
        ...

    def set_status(self, entry: Entry, status: str) -> Entry: ...

    def expenses(self, month: str) -> Sequence[Expense]:
        """Return the expenses of a month such as 2026-11."""
        ...


def find_entry(entries: Sequence[Entry], name_or_id: str, label: str) -> Entry:
    """Return the entry with this id or name: an unfinished before a finished, a newer before an older one.

    Raise a ToolError that lists the nearest names; `label` is what it calls the entry.
    """
    matches = [entry for entry in entries if name_or_id == entry.id or name_or_id.casefold() == entry.name.casefold()]
    if matches:
        return min(matches, key=lambda entry: entry.status in FINISHED)
    near = find_nearest_names({entry.name for entry in entries}, name_or_id)
    hint = f"the nearest are {', '.join(near)}" if near else "nothing is called anything like it"
    raise ToolError(f"there is no {label} {name_or_id!r}: {hint}", "not_found", {"wanted": name_or_id, "nearest": near})


def find_nearest_names(names: Iterable[str], name: str) -> list[str]:
    """Return the names that are spelt like this one, then those that contain it."""
    folded_names = {other.casefold(): other for other in sorted(names)}
    close = get_close_matches(name.casefold(), folded_names, n=MAX_NEAREST, cutoff=0.6)
    containing = [folded for folded in folded_names if name.casefold() in folded]
    return [folded_names[folded] for folded in dict.fromkeys([*close, *containing])][:MAX_NEAREST]


def sum_by_category(expenses: Sequence[Expense]) -> dict[str, float]:
    """Return the sum of each category's expenses, the largest first."""
    cents: dict[str, int] = {}
    for expense in expenses:
        cents[expense.category] = cents.get(expense.category, 0) + expense.cents
    return {name: cents[name] / 100 for name in sorted(cents, key=lambda name: (-cents[name], name))}
