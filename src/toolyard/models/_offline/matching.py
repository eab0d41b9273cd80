"""Which tool a clause asks for: by its verb, by what the tool is about, by the shapes of what it takes."""

from collections.abc import Sequence
from math import log

from msgspec import Struct
from msgspec.structs import replace

from toolyard.finding.index import asked as asked_words
from toolyard.models._offline.caution import held_back
from toolyard.models._offline.clauses import Clause
from toolyard.models._offline.clauses import clause as as_clause
from toolyard.models._offline.evidence import (
    TELLING,
    elsewhere,
    evident,
    has_code,
    is_filled,
    is_framed,
    likeness,
    timed,
)
from toolyard.models._offline.filling import fill, frame
from toolyard.models._offline.lexicon import FOREIGN, WEAK
from toolyard.models._offline.places import Place, in_shape
from toolyard.models._offline.profiles import Profile, concepts, topics_of
from toolyard.models._offline.rest import Filled
from toolyard.models._offline.times import AT_ALL
from toolyard.models._offline.verbs import own_verb, verb_of
from toolyard.models._offline.words import Token, is_chinese, tokens_of, value_pattern, words_for

LIKELY = 6
"""So many tools are looked at closely, besides those with a shape that fits."""
CLEAR = 6.0
"""A tool that promises so much less than another one scores is not looked at."""
ENOUGH = 1.2
MOST_EXAMPLES = 8
LEAST_AROUND = 2
"""So many letters of a thing must be an example's and not its name: the sugar of `白砂糖` is part of it."""
MOST_OF_TOPICS = 1.5
"""What words that a tool only speaks of say for it, all together."""


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
        return self._refined(max(matches, key=lambda match: (match.certain, match.score))) if matches else None

    def _refined(self, match: Match) -> Match:
        """In Chinese, where words are not apart, an example may show that only a part of the thing is its name."""
        items, examples = match.filled.items, self._examples(match.profile)
        if not match.certain or len(items) != 1 or not examples or not is_chinese(items[0].text):
            return match
        filled = fill(match.clause, match.profile, self._producer(match.profile), examples)
        text = filled.items[0].text
        inside = text in items[0].text and len(items[0].text) - len(text) >= LEAST_AROUND
        return replace(match, filled=filled) if filled.exemplary and inside else match

    def _producer(self, profile: Profile) -> Profile | None:
        return self.profiles.get(profile.main.source) if profile.main else None

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
        promise = {name: self._promise(clause, profile, scores[name]) for name, profile in self.profiles.items()}
        likely = sorted(self.profiles, key=lambda name: -promise[name])
        names = dict.fromkeys([*likely[:LIKELY], *shaped])
        found: list[Match] = []
        for name in sorted(names, key=lambda name: -promise[name]):
            if not any(match.certain and match.score > promise[name] + CLEAR for match in found):
                found.append(self._match(clause, self.profiles[name], scores[name]))
        return found

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
        return 2.0 * words / (words + 6.0) + 3.0 * verb_of(clause, profile) + len(clause.said & profile.things)

    def words(self) -> frozenset[str]:
        """The words for what the tools are about."""
        return self._words

    def speaks_of(self, concept: str) -> bool:
        return concept in self._spread

    def _examples(self, profile: Profile) -> Sequence[str]:
        """A tool's examples with gaps where their values were, made when they are first needed."""
        name = profile.tool.name
        if name not in self._frames:
            producer = self._producer(profile)
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
        filled = fill(clause, profile, self._producer(profile), examples)
        verb = verb_of(clause, profile)
        nouns = clause.stems & profile.nouns
        topics = self._telling(clause.topics & profile.topics)
        score = 2.0 * words / (words + 6.0) + 3.0 * verb + 0.5 * len(nouns) + self._of_things(clause, profile, filled)
        score += min(MOST_OF_TOPICS, sum(1.0 / self._spread[topic] ** 0.5 for topic in topics))
        score += _shape(clause, profile, filled) + 2.0 * likeness(clause, profile)
        score += 1.5 * is_framed(clause, profile, filled) + 2.0 * filled.exemplary
        score -= self._against(clause, profile, filled, verb)
        foreign = {one[3:] for one in clause.said - profile.things} & FOREIGN
        common = clause.said & profile.things - WEAK
        thing = bool(common or nouns or topics) and _is_headed(clause, profile, verb)
        own = verb == 1.0 and own_verb(clause, profile) == 1.0
        certain = (
            score >= ENOUGH
            and (filled.chosen == "firmly" or not elsewhere(clause, foreign, thing or own))
            and evident(clause, profile, filled, verb, thing)
            and not held_back(clause, profile, filled, verb)
        )
        return Match(
            profile=profile, clause=clause, filled=filled, score=score, verb=verb, thing=thing, certain=certain
        )

    def _of_things(self, clause: Clause, profile: Profile, filled: Filled) -> float:
        """What the things say that are named: for a tool that is about them, against one that is about others."""
        known = clause.said & profile.things
        common = known - WEAK
        meant = clause.said - known - _filtering(profile, filled)
        others = [thing for thing in meant if self.speaks_of(thing) and thing.startswith("of:")]
        score = sum(1.5 / self._spread[thing] ** 0.5 for thing in common)
        return score + 0.6 * len(known - common) - 0.7 * len(others)

    def _against(self, clause: Clause, profile: Profile, filled: Filled, verb: float) -> float:
        """What speaks against a tool: another verb, another tool's thing, a question to one that changes something."""
        score = 4.0 if clause.asks and not profile.reads else 0.0
        score += 3.0 if clause.tells and not filled.chosen else 0.0
        score += 2.0 if "remove" in profile.actions and not verb else 0.0
        score += 2.0 if profile.main and self._names_a_tool(filled, profile) else 0.0
        other = clause.leading in self._verbs and clause.leading not in profile.nouns | profile.verbs
        spoken_for = verb or clause.unknown & profile.topics or filled.chosen or timed(clause, profile)
        return score + (2.0 if (clause.actions() or other) and not spoken_for else 0.0)


def _may_fit(clause: Clause, profile: Profile) -> bool:
    """Whether its shape alone may fit: a time for an event, a status that something has come to."""
    if clause.times.moment() and profile.of_kind("moment"):
        return True
    written = {one.kind for one in clause.literals}
    if any(place.required and (place.written in written or in_shape(place, clause.text)) for place in profile.places):
        return True
    choices = [place for place in profile.places if place.kind == "choice" and place.required]
    return any(
        clause.tells or any(value_pattern(one).search(clause.text) for one in place.choices) for place in choices
    )


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


def _shape(clause: Clause, profile: Profile, filled: Filled) -> float:
    main, times = profile.main, clause.times
    item = bool(filled.items or filled.pronoun or filled.everything)
    score = 0.0
    if item and main is None:
        meant = clause.leading in profile.verbs or clause.unknown & profile.verbs or is_filled(profile, filled)
        score -= 0.8 if meant or has_code(profile, filled) else 2.5
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
