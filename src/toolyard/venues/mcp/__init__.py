"""MCP servers as a venue: their tools are offered to models, and a call runs on the server that has the tool.

`McpVenue` runs calls, `McpManager` starts and stops the servers, and `Router` maps the names that models see to servers
and tools. None of them loads the MCP SDK: a `Connector` does, when the first server is started.
"""

from toolyard.venues.mcp.calls.client_results import unwrap_result
from toolyard.venues.mcp.calls.content import parse_call_result
from toolyard.venues.mcp.catalog.definitions import build_tool
from toolyard.venues.mcp.catalog.router import Router
from toolyard.venues.mcp.dependencies import Connector
from toolyard.venues.mcp.manager import McpManager
from toolyard.venues.mcp.outcomes import ErrorReply, NoReply, ResultReply, ServerReply
from toolyard.venues.mcp.venue import McpVenue, build_meta

__all__ = [
    "Connector",
    "ErrorReply",
    "McpManager",
    "McpVenue",
    "NoReply",
    "ResultReply",
    "Router",
    "ServerReply",
    "build_meta",
    "build_tool",
    "parse_call_result",
    "unwrap_result",
]
