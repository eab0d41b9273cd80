"""Which tool a clause asks for: by its verb, by what the tool is about, by the shapes of what it takes."""

import re
from collections.abc import Sequence
from datetime import datetime
from math import log

from msgspec import Struct

from toolyard.finding.concepts import concepts as alike
from toolyard.finding.concepts import is_plain
from toolyard.finding.index import asked as asked_words
from toolyard.finding.words import stem
from toolyard.models._offline.clauses import Clause
from toolyard.models._offline.clauses import clause as as_clause
from toolyard.models._offline.filling import fill, frame
from toolyard.models._offline.lexicon import FOREIGN, RELATED, WEAK
from toolyard.models._offline.places import Place, Profile, concepts, frame_of, topics_of
from toolyard.models._offline.rest import Filled
from toolyard.models._offline.words import Token, is_chinese, tokens_of, value_pattern, words_for

NEEDS_ITS_THING = frozenset({"create", "open", "update", "stat"})
"""Verbs that say too little alone: `create` wants to know what, whatever else is named."""
LIKELY = 6
"""So many tools are looked at closely, besides those with a shape that fits."""
ENOUGH = 1.2
MOST_EXAMPLES = 8
AT_ALL = datetime(2000, 1, 3)
"""When an example was said matters to nobody."""
MOST_OF_TOPICS = 1.5
"""What words that a tool only speaks of say for it, all together."""
_HOW_MANY = re.compile(r"\W*how many\b|.*(?:多少|几)[个封条张件]", re.IGNORECASE)
BOUNDS = ("upper", "lower")
TELLING = ("day", "month", "number", "word", "clock", "flag", "choice")
"""Kinds of places that are not filled by chance."""
CHANGING = frozenset({"update", "remove", "cancel"})
"""Verbs that a later one does not soften: who says `delete` does not mean `find`."""


class Match(Struct, frozen=True, kw_only=True):
    profile: Profile
    clause: Clause
    filled: Filled
    score: float
    verb: float
    """How well the verbs agree, from 0 to 1."""
    thing: bool
    """Whether the clause names what the tool is about."""
    certain: bool
    """Whether there is enough to act on."""


class Matcher:
    """The tools of one offer, ready to be matched."""

    def __init__(self, profiles: Sequence[Profile]) -> None:
        self.profiles = {profile.tool.name: profile for profile in profiles}
        self.remembered: dict[object, object] = {}
        self._frames: dict[str, Sequence[str]] = {}
        self._known: dict[str, int] = {}
        self._spread: dict[str, int] = {}
        names = {word for profile in profiles for word in profile.tool.name.casefold().split("_") if len(word) > 3}
        for profile in profiles:
            for word in profile.words:
                self._known[word] = self._known.get(word, 0) + 1
            for thing in (*profile.things, *profile.topics):
                self._spread[thing] = self._spread.get(thing, 0) + 1
        self._choices = frozenset(
            choice.casefold().replace("_", " ")
            for profile in profiles
            for place in profile.places
            for choice in place.choices
            if place.kind == "choice"
        )
        self._verbs = frozenset(verb for profile in profiles for verb in profile.verbs)
        self._words = frozenset(names.union(*(words_for(thing) for profile in profiles for thing in profile.things)))

    def best(self, clause: Clause, only: str = "") -> Match | None:
        """The tool that fits best, whether or not it fits well; None if none has a word in common."""
        matches = self.ranked(clause, only)
        if not only and not any(match.certain for match in matches):
            matches += self._by_example(clause)
        return max(matches, key=lambda match: (match.certain, match.score)) if matches else None

    def _by_example(self, clause: Clause) -> list[Match]:
        """The tools whose examples are worded as the clause is, where nothing else tells which is meant."""
        shown = [profile for profile in self.profiles.values() if profile.tool.examples and profile.main]
        found = [self._match(clause, profile, 0.0, self._examples(profile)) for profile in shown]
        return [match for match in found if match.filled.exemplary]

    def ranked(self, clause: Clause, only: str = "") -> list[Match]:
        scores = self._scores(clause)
        if only:
            return [self._match(clause, self.profiles[only], scores[only])]
        shaped = [name for name, profile in self.profiles.items() if _may_fit(clause, profile)]
        likely = sorted(self.profiles, key=lambda name: -self._promise(clause, self.profiles[name], scores[name]))
        names = dict.fromkeys([*likely[:LIKELY], *shaped])
        return [self._match(clause, self.profiles[name], scores[name]) for name in names]

    def _scores(self, clause: Clause) -> dict[str, float]:
        """How much the words of a clause say for each tool: rare ones more. As the index does, for a few tools only."""
        asked = {*asked_words(clause.text), *concepts(clause.tokens)} & self._known.keys()
        rarity = {
            word: log(1 + (len(self.profiles) - self._known[word] + 0.5) / (self._known[word] + 0.5)) for word in asked
        }
        return {
            name: sum(rare * profile.words.get(word, 0.0) for word, rare in rarity.items())
            for name, profile in self.profiles.items()
        }

    def _promise(self, clause: Clause, profile: Profile, words: float) -> float:
        """A cheap guess of how well a tool will fit: only the best are looked at closely."""
        return 2.0 * words / (words + 6.0) + 3.0 * _verb(clause, profile) + len(clause.said & profile.things)

    def words(self) -> frozenset[str]:
        """The words for what the tools are about."""
        return self._words

    def speaks_of(self, concept: str) -> bool:
        return concept in self._spread

    def _examples(self, profile: Profile) -> Sequence[str]:
        """A tool's examples with gaps where their values were, made when they are first needed."""
        name = profile.tool.name
        if name not in self._frames:
            producer = self.profiles.get(profile.main.source) if profile.main else None
            clauses = [as_clause(example, AT_ALL) for example in profile.tool.examples[:MOST_EXAMPLES]]
            self._frames[name] = [frame(one, profile, producer) for one in clauses] if profile.main else []
        return self._frames[name]

    def _telling(self, topics: frozenset[str]) -> list[str]:
        """The topics that not most of the tools share."""
        return [topic for topic in topics if self._spread[topic] * 2 <= max(len(self.profiles), 3)]

    def _names_a_tool(self, filled: Filled, profile: Profile) -> bool:
        """Whether what looks like a thing is only the word for what another tool is about: `my order history`."""
        tokens = [token for item in filled.items if not item.quoted for token in tokens_of(item.text)]
        telling = [token for token in tokens if not token.has("fn:")]
        if any(item.text.casefold() in self._choices for item in filled.items):
            return True
        if any(self._is_of_another(token, profile) for token in telling):
            return True
        return bool(telling) and all(any(self.speaks_of(one) for one in token.means - WEAK) for token in telling)

    def _is_of_another(self, token: Token, profile: Profile) -> bool:
        """Whether a word is what another tool is about, and not this one: `预订` is nothing to look for in a town."""
        topics = {topic for topic in topics_of([token]) if topic in self._spread and not topic.startswith("~")}
        return is_chinese(token.text) and not token.has("of:") and bool(topics) and not topics & profile.topics

    def _match(self, clause: Clause, profile: Profile, words: float, examples: Sequence[str] = ()) -> Match:
        source = profile.main.source if profile.main else ""
        filled = fill(clause, profile, self.profiles.get(source), examples)
        verb, said = _verb(clause, profile), clause.said
        known = said & profile.things
        common = known - WEAK
        nouns = clause.stems & profile.nouns
        topics = self._telling(clause.topics & profile.topics)
        other = clause.leading in self._verbs and clause.leading not in profile.nouns | profile.verbs
        spoken_of = clause.unknown & profile.topics
        against = (bool(clause.actions()) or other) and not (verb or spoken_of or filled.chosen)
        against = against and not _timed(clause, profile)
        score = 2.0 * words / (words + 6.0) + 3.0 * verb - (2.0 if against else 0.0)
        score += sum(1.5 / self._spread[thing] ** 0.5 for thing in common) + 0.5 * len(nouns)
        score += min(MOST_OF_TOPICS, sum(1.0 / self._spread[topic] ** 0.5 for topic in topics))
        meant = said - known - _filtering(profile, filled)
        others = [thing for thing in meant if self.speaks_of(thing) and thing.startswith("of:")]
        score += 0.6 * len(known - common) - 0.7 * len(others) - (
            2.0 if profile.main and self._names_a_tool(filled, profile) else 0.0
        )
        score += (
            _shape(clause, profile, filled) + 2.0 * _likeness(clause, profile) + 1.5 * _frame(clause, profile, filled)
        )
        score += 2.0 if filled.exemplary else 0.0
        score -= 2.0 if "remove" in profile.actions and not verb else 0.0
        score -= 4.0 if clause.asks and not profile.reads else 0.0
        score -= 3.0 if clause.tells and not filled.chosen else 0.0
        foreign = {one[3:] for one in said - profile.things} & FOREIGN
        thing = bool(common or nouns or topics) and _is_headed(clause, profile, verb)
        own = verb == 1.0 and _own_verb(clause, profile) == 1.0
        certain = (
            score >= ENOUGH
            and (filled.chosen == "firmly" or not _elsewhere(clause, foreign, thing or own))
            and _evident(clause, profile, filled, verb, thing)
        )
        return Match(
            profile=profile, clause=clause, filled=filled, score=score, verb=verb, thing=thing, certain=certain
        )


def _may_fit(clause: Clause, profile: Profile) -> bool:
    """Whether its shape alone may fit: a time for an event, a status that something has come to."""
    if clause.times.moment() and profile.of_kind("moment"):
        return True
    choices = [place for place in profile.places if place.kind == "choice" and place.required]
    return any(
        clause.tells or any(value_pattern(one).search(clause.text) for one in place.choices) for place in choices
    )


def _timed(clause: Clause, profile: Profile) -> bool:
    """Whether a time is said for a tool that wants one, and nothing that another tool does at once."""
    place = profile.of_kind("moment")
    said = set(clause.actions()) - {"other", "open", "show"}
    return bool(place and place.required and clause.times.moment() and not said and not clause.asks)


def _filtering(profile: Profile, filled: Filled) -> frozenset[str]:
    """What is named only to narrow down: the groceries of `what did we spend on groceries`."""
    if not profile.reads or profile.main is None or profile.main.required:
        return frozenset()
    return frozenset(one for item in filled.items for token in tokens_of(item.text) for one in token.means)


def _is_headed(clause: Clause, profile: Profile, verb: float) -> bool:
    """Of a tool that creates something, that very thing must be named: a `report`, not only the stock that it is of."""
    if "create" not in profile.actions or "stat" in profile.actions:
        return True
    said = clause.stems | {one for token in clause.tokens for one in token.means}
    return bool(said & profile.head) or (verb > 0 and "of:calendar" in said)


def _elsewhere(clause: Clause, foreign: set[str], thing: bool) -> bool:
    """Whether it is about something that no tool here speaks of."""
    if clause.actions()[:1] == ["remind"]:
        return False
    if foreign and not thing and not (clause.times.moment() and not any(token.has("no:") for token in clause.tokens)):
        return True
    if clause.times.moment() or clause.tells:
        return False
    first = next((token for token in clause.tokens if not token.has("fn:")), None)
    return first is not None and first.has("no:other") and not first.has("do:") and not thing


def _evident(clause: Clause, profile: Profile, filled: Filled, verb: float, thing: bool) -> bool:
    if filled.exemplary or _likeness(clause, profile) >= 0.75 or _frame(clause, profile, filled) or _is_called(clause, profile, verb):
        return True
    exact = any(place.written and place.required for place in profile.places)
    if not profile.reads and clause.asks:
        return False
    if _is_filled(clause, profile, filled):
        return True
    if not profile.reads and exact and not verb:
        return False
    if thing and (verb or not clause.actions() or filled.chosen or (clause.asks and profile.reads)):
        return True
    if _own_verb(clause, profile) == 1.0 and any(place.required and place.name in filled.values for place in profile.places):
        return True
    return _complete(clause, profile, filled, verb) or _wanting(clause, profile, filled, verb)


def _is_filled(clause: Clause, profile: Profile, filled: Filled) -> bool:
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
    if whole and profile.reads and ((exact and not filled.items) or _has_code(profile, filled)):
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
    return chosen or _timed(clause, profile) or bool(verb and profile.of_kind("moment") and clause.times.moment())


def _wanting(clause: Clause, profile: Profile, filled: Filled, verb: float) -> bool:
    """Whether a verb that says enough stands with a thing, or with none where one has to be asked for."""
    main, telling = profile.main, set(clause.actions()[:3])
    telling -= NEEDS_ITS_THING if main is None or not main.source else NEEDS_ITS_THING - {"open"}
    if main is None or not main.required or not telling:
        return False
    if not (filled.items or filled.pronoun):
        return verb >= 0.9
    return verb >= 0.45 and (main.role != "title" or "remind" in telling)


def _verb(clause: Clause, profile: Profile) -> float:
    """How well the verbs agree; the first one says most."""
    tokens = [token for token in clause.tokens if token.has("do:")]
    agreed = 0.9 if "count" in profile.verbs and _HOW_MANY.match(clause.text) else _own_verb(clause, profile)
    if agreed >= 0.9:
        return agreed
    later = (1.0, 0.3, 0.3) if tokens and CHANGING & set(tokens[0].actions()) else (1.0, 0.7, 0.5)
    for token, weight in zip(tokens, later, strict=False):
        agreed = max(agreed, weight * max((_agreement(action, profile) for action in token.actions()), default=0.0))
    return agreed


def _own_verb(clause: Clause, profile: Profile) -> float:
    """How much a verb that the lexicon knows nothing of is the tool's own: `commit`, `rename`; less after another."""
    if clause.leading in profile.nouns | profile.verbs:
        return 1.0
    first = next((token.stem for token in clause.tokens if token.has("do:") or token.has("no:")), "")
    if first and any(first in verb for verb in profile.verbs if is_chinese(verb)) and first in clause.unknown:
        return 1.0
    if not clause.unknown & profile.verbs:
        said = {clause.leading, *([first] if first in clause.unknown else [])}
        same = {group for word in said for group in alike(word)}
        return 0.9 if same & {group for verb in profile.verbs if not is_plain(verb) for group in alike(verb)} else 0.0
    return 1.0 if first in profile.verbs else 0.5


def _agreement(action: str, profile: Profile) -> float:
    related = [
        (0.55 - 0.02 * at) * profile.actions.get(other, 0.0) for at, other in enumerate(RELATED.get(action, ()))
    ]
    return max([profile.actions.get(action, 0.0), *related])


def _shape(clause: Clause, profile: Profile, filled: Filled) -> float:
    main, times = profile.main, clause.times
    item = bool(filled.items or filled.pronoun or filled.everything)
    score = 0.0
    if item and main is None:
        meant = clause.leading in profile.verbs or clause.unknown & profile.verbs or _is_filled(clause, profile, filled)
        score -= 0.8 if meant or _has_code(profile, filled) else 2.5
    if not item and main is not None:
        score -= 1.2 if main.required else 0.2
    if item and main is not None:
        score += 1.0 if main.required else 0.3
    score += sum(_filled(place, filled, item) for place in profile.places)
    dated = any(place.kind in ("day", "moment", "month", "clock") for place in profile.places)
    if times.said and not dated and not clause.tells:
        score -= 1.0
    if times.moment() and not profile.of_kind("moment"):
        score -= 0.7
    return score


def _has_code(profile: Profile, filled: Filled) -> bool:
    return any(place.shape and place.required and place.name in filled.values for place in profile.places)


def _filled(place: Place, filled: Filled, item: bool) -> float:
    """What it says for a tool that one of its places is filled, or against it that it is not."""
    given = place.name in filled.values
    if place.shape and place.required and given:
        return 2.0
    if place.kind == "choice" and place.required:
        named = {"": -2.5, "guessed": 1.5, "named": 2.0, "firmly": 4.5}[filled.chosen if given else ""]
        return named + (1.5 if filled.chosen and not item else 0.0)
    if place.kind == "moment" and place.required:
        return 2.0 if given else -0.8
    if place.written and place.required:
        return 1.5 if given else -1.2
    if place.required and place.kind in ("number", "flag") and place.role != "quantity":
        return 1.0 if given else -1.0
    return 1.0 if given and (place.written or place.kind in TELLING) else 0.0


def _likeness(clause: Clause, profile: Profile) -> float:
    """How much of an example is in the clause and the other way round, by their words."""
    said = frame_of(clause.tokens, clause.times)
    return max((len(words & said) / len(words | said) for words in profile.likened if words | said), default=0.0)


def _frame(clause: Clause, profile: Profile, filled: Filled) -> bool:
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
