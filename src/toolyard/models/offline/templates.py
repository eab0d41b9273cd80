"""Matches messages against a tool's examples: `add {item} to groceries` says what each slot of a message holds.

Matching is linear in the message: a slot ends at the next words of its template, and of two adjacent slots one has to
be a number, a choice or a time, which is short.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.tools.definition import Tool
from toolyard.core.tools.templates import split_template
from toolyard.models.offline.dates import is_plain_time
from toolyard.models.offline.parameters import MAX_ITEMS, Parameter, detect_language, split_list
from toolyard.models.offline.text import TokenizedText, has_reservation, is_chinese, strip_courtesies, tokenize

MAX_TRIES = 64
"""The most ways to match a template that are tried; a message that needs more does not match."""
MAX_TYPED_TOKENS = 12
"""The longest number, choice or time next to another slot, in tokens: a Chinese character is one token."""
MAX_PIECES = 24
"""The most texts and slots of a template; one with more matches nothing."""
MAX_FREE_WORDS, MAX_FREE_IDEOGRAPHS = 2, 2
"""The longest free text in an order that runs without confirmation.

A condition or a report takes at least three words besides its subject; two characters are usually one Chinese word.
"""
_DOUBTFUL_MARKS = frozenset(".!?;:/+|\n。！？；：…")
_UNITS = frozenset("$€£¥%")
_WITH_SPACES = re.compile(r"[\u0000-\u0dff\u1e00-\u1fff\uac00-\ud7a3]+")
"""Scripts with spaces between words. In any other script a text without spaces may be a sentence."""


class Slot(Struct, frozen=True):
    """The content of one slot of a match."""

    name: str
    text: str
    between_literals: bool
    quoted: bool


class TemplateFit(Struct, frozen=True):
    """One way in which a message matches an example of a tool."""

    tool: Tool
    arguments: tuple[dict[str, object], ...]
    """The arguments of each call: a list in a slot makes one call for each item."""
    words: dict[str, str]
    """The words to look up, by parameter, for parameters whose values come from another tool."""
    free_tokens: int
    """How many tokens of the message are in free texts: the fewer, the more specific is the match."""
    is_plain: bool
    """Whether the example is an order, each free text is short and has clear limits, and each other value is bare."""


class Template:
    """One example of a tool, split at its slots once."""

    def __init__(self, tool: Tool, example: str, parameters: Mapping[str, Parameter]) -> None:
        self.tool = tool
        self._is_order = example in tool.examples
        self._parameters = parameters
        self._pieces: list[str | tuple[str, ...]] = []
        for text, slot in split_template(example):
            tokens = strip_courtesies(tokenize(text), before=not self._pieces, after=not slot)
            if tokens:
                self._pieces.append(tuple(token.folded for token in tokens))
            if slot:
                self._pieces.append(slot)
        self.slots = [piece for piece in self._pieces if isinstance(piece, str)]

    def find_fits(self, message: TokenizedText, now: datetime) -> Iterator[TemplateFit]:
        """Yield every way in which the message matches this example with other values."""
        if not 0 < len(self._pieces) <= MAX_PIECES or not message.tokens or message.is_cut:
            return
        budget = [MAX_TRIES]
        ways = list(self._match_pieces(message, 0, 0, budget))
        if not budget[0]:  # the search was cut short: a better match may be among the ways that were not tried
            return
        for slots in ways:
            fit = self._build_fit(message, slots, now)
            if fit is not None:
                yield fit

    def _match_pieces(
        self, message: TokenizedText, piece: int, at: int, budget: list[int]
    ) -> Iterator[list[tuple[int, int, int]]]:
        """Yield, for every way to match the remaining pieces, the slots as (piece, first token, end token)."""
        if piece == len(self._pieces):
            if at == len(message.tokens):
                yield []
            return
        literal = self._pieces[piece]
        if not isinstance(literal, str):
            if self._matches_at(message, literal, at):
                yield from self._match_pieces(message, piece + 1, at + len(literal), budget)
            return
        for end in self._find_ends(message, piece, at):
            if not budget[0]:
                return
            budget[0] -= 1
            for later_slots in self._match_pieces(message, piece + 1, end, budget):
                yield [(piece, at, end), *later_slots]

    def _find_ends(self, message: TokenizedText, piece: int, at: int) -> Iterator[int]:
        """Yield where a slot may end: at the next literal, at the end of the message, or after a short typed value."""
        last = len(message.tokens)
        after = self._pieces[piece + 1] if piece + 1 < len(self._pieces) else None
        if after is None:
            yield from (last,) if last > at else ()
        elif isinstance(after, str):
            if self._is_short(self._pieces[piece]):
                yield from range(at + 1, min(last, at + 1 + MAX_TYPED_TOKENS))
            else:
                yield from range(max(at + 1, last - MAX_TYPED_TOKENS), last)
        else:
            yield from (end for end in range(at + 1, last) if self._matches_at(message, after, end))

    def _is_short(self, name: str | tuple[str, ...]) -> bool:
        parameter = self._parameters[str(name)]
        return not parameter.is_free_text and parameter.name not in self.tool.sources

    @staticmethod
    def _matches_at(message: TokenizedText, literal: Sequence[str], at: int) -> bool:
        part = message.tokens[at : at + len(literal)]
        return len(part) == len(literal) and all(
            not token.quoted and token.folded == word for token, word in zip(part, literal, strict=True)
        )

    def _build_fit(
        self, message: TokenizedText, spans: Sequence[tuple[int, int, int]], now: datetime
    ) -> TemplateFit | None:
        language = detect_language(message.whole)
        arguments: list[dict[str, object]] = [{}]
        words: dict[str, str] = {}
        free_tokens, is_plain = 0, self._is_order
        for piece, start, end in spans:
            slot = self._build_slot(message, piece, start, end)
            parameter = self._parameters[slot.name]
            is_lookup = slot.name in self.tool.sources
            if is_lookup or parameter.is_free_text:
                free_tokens += end - start
            if is_lookup:
                words[slot.name] = slot.text
                is_plain = is_plain and _is_plain(slot, split_list(slot.text))
                continue
            values = self._parse_values(parameter, slot, now, language)
            if not values or len(values) > MAX_ITEMS or (len(values) > 1 and len(arguments) > 1):
                return None
            is_plain = is_plain and self._is_plain_value(parameter, slot, values)
            arguments = [{**earlier, slot.name: value} for earlier in arguments for value in values]
        return TemplateFit(self.tool, tuple(arguments), words, free_tokens, is_plain)

    @staticmethod
    def _is_plain_value(parameter: Parameter, slot: Slot, values: Sequence[object]) -> bool:
        kind = parameter.items.kind if parameter.kind == "list" else parameter.kind
        if kind == "text":
            if parameter.format is not None and len(slot.text.split()) == 1:  # an address may have any marks
                return True
            parts = split_list(slot.text) if parameter.kind == "list" else [str(value) for value in values]
            return _is_plain(slot, parts)
        if kind == "time":
            return is_plain_time(slot.text)
        return kind != "number" or not _UNITS.intersection(slot.text)

    def _get_next_literal(self, piece: int) -> tuple[str, ...]:
        after = self._pieces[piece + 1] if piece + 1 < len(self._pieces) else ()
        return after if not isinstance(after, str) else ()

    def _build_slot(self, message: TokenizedText, piece: int, start: int, end: int) -> Slot:
        literal_before = piece > 0 and not isinstance(self._pieces[piece - 1], str)
        return Slot(
            name=str(self._pieces[piece]),
            text=message.text_between(start, end),
            between_literals=literal_before and bool(self._get_next_literal(piece)),
            quoted=end - start == 1 and message.tokens[start].quoted,
        )

    def _parse_values(self, parameter: Parameter, slot: Slot, now: datetime, language: str) -> list[object]:
        parts = [slot.text]
        if parameter.is_free_text and not slot.quoted and len(self.slots) == 1:
            parts = split_list(slot.text)
        values = [parameter.parse(part, now, language) for part in parts]
        return [] if None in values else [value for value in values if value is not None]


def select_best_fits(fits: Sequence[TemplateFit]) -> list[TemplateFit]:
    """Return the most specific matches, each once: those with the fewest words in free texts.

    A match without free text wins over other tools. It is then no longer plain, since the message has other readings.
    """
    exact = [fit for fit in fits if not fit.free_tokens]
    if exact and len(exact) < len(fits):
        others = {fit.tool.name for fit in fits} - {fit.tool.name for fit in exact}
        fits = [replace(fit, is_plain=fit.is_plain and not others) for fit in exact]
    best: list[TemplateFit] = []
    for fit in fits:
        if any(other.tool.name == fit.tool.name and other.free_tokens < fit.free_tokens for other in fits):
            continue
        if not any(_is_same_call(fit, other) for other in best):
            best.append(fit)
    return best


def _is_same_call(fit: TemplateFit, other: TemplateFit) -> bool:
    return fit.tool.name == other.tool.name and fit.arguments == other.arguments and fit.words == other.words


def _is_plain(slot: Slot, parts: Sequence[str]) -> bool:
    """Return whether a free text has clear limits and contains no further order."""
    if slot.quoted:
        return True
    if has_reservation(slot.text) or _DOUBTFUL_MARKS.intersection(slot.text):
        return False
    if slot.between_literals:
        return all(_is_short(part) for part in parts)
    return len(parts) == 1 and len(slot.text.split()) == 1 and bool(_WITH_SPACES.fullmatch(slot.text))


def _is_short(text: str) -> bool:
    if is_chinese(text):
        return len("".join(text.split())) <= MAX_FREE_IDEOGRAPHS
    return len(text.split()) <= MAX_FREE_WORDS and bool(_WITH_SPACES.fullmatch(text))
