"""Builds the result of `find_tools`, and reads from it which tools the engine offers in later turns. Pure."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from toolyard.core.tools.definition import Tool

FIND_TOOLS = "find_tools"
MAX_FOUND = 5
MAX_SHOWN_BYTES = 2048
"""The most bytes of the tools that one result shows; the first tool is always shown."""
MAX_TOOL_BYTES = 12_000
"""A larger tool is shown without its schema, which the offer of the next turn contains anyway."""
OVERHEAD_BYTES = 64
"""The bytes that a wire writes around each tool."""


class _FoundTool(Struct):
    name: str


class _FindToolsResult(Struct):
    tools: list[_FoundTool] = []


def estimate_tool_bytes(tool: Tool) -> int:
    """Return about how many bytes a tool takes in a request."""
    return len(msgspec.json.encode((tool.name, tool.description, tool.parameters))) + OVERHEAD_BYTES


def build_result(tools: Sequence[Tool], *, with_returns: bool = False) -> dict[str, object]:
    """Return the result for the tools that were found, limited by size; with the schemas of what they return or not."""
    if not tools:
        return {"tools": [], "note": "No tool fits these words. Try others: what is to be done, and with what."}
    return {
        "tools": [_describe_tool(tool, with_returns) for tool in limit_by_size(tools)],
        "note": "You can call these from your next turn on.",
    }


def limit_by_size(tools: Sequence[Tool]) -> list[Tool]:
    bytes_left, shown = MAX_SHOWN_BYTES, list(tools[:1])
    bytes_left -= sum(map(estimate_tool_bytes, shown))
    for tool in tools[1:MAX_FOUND]:
        bytes_left -= estimate_tool_bytes(tool)
        if bytes_left < 0:
            break
        shown.append(tool)
    return shown


def parse_tool_names(content: str) -> list[str]:
    """Return the names of the tools in a result of `find_tools`; none if the text is not such a result."""
    try:
        return [tool.name for tool in msgspec.json.decode(content, type=_FindToolsResult).tools]
    except msgspec.MsgspecError:
        return []


def _describe_tool(tool: Tool, with_returns: bool) -> dict[str, object]:
    if estimate_tool_bytes(tool) > MAX_TOOL_BYTES:
        return {"name": tool.name, "description": tool.description[:MAX_TOOL_BYTES]}
    described: dict[str, object] = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    if with_returns and tool.returns is not None and len(msgspec.json.encode(tool.returns)) <= MAX_TOOL_BYTES:
        described["returns"] = tool.returns
    return described
