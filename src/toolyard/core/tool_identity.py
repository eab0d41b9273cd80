"""What a tool's name stands for: one tool of one server, for good.

Models, people and the configuration use a name. A name of an MCP server's tool is bound to that tool before it is first
offered, and the binding is stored. Whatever is decided about a tool is decided about its identity.
"""

from collections.abc import Callable, Iterable

from msgspec import Struct

TOOL_NAMES = "mcp.names"
"""The kind of the records that bind names: the body of the record of a name is a `ToolIdentity`."""


class ToolIdentity(Struct, frozen=True, gc=False):
    """An MCP server, and the name of a tool on it; for a tool of no server an empty text, and the tool's only name."""

    server: str
    tool: str


FindIdentity = Callable[[str], ToolIdentity | None]
"""Returns the tool of a server that a name is bound to; None for any other name."""


class BoundName(Struct, frozen=True, gc=False, omit_defaults=True):
    """A tool's name that somebody has set, and the tool of a server that it was bound to then.

    Without a server the name was bound to none. Whatever tool has the name is meant.
    """

    name: str
    server: str = ""
    tool: str = ""


def bind_names(names: Iterable[str], find_identity: FindIdentity) -> frozenset[BoundName]:
    """Return the names with the tools that they are bound to now."""
    identities = {name: find_identity(name) for name in names}
    return frozenset(
        BoundName(name, identity.server, identity.tool) if identity else BoundName(name)
        for name, identity in identities.items()
    )
