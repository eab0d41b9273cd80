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
from toolyard.tool_index.concepts import (
    find_concepts,
    find_query_actions,
    find_tool_actions,
    get_prefix_keys,
    is_plain_verb,
    score_actions,
)
from toolyard.tool_index.words import extract_words, get_spelling_keys, join_pairs, stem

SATURATION = 1.0
LENGTH_SHARE = 0.5
TYPICAL_LENGTH = 30.0
"""The weight of the words of a usual tool."""
NAME_WEIGHT, DESCRIPTION_WEIGHT, EXAMPLE_WEIGHT, PARAMETER_WEIGHT, PARAMETER_DESCRIPTION_WEIGHT, CHOICE_WEIGHT = (
    2.0,
    1.0,
    1.5,
    0.5,
    0.3,
    0.5,
)
MAX_DEPTH = 5
MAX_WORDS, MAX_TEXT_CHARACTERS = 1000, 20_000
"""How much of what a tool says is read: a tool that says more is found by its beginning."""
MAX_QUERY_WORDS = 64
SYNONYM_WEIGHT, PREFIX_WEIGHT = 0.7, 0.5
"""What a word counts that only means about the same, and one that only begins alike."""
EXTRA_CANDIDATES = 60
"""How many more than asked for are looked at twice."""
SERVICE_SHARE = 0.2
"""Of what speaks for the tools of a service together: a price watch of a grocer is meant where groceries are named."""
MAX_PER_WORDS, MAX_PER_KIND = 4, 2
"""How many of those that the same words speak for come first, and how many of them that do the same with a thing."""
MIN_WORD_SHARE = 0.5
"""Of what the loudest word says for a tool: a word that says less does not count as speaking for it."""

VERB_WEIGHT, GUESS_WEIGHT, COMPOUND_WEIGHT = 0.4, 0.7, 0.7
"""What a verb counts that fits any thing, what an unknown word may mean, and two words as one."""
LATIN = re.compile(r"(?<!['’])\b[a-zA-Z]+")

WeightedTexts = Iterator[tuple[str, float]]
Term = Sequence[tuple[str, float]]
"""A word to look for, and those that may stand for it, with how much each counts: the best one does."""


class ToolMatch(Struct, frozen=True):
    tool: Tool
    score: float


class IndexEntry(Struct, frozen=True):
    """A tool as the index reads it. It knows nothing of other tools, so that several indexes may share it."""

    tool: Tool
    weights: dict[str, float]
    actions: frozenset[str]
    service: str


def build_entry(tool: Tool) -> IndexEntry:
    weights = _weigh_words(tool)
    name = extract_words(tool.name)
    length = len(name) * NAME_WEIGHT + len(extract_words(tool.description[:MAX_TEXT_CHARACTERS])) * DESCRIPTION_WEIGHT
    bound = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * length / TYPICAL_LENGTH)
    return IndexEntry(
        tool=tool,
        weights={word: weight * (SATURATION + 1) / (weight + bound) for word, weight in weights.items()},
        actions=find_tool_actions(name),
        service=tool.server or next(iter(name), ""),
    )


class ToolIndex:
    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}
        self._words: dict[str, tuple[str, ...]] = {}
        self._actions: dict[str, frozenset[str]] = {}
        self._service: dict[str, str] = {}
        self._postings: dict[str, dict[str, float]] = {}

    def __len__(self) -> int:
        return len(self._tools)

    def put(self, tool: Tool) -> None:
        """Add a tool, or replace the one of its name."""
        self.put_entry(build_entry(tool))

    def put_entry(self, entry: IndexEntry) -> None:
        """Add a tool that has been read before."""
        name = entry.tool.name
        self.drop(name)
        self._tools[name] = entry.tool
        self._actions[name] = entry.actions
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

    def search(self, query: str, limit: int = 5, allowed: Callable[[Tool], bool] | None = None) -> list[ToolMatch]:
        """The tools that fit the words best, best first; those that are equally good by name.

        `allowed` is asked only of the best ones, until there are enough.
        """
        by_word = [self._score_term(term) for term in self._parse_query(query)]
        scores = self._combine_scores(by_word)
        wanted = find_query_actions(query[:MAX_TEXT_CHARACTERS])
        best = [
            ToolMatch(tool, score * score_actions(self._actions[tool.name], wanted))
            for tool, score in self._rank_allowed(scores, limit + EXTRA_CANDIDATES, allowed)
        ]
        best.sort(key=lambda one: (-one.score, one.tool.name))
        return self._diversify(best, by_word)[:limit]

    def _combine_scores(self, by_word: Sequence[Mapping[str, float]]) -> dict[str, float]:
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
        return {name: score + SERVICE_SHARE * services[service[name]] for name, score in scores.items()}

    def _diversify(self, best: Sequence[ToolMatch], by_word: Sequence[Mapping[str, float]]) -> list[ToolMatch]:
        """The same, but what the same words speak for does not crowd out what other words ask for."""
        first: list[ToolMatch] = []
        rest: list[ToolMatch] = []
        places: dict[object, int] = defaultdict(int)
        for one in best:
            said = [found.get(one.tool.name, 0.0) for found in by_word]
            for_it = frozenset(word for word, score in enumerate(said) if score >= MIN_WORD_SHARE * max(said))
            kind = (for_it, self._actions[one.tool.name])
            crowded = places[for_it] >= MAX_PER_WORDS or places[kind] >= MAX_PER_KIND
            (rest if crowded else first).append(one)
            if not crowded:
                places[for_it] += 1
                places[kind] += 1
        return first + rest

    def _rank_allowed(
        self, scores: Mapping[str, float], limit: int, allowed: Callable[[Tool], bool] | None
    ) -> Iterator[tuple[Tool, float]]:
        ranked = [(-score, name) for name, score in scores.items()]
        heapq.heapify(ranked)
        while ranked and limit:
            score, name = heapq.heappop(ranked)
            tool = self._tools[name]
            if allowed is None or allowed(tool):
                limit -= 1
                yield tool, -score

    def _parse_query(self, query: str) -> Iterator[Term]:
        """What to look for. Neighbours are also looked for as one word, which then begins like nothing else."""
        said = split_query(query)
        for at, word in enumerate(said):
            if self._is_known(
                term := (*_expand_word(word, 1.0), *((one, PREFIX_WEIGHT) for one in get_prefix_keys(word)))
            ):
                share = VERB_WEIGHT if at == 0 and is_plain_verb(word) and len(said) > 1 else 1.0
                yield [(one, weight * share) for one, weight in term]
            else:
                yield from ([(other, GUESS_WEIGHT)] for other in self._guess_words(word))
        yield from (
            term for word in list_compounds(query) if self._is_known(term := _expand_word(word, COMPOUND_WEIGHT))
        )

    def _is_known(self, term: Term) -> bool:
        return any(one in self._postings for one, _ in term)

    def _guess_words(self, word: str) -> Iterable[str]:
        """For a word that no tool knows: the two that it is made of (news, paper), or what is written much like it."""
        if word.isascii() and word.isalpha():
            for at in range(len(word) - 3, 2, -1):
                parts = stem(word[:at]), stem(word[at:])
                if all(part in self._postings for part in parts):
                    return parts
        return get_spelling_keys(word)

    def _score_term(self, term: Term) -> dict[str, float]:
        """What a word says for each tool."""
        found: dict[str, float] = {}
        known = found.get
        for word, share in term:
            rarity = self._compute_rarity(word) * share
            for name, weight in self._postings.get(word, {}).items():
                if (score := rarity * weight) > known(name, 0.0):
                    found[name] = score
        return found

    def _compute_rarity(self, word: str) -> float:
        having = len(self._postings.get(word, ()))
        return log(1 + (len(self._tools) - having + 0.5) / (having + 0.5))


def _expand_word(word: str, share: float) -> Term:
    return [(word, share), *((one, SYNONYM_WEIGHT * share) for one in find_concepts(word))]


def list_compounds(query: str) -> Sequence[str]:
    """Words that stand side by side, as one: `watch list` may be a watchlist."""
    return join_pairs(LATIN.findall(query[:MAX_TEXT_CHARACTERS]))[:MAX_QUERY_WORDS]


def split_query(query: str) -> Sequence[str]:
    """The different words of a query; of a very long one its beginning and its end."""
    if len(query) > MAX_TEXT_CHARACTERS:
        query = f"{query[: MAX_TEXT_CHARACTERS // 2]} {query[-MAX_TEXT_CHARACTERS // 2 :]}"
    found = list(dict.fromkeys(extract_words(query)))
    if len(found) > MAX_QUERY_WORDS:
        found = [*found[: MAX_QUERY_WORDS // 2], *found[-MAX_QUERY_WORDS // 2 :]]
    return found


def _weigh_words(tool: Tool) -> dict[str, float]:
    """How much each word says about a tool: more in its name than in what is said about a parameter."""
    weights: defaultdict[str, float] = defaultdict(float)
    left = MAX_WORDS
    for text, weight in _list_texts(tool):
        if left <= 0:
            break
        found = list(dict.fromkeys(extract_words(text[:MAX_TEXT_CHARACTERS])))[:left]
        left -= len(found)
        for word in found:
            weights[word] += weight
            if weight >= DESCRIPTION_WEIGHT:
                for concept in (*find_concepts(word), *get_prefix_keys(word), *get_spelling_keys(word)):
                    weights[concept] += weight
    return weights


def _list_texts(tool: Tool) -> WeightedTexts:
    yield tool.name, NAME_WEIGHT
    yield " ".join(join_pairs(tool.name.split("_"))), PARAMETER_WEIGHT
    yield tool.description, DESCRIPTION_WEIGHT
    yield from ((" ".join(text for text, _ in split_template(example)), EXAMPLE_WEIGHT) for example in tool.examples)
    yield from _list_schema_texts({**tool.parameters, "description": ""}, 0)


def _list_schema_texts(schema: object, depth: int) -> WeightedTexts:
    """What a schema says in words, its own and that of the schemas inside it."""
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return
    known = cast("Mapping[str, object]", schema)
    if isinstance(said := known.get("description"), str):
        yield said, PARAMETER_DESCRIPTION_WEIGHT
    for key in ("enum", "examples"):
        if isinstance(values := known.get(key), list):
            yield " ".join(map(str, cast("list[object]", values)[:MAX_WORDS])), CHOICE_WEIGHT
    for name, inner in _list_named_schemas(known.get("properties")):
        yield name, PARAMETER_WEIGHT
        yield from _list_schema_texts(inner, depth + 1)
    for key in ("items", "additionalProperties", "anyOf", "oneOf", "allOf"):
        inner = known.get(key)
        for one in cast("list[object]", inner) if isinstance(inner, list) else [inner]:
            yield from _list_schema_texts(one, depth + 1)
    for _, inner in _list_named_schemas(known.get("$defs")):
        yield from _list_schema_texts(inner, depth + 1)


def _list_named_schemas(schemas: object) -> Iterable[tuple[str, object]]:
    return cast("Mapping[str, object]", schemas).items() if isinstance(schemas, Mapping) else ()
