"""The tools as one caller gets them, where a venue has others for that caller than for the rest."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.ports import Own, Personal, Personally, Venue
from toolyard.core.tools import Tool

MOST_TABLES = 512
When = Literal["always", "cut", "many"]
"""Tools of our own: for a conversation that holds a result which was cut, or one with too many tools to show."""


class Registered(Struct, frozen=True, kw_only=True):
    tool: Tool
    venue: Venue
    own: Own
    hash: str
    on_demand: When = "always"


Table = Mapping[str, Registered]


def is_certain(entry: Registered, caller: Caller) -> bool:
    """Whether this caller gets the tool so, and not only as long as nothing is known of this caller."""
    return not isinstance(entry.venue, Personally) or entry.venue.knows(entry.tool, caller)


class Tables:
    """Each is made once, for as long as nothing changes for its caller."""

    def __init__(self, fit: Callable[[Tool, Venue, Table], Registered | None]) -> None:
        self._fit = fit
        self._venue: Personally | None = None
        self._known: dict[tuple[Personal, ...], Table] = {}

    def add(self, venue: Venue) -> None:
        """A venue may have tools for some, though it has none for all."""
        if isinstance(venue, Personally):
            self._venue = venue

    def renew(self) -> None:
        """What all get has changed."""
        self._known.clear()

    def apart(self, caller: Caller) -> tuple[Personal, ...]:
        """The same as long as nothing changes for this caller; empty for one who gets what all do."""
        return self._venue.personal(caller) if self._venue else ()

    def unavailable(self, caller: Caller) -> Sequence[Tool]:
        """Return the tools that the venue had for this caller while their servers ran."""
        return self._venue.unavailable(caller) if self._venue else ()

    def seen_by(self, caller: Caller, tools: Table) -> Table:
        """Those of all, but for what is there for this caller alone."""
        apart, venue = self.apart(caller), self._venue
        if not apart or venue is None:
            return tools
        if (known := self._known.get(apart)) is not None:
            return known
        table = dict(tools)
        for name, tool in itertools.chain.from_iterable(one.tools.items() for one in apart):
            entry = self._fit(tool, venue, {}) if tool else None
            if entry is not None:
                table[name] = entry
            else:
                table.pop(name, None)
        if len(self._known) >= MOST_TABLES:
            self._known.clear()
        self._known[apart] = table
        return table
