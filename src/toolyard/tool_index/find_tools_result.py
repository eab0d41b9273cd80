"""What `find_tools` tells the model, and how the engine reads from it which tools to offer from then on. Pure."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from toolyard.core.tools import Tool

FIND_TOOLS = "find_tools"
MAX_FOUND = 5
MAX_SHOWN_BYTES = 2048
"""Of the tools that one find shows, but for the first of them."""
MAX_TOOL_BYTES = 12_000
"""A larger one is left to the offer of the next turn."""
OVERHEAD_BYTES = 64
"""What a wire writes around each tool."""


class _FoundTool(Struct):
    name: str


class _FindToolsResult(Struct):
    tools: list[_FoundTool] = []


def estimate_tool_bytes(tool: Tool) -> int:
    """About how many bytes of a request a tool takes."""
    return len(msgspec.json.encode((tool.name, tool.description, tool.parameters))) + OVERHEAD_BYTES


def build_result(tools: Sequence[Tool]) -> dict[str, object]:
    """The tools that were found, as many as are cheap to show."""
    if not tools:
        return {"tools": [], "note": "No tool fits these words. Try others: what is to be done, and with what."}
    return {
        "tools": [_describe_tool(tool) for tool in limit_by_size(tools)],
        "note": "You can call these from your next turn on.",
    }


def limit_by_size(tools: Sequence[Tool]) -> list[Tool]:
    left, few = MAX_SHOWN_BYTES, list(tools[:1])
    left -= sum(map(estimate_tool_bytes, few))
    for tool in tools[1:MAX_FOUND]:
        left -= estimate_tool_bytes(tool)
        if left < 0:
            break
        few.append(tool)
    return few


def parse_tool_names(content: str) -> list[str]:
    """The names in a result of `find_tools`; none if it is not one."""
    try:
        return [one.name for one in msgspec.json.decode(content, type=_FindToolsResult).tools]
    except msgspec.MsgspecError:
        return []


def _describe_tool(tool: Tool) -> dict[str, object]:
    if estimate_tool_bytes(tool) > MAX_TOOL_BYTES:
        return {"name": tool.name, "description": tool.description[:MAX_TOOL_BYTES]}
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
