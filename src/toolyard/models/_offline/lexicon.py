"""The table of words in `lexicon.txt`, read once. It knows no tool.

A request in one language finds a tool that is described in the other because both have the same concepts.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from msgspec import Struct

RELATED: Mapping[str, tuple[str, ...]] = {
    "need": ("add", "create"),
    "remind": ("create",),
    "create": ("add",),
    "add": ("create",),
    "get": ("add", "show", "find", "stat"),
    "show": ("open", "find", "get", "stat"),
    "find": ("show", "get", "stat"),
    "stat": ("show", "get", "find"),
    "open": ("show",),
    "update": ("open",),
}
"""What an action may also be meant by, with less weight, the likelier first."""
FOREIGN = frozenset(
    {"weather", "travel", "news", "writing", "language", "media", "dining", "finance", "sport", "politics", "maths"}
    | {"doctor", "mail", "message", "recipe", "mood"}
)
"""What people ask assistants for; a request about one of these is for a tool that speaks of it, or for none."""
KINDS = (
    frozenset({"light", "switch", "climate", "fan", "cover", "lock", "media_player", "vacuum"}),
    frozenset({"turn_on", "turn_off", "toggle"}),
)
"""Values that come together: a place whose examples are two of them takes the others as well."""
WEAK = frozenset({"of:list", "of:page", "of:house", "of:product", "of:month", "of:status", "of:card"})
"""Things that so many tools speak of that naming one says little."""


class Entry(Struct, frozen=True):
    """A concept such as `do:add`, and the words and phrases that stand for it."""

    concept: str
    english: tuple[str, ...]
    chinese: tuple[str, ...]

    @property
    def kind(self) -> str:
        return self.concept[:2]


@cache
def entries() -> tuple[Entry, ...]:
    lines: list[str] = []
    for line in Path(__file__).with_name("lexicon.txt").read_text("utf-8").splitlines():
        if line.startswith(" "):
            lines[-1] += line
        elif line and not line.startswith("#"):
            lines.append(line)
    return tuple(map(_entry, lines))


def _entry(line: str) -> Entry:
    head, _, rest = line.partition(":")
    english, _, chinese = rest.partition("|")
    kind, _, name = head.partition(" ")
    return Entry(f"{kind}:{name}", _listed(english), _listed(chinese))


def _listed(phrases: str) -> tuple[str, ...]:
    return tuple(phrase.strip() for phrase in phrases.split(",") if phrase.strip())
