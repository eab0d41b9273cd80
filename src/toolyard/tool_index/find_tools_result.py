"""What `find_tools` tells the model, and how the engine reads from it which tools to offer from then on. Pure."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from toolyard.core.tools import Tool

FIND_TOOLS = "find_tools"
MOST_FOUND = 5
MOST_SCHEMA_BYTES = 2048
"""Of the tools that one find shows, but for the first of them."""
LARGEST_SCHEMA = 12_000
"""A larger one is left to the offer of the next turn."""
AROUND = 64
"""What a wire writes around each tool."""


class _Named(Struct):
    name: str


class _Told(Struct):
    tools: list[_Named] = []


def shown_bytes(tool: Tool) -> int:
    """About how many bytes of a request a tool takes."""
    return len(msgspec.json.encode((tool.name, tool.description, tool.parameters))) + AROUND


def told(tools: Sequence[Tool]) -> dict[str, object]:
    """The tools that were found, as many as are cheap to show."""
    if not tools:
        return {"tools": [], "note": "No tool fits these words. Try others: what is to be done, and with what."}
    return {"tools": [_shown(tool) for tool in cheap(tools)], "note": "You can call these from your next turn on."}


def cheap(tools: Sequence[Tool]) -> list[Tool]:
    left, few = MOST_SCHEMA_BYTES, list(tools[:1])
    left -= sum(map(shown_bytes, few))
    for tool in tools[1:MOST_FOUND]:
        left -= shown_bytes(tool)
        if left < 0:
            break
        few.append(tool)
    return few


def names_told(content: str) -> list[str]:
    """The names in a result of `find_tools`; none if it is not one."""
    try:
        return [one.name for one in msgspec.json.decode(content, type=_Told).tools]
    except msgspec.MsgspecError:
        return []


def _shown(tool: Tool) -> dict[str, object]:
    if shown_bytes(tool) > LARGEST_SCHEMA:
        return {"name": tool.name, "description": tool.description[:LARGEST_SCHEMA]}
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
