"""The tools of a request: those that its client runs, and what it wants of the server's."""

import logging

from msgspec import Struct

from toolyard.engine.service import Service
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context
from toolyard.surfaces.openai.models import resolve_model
from toolyard.surfaces.openai.responses.declared_tools import DeclaredTools, read_declared_tools
from toolyard.surfaces.openai.responses.mcp_tools import McpDeclaration, read_declaration
from toolyard.surfaces.openai.responses.parse import ResponseBody, list_input, read_client_fields
from toolyard.surfaces.openai.responses.response import ClientFields

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
