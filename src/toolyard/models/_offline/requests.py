"""A message becomes requests: one call each, or a producer's and then a consumer's; what is missing is known."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from toolyard.models._offline.amounts import Priced
from toolyard.models._offline.caution import conditional
from toolyard.models._offline.clauses import MOST_CLAUSES, clause, joints, sentences, starts_a_request, tells
from toolyard.models._offline.ellipsis import carried, otherwise
from toolyard.models._offline.filling import limits
from toolyard.models._offline.matching import Match, Matcher
from toolyard.models._offline.places import Place, as_number
from toolyard.models._offline.profiles import Profile, filter_beside
from toolyard.models._offline.rest import Filled
from toolyard.models._offline.things import Item
from toolyard.models._offline.typing_errors import repaired
from toolyard.models._offline.words import is_chinese, tokens_of

MOST_REQUESTS = 16
MOST_REMEMBERED = 256
MOST_READ, CHINESE = 4000, 4
"""Letters that are read of one message, those of its parts counted anew, and what a Chinese one counts."""


class Request(Struct, frozen=True, kw_only=True):
    """One thing to be done with one tool."""

    profile: Profile
    values: dict[str, object]
    """The arguments that are known, without one that another tool must give first."""
    item: str = ""
    producer: Profile | None = None
    given: dict[str, object] = {}
    """What the producer is called with."""
    everything: bool = False
    which: int | Priced | None = None
    """Which of those that the producer finds is meant, where it is not the best one."""

    @property
    def missing(self) -> Place | None:
        """The first required place that nothing was said for."""
        for place in self.profile.places:
            comes = self.producer and place.source and (self.item or self.everything)
            if place.required and place.name not in self.values and not comes:
                return place
        return None


class Understood(Struct, frozen=True, kw_only=True):
    requests: tuple[Request, ...]
    certain: bool
    """Whether all of it was understood well enough to act on."""
    clear: bool = False
    """Whether a verb and the tool's own thing were named: it is a request of its own, not an answer to a question."""


def understand(
    message: str, matcher: Matcher, now: datetime, earlier: Sequence[str] = (), only: str = ""
) -> Understood:
    """What a message asks for. `earlier` are the things that were spoken of before, for `it` and `them`.

    A message is read again at each turn that follows it: what was understood is remembered.
    """
    key = (message, now, tuple(earlier), only)
    if key not in matcher.remembered:
        if len(matcher.remembered) >= MOST_REMEMBERED:
            matcher.remembered.clear()
        matcher.remembered[key] = _understand(message, matcher, now, earlier, only)
    return cast(Understood, matcher.remembered[key])


def _understand(message: str, matcher: Matcher, now: datetime, earlier: Sequence[str], only: str) -> Understood:
    matches: list[Match] = []
    reading = _Reading(matcher, now, only)
    for sentence in sentences(message):
        found = list(_matches(sentence, reading))
        if not any(match.certain for match in found) and (steps := otherwise(sentence)):
            found = list(_matches(steps, reading))
        for match in found:
            matches += _joined(matches, match)
    good = [match for match in matches if match.certain]
    used = good or (matches if only else [])
    requests: list[Request] = []
    things = list(earlier)
    for match in used[:MOST_CLAUSES]:
        made = list(_requests(match, matcher, things))
        things = [one.item for one in made if one.item] or things
        requests += made
    return Understood(
        requests=tuple(requests[:MOST_REQUESTS]),
        certain=bool(good),
        clear=any(match.verb >= 0.5 and match.thing for match in good),
    )


def _joined(before: list[Match], match: Match) -> list[Match]:
    """`I'd like blueberries. Put them in my cart` is one request: the second says what to do with the first."""
    if not match.certain or not _lacks(match) or not before or not before[-1].filled.items:
        return [match]
    last = before.pop()
    return [replace(match, filled=replace(match.filled, items=last.filled.items, pronoun=False))]


def _lacks(match: Match) -> bool:
    """Whether it points back for its thing: `put them in my cart`, `然后加入购物车`."""
    main, filled = match.profile.main, match.filled
    nothing = not (filled.items or filled.everything) and bool(main and main.required and main.source)
    return filled.pronoun or nothing


class _Reading:
    """Parts of one message, each read once, and only so much in all, however many places there are to cut it at."""

    def __init__(self, matcher: Matcher, now: datetime, only: str) -> None:
        self._matcher, self._now, self._only = matcher, now, only
        self._read: dict[str, Match | None] = {}
        self._left = MOST_READ

    def best(self, text: str) -> Match | None:
        if text not in self._read and self._left > 0:
            self._left -= len(text) * (CHINESE if is_chinese(text) else 1)
            self._read[text] = _best(text, self._matcher, self._now, self._only)
        return self._read.get(text)


def _matches(sentence: str, reading: _Reading) -> Iterator[Match]:
    """The requests of a sentence, which falls into two where both parts are requests."""
    whole = reading.best(sentence)
    for start, end in joints(sentence):
        first, rest = sentence[:start], sentence[end:]
        if not first.strip():
            continue
        left, alone = reading.best(first), starts_a_request(rest, any_verb=True) or tells(rest)
        rest = rest if alone else carried(first, rest, things=bool(left and left.filled.items))
        right = reading.best(rest) if rest else None
        if left and right and left.certain and right.certain and _apart(left, right, alone=alone):
            yield left
            yield from _matches(rest, reading)
            return
    yield from _last(sentence, whole, reading)


def _last(sentence: str, whole: Match | None, reading: _Reading) -> Iterator[Match]:
    """The sentence as one request; if it is none, what it comes to: `I changed my mind, take it out`."""
    for start, end in joints(sentence) if whole and not whole.certain else ():
        rest = sentence[end:]
        if conditional(sentence[:start]):
            continue
        found = reading.best(rest)
        if found and found.certain and (starts_a_request(rest) or found.verb >= 0.9):
            yield found
            return
    if whole:
        yield whole


def _apart(left: Match, right: Match, *, alone: bool) -> bool:
    """A title may hold a verb of its own: it is only cut where a whole other request follows.

    What is no request `alone` is one if it is dated, or what another tool is for: `list the channels and the users`.
    """
    same = left.profile is right.profile
    if not alone and right.clause.times.said:
        timed = left.clause.times.moment() and right.clause.times.moment()
        return same and (timed is not None or not left.profile.titled)
    if not alone:
        return not same and not right.filled.items and left.thing and right.thing
    return not (left.profile.titled and left.filled.items) or (right.thing and right.verb >= 0.5)


def _best(text: str, matcher: Matcher, now: datetime, only: str) -> Match | None:
    said = clause(text, now)
    found = matcher.best(said, only)
    mended = repaired(said, matcher.words())
    other = matcher.best(clause(mended, now), only) if mended != said.text else None
    sure = 0.0 if found and other and _shorter(other, found) else 0.8 if found and found.certain else -100.0
    if other and other.certain and other.score >= (found.score if found else 0.0) + sure:
        return other
    return found


def _shorter(one: Match, other: Match) -> bool:
    """Whether the same tool is given the same thing without a tail that said nothing: `… to my crat`."""
    left, right = ("".join(item.text for item in match.filled.items) for match in (one, other))
    return one.profile is other.profile and bool(left) and right.startswith(f"{left} ")


def _requests(match: Match, matcher: Matcher, things: Sequence[str]) -> Iterator[Request]:
    filled, profile = match.filled, match.profile
    items: Sequence[Item | None] = filled.items
    if filled.pronoun or _points_back(match):
        items = [Item(thing, filled.quantity) for thing in things] or [None]
    if isinstance(filled.which, int) and len(items) > 1:
        items = items[filled.which :][:1]
    for other in ({}, *filled.others):
        if profile.main is None:
            yield Request(profile=profile, values=filled.values | other)
        else:
            this = replace(match, filled=replace(filled, values=filled.values | other))
            yield from (_request(this, item, matcher, things) for item in items or [None])


def _points_back(match: Match) -> bool:
    """Whether nothing is named for what another tool must find first: `add to cart` after a search."""
    main, filled = match.profile.main, match.filled
    named = filled.items or filled.everything or any(token.has("fn:something") for token in match.clause.tokens)
    return bool(main and main.required and main.source) and not named


def _request(match: Match, item: Item | None, matcher: Matcher, things: Sequence[str]) -> Request:
    profile, filled = match.profile, match.filled
    main, values = profile.main, dict(filled.values)
    assert main is not None
    quantity = item.quantity if item else filled.quantity
    if quantity is not None:
        values |= _counted(profile, quantity)
    if main.source and main.name not in values and (main.required or item):
        producer = matcher.profiles.get(main.source)
        given = _given(producer, item, match) if producer else {}
        return Request(
            profile=profile,
            values=values,
            item=item.text if item else "",
            producer=producer,
            given=given,
            everything=filled.everything,
            which=filled.which if len(things) < 2 or isinstance(filled.which, str) else None,
        )
    values |= _main_values(profile, main, item, filled)
    return Request(profile=profile, values=values, item=item.text if item else "")


def _main_values(profile: Profile, main: Place, item: Item | None, filled: Filled) -> dict[str, object]:
    """The thing goes into the main place; where that is a title and another place narrows it down, into both."""
    beside = filter_beside(profile)
    if item and not main.required and not main.role:
        item = Item(_in_the_tools_language(item.text, profile))
    if main.role != "title" or beside is None or (item and item.quoted):
        return {main.name: [item.text] if main.many else item.text} if item else {}
    if item:
        return {main.name: filled.whole or item.text, beside.name: item.text}
    return {main.name: filled.whole} if _says_more(filled.whole, profile) else {}


def _in_the_tools_language(text: str, profile: Profile) -> str:
    """A category is known to a tool by the name in its own language, where the lexicon knows it."""
    if not is_chinese(text) or is_chinese(profile.tool.description):
        return text
    tokens = [token for token in tokens_of(text) if token.has("is:")]
    return next((one[3:] for token in tokens for one in sorted(token.means) if one.startswith("is:")), text)


def _says_more(whole: str, profile: Profile) -> bool:
    """Whether a noun phrase is more than the tool's own word for what it makes."""
    return (len(whole) > 3 and whole.casefold() not in profile.nouns and len(whole.split()) != 1) or (
        len(whole) > 3 and not whole.isascii()
    )


def _counted(profile: Profile, quantity: float) -> dict[str, object]:
    place = next((one for one in profile.places if one.kind == "number" and one.role == "quantity"), None)
    return {place.name: as_number(quantity, place)} if place else {}


def _given(producer: Profile, item: Item | None, match: Match) -> dict[str, object]:
    main = producer.main
    given: dict[str, object] = {main.name: item.text} if main and item else {}
    return given | limits(match.clause, producer)
