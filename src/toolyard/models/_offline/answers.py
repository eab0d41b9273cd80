"""The answer to a question: a message that gives a request the value that it lacks."""

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from toolyard.models._offline.amounts import numbers
from toolyard.models._offline.clauses import clause
from toolyard.models._offline.filling import as_number, fill
from toolyard.models._offline.places import Place, fits
from toolyard.models._offline.requests import Request
from toolyard.models._offline.things import items_of


def with_answer(requests: Sequence[Request], text: str, now: datetime) -> tuple[Request, ...]:
    """The requests with the answer in the first place that lacks a value; none if it is not an answer to that."""
    for at, request in enumerate(requests):
        if place := request.missing:
            given = _answered(request, place, text, now)
            return (*requests[:at], *given, *requests[at + 1 :]) if given else ()
    return ()


def _answered(request: Request, place: Place, text: str, now: datetime) -> list[Request]:
    if place.source:
        return [_with_item(request, place, item.text, item.quantity) for item in items_of(text, request.profile)]
    if place.wants_item and not place.role and place is request.profile.main:
        items = items_of(text, request.profile)
        return [_with_item(request, place, item.text, item.quantity) for item in items]
    value = _value(request, place, text, now)
    return [] if value is None else [replace(request, values={**request.values, **value})]


def _with_item(request: Request, place: Place, item: str, quantity: float | None) -> Request:
    values = dict(request.values)
    counts = next((one for one in request.profile.places if one.role == "quantity"), None)
    if counts and quantity is not None:
        values[counts.name] = as_number(quantity, counts)
    if not place.source:
        return replace(request, values={**values, place.name: [item] if place.many else item}, item=item)
    main = request.producer.main if request.producer else None
    given = {**request.given, main.name: item} if main else request.given
    return replace(request, values=values, item=item, given=given)


def _value(request: Request, place: Place, text: str, now: datetime) -> dict[str, object] | None:
    filled = fill(clause(text, now), request.profile)
    if place.name in filled.values:
        return filled.values
    match place.kind:
        case "number":
            found = numbers(text)
            return {place.name: as_number(found[0][2], place)} if found else None
        case "text":
            item = items_of(text, request.profile, split=False)
            return {place.name: item[0].text} if item else None
        case "word":
            word = text.strip(" .!?。！？")
            return {place.name: word} if fits(place.pattern, word) else None
        case _:
            return None
