"""MCP servers as a venue: their tools are offered, and a call is run on the server that has it.

Its public face: `McpVenue` runs calls, `Fleet` looks after the servers, `Router` is the table of names. None of them
loads the SDK: a `Connector` does, when the first server is started.
"""

from toolyard.venues.mcp.calls.client_results import unwrap_result
from toolyard.venues.mcp.calls.content import outcome
from toolyard.venues.mcp.catalog.definitions import tool_of
from toolyard.venues.mcp.catalog.router import Route, Router
from toolyard.venues.mcp.manager import Fleet
from toolyard.venues.mcp.outcomes import Answer, Answered, Gone, Rejected
from toolyard.venues.mcp.shared import Connector
from toolyard.venues.mcp.venue import McpVenue, meta_of

__all__ = [
    "Answer",
    "Answered",
    "Connector",
    "Fleet",
    "Gone",
    "McpVenue",
    "Rejected",
    "Route",
    "Router",
    "meta_of",
    "outcome",
    "tool_of",
    "unwrap_result",
]
