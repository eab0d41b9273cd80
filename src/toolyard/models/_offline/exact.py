"""What is written as a machine reads it goes to the places that are written so: paths, codes, time zones."""

import re
from typing import cast

from msgspec.structs import replace

from toolyard.models._offline.literals import before, way_of, zone_in
from toolyard.models._offline.places import MOST_SEARCHED, label_before, shape_of
from toolyard.models._offline.profiles import Profile
from toolyard.models._offline.rest import Filled
from toolyard.models._offline.sheet import Sheet

_REPOSITORY = re.compile(
    r"(?:\b(?:in|of|from|to|on|for)\s+)?(?:the\s+)?(?:\brepo(?:sitory)?\s+)?"
    r"(?<![\w./:-])(?P<owner>[A-Za-z][\w-]*)/(?P<repo>[A-Za-z][\w.-]*\w)(?![\w/])"
)
_FILE_NAME = re.compile(r"[\w.-]+")


def as_path(filled: Filled, profile: Profile) -> Filled:
    """A word that is left over names a file or a folder, where a tool wants nothing else: `a folder called old`."""
    paths = [place for place in profile.places if place.written == "path"]
    if len(paths) != 1 or paths[0].name in filled.values or profile.main or len(filled.items) != 1:
        return filled
    if not _FILE_NAME.fullmatch(filled.items[0].text):
        return filled
    return replace(filled, values={**filled.values, paths[0].name: filled.items[0].text}, items=())


def as_written(sheet: Sheet, profile: Profile, values: dict[str, object]) -> None:
    """Paths, addresses and time zones go to the places that are written so, by `from` and `to`, else in order."""
    for one in sheet.clause.literals:
        start, way = before(sheet.clause.text, one.start)
        taking = [place for place in profile.places if place.written == one.kind]
        fitting = [place for place in taking if place.name not in values]
        place = next((place for place in fitting if way and way_of(place.name) == way), fitting[0] if fitting else None)
        if place:
            values[place.name] = [one.value] if place.many else one.value
            sheet.take(start, one.end)
        elif len(taking) == 1 and sheet.follows(one.start):
            known = values[taking[0].name]
            if isinstance(known, list):
                values[taking[0].name] = [*cast("list[object]", known), one.value]
            else:
                sheet.others.append({taking[0].name: one.value})
            sheet.take(one.start, one.end)


def codes(sheet: Sheet, profile: Profile, values: dict[str, object]) -> None:
    """Codes by their shape, owners and repositories, time zones by their towns."""
    _shaped(sheet, profile, values)
    _repository(sheet, profile, values)
    _zones(sheet, profile, values)


def _repository(sheet: Sheet, profile: Profile, values: dict[str, object]) -> None:
    """`acme/shop` is an owner and a repository."""
    places = [profile.place(name) for name in ("owner", "repo")]
    found = _REPOSITORY.search(sheet.clause.text) if all(places) else None
    if found:
        values |= {"owner": found["owner"], "repo": found["repo"]}
        sheet.take(*found.span())


def _zones(sheet: Sheet, profile: Profile, values: dict[str, object]) -> None:
    """Time zones by their towns: `3 pm in New York` and `in London`."""
    places = [place for place in profile.places if place.written == "zone" and place.name not in values]
    text = sheet.clause.text
    at = 0
    for place in places:
        found = zone_in(text[at:])
        if found and sheet.free(at + found.start, at + found.end):
            values[place.name] = found.value
            start, _ = before(text, at + found.start)
            sheet.take(start, at + found.end)
            at += found.end


def _shaped(sheet: Sheet, profile: Profile, values: dict[str, object]) -> None:
    """What looks as a place demands it and like no word: `B2002` for `^B\\d{4}$`."""
    for place in profile.places:
        shape = shape_of(place.shape)
        for found in shape.finditer(sheet.clause.text[:MOST_SEARCHED]) if shape and not place.many else ():
            start = label_before(place, sheet.clause.text, found.start())
            if not sheet.free(start, found.end()):
                continue
            if place.name not in values:
                values[place.name] = found.group()
            elif sheet.follows(start):
                sheet.others.append({place.name: found.group()})
            sheet.take(start, found.end())
