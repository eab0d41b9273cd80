"""Whether enough was said to act on: what speaks for a tool beyond doubt, and what leaves it open."""

import re

from toolyard.finding.words import stem
from toolyard.models._offline.clauses import Clause
from toolyard.models._offline.places import Place
from toolyard.models._offline.profiles import Profile, frame_of
from toolyard.models._offline.rest import Filled
from toolyard.models._offline.verbs import own_verb
from toolyard.models._offline.words import tokens_of

WISH = re.compile(r"\W*(?:i(?:'d like| want| need| would like)|we (?:want|need)|我要|我想要?)", re.IGNORECASE)
"""Who says so much and names what a tool is to be told will say the rest when asked."""
NEEDS_ITS_THING = frozenset({"create", "open", "update", "stat"})
"""Verbs that say too little alone: `create` wants to know what, whatever else is named."""

BOUNDS = ("upper", "lower")
TELLING = ("day", "month", "number", "word", "clock", "flag", "choice")
"""Kinds of places that are not filled by chance."""


def timed(clause: Clause, profile: Profile) -> bool:
    """Whether a time is said for a tool that wants one, and nothing that another tool does at once."""
    place = profile.of_kind("moment")
    said = set(clause.actions()) - {"other", "open", "show"}
    return bool(place and place.required and clause.times.moment() and not said and not clause.asks)


def elsewhere(clause: Clause, foreign: set[str], thing: bool) -> bool:
    """Whether it is about something that no tool here speaks of."""
    if clause.actions()[:1] == ["remind"]:
        return False
    if foreign and not thing and not (clause.times.moment() and not any(token.has("no:") for token in clause.tokens)):
        return True
    if clause.times.moment() or clause.tells:
        return False
    first = next((token for token in clause.tokens if not token.has("fn:")), None)
    return first is not None and first.has("no:other") and not first.has("do:") and not thing


def evident(clause: Clause, profile: Profile, filled: Filled, verb: float, thing: bool) -> bool:
    if not profile.reads and clause.asks:
        return False
    if (
        filled.exemplary
        or likeness(clause, profile) >= 0.75
        or is_framed(clause, profile, filled)
        or _is_called(clause, profile, verb)
    ):
        return True
    exact = any(place.written and place.required for place in profile.places)
    if not profile.reads and exact and not verb:
        return False
    if is_filled(profile, filled):
        return True
    if thing and (verb or not clause.actions() or filled.chosen or (clause.asks and profile.reads)):
        return True
    if own_verb(clause, profile) == 1.0 and any(
        place.required and place.name in filled.values for place in profile.places
    ):
        return True
    if WISH.match(clause.text) and filled.chosen and not filled.items and not profile.reads and not clause.asks:
        return True
    return _complete(clause, profile, filled, verb) or _wanting(clause, profile, filled, verb)


def is_filled(profile: Profile, filled: Filled) -> bool:
    """Whether all that a tool must be told was said, two things of it in a way that cannot be meant for anything."""
    main = profile.main
    given = {*filled.values, *([main.name] if main and filled.items else [])}
    required = [place for place in profile.places if place.required]
    sure = [place for place in profile.places if place.name in filled.values and _is_sure(place)]
    return bool(required) and all(place.name in given for place in required) and len(sure) > 1


def _is_sure(place: Place) -> bool:
    return bool(place.written or place.shape) or place.kind in (*TELLING, "moment")


def _is_called(clause: Clause, profile: Profile, verb: float) -> bool:
    """Whether nothing is said but what the tool is called: `go back` is `navigate_back`."""
    name = {stem(word) for word in profile.tool.name.casefold().split("_")}
    said = [token for token in clause.tokens if token.text[0].isalnum() and not token.has("fn:polite")]
    rest = [token for token in said if not token.has("do:")]
    return verb >= 0.9 and bool(rest) and all(token.stem in name for token in rest)


def _complete(clause: Clause, profile: Profile, filled: Filled, verb: float) -> bool:
    """Whether what was said fills the tool so well that it must be meant."""
    required = [place for place in profile.places if place.required]
    exact = any(place.written or (place.shape and place.name in filled.values) for place in required)
    given = {*filled.values, profile.main.name} if exact and profile.main and filled.items else filled.values.keys()
    whole = bool(required) and all(place.name in given for place in required)
    if filled.chosen == "firmly" and verb >= 0.5:
        return True
    if whole and profile.reads and ((exact and not filled.items) or has_code(profile, filled)):
        return True
    if whole and (verb >= 0.9 or filled.chosen == "firmly" or (filled.chosen and verb >= 0.5)):
        return True
    if profile.reads and "stat" in profile.actions and "stat" in clause.actions()[:2]:
        return True
    if (
        profile.reads
        and filled.items
        and any(place.role in BOUNDS and place.name in filled.values for place in profile.places)
    ):
        return True
    if clause.asks:
        monthly = profile.of_kind("month") is not None and any(said.month for said in clause.times.said)
        return profile.reads and (verb >= 0.5 or monthly) and bool(filled.values)
    if not filled.items and not (filled.pronoun and clause.tells):
        return False
    chosen = bool(filled.chosen) and profile.of_kind("choice") is not None
    return chosen or timed(clause, profile) or bool(verb and profile.of_kind("moment") and clause.times.moment())


def _wanting(clause: Clause, profile: Profile, filled: Filled, verb: float) -> bool:
    """Whether a verb that says enough stands with a thing, or with none where one has to be asked for."""
    main, telling = profile.main, set(clause.actions()[:3])
    telling -= NEEDS_ITS_THING if main is None or not main.source else NEEDS_ITS_THING - {"open"}
    if main is None or not main.required or not telling:
        return False
    if not (filled.items or filled.pronoun):
        return verb >= 0.9
    return verb >= 0.45 and (main.role != "title" or "remind" in telling)


def has_code(profile: Profile, filled: Filled) -> bool:
    return any(place.shape and place.required and place.name in filled.values for place in profile.places)


def likeness(clause: Clause, profile: Profile) -> float:
    """How much of an example is in the clause and the other way round, by their words."""
    said = frame_of(clause.tokens, clause.times) if profile.likened else frozenset[str]()
    return max((len(words & said) / len(words | said) for words in profile.likened if words | said), default=0.0)


def is_framed(clause: Clause, profile: Profile, filled: Filled) -> bool:
    """Whether all words but those for what is wanted are in one example: `open the page of the …`."""
    if not filled.items or not clause.action:
        return False
    wanted = {
        stem(word) for item in filled.items for token in tokens_of(item.text) for word in (token.text.casefold(),)
    }
    frame = {
        token.stem
        for token in clause.tokens
        if token.stem not in wanted and token.text[0].isalnum() and not token.has("fn:polite")
    }
    return len(frame) >= 3 and any(frame <= set(example) for example in profile.examples)
