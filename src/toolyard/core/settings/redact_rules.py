"""Which secrets are replaced in results, as the configuration file and the store set it. Pure."""

import re
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from toolyard.core.settings.types import Name

BuiltInPattern = Literal[
    "api_key", "aws_key", "credit_card", "github_token", "google_key", "jwt", "private_key", "slack_token"
]
MAX_REPEATS = 256
MAX_OWN_CHARS = 1000


class RedactRules(Struct, frozen=True, kw_only=True):
    """Which secrets are replaced in results."""

    patterns: tuple[BuiltInPattern, ...] = ()
    own: dict[Name, str] = {}
    """Patterns of your own by name. See `compile_own_pattern` for their syntax."""

    def iter_problems(self) -> Iterator[tuple[str, str]]:
        """Yield the field and what is wrong with it."""
        for name, pattern in self.own.items():
            try:
                compile_own_pattern(pattern)
            except ValueError as error:
                yield "own", f"{name}: {error}"


NO_REDACTION = RedactRules()


_TOKEN = re.compile(
    r"""
    (?P<unit> \[ \^? \]? (?:[^\]\\\[] | \\.)* \]   # a set of characters
            | \\[dDwWsSbB.\\/+*?(){}\[\]|^$-]       # a kind of character, or a character that would mean more
            | \.
            | [^\\\[\](){}|*+?^$.] )
    (?P<repeat> \? | \{ (?P<low>\d{1,4}) (?: , (?P<high>\d{1,4}) )? \} )?
    """,
    re.VERBOSE | re.DOTALL,
)


def compile_own_pattern(pattern: str) -> re.Pattern[str]:
    r"""Return a pattern that takes time in proportion to the text. Raise ValueError for any other.

    It is a sequence of characters, sets (`[a-z0-9]`), `.` and `\d \w \s \b`, each of them optional (`?`) or repeated up
    to MAX_REPEATS times (`{8}`, `{8,40}`). There are no groups, no alternatives, no `*` and no `+`. A repetition takes
    as much as it can and gives nothing back.
    """
    position, parts, shortest, longest = 0, list[str](), 0, 0
    while position < len(pattern):
        token = _TOKEN.match(pattern, position)
        if token is None:
            raise ValueError(
                f"{pattern[position : position + 10]!r} is not supported: use characters, sets such as [a-z0-9], "
                f"\\d, \\w, \\s, \\b and . with ?, {{8}} or {{8,40}}"
            )
        low, high = _parse_repeat(token)
        is_boundary = token["unit"] in (r"\b", r"\B")
        if is_boundary and token["repeat"]:
            raise ValueError(f"{token.group()!r} repeats a boundary")
        shortest, longest = shortest + (0 if is_boundary else low), longest + (0 if is_boundary else high)
        parts.append(token["unit"] + (f"{{{low},{high}}}+" if token["repeat"] else ""))
        position = token.end()
    if not shortest:
        raise ValueError("it would match an empty text")
    if longest > MAX_OWN_CHARS:
        raise ValueError(f"it would match up to {longest} characters; at most {MAX_OWN_CHARS} are allowed")
    try:
        return re.compile("".join(parts))
    except re.error as error:
        raise ValueError(str(error)) from None


def _parse_repeat(token: re.Match[str]) -> tuple[int, int]:
    """Return how often a unit occurs at least and at most."""
    if not token["repeat"]:
        return 1, 1
    if token["repeat"] == "?":
        return 0, 1
    low = int(token["low"])
    high = int(token["high"] or low)
    if not low <= high <= MAX_REPEATS or not high:
        raise ValueError(f"{token.group()!r}: give from 0 to {MAX_REPEATS} repetitions, the smaller number first")
    return low, high
