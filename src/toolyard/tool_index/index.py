"""An index from words to tools: BM25, exact, in memory, changed in place. It decides nothing about permission.

What is kept for one tool never changes when others come or go: the rarity of a word is counted when it is asked for,
and the length of a tool is compared with a constant instead of the mean. So one tool among
thousands costs what it says itself.
"""

import heapq
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import log
from typing import cast

from msgspec import Struct

from toolyard.core.templates import split_template
from toolyard.core.tools import Tool
from toolyard.tool_index.concepts import asks, begins, concepts, does, fits, is_plain
from toolyard.tool_index.words import joined, spelt, stem, words

SATURATION = 1.0
BY_LENGTH = 0.5
USUAL_LENGTH = 30.0
"""The weight of the words of a usual tool."""
NAME, DESCRIPTION, EXAMPLE, PARAMETER, SAID_OF_PARAMETER, CHOICE = 2.0, 1.0, 1.5, 0.5, 0.3, 0.5
MOST_DEPTH = 5
MOST_WORDS, MOST_TEXT = 1000, 20_000
"""How much of what a tool says is read: a tool that says more is found by its beginning."""
MOST_ASKED = 64
ALIKE, BEGINS = 0.7, 0.5
"""What a word counts that only means about the same, and one that only begins alike."""
SPARE = 60
"""How many more than asked for are looked at twice."""
OF_SERVICE = 0.2
"""Of what speaks for the tools of a service together: a price watch of a grocer is meant where groceries are named."""
MOST_OF_WORDS, MOST_OF_A_KIND = 4, 2
"""How many of those that the same words speak for come first, and how many of them that do the same with a thing."""
SPEAKS = 0.5
"""Of what the loudest word says for a tool: a word that says less does not count as speaking for it."""

VERB, MEANT, JOINED = 0.4, 0.7, 0.7
"""What a verb counts that fits any thing, what an unknown word may mean, and two words as one."""
LATIN = re.compile(r"(?<!['’])\b[a-zA-Z]+")

Texts = Iterator[tuple[str, float]]
Term = Sequence[tuple[str, float]]
"""A word to look for, and those that may stand for it, with how much each counts: the best one does."""


class Found(Struct, frozen=True):
    tool: Tool
    score: float


class Entry(Struct, frozen=True):
    """A tool as the index reads it. It knows nothing of other tools, so that several indexes may share it."""

    tool: Tool
    weights: dict[str, float]
    does: frozenset[str]
    service: str


def read_tool(tool: Tool) -> Entry:
    weights = _weights(tool)
    name = words(tool.name)
    length = len(name) * NAME + len(words(tool.description[:MOST_TEXT])) * DESCRIPTION
    bound = SATURATION * (1 - BY_LENGTH + BY_LENGTH * length / USUAL_LENGTH)
    return Entry(
        tool=tool,
        weights={word: weight * (SATURATION + 1) / (weight + bound) for word, weight in weights.items()},
        does=does(name),
        service=tool.server or next(iter(name), ""),
    )


class Index:
    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}
        self._words: dict[str, tuple[str, ...]] = {}
        self._does: dict[str, frozenset[str]] = {}
        self._service: dict[str, str] = {}
        self._postings: dict[str, dict[str, float]] = {}

    def __len__(self) -> int:
        return len(self._tools)

    def put(self, tool: Tool) -> None:
        """Add a tool, or replace the one of its name."""
        self.put_entry(read_tool(tool))

    def put_entry(self, entry: Entry) -> None:
        """Add a tool that has been read before."""
        name = entry.tool.name
        self.drop(name)
        self._tools[name] = entry.tool
        self._does[name] = entry.does
        self._service[name] = entry.service
        self._words[name] = tuple(entry.weights)
        for word, weight in entry.weights.items():
            self._postings.setdefault(word, {})[name] = weight

    def drop(self, name: str) -> None:
        if self._tools.pop(name, None) is None:
            return
        for word in self._words.pop(name):
            postings = self._postings[word]
            del postings[name]
            if not postings:
                del self._postings[word]

    def search(self, query: str, most: int = 5, allowed: Callable[[Tool], bool] | None = None) -> list[Found]:
        """The tools that fit the words best, best first; those that are equally good by name.

        `allowed` is asked only of the best ones, until there are enough.
        """
        by_word = [self._of(term) for term in self._asked(query)]
        scores = self._together(by_word)
        wanted = asks(query[:MOST_TEXT])
        best = [
            Found(tool, score * fits(self._does[tool.name], wanted))
            for tool, score in self._best(scores, most + SPARE, allowed)
        ]
        best.sort(key=lambda one: (-one.score, one.tool.name))
        return self._spread(best, by_word)[:most]

    def _together(self, by_word: Sequence[Mapping[str, float]]) -> dict[str, float]:
        """What all words say for each tool; a little of what they say for its service goes to all of its tools."""
        scores: defaultdict[str, float] = defaultdict(float)
        services: defaultdict[str, float] = defaultdict(float)
        service = self._service
        for found in by_word:
            best: dict[str, float] = {}
            known = best.get
            for name, score in found.items():
                scores[name] += score
                if score > known(service[name], 0.0):
                    best[service[name]] = score
            for name, score in best.items():
                services[name] += score
        return {name: score + OF_SERVICE * services[service[name]] for name, score in scores.items()}

    def _spread(self, best: Sequence[Found], by_word: Sequence[Mapping[str, float]]) -> list[Found]:
        """The same, but what the same words speak for does not crowd out what other words ask for."""
        first: list[Found] = []
        rest: list[Found] = []
        places: dict[object, int] = defaultdict(int)
        for one in best:
            said = [found.get(one.tool.name, 0.0) for found in by_word]
            for_it = frozenset(word for word, score in enumerate(said) if score >= SPEAKS * max(said))
            kind = (for_it, self._does[one.tool.name])
            crowded = places[for_it] >= MOST_OF_WORDS or places[kind] >= MOST_OF_A_KIND
            (rest if crowded else first).append(one)
            if not crowded:
                places[for_it] += 1
                places[kind] += 1
        return first + rest

    def _best(
        self, scores: Mapping[str, float], most: int, allowed: Callable[[Tool], bool] | None
    ) -> Iterator[tuple[Tool, float]]:
        ranked = [(-score, name) for name, score in scores.items()]
        heapq.heapify(ranked)
        while ranked and most:
            score, name = heapq.heappop(ranked)
            tool = self._tools[name]
            if allowed is None or allowed(tool):
                most -= 1
                yield tool, -score

    def _asked(self, query: str) -> Iterator[Term]:
        """What to look for. Neighbours are also looked for as one word, which then begins like nothing else."""
        said = asked(query)
        for at, word in enumerate(said):
            if self._knows(term := (*_alike(word, 1.0), *((one, BEGINS) for one in begins(word)))):
                share = VERB if at == 0 and is_plain(word) and len(said) > 1 else 1.0
                yield [(one, weight * share) for one, weight in term]
            else:
                yield from ([(other, MEANT)] for other in self._meant(word))
        yield from (term for word in neighbours(query) if self._knows(term := _alike(word, JOINED)))

    def _knows(self, term: Term) -> bool:
        return any(one in self._postings for one, _ in term)

    def _meant(self, word: str) -> Iterable[str]:
        """For a word that no tool knows: the two that it is made of (news, paper), or what is written much like it."""
        if word.isascii() and word.isalpha():
            for at in range(len(word) - 3, 2, -1):
                parts = stem(word[:at]), stem(word[at:])
                if all(part in self._postings for part in parts):
                    return parts
        return spelt(word)

    def _of(self, term: Term) -> dict[str, float]:
        """What a word says for each tool."""
        found: dict[str, float] = {}
        known = found.get
        for word, share in term:
            rarity = self._rarity(word) * share
            for name, weight in self._postings.get(word, {}).items():
                if (score := rarity * weight) > known(name, 0.0):
                    found[name] = score
        return found

    def _rarity(self, word: str) -> float:
        having = len(self._postings.get(word, ()))
        return log(1 + (len(self._tools) - having + 0.5) / (having + 0.5))


def _alike(word: str, share: float) -> Term:
    return [(word, share), *((one, ALIKE * share) for one in concepts(word))]


def neighbours(query: str) -> Sequence[str]:
    """Words that stand side by side, as one: `watch list` may be a watchlist."""
    return joined(LATIN.findall(query[:MOST_TEXT]))[:MOST_ASKED]


def asked(query: str) -> Sequence[str]:
    """The different words of a query; of a very long one its beginning and its end."""
    if len(query) > MOST_TEXT:
        query = f"{query[: MOST_TEXT // 2]} {query[-MOST_TEXT // 2 :]}"
    found = list(dict.fromkeys(words(query)))
    if len(found) > MOST_ASKED:
        found = [*found[: MOST_ASKED // 2], *found[-MOST_ASKED // 2 :]]
    return found


def _weights(tool: Tool) -> dict[str, float]:
    """How much each word says about a tool: more in its name than in what is said about a parameter."""
    weights: defaultdict[str, float] = defaultdict(float)
    left = MOST_WORDS
    for text, weight in _texts(tool):
        if left <= 0:
            break
        found = list(dict.fromkeys(words(text[:MOST_TEXT])))[:left]
        left -= len(found)
        for word in found:
            weights[word] += weight
            if weight >= DESCRIPTION:
                for concept in (*concepts(word), *begins(word), *spelt(word)):
                    weights[concept] += weight
    return weights


def _texts(tool: Tool) -> Texts:
    yield tool.name, NAME
    yield " ".join(joined(tool.name.split("_"))), PARAMETER
    yield tool.description, DESCRIPTION
    yield from ((" ".join(text for text, _ in split_template(example)), EXAMPLE) for example in tool.examples)
    yield from _of_schema({**tool.parameters, "description": ""}, 0)


def _of_schema(schema: object, depth: int) -> Texts:
    """What a schema says in words, its own and that of the schemas inside it."""
    if not isinstance(schema, Mapping) or depth > MOST_DEPTH:
        return
    known = cast("Mapping[str, object]", schema)
    if isinstance(said := known.get("description"), str):
        yield said, SAID_OF_PARAMETER
    for key in ("enum", "examples"):
        if isinstance(values := known.get(key), list):
            yield " ".join(map(str, cast("list[object]", values)[:MOST_WORDS])), CHOICE
    for name, inner in _named(known.get("properties")):
        yield name, PARAMETER
        yield from _of_schema(inner, depth + 1)
    for key in ("items", "additionalProperties", "anyOf", "oneOf", "allOf"):
        inner = known.get(key)
        for one in cast("list[object]", inner) if isinstance(inner, list) else [inner]:
            yield from _of_schema(one, depth + 1)
    for _, inner in _named(known.get("$defs")):
        yield from _of_schema(inner, depth + 1)


def _named(schemas: object) -> Iterable[tuple[str, object]]:
    return cast("Mapping[str, object]", schemas).items() if isinstance(schemas, Mapping) else ()
