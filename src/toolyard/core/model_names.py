"""Patterns for the names of models that a request may use."""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

_WILDCARDS = frozenset("*?[")
_PROVIDER = re.compile(r"(?!(?:https?|local|toolyard):)[\w-]+:.+")
_SAFE = re.compile(r"[\w.:/@+-]{1,200}", re.ASCII)
"""Names that a pattern may match. Some wires put the name into a URL path, which it must not escape from."""


def is_pattern(name: str) -> bool:
    return not _WILDCARDS.isdisjoint(name)


def is_safe_pattern(pattern: str) -> bool:
    """Return whether the pattern names models of one provider, not addresses or files."""
    return _PROVIDER.fullmatch(pattern) is not None


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    if _SAFE.fullmatch(name) is None or ".." in name or "//" in name:
        return False
    return any(fnmatchcase(name, pattern) for pattern in patterns)
