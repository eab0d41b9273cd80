"""Names of models that a request may use: those that are listed, and those that fit a pattern."""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

_WILDCARDS = frozenset("*?[")
_PROVIDER = re.compile(r"(?!(?:https?|local|toolyard):)[\w-]+:.+")
_SAFE = re.compile(r"[\w.:/@+-]{1,200}", re.ASCII)
"""What a pattern may match. Some wires put the name into a path: it must not leave its place there."""


def is_pattern(name: str) -> bool:
    return not _WILDCARDS.isdisjoint(name)


def is_safe_pattern(pattern: str) -> bool:
    """Return whether the pattern opens models of one provider, not addresses or files."""
    return _PROVIDER.fullmatch(pattern) is not None


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    if _SAFE.fullmatch(name) is None or ".." in name or "//" in name:
        return False
    return any(fnmatchcase(name, pattern) for pattern in patterns)
