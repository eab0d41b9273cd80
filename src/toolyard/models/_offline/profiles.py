"""What the planner knows of a tool: what it takes, does and speaks of. Made once for each definition."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.tools import Tool
from toolyard.finding.concepts import concepts as alike
from toolyard.finding.concepts import is_plain
from toolyard.finding.index import DESCRIPTION, EXAMPLE, MOST_TEXT, NAME, SATURATION
from toolyard.finding.words import words as index_words
from toolyard.models._offline.places import Kind, Place, places_of
from toolyard.models._offline.times import AT_ALL, Times, times_in
from toolyard.models._offline.words import Token, is_chinese, tokens_of

_FILTERS = frozenset({"keyword", "keywords", "filter", "query", "search", "term", "topic", "category"})
_CHANGES = re.compile(
    r"^(?:(?!find|search|get|list|show|read|count|check|describe|view)[a-z]+_)?"
    r"(?:lock|unlock|pay|transfer|revoke|deploy|execute|exec|run|restart|reset|reboot|send|post|print|order|"
    r"book|reserve|buy|open|close|start|stop|launch|submit|publish|upload|move|rename|replace|overwrite|write|install|"
    r"uninstall|block|unblock|ban|approve|reject|merge|drop|kill|terminate|shut|enable|disable|charge|refund|sell|trade|sign|"
    r"enroll|subscribe|unsubscribe|invite|share|grant|call|dial|play|pause|skip|empty|clear|wipe|purge|set|cancel|delete|"
    r"remove|update|create|add|edit|change|modify|check_in|check_out|commit|push)(?:_|$)"
    r"|_(?:and|or|then)_(?:replace|delete|remove|update|send|buy|pay|run|close|archive|reset|clear|merge|move)(?:_|$)",
    re.IGNORECASE,
)
MOST_SAID = 2000
_LOOKS = re.compile(r"(?:[a-z]+_)?(?:find|search|get|list|show|lookup|look_up|query|read)(?:_|$)", re.I)


class Profile(Struct, frozen=True, kw_only=True):
    """What the planner knows of a tool."""

    tool: Tool
    places: tuple[Place, ...]
    main: Place | None
    """Where the thing that is asked for goes."""
    actions: Mapping[str, float]
    things: frozenset[str]
    """The concepts of its name and description: `of:cart`."""
    nouns: frozenset[str]
    """The stems of the words of its name that are not verbs."""
    place_words: frozenset[str]
    """The stems of the names of its places, and the things that they name."""
    examples: tuple[tuple[str, ...], ...]
    likened: tuple[frozenset[str], ...] = ()
    """The same, without what is said in them about time and without numbers."""
    words: Mapping[str, float] = {}
    """The words that it is found by, those of its name first, with the concepts that they stand for."""
    head: frozenset[str] = frozenset()
    """The last word of its name, by its stem and its concepts: what a tool that creates something creates."""
    verbs: frozenset[str] = frozenset()
    """The stems of the first words of its name, with or without that of its service, and of its description."""
    topics: frozenset[str] = frozenset()
    """What its name and its description speak of, in words and in what means about the same; no verbs that fit all."""
    words_of_its_own: tuple[str, ...] = ()
    """What it calls its thing in Chinese, where the lexicon knows no such word, the longest first."""
    own: frozenset[str] = frozenset()
    """Those of them that are the tool's words and not the user's."""

    def place(self, name: str) -> Place | None:
        return next((place for place in self.places if place.name == name), None)

    def of_kind(self, *kinds: Kind) -> Place | None:
        return next((place for place in self.places if place.kind in kinds), None)

    @property
    def titled(self) -> bool:
        """Whether what is asked for is a title, which may hold any word."""
        return self.main is not None and self.main.role == "title"

    @property
    def texts(self) -> tuple[Place, ...]:
        """The places that take what people write, as they write it."""
        return tuple(one for one in self.places if one.kind == "text" and not one.source and not one.written)

    @property
    def reads(self) -> bool:
        """Whether it only tells something, as far as its verbs say."""
        if _CHANGES.search(self.tool.name):
            return False
        changing = {"add", "remove", "update", "switch", "remind", "cancel", "need"}
        told = self.actions or self.tool.read_only
        return bool(told) and not self.actions.keys() & (changing if self.tool.read_only else {*changing, "create"})


def profile_of(tool: Tool, definition: str) -> Profile:
    """The profile of a tool whose definition has this hash: the same object for the same tool."""
    return _profile(_Keyed(tool, definition))


class _Keyed:
    """A tool that is told apart by its name and the hash of its definition."""

    __slots__ = ("key", "tool")

    def __init__(self, tool: Tool, definition: str) -> None:
        self.tool = tool
        self.key = (tool.name, definition, tool.examples, tuple(tool.sources.items()), tool.read_only)

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Keyed) and self.key == other.key


@lru_cache(maxsize=4096)
def _profile(keyed: _Keyed) -> Profile:
    tool = keyed.tool
    places = _untitled(tool, tuple(places_of(tool)))
    name = tokens_of(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", tool.name).replace("_", " ").replace("-", " "))
    description = tokens_of(tool.description[:MOST_SAID])
    examples = [tokens_of(example) for example in tool.examples]
    things = {one for token in (*name, *description) for one in token.means if one.startswith("of:")}
    things |= {one for token in name[1:] for one in token.means if one.startswith("do:")}
    return Profile(
        tool=tool,
        places=places,
        main=_main(places),
        actions=_actions(name, description, examples),
        things=frozenset(things),
        nouns=frozenset(
            token.stem for at, token in enumerate(name) if not (at == 0 and token.has("do:")) and not token.has("fn:")
        ),
        place_words=frozenset(_place_words(places)),
        examples=tuple(tuple(token.stem for token in tokens) for tokens in examples),
        likened=tuple(_frame(example) for example in tool.examples),
        words=_words(tool, name, description, examples),
        head=frozenset({name[-1].stem, *name[-1].means}) if name else frozenset(),
        verbs=frozenset(token.stem for tokens in (name, name[1:-1], description) for token in _first(tokens)),
        topics=topics_of([*name, *description]),
        own=_own(places, name, description),
        words_of_its_own=tuple(
            sorted(
                {
                    token.text
                    for token in description
                    if is_chinese(token.text) and not token.means and len(token.text) > 1
                },
                key=lambda word: (-len(word), word),
            )
        ),
    )


def _frame(example: str) -> frozenset[str]:
    times = times_in(example, AT_ALL)
    return frame_of(tokens_of(example, [(one.start, one.end) for one in times.said]), times)


def frame_of(tokens: Iterable[Token], times: Times) -> frozenset[str]:
    """The stems of a text, without those that say when or how many."""
    said = [(one.start, one.end) for one in times.said]
    return frozenset(
        token.stem
        for token in tokens
        if (token.text.isalnum() or " " in token.text)
        and not token.text[0].isdigit()
        and (token.start, token.end) not in said
    )


def _untitled(tool: Tool, places: tuple[Place, ...]) -> tuple[Place, ...]:
    """Of a tool that only looks for something the name that it is given is no title: it is what is looked for."""
    if not _LOOKS.match(tool.name):
        return places
    return tuple(replace(place, role="") if place.role == "title" else place for place in places)


def _own(places: Sequence[Place], name: list[Token], description: list[Token]) -> frozenset[str]:
    """None where a title is wanted, which may hold any word; else its nouns, or all words if it need be told none."""
    main = _main(places)
    if main and main.role == "title":
        return frozenset()
    if main and main.required:
        return topics_of(name[1:])
    return frozenset(topic for topic in topics_of([*name, *description]) if not topic.startswith("~"))


def _tells(word: str) -> bool:
    return len(word) > 1 and not word.isdigit() and not is_plain(word)


def topics_of(tokens: Iterable[Token]) -> frozenset[str]:
    """What tokens speak of, without those that only hold a sentence together or are done with any thing."""
    return _NO_TOPICS.union(*(_topics(token.text) for token in tokens if not (token.has("fn:") or token.has("do:"))))


_NO_TOPICS = frozenset[str]()


@lru_cache(maxsize=16_384)
def _topics(text: str) -> frozenset[str]:
    found = {word for word in index_words(text) if _tells(word)}
    return frozenset(found | {group for word in found for group in alike(word)})


def _main(places: Sequence[Place]) -> Place | None:
    wanting = [place for place in places if place.wants_item]
    return next((place for place in wanting if place.required), wanting[0] if wanting else None)


def _first(tokens: list[Token]) -> list[Token]:
    """The first word, and the one that may stand in its place: `move or rename`."""
    return tokens[:1] + (tokens[2:3] if len(tokens) > 2 and tokens[1].text.casefold() in ("or", "and") else [])


def _words(tool: Tool, name: list[Token], description: list[Token], examples: list[list[Token]]) -> dict[str, float]:
    """Weighed as the index of tools weighs them."""
    found: dict[str, float] = {}
    texts = [(tool.name, name, NAME), (tool.description, description, DESCRIPTION)]
    texts += [(text, tokens, EXAMPLE) for text, tokens in zip(tool.examples, examples, strict=True)]
    for text, tokens, weight in texts:
        for word in (*index_words(text[:MOST_TEXT]), *concepts(tokens)):
            found[word] = found.get(word, 0.0) + weight
    return {word: weight * (SATURATION + 1) / (weight + SATURATION) for word, weight in found.items()}


def concepts(tokens: Iterable[Token]) -> set[str]:
    return {one for token in tokens for one in token.means if one[:3] in ("do:", "of:")}


def _place_words(places: Sequence[Place]) -> Iterator[str]:
    names = tokens_of(" ".join(place.name.replace("_", " ") for place in places))
    yield from (token.stem for token in names)
    for token in (*names, *(token for place in places for token in tokens_of(place.said))):
        yield from (one for one in token.means if one.startswith("of:"))


def _actions(name: list[Token], description: list[Token], examples: list[list[Token]]) -> dict[str, float]:
    """The verbs of a tool: of its name, the first of its description, the first of each example."""
    found: dict[str, float] = {}
    named = name[:1] if name and name[0].means else name[:2]
    for tokens, weight in ((named, 1.0), (description[:1], 0.9), *((example[:4], 0.8) for example in examples)):
        first = next((token for token in tokens if token.has("do:")), None)
        for action in first.actions() if first else ():
            found[action] = max(found.get(action, 0.0), weight)
    if "get" in found and "add" not in found:
        found["show"] = 1.0
    return found


def filter_beside(profile: Profile) -> Place | None:
    """A second, optional place for a thing, beside a required title: `keyword` of a report."""
    main = profile.main
    others = (place for place in profile.places if place.kind == "text" and place is not main)
    return next((place for place in others if not place.required and place.name in _FILTERS), None)
