"""Values out of a set: statuses, categories, services, named by themselves or by words that mean the same."""

import re
from collections.abc import Iterator
from typing import Literal

from msgspec.structs import replace

from toolyard.models._offline.amounts import COUNT_BEFORE, number
from toolyard.models._offline.lexicon import KINDS
from toolyard.models._offline.literals import before, way_of
from toolyard.models._offline.past import doing, done
from toolyard.models._offline.places import Place, as_number, fits
from toolyard.models._offline.profiles import Profile
from toolyard.models._offline.sheet import Sheet
from toolyard.models._offline.things import parts
from toolyard.models._offline.words import Span, Token, is_chinese, quoted, value_pattern

Chosen = Literal["", "guessed", "named", "firmly"]

_BEFORE_CHOICE = re.compile(
    r"(?:(?:[:：]|\b(?:back\s+)?(?:as|to|is|are|was|were|into)\b)\s*(?:the\s+|an?\s+|now\s+)?|(?:标记|设置?|改|标|更新|状态)?(?:为|成|到|是)\s*[“\"]?)$",
    re.IGNORECASE,
)


def choose(sheet: Sheet, profile: Profile, values: dict[str, object]) -> Chosen:
    """The longest phrases find their places first; a phrase says one thing only."""
    chosen: Chosen = _quoted_choice(sheet, profile, values)
    used: list[Span] = []
    more: list[tuple[int, int, Place, str]] = []
    chosen = _twins(sheet, profile, values) or chosen
    for _, place, choice, (start, end) in sorted(_named_choices(sheet, profile), key=lambda one: one[0]):
        if any(start < other_end and other < end for other, other_end in used):
            continue
        if place.name in values:
            more.append((start, end, place, choice))
            continue
        values[place.name] = choice
        values |= _how_many(sheet, profile, start)
        used.append((start, end))
        lead = _BEFORE_CHOICE.search(sheet.clause.text, 0, start)
        chosen = "firmly" if lead or chosen == "firmly" or len(used) > 1 else "named"
        if place.kind == "choice" or _is_action(sheet, start):
            sheet.take(lead.start() if lead else start, end)
    counted = [one.name for one in profile.places if one.role == "quantity" and one.name in values]
    for start, end, place, choice in sorted(more, key=lambda one: one[0]):
        if place.kind == "choice" and sheet.free(start, end) and sheet.follows(start):
            many = _how_many(sheet, profile, start)
            sheet.others.append({place.name: choice, **(many or dict.fromkeys(counted, 1))})
            sheet.take(start, end)
    return chosen


def _quoted_choice(sheet: Sheet, profile: Profile, values: dict[str, object]) -> Chosen:
    """A choice in quotation marks: `set it to "In cart"`."""
    for place in profile.places:
        for span, value in quoted(sheet.clause.text):
            choice = next((one for one in place.choices if one.casefold() == value.casefold()), "")
            if place.kind == "choice" and choice and place.name not in values:
                values[place.name] = choice
                lead = _BEFORE_CHOICE.search(sheet.clause.text, 0, span[0])
                sheet.take(lead.start() if lead else span[0], span[1])
                return "firmly"
    return ""


def _how_many(sheet: Sheet, profile: Profile, start: int) -> dict[str, object]:
    """`two monitors`, where a tool takes what is chosen and how many of it."""
    place = next((one for one in profile.places if one.kind == "number" and one.role == "quantity"), None)
    found = COUNT_BEFORE.search(sheet.clause.text, 0, start) if place and profile.main is None else None
    if place is None or found is None or not sheet.free(*found.span()):
        return {}
    sheet.take(*found.span())
    return {place.name: as_number(number(found["number"]), place)}


def _twins(sheet: Sheet, profile: Profile, values: dict[str, object]) -> Chosen:
    """Two places that take the same, `from_unit` and `to_unit`: by the small word before each, else in their order."""
    for first in profile.places:
        twins = [one for one in profile.places if one.kind == "choice" and one.choices == first.choices]
        if len(twins) < 2 or first.name in values:
            continue
        found = dict[Span, str]()
        for _, _, choice, span in sorted(
            _named_choices(sheet, replace(profile, places=(first,))), key=lambda one: one[0]
        ):
            if not any(span[0] < end and start < span[1] for start, end in found):
                found[span] = choice
        for at, (span, choice) in enumerate(sorted(found.items())):
            start, way = before(sheet.clause.text, span[0])
            way = way or ("to" if at or re.search(r"\b(?:in|into)\s+$", sheet.clause.text[: span[0]]) else "")
            empty = [one for one in twins if one.name not in values]
            place = next((one for one in empty if way and way_of(one.name) == way), next(iter(empty), None))
            if place:
                values[place.name] = choice
                sheet.take(start if way else span[0], span[1])
        if found:
            return "named"
    return ""


Ranked = tuple[int, int]
"""The longest first; of those that are equally long what is named by itself."""


def _named_choices(sheet: Sheet, profile: Profile) -> Iterator[tuple[Ranked, Place, str, Span]]:
    """The choices that the clause names by themselves or by words that mean the same."""
    for place in profile.places:
        if place.kind not in ("choice", "word") or place.source or any("." in choice for choice in place.choices):
            continue
        for choice, pattern in _patterns(place):
            for one in pattern.finditer(sheet.clause.text):
                if sheet.free(*one.span()):
                    itself = one.group().casefold() == choice.casefold().replace("_", " ")
                    yield (one.start() - one.end(), 0 if itself else 1), place, choice, one.span()


def _patterns(place: Place) -> Iterator[tuple[str, re.Pattern[str]]]:
    """What a place takes, by all its words; what else is of the kind of its examples, only by its very word."""
    for choice in place.choices:
        yield choice, value_pattern(choice)
    likes = [kind for kind in KINDS if len(kind & set(place.choices)) > 1] if place.kind == "word" else []
    for choice in sorted(frozenset[str]().union(*likes) - set(place.choices)):
        yield choice, re.compile(rf"(?<!\w){choice.replace('_', '[ _]')}(?!\w)", re.IGNORECASE)


def _is_action(sheet: Sheet, start: int) -> bool:
    return any(token.start == start and token.has("do:") for token in sheet.clause.tokens)


def finished(sheet: Sheet, profile: Profile, values: dict[str, object]) -> str:
    """`I have called the plumber` says that `call the plumber` is done, where a status can say so."""
    place, value = ends(profile) or (None, "")
    if place is None or place.name in values or sheet.clause.asks:
        return ""
    if (what := done(sheet.clause.text)) and what.split()[-1] not in ("it", "them", "him", "her", "that", "this"):
        values[place.name] = value
        return what
    what = ""
    begun = next((one for one in place.choices if one.casefold() in ("in progress", "doing", "started")), "")
    if begun and (what := doing(sheet.clause.text)):
        values[place.name] = begun
    return what


def ends(profile: Profile) -> tuple[Place, str] | None:
    """Where a tool takes that something is done, and how it calls that: it is about work, not about things."""
    for place in profile.places:
        if place.kind == "choice" and place.required:
            value = next((one for one in place.choices if one.casefold() in ("done", "completed", "finished")), "")
            return (place, value) if value else None
    return None


def composed(
    sheet: Sheet, profile: Profile, values: dict[str, object], rest: list[Token]
) -> tuple[dict[str, object], ...]:
    """A place such as `light.kitchen` is made of another place's value and the words that are left.

    Where the words name several, the values for the others are told: `the kitchen and the bedroom lights`.
    """
    others: tuple[dict[str, object], ...] = ()
    for place in profile.places:
        example = next((choice for choice in place.choices if "." in choice), "")
        if place.kind != "word" or not example or place.name in values:
            continue
        whole = next((one.text for one in sheet.tokens() if "." in one.text and fits(place.pattern, one.text)), "")
        if whole:
            values[place.name] = whole
            values |= {one.name: kind for one in profile.places if (kind := whole.split(".")[0]) in one.choices}
            continue
        kind = next((str(value) for value in values.values() if str(value) == example.split(".")[0]), "")
        kind = kind or next(
            (str(values[one.name]) for one in profile.places if one.name in values and one.kind == "word"), ""
        )
        made = [f"{kind}.{name}" for part in parts(rest) if (name := _name(part, kind))] if kind else []
        first, *more = [one for one in made if fits(place.pattern, one)] or [""]
        if first:
            values[place.name] = first
            others = tuple({place.name: one} for one in more)
    return others


def _name(tokens: list[Token], kind: str) -> str:
    """`living_room` of `the living room light`, where the kind is a light."""
    words = (_slug(token) for token in tokens if not (token.has(f"of:{kind}") or token.has("fn:")))
    return "_".join(word for word in words if word)


def _slug(token: Token) -> str:
    """A word as it is written in ids, in English where the lexicon knows it."""
    known = next((one[3:] for one in sorted(token.means) if one.startswith("is:")), "")
    text = known if is_chinese(token.text) else token.text
    return re.sub(r"[^a-z0-9]+", "_", text.casefold()).strip("_")
