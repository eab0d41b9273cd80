"""Read the declaration of an `mcp` tool: the client wants to see the server's tools, and to decide their approvals.

Toolyard never connects to a server that a client names: its tools are those of its own configuration. So the label may
be any, and an address may only be that of this server. A declaration can narrow what runs and ask more often; it can
allow nothing that the server does not. Pure.
"""

import logging
from collections.abc import Sequence

from msgspec import Struct

from toolyard.core.json_types import is_list, is_object
from toolyard.engine.service import Service
from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context
from toolyard.surfaces.openai.responses.declared_tools import MCP, DeclaredTools, ResponseTool, read_declared_tools
from toolyard.surfaces.openai.responses.output import SERVER_LABEL
from toolyard.surfaces.openai.responses.parse import ResponseBody, list_input, read_client_fields
from toolyard.surfaces.openai.responses.response import ClientFields
from toolyard.surfaces.shared.whole_history.sent_fields import resolve_model

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
    if is_object(names):
        table = names
        if unknown := table.keys() - {"tool_names"}:
            raise invalid_field(param, f"the filter {min(unknown)[:40]!r} is not supported: send tool_names")
        names = table.get("tool_names")
    if names is None:
        return None
    values = names if is_list(names) else [names]
    if not all(isinstance(name, str) for name in values):
        raise invalid_field(param, "must be a list of names")
    return frozenset(str(name) for name in values)


def _read_asked(rule: object, param: str) -> frozenset[str]:
    """Return the tools that are to wait for an approval. `never` loosens nothing: the server's own rules stay."""
    if rule is None or rule == "never":
        return frozenset()
    if rule == "always":
        return frozenset({EVERY_TOOL})
    if not is_object(rule):
        raise invalid_field(param, 'must be "always", "never", or a filter of either')
    return _read_names(rule.get("always"), param) or frozenset()


MAX_LOGGED_CHARS = 500
_log = logging.getLogger("toolyard.openai")


class RequestTools(Struct, frozen=True, kw_only=True):
    declared: DeclaredTools
    mcp: McpDeclaration | None

    def read_client_fields(self, data: ResponseBody) -> ClientFields:
        """Return what a response repeats of its request, with what the client calls its tools."""
        return read_client_fields(data, self.mcp.label if self.mcp else "", self.declared)


def read_request_tools(service: Service, request: HttpRequest, data: ResponseBody) -> RequestTools:
    """Return the tools of a request. Raise Invalid. The log names those that nobody runs."""
    context = get_request_context(request.scope)
    declared = read_declared_tools(
        data.tools,
        list_input(data),
        lambda name: bool(service.tools.list_taken_names([name], context.caller)),
        lambda tools: service.runs.can_search(context.caller, resolve_model(data.model), tools),
    )
    if declared.left_out:
        names = ", ".join(declared.left_out)[:MAX_LOGGED_CHARS]
        _log.info("left out tools that nobody runs: %s", names, extra={"correlation_id": context.correlation_id})
    return RequestTools(declared=declared, mcp=read_declaration(data.tools, str(request.base_url)))
