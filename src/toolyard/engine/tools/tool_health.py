"""Compares the tools that a caller is offered with the tools that would run for that caller. It runs nothing."""

from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.conversation.settings import Settings
from toolyard.core.ports import CallerToolsVenue, Policy, PolicyRequest, Venue
from toolyard.core.tools.definition import Tool
from toolyard.engine.tools.registry import Registry, find_denial


class ToolAudit(Struct, frozen=True, kw_only=True):
    """The names of a caller's tools: those that are offered, and those that a venue would run now.

    They differ where a server is gone whose tools are still offered, and where a venue lists a tool that cannot be
    offered. Built-in tools and the provider's own tools are listed separately.
    """

    schemas: list[str]
    dispatchers: list[str]
    built_in: list[str]


def audit_tools(registry: Registry, policy: Policy, caller: Caller) -> ToolAudit:
    """Return the audit of a caller's tools."""
    registered, refused = registry.list_registered(caller)
    offered = [(entry.tool, entry.venue) for entry in registered if entry.on_demand == "always"]

    def may_use(tool: Tool, venue: Venue) -> bool:
        request = PolicyRequest(tool=tool, caller=caller, settings=Settings())
        return not find_denial(venue.hooks(tool.name).authorize, caller) and policy.judge(request).decision != "deny"

    allowed = [(tool, venue) for tool, venue in offered if may_use(tool, venue)]
    unregistered = [(tool, venue) for tool, venue in refused if tool.venue != "provider" and may_use(tool, venue)]
    on_demand = [entry.tool.name for entry in registered if entry.on_demand != "always"]
    return ToolAudit(
        schemas=[tool.name for tool, _ in allowed],
        dispatchers=[tool.name for tool, venue in (*allowed, *unregistered) if _can_dispatch(venue, tool, caller)],
        built_in=[*on_demand, *(tool.name for tool in registry.native_tools())],
    )


def _can_dispatch(venue: Venue, tool: Tool, caller: Caller) -> bool:
    if isinstance(venue, CallerToolsVenue):
        return venue.can_dispatch(tool, caller)
    return any(listed.name == tool.name for listed in venue.tools())
