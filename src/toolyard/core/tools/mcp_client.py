"""The protocol version and the capabilities of the MCP client behind a request."""

from typing import Literal

from msgspec import Struct

Capability = Literal["elicitation", "sampling", "roots"]


class McpClient(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An MCP client that uses this server."""

    modern: bool = False
    """Whether it speaks 2026-07-28, rather than 2025-11-25 or older."""
    capabilities: frozenset[Capability] = frozenset()
    """What the client can be asked for."""
