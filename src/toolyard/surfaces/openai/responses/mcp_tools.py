"""Read the declaration of an `mcp` tool: the client wants to see the server's tools, and to decide their approvals.

Toolyard never connects to a server that a client names: its tools are those of its own configuration. So the label may
be any, and an address may only be that of this server. A declaration can narrow what runs and ask more often; it can
allow nothing that the server does not. Pure.
"""

from collections.abc import Sequence
from typing import cast

from msgspec import Struct

from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.openai.responses.declared_tools import MCP, ResponseTool
from toolyard.surfaces.openai.responses.output import SERVER_LABEL

EVERY_TOOL = "*"


class McpDeclaration(Struct, frozen=True, kw_only=True):
    label: str = SERVER_LABEL
    allowed_tools: frozenset[str] | None = None
    """The tools that may run; None means all of the caller's."""
    asked_tools: frozenset[str] = frozenset()
    """The tools that wait for an approval, whatever their own rule is; EVERY_TOOL stands for all."""


def read_declaration(tools: Sequence[ResponseTool] | None, base_url: str) -> McpDeclaration | None:
    """Return the declaration of a request; None if there is none. Raise Invalid for one that cannot be kept."""
    declared = [(index, tool) for index, tool in enumerate(tools or ()) if tool.type == MCP]
    if not declared:
        return None
    if len(declared) > 1:
        raise invalid_field(f"tools.{declared[1][0]}", "is a second mcp tool: this server is one, declare it once")
    index, tool = declared[0]
    param, base = f"tools.{index}", base_url.rstrip("/")
    refused = "is another server: only the tools of this one run here; leave it out"
    if tool.connector_id:
        raise invalid_field(f"{param}.connector_id", refused)
    if tool.server_url and not f"{tool.server_url}/".startswith(f"{base}/"):
        raise invalid_field(f"{param}.server_url", refused)
    return McpDeclaration(
        label=tool.server_label or SERVER_LABEL,
        allowed_tools=_read_names(tool.allowed_tools, f"{param}.allowed_tools"),
        asked_tools=_read_asked(tool.require_approval, f"{param}.require_approval"),
    )


def _read_names(names: object, param: str) -> frozenset[str] | None:
    """Return the names of a list, or of a filter `{tool_names: […]}`; None if there is neither."""
    if isinstance(names, dict):
        table = cast("dict[str, object]", names)
        if unknown := table.keys() - {"tool_names"}:
            raise invalid_field(param, f"the filter {min(unknown)[:40]!r} is not supported: send tool_names")
        names = table.get("tool_names")
    if names is None:
        return None
    values = cast("list[object]", names) if isinstance(names, list) else [names]
    if not all(isinstance(name, str) for name in values):
        raise invalid_field(param, "must be a list of names")
    return frozenset(str(name) for name in values)


def _read_asked(rule: object, param: str) -> frozenset[str]:
    """Return the tools that are to wait for an approval. `never` loosens nothing: the server's own rules stay."""
    if rule is None or rule == "never":
        return frozenset()
    if rule == "always":
        return frozenset({EVERY_TOOL})
    if not isinstance(rule, dict):
        raise invalid_field(param, 'must be "always", "never", or a filter of either')
    return _read_names(cast("dict[str, object]", rule).get("always"), param) or frozenset()
