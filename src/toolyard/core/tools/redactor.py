"""Patterns of secrets, which are replaced in results before a model, a stream or a trace sees them. Pure.

Tools return texts of strangers, so no pattern may take longer than in proportion to the text: every repetition has an
upper bound and, once it has matched, gives nothing back.
"""

import base64
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from toolyard.core.items import FilePart, Item, Part, Result
from toolyard.core.json_types import is_list, is_object
from toolyard.core.settings.redact_rules import BuiltInPattern, RedactRules, compile_own_pattern

WINDOW_CHARS = 256 * 1024
"""A longer text is searched window by window: one search holds the interpreter lock, and so all other requests."""
MAX_MATCH_CHARS = 12_000
"""No pattern matches a longer text, so that each match is found from the window that it begins in."""
MAX_DEPTH = 100

_BUILT_IN: dict[BuiltInPattern, str] = {
    # At the beginning of a word, which may follow an escape of JSON or a colour of a terminal.
    "api_key": r"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrt])|(?<=\dm))(?:sk|rk)[-_][A-Za-z0-9_-]{20,250}+",
    "aws_key": r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])|(?i:secret_?access_?key)[\s\"'\\:=]{1,10}+[A-Za-z0-9/+]{40}",
    "credit_card": r"(?<!\d)(?:[2-6]\d{12,18}+|[2-6]\d{3}(?P<s>[ -])\d{4}(?P=s)\d{4}(?P=s)\d{4}"
    r"|3[47]\d\d(?P<t>[ -])\d{6}(?P=t)\d{5})(?!\d)",
    "github_token": r"gh[pousr]_[A-Za-z0-9]{36,255}+|github_pat_[A-Za-z0-9_]{22,255}+",
    "google_key": r"AIza[A-Za-z0-9_-]{35}",
    "jwt": r"eyJ[A-Za-z0-9_-]{8,500}+\.[A-Za-z0-9_-]{8,8000}+\.[A-Za-z0-9_-]{8,2000}+",
    # Up to the next line of dashes, or as far as a key may reach if the text was cut before it.
    "private_key": r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY[A-Z ]{0,10}-----"
    r"(?:[\s\S]{0,8000}?(?=-----)|[\s\S]{0,8000}+)(?:-----END [A-Z ]{0,50}-----)?",
    "slack_token": r"xox[abeoprs]-[A-Za-z0-9-]{10,250}+",
}


class Redacted(NamedTuple):
    """A text without its secrets, and the names of the patterns that were replaced."""

    text: str
    names: tuple[str, ...] = ()


class Redactor:
    """Replaces secrets in texts by `[redacted: NAME]`."""

    def __init__(self, *rules: RedactRules) -> None:
        """Replace what any of the rules names. Two of them may have patterns of their own of the same name."""
        built_in = ((name, re.compile(_BUILT_IN[name])) for chosen in rules for name in chosen.patterns)
        own_rules = ((name, compile_own_pattern(pattern)) for chosen in rules for name, pattern in chosen.own.items())
        self._patterns: Sequence[tuple[str, re.Pattern[str]]] = tuple(dict.fromkeys((*built_in, *own_rules)))

    @property
    def has_patterns(self) -> bool:
        return bool(self._patterns)

    def redact(self, text: str) -> Redacted:
        """Return the text with its secrets replaced, and the names of the patterns that they matched."""
        if not self._patterns:
            return Redacted(text)
        pieces, names, end = list[str](), dict[str, None](), 0
        for start, stop, name in self._find_spans(text):
            if stop <= end:
                continue
            if start >= end:  # else it overlaps the secret before it, which is replaced already
                pieces += [text[end:start], f"[redacted: {name}]"]
                names[name] = None
            end = stop
        return Redacted("".join([*pieces, text[end:]]), tuple(names)) if names else Redacted(text)

    def redact_text(self, text: str) -> str:
        return self.redact(text).text if self._patterns else text

    def redact_question(self, question: Mapping[str, object]) -> dict[str, object]:
        """Return a question to a person without secrets, except in an address that the person is to open."""
        return self._redact_object(dict(question), 0, frozenset({"url"}))

    def redact_json(self, value: object, depth: int = 0, kept_keys: frozenset[str] = frozenset()) -> object:
        """Return a JSON value whose texts hold no secrets. The values of `kept_keys` are left as they are.

        What is nested too deep is left out.
        """
        if not self._patterns:
            return value
        if isinstance(value, str):
            return self.redact(value).text
        if isinstance(value, int | float) and not isinstance(value, bool):
            redacted = self.redact(str(value))
            return redacted.text if redacted.names else value
        if depth > MAX_DEPTH and (is_list(value) or is_object(value)):
            return "…"
        if is_list(value):
            return [self.redact_json(inner, depth + 1, kept_keys) for inner in value]
        return self._redact_object(value, depth, kept_keys) if is_object(value) else value

    def redact_mapping(self, values: Mapping[str, object]) -> dict[str, object]:
        return self._redact_object(dict(values), 0, frozenset())

    def _redact_object(self, value: dict[str, object], depth: int, kept_keys: frozenset[str]) -> dict[str, object]:
        if not self._patterns:
            return value
        return {
            self.redact(key).text: inner if key in kept_keys else self.redact_json(inner, depth + 1, kept_keys)
            for key, inner in value.items()
        }

    def redact_part(self, part: Part) -> Part:
        """Return a file whose inline text holds no secrets; files of other kinds, and by address, are not looked at."""
        if not self._patterns or not isinstance(part, FilePart) or not (inline := _INLINE_TEXT.match(part.url)):
            return part
        try:
            text = base64.b64decode(part.url[inline.end() :], validate=True).decode()
        except ValueError:
            return part
        clean, names = self.redact(text)
        return replace(part, url=inline.group() + base64.b64encode(clean.encode()).decode()) if names else part

    def redact_items(self, items: Sequence[Item]) -> tuple[Item, ...]:
        """Return the items with redacted results, for a history that an application sends."""
        if not self._patterns:
            return tuple(items)
        return tuple(self._redact_result(item) if isinstance(item, Result) else item for item in items)

    def _redact_result(self, result: Result) -> Result:
        text, names = self.redact(result.content)
        return replace(result, content=text, redacted=names) if names else result

    def _find_spans(self, text: str) -> list[tuple[int, int, str]]:
        spans = list[tuple[int, int, str]]()
        for start in range(0, len(text) if self._patterns else 0, WINDOW_CHARS):
            end = start + WINDOW_CHARS
            for name, pattern in self._patterns:
                for match in pattern.finditer(text, start, end + MAX_MATCH_CHARS):
                    if match.start() >= end:  # the next window finds it too
                        break
                    if name != "credit_card" or _is_card_number(match.group()):
                        spans.append((match.start(), match.end(), name))
        return sorted(spans)


NO_REDACTOR = Redactor()


def _is_card_number(text: str) -> bool:
    """Return whether the check digit is right (Luhn)."""
    digits = [int(character) for character in reversed(text) if character.isdigit()]
    return sum(digits[0::2] + [sum(divmod(2 * digit, 10)) for digit in digits[1::2]]) % 10 == 0


_INLINE_TEXT = re.compile(r"data:(?:text/|application/(?:json|xml|x-yaml|toml))[^,]{0,100};base64,")
