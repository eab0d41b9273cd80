"""Fills a tool's parameters from what a message shows to be of their type. What is taken is taken whole.

A choice is filled by its own words, a number by a number, a time by a time, an address by an address, a code by the
only token that can be one; what is left of the message goes to the one required free text. Nothing is guessed: a
parameter with two candidates stays empty.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import cached_property

from msgspec import Struct

from toolyard.core.tools import Tool
from toolyard.models.offline.dates import find_times
from toolyard.models.offline.parameters import OFF, ON, Parameter, parse_number
from toolyard.models.offline.text import ALTERNATIVES, NEGATIONS, TokenizedText
from toolyard.tool_index.concepts import find_concepts, is_action
from toolyard.tool_index.words import extract_words, stem

MAX_TOKENS = 200
"""How many tokens of a message are looked at: a longer one is no request for one call."""
NEAR = 2
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_URL = re.compile(r"https?://\S+")
_PATH = re.compile(r"(?:~|\.{1,2})?/\S+|[\w-]+(?:/[\w.-]+)+|[\w-]+\.[A-Za-z]{1,5}")
_SWITCH_WORDS = tuple((value, (word,)) for value, own in ((True, ON), (False, OFF)) for word in own)
_NAMING = frozenset({"called", "named", "titled", "叫", "名"})
_PATH_NAMES = frozenset({"path", "file", "folder", "directory", "filename", "dir", "source", "destination"})


class Draft(Struct, frozen=True, kw_only=True):
    """A call as far as it is known: what is filled, and the words for what another tool has to be asked for."""

    tool: str
    arguments: dict[str, object] = {}
    lookups: dict[str, str] = {}
    """For a parameter whose value comes from another tool, the words to ask that tool for."""
    is_covered: bool = True
    """Whether nothing of the message is left that the tool does not speak of."""


class ParameterFiller:
    """The parameters of one tool being filled from one message."""

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
        """Return what the message says about a call of the tool; a free text takes the rest of it, if it may."""
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
        return [one for one in self._parameters if one.name not in self.arguments and accepts(one)]

    def _take(self, parameter: Parameter, value: object, tokens: Sequence[int]) -> None:
        self.arguments[parameter.name] = value
        self._left.difference_update(tokens)

    def _fill_choices(self) -> None:
        """Fill choices by their own words; parameters with the same choices in the order in which they are said."""
        for parameter in self._list_empty(lambda one: one.kind in ("choice", "switch")):
            named = parameter.choice_words or _SWITCH_WORDS
            places = {choice: place for choice, own in named if (place := self._find(own))}
            longest = [one for one in places if not any(set(places[one]) < set(other) for other in places.values())]
            alike = self._list_empty(lambda one, like=parameter: one.choices == like.choices and one.required)
            if len(longest) == 1 or len(longest) == len(alike) > 0:
                first = min(longest, key=lambda one: places[one][0])
                self._take(parameter, first, places[first])

    def _find(self, own: Sequence[str]) -> range | None:
        """Return the tokens that are these words, if they stand in the message once."""
        wanted = [stem(word) for word in own]
        starts = [at for at, word in enumerate(self._stems) if word == wanted[0]]
        places = [range(at, at + len(wanted)) for at in starts if self._stems[at : at + len(wanted)] == wanted]
        matches = [place for place in places if self._left.issuperset(place)]
        return matches[0] if len(matches) == 1 else None

    def _fill_times(self) -> None:
        parameters = self._list_empty(lambda one: one.kind == "time")
        if not parameters:
            return
        pieces = find_times(self._message.whole, self._now, self._language)
        required = [one for one in parameters if one.required]
        wanted = required if len(required) == len(pieces) else parameters[: len(pieces)]
        if len(pieces) != len(wanted):
            return
        for parameter, piece in zip(wanted, pieces, strict=True):
            value = parameter.parse(piece, self._now, self._language)
            if value is not None:
                self._take(parameter, value, self._find_tokens(piece))

    def _find_tokens(self, piece: str) -> list[int]:
        start = self._message.whole.find(piece)
        end = start + len(piece)
        return [at for at, token in enumerate(self._tokens) if token.start < end and token.end > start]

    def _fill_addresses(self) -> None:
        for parameter in self._list_empty(lambda one: one.kind == "text" and one.name not in self._tool.sources):
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
        for parameter in self._list_empty(lambda one: one.kind == "text" and one.name not in self._tool.sources):
            if "pattern" in parameter.schema:
                self._take_only(parameter, parameter.fits)
            elif parameter.is_identifier:
                self._take_only(parameter, lambda text: any(letter.isdigit() for letter in text))

    def _take_first(self, parameter: Parameter, is_value: Callable[[str], bool]) -> None:
        """Take the first that fits: two paths are said in the order in which the parameters have them."""
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
        parameters = self._list_empty(lambda one: one.kind == "number")
        numbers = [at for at in sorted(self._left) if parse_number(self._tokens[at].text) is not None]
        if any(self._is_alternative(at) for at in numbers):
            return
        for parameter in parameters:
            near = [at for at in numbers if at in self._left and self._is_named(parameter, at)]
            if len(near) == 1:
                self._take_number(parameter, near[0])
        left, empty = [at for at in numbers if at in self._left], self._list_empty(lambda one: one.kind == "number")
        required = [one for one in empty if one.required] or empty
        if len(left) == len(required) == 1:
            self._take_number(required[0], left[0])

    def _take_number(self, parameter: Parameter, at: int) -> None:
        value = parameter.parse(self._tokens[at].text, self._now, self._language)
        if value is not None:
            self._take(parameter, value, [at])

    def _is_named(self, parameter: Parameter, at: int) -> bool:
        """Return whether a word of the parameter's name stands beside a number: `30 minutes`, `page 2`."""
        label = set(extract_words(f"{parameter.label} {parameter.description[:80]}"))
        beside = self._tokens[max(0, at - NEAR) : at + NEAR + 1]
        return any(stem(token.folded) in label for token in beside)

    def _is_alternative(self, at: int) -> bool:
        """Return whether a token is one of two, as in `A-1 or A-2`: then the person has not chosen yet."""
        beside = self._tokens[max(0, at - 1) : at + 2]
        return any(token.folded in ALTERNATIVES and not token.quoted for token in beside)

    def _fill_quoted(self) -> None:
        quoted = [at for at in sorted(self._left) if self._tokens[at].quoted]
        empty = self._list_empty(lambda one: one.is_free_text and one.required) or self._list_empty(
            lambda one: one.is_free_text
        )
        if quoted and len(quoted) == len(empty):
            for parameter, at in zip(empty, quoted, strict=True):
                if parameter.fits(self._tokens[at].text) and parameter.name not in self._tool.sources:
                    self._take(parameter, self._tokens[at].text, [at])

    def _fill_rest(self) -> dict[str, str]:
        """Give what is left to the one free text; return it as words where another tool knows the value."""
        takes_words = self._list_empty(lambda one: one.is_free_text or one.name in self._tool.sources)
        empty = [one for one in takes_words if one.required] or takes_words
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
        """Return the longest run of what is not taken, without the tool's own words and small words at its ends."""
        own = self._own_words
        runs = [self._trim(run, own) for run in _group_runs(sorted(self._left))]
        return max(runs, key=len, default=list[int]())

    @cached_property
    def _own_words(self) -> set[str]:
        labels = " ".join(parameter.label for parameter in self._parameters)
        own = extract_words(f"{self._tool.name} {self._tool.description[:200]} {labels}")
        return {*own, *(group for word in own for group in find_concepts(word))}

    def _trim(self, run: list[int], own: set[str]) -> list[int]:
        while run and self._is_small(run, own, first=True):
            run = run[1:]
        while run and self._is_small(run, own, first=False):
            run = run[:-1]
        return run

    def _is_small(self, run: Sequence[int], own: set[str], *, first: bool) -> bool:
        """Return whether the word at an end says nothing of its own: a small word, a verb, or a word of the tool."""
        token = self._tokens[run[0] if first else run[-1]]
        if token.quoted or token.folded in NEGATIONS:
            return False
        if not extract_words(token.folded) or token.folded in _NAMING or _is_own_word(token.folded, own):
            return True
        if len(run) < 2:
            return False
        near = (run[0], run[1]) if first else (run[-2], run[-1])
        pair = "".join(self._tokens[at].folded for at in near)
        return len(pair) == 2 and not pair.isascii() and _is_own_word(pair, own)


def _is_own_word(word: str, own: set[str]) -> bool:
    plain = stem(word)
    return plain in own or is_action(plain) or any(group in own for group in find_concepts(plain))


def _group_runs(places: Sequence[int]) -> Iterator[list[int]]:
    """Yield what stands together."""
    run: list[int] = []
    for at in places:
        if run and at != run[-1] + 1:
            yield run
            run = []
        run.append(at)
    if run:
        yield run
