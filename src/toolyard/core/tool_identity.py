"""What a tool's name stands for: one tool of one server, for good.

Models, people and the configuration use a name. A name of an MCP server's tool is bound to that tool before it is first
offered, and the binding is stored. Whatever is decided about a tool is decided about its identity.
"""

from msgspec import Struct

TOOL_NAMES = "mcp.names"
"""The kind of the records that bind names: the body of the record of a name is a `ToolIdentity`."""


class ToolIdentity(Struct, frozen=True, gc=False):
    """An MCP server, and the name of a tool on it; for a tool of no server an empty text, and the tool's only name."""

    server: str
    tool: str
