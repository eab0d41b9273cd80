"""The tools as one caller gets them, where a venue has others for that caller than for the rest."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.ports import CallerTools, CallerToolsVenue, ToolHooks, Venue
from toolyard.core.tools import Tool

MAX_TABLES = 512
Availability = Literal["always", "cut", "many"]
"""Tools of our own: for a conversation that holds a result which was cut, or one with too many tools to show."""


class RegisteredTool(Struct, frozen=True, kw_only=True):
    tool: Tool
    venue: Venue
    hooks: ToolHooks
    hash: str
    on_demand: Availability = "always"


ToolTable = Mapping[str, RegisteredTool]


def is_certain(entry: RegisteredTool, caller: Caller) -> bool:
    """Whether this caller gets the tool so, and not only as long as nothing is known of this caller."""
    return not isinstance(entry.venue, CallerToolsVenue) or entry.venue.knows_tool(entry.tool, caller)


class ToolTables:
    """Each is made once, for as long as nothing changes for its caller."""

    def __init__(self, try_register: Callable[[Tool, Venue, ToolTable], RegisteredTool | None]) -> None:
        self._try_register = try_register
        self._venue: CallerToolsVenue | None = None
        self._cached: dict[tuple[CallerTools, ...], ToolTable] = {}

    def add(self, venue: Venue) -> None:
        """A venue may have tools for some, though it has none for all."""
        if isinstance(venue, CallerToolsVenue):
            self._venue = venue

    def clear(self) -> None:
        """What all get has changed."""
        self._cached.clear()

    def caller_tools(self, caller: Caller) -> tuple[CallerTools, ...]:
        """The same as long as nothing changes for this caller; empty for one who gets what all do."""
        return self._venue.caller_tools(caller) if self._venue else ()

    def unavailable_tools(self, caller: Caller) -> Sequence[Tool]:
        """Return the tools that the venue had for this caller while their servers ran."""
        return self._venue.unavailable_tools(caller) if self._venue else ()

    def table_for(self, caller: Caller, tools: ToolTable) -> ToolTable:
        """Those of all, but for what is there for this caller alone."""
        apart, venue = self.caller_tools(caller), self._venue
        if not apart or venue is None:
            return tools
        if (known := self._cached.get(apart)) is not None:
            return known
        table = dict(tools)
        for name, tool in itertools.chain.from_iterable(one.tools.items() for one in apart):
            entry = self._try_register(tool, venue, {}) if tool else None
            if entry is not None:
                table[name] = entry
            else:
                table.pop(name, None)
        if len(self._cached) >= MAX_TABLES:
            self._cached.clear()
        self._cached[apart] = table
        return table
