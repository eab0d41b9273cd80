"""The answer to a question: a message that gives a request the value that it lacks."""

import re
from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from toolyard.models._offline.amounts import numbers
from toolyard.models._offline.choices import composed
from toolyard.models._offline.clauses import Clause, clause, starts_a_request
from toolyard.models._offline.filling import fill, timed
from toolyard.models._offline.places import Place, as_number, fits
from toolyard.models._offline.requests import Request
from toolyard.models._offline.sheet import Sheet
from toolyard.models._offline.things import items_of
from toolyard.models._offline.words import tokens_of


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


_ABOUT = re.compile(
    r"^\W*(?:and\s+)?(?:what|how) about\s+(?P<en>[^?]+)\?*$|^\W*(?:那么?|还有)?(?P<zh>[^，,？?呢]{1,12})呢[？?]?$",
    re.IGNORECASE,
)


_ALSO = re.compile(
    r"^\W*(?:oh,? )?(?:and|also|plus|and also)\b,?\s+(?P<en>(?!what|how|when|where|who|why|is|are|do|does)[^?]+?)"
    r"(?:,? (?:too|as well|also))?(?:,? (?:please|thanks))?[.!]?$"
    r"|^\W*(?:还有|另外|以及|和)(?P<zh>[^，,？?呢吗]{1,16})[。！]?$"
    r"|^(?:no|sorry|no,? sorry)?,?\s*i meant? (?P<meant>[^?]+?)[.!]?$",
    re.IGNORECASE,
)


def with_another(requests: Sequence[Request], text: str, now: datetime, *, alone: bool = True) -> tuple[Request, ...]:
    """`What about bread?`: the last request again, for something else; none if that is not what is asked.

    `And bread` is that too, unless it is a request of its own, or not `alone`.
    """
    found = _ABOUT.match(text) or (_ALSO.match(text) if alone else None)
    if not found or len(requests) != 1:
        return ()
    request, about = requests[0], (next(filter(None, found.groups()))).strip()
    if starts_a_request(about) or any(token.has("no:") for token in tokens_of(about)[:2]):
        return ()
    values, main = fill(clause(about, now), request.profile).values, request.profile.main
    request = replace(request, values={name: one for name, one in request.values.items() if not _counts(request, name)})
    if values:
        return (replace(request, values={**request.values, **values}),)
    if main is None or not request.item:
        return ()
    return tuple(_with_item(request, main, item.text, item.quantity) for item in items_of(about, request.profile))


def _counts(request: Request, name: str) -> bool:
    """Whether a value says how many of the last thing there were to be."""
    place = request.profile.place(name)
    return bool(request.item and place and place.role == "quantity")


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


def _time(request: Request, place: Place, said: Clause) -> dict[str, object] | None:
    """A time of day alone is on the day that was said before."""
    moment, day = said.times.moment(), said.times.day
    known = [str(value) for name, value in request.values.items() if _is_moment(request, name)]
    if moment is None:
        return {place.name: day.isoformat()} if day and place.kind == "day" else None
    if place.kind == "clock":
        return {place.name: f"{moment:%H:%M}"}
    date = known[0][:10] if known and day is None else f"{moment:%Y-%m-%d}"
    return {place.name: f"{date}T{moment:%H:%M}" if place.kind == "moment" else date}


def _is_moment(request: Request, name: str) -> bool:
    place = request.profile.place(name)
    return place is not None and place.kind in ("moment", "day")


def _value(request: Request, place: Place, text: str, now: datetime) -> dict[str, object] | None:
    said = clause(text, now)
    filled = fill(said, request.profile)
    if place.name in filled.values:
        return filled.values
    match place.kind:
        case "number":
            found = numbers(text)
            return {place.name: as_number(found[0][2], place)} if found else None
        case "text":
            left, values = timed(said, request.profile)
            item = items_of(left if values else text, request.profile, split=False)
            return {**values, place.name: item[0].text} if item else None
        case "moment" | "clock" | "day":
            return _time(request, place, said)
        case "word":
            word = text.strip(" .!?。！？")
            values = dict(request.values)
            composed(Sheet(said), request.profile, values, list(said.tokens))
            return values if place.name in values else {place.name: word} if fits(place.pattern, word) else None
        case _:
            return None
