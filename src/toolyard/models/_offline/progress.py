"""How far requests have come: which calls are to be made next, and what became of those that are over."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.items import Call, Result
from toolyard.finding.words import words
from toolyard.models._offline.amounts import Priced
from toolyard.models._offline.places import Place
from toolyard.models._offline.requests import Request

MOST_VALUES = 20


Found = list[tuple[object, Mapping[str, object]]]
"""Values that a producer told, each with its row."""


class Wanted(Struct, frozen=True):
    """A call to be made."""

    tool: str
    arguments: dict[str, object]


class Outcome(Struct, frozen=True, kw_only=True):
    """What became of a request."""

    request: Request
    state: Literal["done", "failed", "nothing"]
    result: Result | None = None
    value: object = None
    chosen: Mapping[str, object] = {}
    """What the producer said of the thing that the call was made for."""


def advance(requests: Sequence[Request], done: Sequence[tuple[Call, Result]]) -> tuple[list[Wanted], list[Outcome]]:
    """The calls that can be made now, and the outcomes so far. Calls are told apart by their tool and their arguments.

    What changes something waits until what was asked for before it with other tools is done.
    """
    left = list(done)
    wanted: list[Wanted] = []
    outcomes: list[Outcome] = []
    under_way: set[str] = set()
    for request in requests:
        tool = request.profile.tool.name
        acts = not request.profile.reads or "open" in request.profile.actions
        if acts and under_way - {tool}:
            under_way.add(tool)
            continue
        calls, outcome = _advance(request, left)
        wanted += [call for call in calls if call not in wanted]
        outcomes += outcome
        if calls:
            under_way.add(tool)
    return wanted, outcomes


def _advance(request: Request, left: list[tuple[Call, Result]]) -> tuple[list[Wanted], list[Outcome]]:
    if request.producer is None:
        return _called(request, request.values, left)
    source = request.producer.tool.name
    made = _next(source, request.given, left)
    if made is None:
        return [Wanted(source, request.given)], []
    if made.outcome != "ok":
        return [], [Outcome(request=request, state="failed", result=made)]
    place = next(place for place in request.profile.places if place.source)
    found = list(_values(made, place, request))
    found = _picked(found, request.which)
    if not found:
        return [], [Outcome(request=request, state="nothing", result=made)]
    if place.many:
        values = [value for value, _ in found[:MOST_VALUES]]
        return _called(request, {**request.values, place.name: values}, left)
    calls: list[Wanted] = []
    outcomes: list[Outcome] = []
    for value, row in found[:MOST_VALUES] if request.everything else found[:1]:
        more, ended = _called(request, {**request.values, place.name: value}, left)
        calls, outcomes = calls + more, outcomes + [replace(one, chosen=row) for one in ended]
    return calls, outcomes


def _picked(found: Found, which: int | Priced | None) -> Found:
    """The one that is meant of those that were found; all if none was pointed at."""
    if which is None:
        return found
    if isinstance(which, int):
        return found[which:][:1]
    prices = [(price, one) for one in found if isinstance(price := one[1].get("price"), int | float)]
    pick = min if which == "cheapest" else max
    return [pick(prices, key=lambda one: one[0])[1]] if prices else found


def _called(
    request: Request, arguments: dict[str, object], left: list[tuple[Call, Result]]
) -> tuple[list[Wanted], list[Outcome]]:
    made = _next(request.profile.tool.name, arguments, left)
    if made is None:
        return [Wanted(request.profile.tool.name, arguments)], []
    if made.outcome != "ok":
        return [], [Outcome(request=request, state="failed", result=made)]
    value = decoded(made)
    state = "nothing" if is_empty(value) and request.profile.reads else "done"
    return [], [Outcome(request=request, state=state, result=made, value=value)]


def _next(tool: str, arguments: dict[str, object], left: list[tuple[Call, Result]]) -> Result | None:
    """The result of a call of this tool with these arguments: it answers every request that would make it."""
    return next((result for call, result in left if call.tool == tool and call.arguments == arguments), None)


def _values(made: Result, place: Place, request: Request) -> Iterator[tuple[object, Mapping[str, object]]]:
    """The values of the field that the place is named after, each with its row: all, or those that the item means."""
    rows = list(rows_of(decoded(made)))
    names = (place.name, place.name.removesuffix("s"), place.name.removesuffix("_ids") + "_id", "id")
    takes_item = request.producer is not None and request.producer.main is not None
    if not takes_item and not request.everything:
        rows = sorted(
            (row for row in rows if _likeness(row, request.item)), key=lambda row: -_likeness(row, request.item)
        )
    rows.sort(key=lambda row: not _is_named(row, request.item))
    for row in rows:
        name = next((name for name in names if name in row), "")
        if name and isinstance(row[name], str | int):
            yield row[name], row


def _is_named(row: Mapping[str, object], item: str) -> bool:
    """Whether a row is called just so: `Smith`, where `Smithson` comes first."""
    return bool(item) and any(isinstance(one, str) and one.casefold() == item.casefold() for one in row.values())


def _likeness(row: Mapping[str, object], item: str) -> float:
    """How much of the item's words a row has."""
    wanted = set(words(item)) or {item.casefold()}
    text = " ".join(str(value) for value in row.values() if isinstance(value, str))
    return len(wanted & set(words(text))) / len(wanted)


def decoded(result: Result) -> object:
    try:
        return msgspec.json.decode(result.content)
    except msgspec.DecodeError:
        return result.content


def rows_of(value: object, depth: int = 0) -> Iterator[Mapping[str, object]]:
    """The objects of the first list of objects in a value, wherever it is."""
    if isinstance(value, list):
        for row in cast("list[object]", value):
            if isinstance(row, Mapping):
                yield cast("Mapping[str, object]", row)
    elif isinstance(value, Mapping) and depth < 3:
        for inner in cast("Mapping[str, object]", value).values():
            found = list(rows_of(inner, depth + 1))
            if found:
                yield from found
                return
        if depth == 0 and not any(isinstance(one, list) for one in cast("Mapping[str, object]", value).values()):
            yield cast("Mapping[str, object]", value)


def is_empty(value: object) -> bool:
    """Whether a result tells of nothing: an empty list, or an object whose lists are all empty."""
    if value is None or value in ("", [], {}):
        return True
    if isinstance(value, Mapping):
        inner = list(cast("Mapping[str, object]", value).values())
        empty = [one in ([], {}) for one in inner if isinstance(one, list | Mapping)]
        return bool(empty) and all(empty) and not any(isinstance(one, str) and one for one in inner)
    return False
