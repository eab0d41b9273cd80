"""An index from words to tools: BM25, exact, in memory, changed in place. It decides nothing about permission.

What is kept for one tool never changes when others come or go: the rarity of a word is counted when it is asked for,
and the length of a tool is compared with a constant instead of the mean. So one tool among
thousands costs what it says itself.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import log
from typing import cast

from msgspec import Struct

from toolyard.core.tools import Tool
from toolyard.finding.words import words

SATURATION = 1.2
BY_LENGTH = 0.5
USUAL_LENGTH = 30.0
"""The weight of the words of a usual tool."""
NAME, DESCRIPTION, EXAMPLE, PARAMETER, SAID_OF_PARAMETER, CHOICE = 3.0, 1.0, 1.5, 0.7, 0.3, 0.5
MOST_DEPTH = 5
MOST_WORDS, MOST_TEXT = 1000, 20_000
"""How much of what a tool says is read: a tool that says more is found by its beginning."""
MOST_ASKED = 64

Texts = Iterator[tuple[str, float]]


class Found(Struct, frozen=True):
    tool: Tool
    score: float


class Index:
    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}
        self._words: dict[str, tuple[str, ...]] = {}
        self._postings: dict[str, dict[str, float]] = {}

    def __len__(self) -> int:
        return len(self._tools)

    def put(self, tool: Tool) -> None:
        """Add a tool, or replace the one of its name."""
        self.drop(tool.name)
        weights = _weights(tool)
        bound = SATURATION * (1 - BY_LENGTH + BY_LENGTH * sum(weights.values()) / USUAL_LENGTH)
        self._tools[tool.name] = tool
        self._words[tool.name] = tuple(weights)
        for word, weight in weights.items():
            self._postings.setdefault(word, {})[tool.name] = weight * (SATURATION + 1) / (weight + bound)

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

        `allowed` is asked only of as many as it takes to find enough.
        """
        scores: dict[str, float] = {}
        known = scores.get
        for word in asked(query):
            postings = self._postings.get(word, {})
            rarity = log(1 + (len(self._tools) - len(postings) + 0.5) / (len(postings) + 0.5))
            for name, weight in postings.items():
                scores[name] = known(name, 0.0) + rarity * weight
        ranked = [(-score, name) for name, score in scores.items()]
        heapq.heapify(ranked)
        found: list[Found] = []
        while ranked and len(found) < most:
            score, name = heapq.heappop(ranked)
            tool = self._tools[name]
            if allowed is None or allowed(tool):
                found.append(Found(tool, -score))
        return found


def asked(query: str) -> Sequence[str]:
    """The different words of a query; of a very long one its beginning and its end."""
    if len(query) > MOST_TEXT:
        query = f"{query[: MOST_TEXT // 2]} {query[-MOST_TEXT // 2 :]}"
    found = list(dict.fromkeys(words(query)))
    return found if len(found) <= MOST_ASKED else [*found[: MOST_ASKED // 2], *found[-MOST_ASKED // 2 :]]


def _weights(tool: Tool) -> dict[str, float]:
    """How much each word says about a tool: more in its name than in what is said about a parameter."""
    weights: defaultdict[str, float] = defaultdict(float)
    left = MOST_WORDS
    for text, weight in _texts(tool):
        if left <= 0:
            break
        found = words(text[:MOST_TEXT])[:left]
        left -= len(found)
        for word in found:
            weights[word] += weight
    return weights


def _texts(tool: Tool) -> Texts:
    yield tool.name, NAME
    yield tool.description, DESCRIPTION
    yield from ((example, EXAMPLE) for example in tool.examples)
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
