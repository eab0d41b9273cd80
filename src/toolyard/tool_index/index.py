"""An index from words to tools: BM25, exact, in memory, changed in place. Callers decide who may see a tool.

The data of one tool never change when others are added or removed: the rarity of a word is computed by the query, and
the length of a tool is compared with a constant instead of the mean. So adding a tool to thousands costs only its own
words.
"""

import heapq
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import log
from typing import cast

from msgspec import Struct

from toolyard.core.json_types import is_list
from toolyard.core.tools.definition import Tool
from toolyard.core.tools.templates import list_examples, split_template
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
"""The sum of the word weights of a typical tool."""
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
"""The most words of a tool and characters of a text that are read: a longer text is found by its beginning."""
MAX_QUERY_WORDS = 64
SYNONYM_WEIGHT, PREFIX_WEIGHT = 0.7, 0.5
"""The weights of a word with a similar meaning, and of one that only begins alike."""
EXTRA_CANDIDATES = 60
"""How many candidates beyond the limit are ranked again by action and diversity."""
SERVICE_SHARE = 0.2
"""The share of a service's best scores that goes to all its tools: `groceries` also favours a price watch there."""
MAX_PER_WORDS, MAX_PER_KIND = 4, 2
"""The most tools that come first for the same words of the query, and of those the most with the same action."""
MIN_WORD_SHARE = 0.5
"""The share of a tool's best word score below which another word does not count as one that found the tool."""

VERB_WEIGHT, GUESS_WEIGHT, COMPOUND_WEIGHT = 0.4, 0.7, 0.7
"""The weights of a verb that goes with any noun, of a guess for an unknown word, and of two words as one."""
LATIN = re.compile(r"(?<!['’])\b[a-zA-Z]+")

WeightedTexts = Iterator[tuple[str, float]]
Term = Sequence[tuple[str, float]]
"""The index keys of one word of a query, with their weights; for each tool the best key counts."""


class ToolMatch(Struct, frozen=True):
    tool: Tool
    score: float


class IndexEntry(Struct, frozen=True):
    """The data of one tool in an index. It is independent of other tools, so that several indexes may share it."""

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
        """Add a tool by its entry, or replace the one of its name."""
        name = entry.tool.name
        self.drop(name)  # an earlier version of the tool may have had other words
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
        """Return the tools that fit a query best, best first; equal scores are ordered by name.

        `allowed` is called for the best candidates only, until there are enough.
        """
        by_word = [self._score_term(term) for term in self._parse_query(query)]
        scores = self._combine_scores(by_word)
        query_actions = find_query_actions(query[:MAX_TEXT_CHARACTERS])
        best = [
            ToolMatch(tool, score * score_actions(self._actions[tool.name], query_actions))
            for tool, score in self._rank_allowed(scores, limit + EXTRA_CANDIDATES, allowed)
        ]
        best.sort(key=lambda match: (-match.score, match.tool.name))
        return self._diversify(best, by_word)[:limit]

    def _combine_scores(self, by_word: Sequence[Mapping[str, float]]) -> dict[str, float]:
        """Return the score of each tool: the sum over the words, plus a share of the best scores in its service."""
        scores: defaultdict[str, float] = defaultdict(float)
        services: defaultdict[str, float] = defaultdict(float)
        service = self._service
        for tool_scores in by_word:
            # Only the best tool of a service counts for each word: else a service with many tools would always win.
            best_by_service: dict[str, float] = {}
            get_best = best_by_service.get
            for name, score in tool_scores.items():
                scores[name] += score
                if score > get_best(service[name], 0.0):
                    best_by_service[service[name]] = score
            for name, score in best_by_service.items():
                services[name] += score
        return {name: score + SERVICE_SHARE * services[service[name]] for name, score in scores.items()}

    def _diversify(self, best: Sequence[ToolMatch], by_word: Sequence[Mapping[str, float]]) -> list[ToolMatch]:
        """Return the matches reordered, so that tools found by the same words do not displace those of other words."""
        leading: list[ToolMatch] = []
        crowded_out: list[ToolMatch] = []
        counts: dict[object, int] = defaultdict(int)
        for match in best:
            word_scores = [tool_scores.get(match.tool.name, 0.0) for tool_scores in by_word]
            words = frozenset(
                number for number, score in enumerate(word_scores) if score >= MIN_WORD_SHARE * max(word_scores)
            )
            kind = (words, self._actions[match.tool.name])
            is_crowded = counts[words] >= MAX_PER_WORDS or counts[kind] >= MAX_PER_KIND
            (crowded_out if is_crowded else leading).append(match)
            if not is_crowded:
                counts[words] += 1
                counts[kind] += 1
        return leading + crowded_out

    def _rank_allowed(
        self, scores: Mapping[str, float], limit: int, allowed: Callable[[Tool], bool] | None
    ) -> Iterator[tuple[Tool, float]]:
        # A heap instead of a sort: only the first few of perhaps thousands are taken, and `allowed` may be slow.
        ranked = [(-score, name) for name, score in scores.items()]
        heapq.heapify(ranked)
        while ranked and limit:
            score, name = heapq.heappop(ranked)
            tool = self._tools[name]
            if allowed is None or allowed(tool):
                limit -= 1
                yield tool, -score

    def _parse_query(self, query: str) -> Iterator[Term]:
        """Yield the terms of a query: its words, and adjacent words as one, which have no prefix keys."""
        words = split_query(query)
        for at, word in enumerate(words):
            if self._is_known(
                term := (*_expand_word(word, 1.0), *((key, PREFIX_WEIGHT) for key in get_prefix_keys(word)))
            ):
                share = VERB_WEIGHT if at == 0 and is_plain_verb(word) and len(words) > 1 else 1.0
                yield [(key, weight * share) for key, weight in term]
            else:
                yield from ([(other, GUESS_WEIGHT)] for other in self._guess_words(word))
        yield from (
            term for word in list_compounds(query) if self._is_known(term := _expand_word(word, COMPOUND_WEIGHT))
        )

    def _is_known(self, term: Term) -> bool:
        return any(key in self._postings for key, _ in term)

    def _guess_words(self, word: str) -> Iterable[str]:
        """Return keys for a word that no tool has: the two words in it (news, paper), or those of similar spellings."""
        if word.isascii() and word.isalpha():
            for at in range(len(word) - 3, 2, -1):
                parts = stem(word[:at]), stem(word[at:])
                if all(part in self._postings for part in parts):
                    return parts
        return get_spelling_keys(word)

    def _score_term(self, term: Term) -> dict[str, float]:
        """Return the score of each tool for one word."""
        scores: dict[str, float] = {}
        get_score = scores.get
        for word, share in term:
            rarity = self._compute_rarity(word) * share
            for name, weight in self._postings.get(word, {}).items():
                if (score := rarity * weight) > get_score(name, 0.0):
                    scores[name] = score
        return scores

    def _compute_rarity(self, word: str) -> float:
        tools_with_word = len(self._postings.get(word, ()))
        return log(1 + (len(self._tools) - tools_with_word + 0.5) / (tools_with_word + 0.5))


def _expand_word(word: str, share: float) -> Term:
    return [(word, share), *((concept, SYNONYM_WEIGHT * share) for concept in find_concepts(word))]


def list_compounds(query: str) -> Sequence[str]:
    """Return adjacent words of a query as one: `watch list` may mean a watchlist."""
    return join_pairs(LATIN.findall(query[:MAX_TEXT_CHARACTERS]))[:MAX_QUERY_WORDS]


def split_query(query: str) -> Sequence[str]:
    """Return the distinct words of a query; of a very long one those of its beginning and end."""
    if len(query) > MAX_TEXT_CHARACTERS:
        query = f"{query[: MAX_TEXT_CHARACTERS // 2]} {query[-MAX_TEXT_CHARACTERS // 2 :]}"
    words = list(dict.fromkeys(extract_words(query)))
    if len(words) > MAX_QUERY_WORDS:
        words = [*words[: MAX_QUERY_WORDS // 2], *words[-MAX_QUERY_WORDS // 2 :]]
    return words


def _weigh_words(tool: Tool) -> dict[str, float]:
    """Return the weight of each word of a tool: more in its name than in the description of a parameter."""
    weights: defaultdict[str, float] = defaultdict(float)
    words_left = MAX_WORDS
    for text, weight in _list_texts(tool):
        if words_left <= 0:
            break
        words = list(dict.fromkeys(extract_words(text[:MAX_TEXT_CHARACTERS])))[:words_left]
        words_left -= len(words)
        for word in words:
            weights[word] += weight
            # Meanings, prefixes and spellings are indexed for names, examples and descriptions only; texts of
            # parameters are found by their exact words.
            if weight >= DESCRIPTION_WEIGHT:
                for concept in (*find_concepts(word), *get_prefix_keys(word), *get_spelling_keys(word)):
                    weights[concept] += weight
    return weights


def _list_texts(tool: Tool) -> WeightedTexts:
    yield tool.name, NAME_WEIGHT
    yield " ".join(join_pairs(tool.name.split("_"))), PARAMETER_WEIGHT
    yield tool.description, DESCRIPTION_WEIGHT
    yield from (
        (" ".join(text for text, _ in split_template(example)), EXAMPLE_WEIGHT) for example in list_examples(tool)
    )
    yield from _list_schema_texts({**tool.parameters, "description": ""}, 0)


def _list_schema_texts(schema: object, depth: int) -> WeightedTexts:
    """Yield the texts of a schema and of the schemas inside it, with their weights."""
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return
    keywords = cast("Mapping[str, object]", schema)
    if isinstance(description := keywords.get("description"), str):
        yield description, PARAMETER_DESCRIPTION_WEIGHT
    for key in ("enum", "examples"):
        if is_list(values := keywords.get(key)):
            yield " ".join(map(str, values[:MAX_WORDS])), CHOICE_WEIGHT
    for name, inner in _list_named_schemas(keywords.get("properties")):
        yield name, PARAMETER_WEIGHT
        yield from _list_schema_texts(inner, depth + 1)
    for key in ("items", "additionalProperties", "anyOf", "oneOf", "allOf"):
        inner = keywords.get(key)
        for branch in inner if is_list(inner) else [inner]:
            yield from _list_schema_texts(branch, depth + 1)
    for _, inner in _list_named_schemas(keywords.get("$defs")):
        yield from _list_schema_texts(inner, depth + 1)


def _list_named_schemas(schemas: object) -> Iterable[tuple[str, object]]:
    return cast("Mapping[str, object]", schemas).items() if isinstance(schemas, Mapping) else ()
