"""MCP servers as a venue: their tools are offered, and a call is run on the server that has it.

Its public face: `McpVenue` runs calls, `Fleet` looks after the servers, `Router` is the table of names. None of them
loads the SDK: a `Connector` does, when the first server is started.
"""

from toolyard.venues.mcp._answers import Answer, Answered, Gone, Rejected
from toolyard.venues.mcp._content import outcome
from toolyard.venues.mcp._definitions import tool_of
from toolyard.venues.mcp._delivered import unwrap_result
from toolyard.venues.mcp._home import Connector
from toolyard.venues.mcp.fleet import Fleet
from toolyard.venues.mcp.router import Route, Router
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
