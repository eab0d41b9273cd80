"""Fills a tool's parameters from the parts of a message that have their type. A part is always taken whole.

A choice is filled by its own words, a number by a number, a time by a time, an address by an address, a code by the
only token that can be one; the remaining words go to the one required free text. Nothing is guessed: a parameter with
two candidates stays empty.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import cached_property

from msgspec import Struct

from toolyard.core.tools.definition import Tool
from toolyard.models.offline.dates import find_times
from toolyard.models.offline.parameters import OFF, ON, Parameter, parse_number
from toolyard.models.offline.text import ALTERNATIVES, NEGATIONS, TokenizedText
from toolyard.tool_index.concepts import find_concepts, is_action
from toolyard.tool_index.words import extract_words, stem

MAX_TOKENS = 200
"""How many tokens of a message are read: a longer message is not a request for one call."""
NEAR = 2
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_URL = re.compile(r"https?://\S+")
_PATH = re.compile(r"(?:~|\.{1,2})?/\S+|[\w-]+(?:/[\w.-]+)+|[\w-]+\.[A-Za-z]{1,5}")
_SWITCH_WORDS = tuple((value, (word,)) for value, words in ((True, ON), (False, OFF)) for word in words)
_NAMING = frozenset({"called", "named", "titled", "叫", "名"})
_PATH_NAMES = frozenset({"path", "file", "folder", "directory", "filename", "dir", "source", "destination"})


class Draft(Struct, frozen=True, kw_only=True):
    """A call that may be incomplete: its arguments so far, and the words to look up with other tools."""

    tool: str
    arguments: dict[str, object] = {}
    lookups: dict[str, str] = {}
    """The words to look up, by parameter, for parameters whose values come from another tool."""
    is_covered: bool = True
    """Whether no words of the message are left over."""


class ParameterFiller:
    """Fills the parameters of one tool from one message."""

    def __init__(
        self, tool: Tool, parameters: Sequence[Parameter], message: TokenizedText, now: datetime, language: str
    ) -> None:
        self._tool = tool
        self._parameters = parameters
        self._message = message
        self._tokens = message.tokens[:MAX_TOKENS]
        self._stems = [stem(token.folded) for token in self._tokens]
        self._left = set(range(len(self._tokens)))
        self._now = now
        self._language = language
        self.arguments: dict[str, object] = {}

    def build_draft(self, *, takes_rest: bool = True) -> Draft:
        """Return the call that the message describes. With `takes_rest` a free text takes the remaining words."""
        # The order matters: each step takes its tokens away, so the strictest types come first and free text last.
        for fill in (
            self._fill_choices,
            self._fill_times,
            self._fill_addresses,
            self._fill_codes,
            self._fill_numbers,
            self._fill_quoted,
        ):
            fill()
        lookups = self._fill_rest() if takes_rest else dict[str, str]()
        return Draft(
            tool=self._tool.name,
            arguments=self.arguments,
            lookups=lookups,
            is_covered=not self._find_left_over(),
        )

    def _list_empty(self, accepts: Callable[[Parameter], bool]) -> list[Parameter]:
        return [
            parameter for parameter in self._parameters if parameter.name not in self.arguments and accepts(parameter)
        ]

    def _take(self, parameter: Parameter, value: object, tokens: Sequence[int]) -> None:
        self.arguments[parameter.name] = value
        self._left.difference_update(tokens)

    def _fill_choices(self) -> None:
        """Fill choices by their own words; parameters with the same choices in the order of the message."""
        for parameter in self._list_empty(lambda candidate: candidate.kind in ("choice", "switch")):
            named = parameter.choice_words or _SWITCH_WORDS
            spans = {choice: span for choice, words in named if (span := self._find(words))}
            # `in progress` contains the words of `progress`: only the longest of nested choices counts.
            longest = [name for name in spans if not any(set(spans[name]) < set(other) for other in spans.values())]
            alike = self._list_empty(lambda other, like=parameter: other.choices == like.choices and other.required)
            if len(longest) == 1 or len(longest) == len(alike) > 0:
                first = min(longest, key=lambda choice: spans[choice][0])
                self._take(parameter, first, spans[first])

    def _find(self, words: Sequence[str]) -> range | None:
        """Return the free tokens that are these words, if they are in the message exactly once."""
        stems = [stem(word) for word in words]
        starts = [at for at, word in enumerate(self._stems) if word == stems[0]]
        spans = [range(at, at + len(stems)) for at in starts if self._stems[at : at + len(stems)] == stems]
        matches = [span for span in spans if self._left.issuperset(span)]
        return matches[0] if len(matches) == 1 else None

    def _fill_times(self) -> None:
        parameters = self._list_empty(lambda candidate: candidate.kind == "time")
        if not parameters:
            return
        pieces = find_times(self._message.whole, self._now, self._language)
        required = [candidate for candidate in parameters if candidate.required]
        targets = required if len(required) == len(pieces) else parameters[: len(pieces)]
        if len(pieces) != len(targets):
            return
        for parameter, piece in zip(targets, pieces, strict=True):
            value = parameter.parse(piece, self._now, self._language)
            if value is not None:
                self._take(parameter, value, self._find_tokens(piece))

    def _find_tokens(self, piece: str) -> list[int]:
        start = self._message.whole.find(piece)
        end = start + len(piece)
        return [at for at, token in enumerate(self._tokens) if token.start < end and token.end > start]

    def _fill_addresses(self) -> None:
        for parameter in self._list_empty(
            lambda candidate: candidate.kind == "text" and candidate.name not in self._tool.sources
        ):
            label = set(parameter.label.split())
            shape = (
                _EMAIL
                if parameter.format == "email" or "email" in label
                else _URL
                if parameter.format in ("uri", "url") or label & {"url", "link"}
                else _PATH
                if label & _PATH_NAMES
                else None
            )
            if shape:
                self._take_first(parameter, lambda text, shape=shape: bool(shape.fullmatch(text)))

    def _fill_codes(self) -> None:
        for parameter in self._list_empty(
            lambda candidate: candidate.kind == "text" and candidate.name not in self._tool.sources
        ):
            if "pattern" in parameter.schema:
                self._take_only(parameter, parameter.fits)
            elif parameter.is_identifier:
                self._take_only(parameter, lambda text: any(letter.isdigit() for letter in text))

    def _take_first(self, parameter: Parameter, is_value: Callable[[str], bool]) -> None:
        """Take the first token that fits: two paths are in the order of their parameters."""
        for at in sorted(self._left):
            text = self._tokens[at].text
            if is_value(text) and parameter.fits(text):
                self._take(parameter, text, [at])
                return

    def _take_only(self, parameter: Parameter, is_value: Callable[[str], bool]) -> None:
        matches = [at for at in sorted(self._left) if is_value(self._tokens[at].text)]
        if len(matches) == 1 and not self._is_alternative(matches[0]) and parameter.fits(self._tokens[matches[0]].text):
            self._take(parameter, self._tokens[matches[0]].text, matches)

    def _fill_numbers(self) -> None:
        parameters = self._list_empty(lambda candidate: candidate.kind == "number")
        numbers = [at for at in sorted(self._left) if parse_number(self._tokens[at].text) is not None]
        if any(self._is_alternative(at) for at in numbers):
            return
        for parameter in parameters:
            near = [at for at in numbers if at in self._left and self._is_named(parameter, at)]
            if len(near) == 1:
                self._take_number(parameter, near[0])
        remaining, empty = (
            [at for at in numbers if at in self._left],
            self._list_empty(lambda candidate: candidate.kind == "number"),
        )
        required = [candidate for candidate in empty if candidate.required] or empty
        if len(remaining) == len(required) == 1:
            self._take_number(required[0], remaining[0])

    def _take_number(self, parameter: Parameter, at: int) -> None:
        value = parameter.parse(self._tokens[at].text, self._now, self._language)
        if value is not None:
            self._take(parameter, value, [at])

    def _is_named(self, parameter: Parameter, at: int) -> bool:
        """Return whether a word of the parameter's name is next to a number: `30 minutes`, `page 2`."""
        label = set(extract_words(f"{parameter.label} {parameter.description[:80]}"))
        beside = self._tokens[max(0, at - NEAR) : at + NEAR + 1]
        return any(stem(token.folded) in label for token in beside)

    def _is_alternative(self, at: int) -> bool:
        """Return whether a token is one of two alternatives, as in `A-1 or A-2`: then nothing was chosen yet."""
        beside = self._tokens[max(0, at - 1) : at + 2]
        return any(token.folded in ALTERNATIVES and not token.quoted for token in beside)

    def _fill_quoted(self) -> None:
        quoted = [at for at in sorted(self._left) if self._tokens[at].quoted]
        empty = self._list_empty(lambda candidate: candidate.is_free_text and candidate.required) or self._list_empty(
            lambda candidate: candidate.is_free_text
        )
        if quoted and len(quoted) == len(empty):
            for parameter, at in zip(empty, quoted, strict=True):
                if parameter.fits(self._tokens[at].text) and parameter.name not in self._tool.sources:
                    self._take(parameter, self._tokens[at].text, [at])

    def _fill_rest(self) -> dict[str, str]:
        """Give the remaining words to the one free text; return them if another tool has to look the value up."""
        takes_words = self._list_empty(lambda candidate: candidate.is_free_text or candidate.name in self._tool.sources)
        empty = [candidate for candidate in takes_words if candidate.required] or takes_words
        run = self._find_left_over()
        if len(empty) != 1 or not run or (empty[0].is_identifier and any(self._is_alternative(at) for at in run)):
            return {}
        text = self._message.text_between(run[0], run[-1] + 1)
        if empty[0].name in self._tool.sources:
            self._left.difference_update(run)
            return {empty[0].name: text}
        value = empty[0].parse(text, self._now, self._language)
        if value is not None:
            self._take(empty[0], value, run)
        return {}

    def _find_left_over(self) -> list[int]:
        """Return the longest run of free tokens, without words of the tool and small words at its ends."""
        tool_words = self._tool_words
        runs = [self._trim(run, tool_words) for run in _group_runs(sorted(self._left))]
        return max(runs, key=len, default=list[int]())

    @cached_property
    def _tool_words(self) -> set[str]:
        labels = " ".join(parameter.label for parameter in self._parameters)
        words = extract_words(f"{self._tool.name} {self._tool.description[:200]} {labels}")
        return {*words, *(group for word in words for group in find_concepts(word))}

    def _trim(self, run: list[int], tool_words: set[str]) -> list[int]:
        while run and self._is_small(run, tool_words, first=True):
            run = run[1:]
        while run and self._is_small(run, tool_words, first=False):
            run = run[:-1]
        return run

    def _is_small(self, run: Sequence[int], tool_words: set[str], *, first: bool) -> bool:
        """Return whether the word at an end of a run carries no value: a small word, a verb, or a word of the tool."""
        token = self._tokens[run[0] if first else run[-1]]
        if token.quoted or token.folded in NEGATIONS:
            return False
        if not extract_words(token.folded) or token.folded in _NAMING or _is_tool_word(token.folded, tool_words):
            return True
        if len(run) < 2:
            return False
        near = (run[0], run[1]) if first else (run[-2], run[-1])
        pair = "".join(self._tokens[at].folded for at in near)
        return len(pair) == 2 and not pair.isascii() and _is_tool_word(pair, tool_words)


def _is_tool_word(word: str, tool_words: set[str]) -> bool:
    plain = stem(word)
    return plain in tool_words or is_action(plain) or any(concept in tool_words for concept in find_concepts(plain))


def _group_runs(positions: Sequence[int]) -> Iterator[list[int]]:
    """Yield runs of adjacent positions."""
    run: list[int] = []
    for at in positions:
        if run and at != run[-1] + 1:
            yield run
            run = []
        run.append(at)
    if run:
        yield run
