"""`/conversations/{id}/tools`: list the available tools of a conversation, and enable or disable them."""

from collections.abc import Sequence
from typing import Annotated

from litestar import delete, get, post
from litestar.params import JSONBody, QueryParameter
from msgspec import Struct

from toolyard.core.conversation.commands import Change
from toolyard.core.conversation.settings import Settings, SettingsChange
from toolyard.core.errors import NotFound
from toolyard.core.tools.definition import Tool
from toolyard.surfaces.http.authorization import PathId, load_state
from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.http.openapi import ERRORS
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context
from toolyard.surfaces.shared.tool_views import (
    AllowedTools,
    EnabledTool,
    ToolRef,
    get_remote_name,
    get_server_id,
    list_allowed_tools,
    list_enabled_tools,
)

TOOLS_PATH = "/conversations/{conversation_id:str}/tools"

ServerIdQuery = Annotated[str, QueryParameter(name="server_id", max_length=1000)]
ToolNameQuery = Annotated[str, QueryParameter(name="tool_name", max_length=1000)]


class AvailableTool(Struct, kw_only=True):
    server_id: str
    server_name: str
    server_slug: str
    tool_name: str
    tool_title: str
    """What people read in place of the name; empty if it has none."""
    tool_description: str
    input_schema: dict[str, object]


class AvailableTools(Struct, kw_only=True):
    available_tools: list[AvailableTool]
    count: int
    success: bool = True


class EnabledTools(Struct, kw_only=True):
    enabled_tools: list[EnabledTool]
    count: int
    message: str
    success: bool = True


async def change_tool(request: HttpRequest, conversation_id: str, name: ToolRef, *, enable: bool) -> EnabledTools:
    service, context = request.backend.service, get_request_context(request.scope)
    settings = (await load_state(service, conversation_id, context.caller)).settings
    # A provider's search is enabled before a request or the conversation asks for searches, or after that.
    known_tools = list_allowed_tools(service, context.caller).all
    change = build_tools_change(settings, known_tools, name, enable=enable)
    await service.conversations.submit(
        conversation_id, Change(by=context.caller, correlation_id=context.correlation_id, change=change)
    )
    settings = (await service.conversations.view(conversation_id)).settings
    message = f"Tool {name.tool_name!r} {'enabled' if enable else 'disabled'}"
    return build_enabled_tools(list_allowed_tools(service, context.caller, settings), settings, message)


@get(f"{TOOLS_PATH}/available", responses=ERRORS, tags=["tools"])
async def list_available(request: HttpRequest, conversation_id: PathId) -> AvailableTools:
    """List the tools that can be enabled: those that the caller may use and whose servers run."""
    service = request.backend.service
    caller = get_request_context(request.scope).caller
    settings = (await load_state(service, conversation_id, caller, "see")).settings
    tools = [build_available_tool(tool) for tool in service.tools.list_usable(caller, settings)]
    return AvailableTools(available_tools=tools, count=len(tools))


@get(TOOLS_PATH, responses=ERRORS, tags=["tools"])
async def list_enabled(request: HttpRequest, conversation_id: PathId) -> EnabledTools:
    """List the enabled tools. A tool whose server is stopped is listed with `"available": false`."""
    service = request.backend.service
    caller = get_request_context(request.scope).caller
    state = await load_state(service, conversation_id, caller, "see")
    allowed_tools = list_allowed_tools(service, caller, state.settings)
    return build_enabled_tools(allowed_tools, state.settings, "Enabled tools")


@post(TOOLS_PATH, status_code=200, responses=ERRORS, tags=["tools"])
async def enable(request: HttpRequest, conversation_id: PathId, data: JSONBody[ToolRef]) -> EnabledTools:
    """Enable a tool. The model is offered it from the next turn on. Enabling it again changes nothing."""
    return await change_tool(request, conversation_id, data, enable=True)


@delete(TOOLS_PATH, status_code=200, responses=ERRORS, tags=["tools"])
async def disable(
    request: HttpRequest,
    conversation_id: PathId,
    data: JSONBody[ToolRef | None] = None,
    on_server: ServerIdQuery = "",
    tool_name: ToolNameQuery = "",
) -> EnabledTools:
    """Disable a tool, named in the body or in the query. This takes effect at once."""
    name = data or ToolRef(server_id=on_server, tool_name=tool_name)
    if not name.server_id or not name.tool_name:
        raise invalid_field("tool_name", "name the tool by server_id and tool_name, in the body or in the query")
    return await change_tool(request, conversation_id, name, enable=False)


ROUTES = (list_available, list_enabled, enable, disable)


def build_tools_change(settings: Settings, tools: Sequence[Tool], name: ToolRef, *, enable: bool) -> SettingsChange:
    """Return the change that enables or disables a tool. Raise NotFound if there is no such tool.

    A conversation without a list may use all tools; the first tool that is disabled gives it a list of the others.
    """
    known_name = next((tool.name for tool in tools if _matches_name(tool, name)), None)
    listed = settings.tools is not None and name.tool_name in settings.tools  # its server may be gone
    if known_name is None and (enable or not listed):
        raise NotFound(f"there is no tool {name.tool_name[:80]!r} on the server {name.server_id[:80]!r}")
    chosen = known_name or name.tool_name
    if enable:
        return SettingsChange(enable_tool=chosen)
    return SettingsChange(disable_tool=chosen, available_tools=frozenset(tool.name for tool in tools))


def _matches_name(tool: Tool, name: ToolRef) -> bool:
    """Return whether a reference names this tool: by its name on its server, or by the name that models use."""
    return get_server_id(tool) == name.server_id and name.tool_name in (get_remote_name(tool), tool.name)


def build_available_tool(tool: Tool) -> AvailableTool:
    server = get_server_id(tool)
    return AvailableTool(
        server_id=server,
        server_name=server,
        server_slug=server,
        tool_name=get_remote_name(tool),
        tool_title=tool.title,
        tool_description=tool.description,
        input_schema=tool.parameters,
    )


def build_enabled_tools(allowed_tools: AllowedTools, settings: Settings, message: str) -> EnabledTools:
    enabled = list_enabled_tools(allowed_tools, settings)
    return EnabledTools(enabled_tools=enabled, count=len(enabled), message=message)
