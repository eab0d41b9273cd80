"""The error for a model that called a tool which does not exist. Pure."""

import itertools
from collections.abc import Iterable, Sequence

from toolyard.core.items import Problem

MAX_NAMED = 20
MAX_LETTERS = 64
MAX_OUTAGES = 5


def build_unknown_tool_problem(name: str, offered: Iterable[str], outages: Sequence[str] = ()) -> Problem:
    """Return the problem with the names of the offered tools, the most similar first.

    `outages` are about servers that may have such a tool, as nobody knows their tools yet.
    """
    near = sorted(offered, key=lambda other: -_compute_likeness(name[:MAX_LETTERS].lower(), other.lower()))
    names = ", ".join(near[:MAX_NAMED]) or "none"
    hints = "".join(f". A server whose tools are not known may have it: {text}" for text in outages[:MAX_OUTAGES])
    return Problem(
        error=f"there is no tool named {name[:MAX_LETTERS]!r}; there are: {names}{hints}",
        error_type="unknown_tool",
        details={"tools": near[:MAX_NAMED]},
    )


def _compute_likeness(name: str, other: str) -> float:
    """Return the share of letter pairs that two names have in common."""
    pairs, other_pairs = {*itertools.pairwise(name)}, {*itertools.pairwise(other)}
    return len(pairs & other_pairs) / (len(pairs | other_pairs) or 1)
