"""Tool tables per caller, for a venue that gives some callers other tools than everybody else."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.items import Problem
from toolyard.core.ports import CallerTools, CallerToolsVenue, ProgramVenue, ToolHooks, Venue
from toolyard.core.tools.definition import Tool

MAX_TABLES = 512
Availability = Literal["always", "with_handles", "with_many_tools"]
"""When a built-in tool is offered: `cut` if a result was truncated, `many` if there are too many tools to show."""


class RegisteredTool(Struct, frozen=True, kw_only=True):
    """A tool with its venue, its hooks and the hash of its definition."""

    tool: Tool
    """The tool with the rules that are set while the server runs."""
    listed: Tool
    """The tool as its venue lists it."""
    venue: Venue
    hooks: ToolHooks
    hash: str
    on_demand: Availability = "always"
    program_venue: ProgramVenue | None = None
    """The venue, if the tool runs programs."""


ToolTable = Mapping[str, RegisteredTool]


def is_certain(entry: RegisteredTool, caller: Caller) -> bool:
    """Return whether it is known that this caller gets this version of the tool.

    Until a venue knows the caller, the caller has the version of everybody else.
    """
    return not isinstance(entry.venue, CallerToolsVenue) or entry.venue.knows_tool(entry.tool, caller)


class ToolTables:
    """A cache of tool tables, by the caller's own tools. Callers with the same own tools share a table."""

    def __init__(self, try_register: Callable[[Tool, Venue, ToolTable], RegisteredTool | None]) -> None:
        self._try_register = try_register
        self.venue: CallerToolsVenue | None = None
        self._cached: dict[tuple[CallerTools, ...], ToolTable] = {}

    def add(self, venue: Venue) -> None:
        """Remember a venue that has tools for single callers."""
        if isinstance(venue, CallerToolsVenue):
            self.venue = venue

    def clear(self) -> None:
        """Drop all tables: the tools that everybody gets have changed."""
        self._cached.clear()

    def caller_tools(self, caller: Caller) -> tuple[CallerTools, ...]:
        """Return the caller's own tools: the same objects until they change, empty for a caller without any."""
        return self.venue.caller_tools(caller) if self.venue else ()

    def unavailable_tools(self, caller: Caller) -> Sequence[Tool]:
        """Return the tools of this caller whose servers are stopped or failed."""
        return self.venue.unavailable_tools(caller) if self.venue else ()

    def starts_until(self, caller: Caller, tool: Tool | None, max_s: float) -> float:
        """Return until when a server that has this tool, or may have a missing one, may take to start; else 0.0."""
        return self.venue.starts_until(caller, tool, max_s) if self.venue else 0.0

    def explain_absence(self, name: str, caller: Caller) -> Problem | None:
        """Return why a tool that one of this caller's servers has is not offered; None if no server has it."""
        return self.venue.explain_absence(name, caller) if self.venue else None

    def list_outages(self, caller: Caller) -> Sequence[str]:
        """Return for each of this caller's servers whose tools are not known why it does not run."""
        return self.venue.list_outages(caller) if self.venue else ()

    def table_for(self, caller: Caller, tools: ToolTable) -> ToolTable:
        """Return everybody's tools with those of this caller in their place."""
        venue = self.venue
        if venue is None or not (own_tools := venue.caller_tools(caller)):
            return tools
        # `CallerTools` compare by identity, and the venue returns the same objects until something changes, so that the
        # tuple is a cache key that needs no invalidation.
        if (cached := self._cached.get(own_tools)) is not None:
            return cached
        table = dict(tools)
        for name, tool in itertools.chain.from_iterable(caller_tools.tools.items() for caller_tools in own_tools):
            entry = self._try_register(tool, venue, {}) if tool else None
            if entry is not None:
                table[name] = entry
            else:
                table.pop(name, None)
        if len(self._cached) >= MAX_TABLES:
            self._cached.clear()
        self._cached[own_tools] = table
        return table
