"""`/conversations/{id}/tools`: which tools a conversation could use, and which it has enabled."""

from collections.abc import Sequence
from typing import Annotated

from litestar import delete, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody, QueryParameter
from msgspec import Struct

from toolyard.core.conversation_settings import Settings, SettingsChange
from toolyard.core.errors import NotFound
from toolyard.core.tools import Tool
from toolyard.engine.service import Service
from toolyard.surfaces.authorization import PathId, state_of
from toolyard.surfaces.errors import invalid
from toolyard.surfaces.openapi import ERRORS
from toolyard.surfaces.request_context import Visit, Visitor, visit_of
from toolyard.surfaces.tool_views import (
    EnabledTool,
    KnownTools,
    ToolName,
    enabled_tools,
    known_tools,
    name_there,
    server_id,
)

TOOLS = "/conversations/{conversation_id:str}/tools"

ServerId = Annotated[str, QueryParameter(name="server_id", max_length=1000)]
Named = Annotated[str, QueryParameter(name="tool_name", max_length=1000)]


class AvailableTool(Struct, kw_only=True):
    server_id: str
    server_name: str
    server_slug: str
    tool_name: str
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


def routes(service: Service) -> list[HTTPRouteHandler]:
    async def changed(visit: Visit, conversation_id: str, name: ToolName, *, enable: bool) -> EnabledTools:
        await state_of(service, conversation_id, visit.caller)
        known = known_tools(service, visit.caller)
        settings = await service.change(
            conversation_id,
            visit.caller,
            lambda settings: switched(settings, known.all, name, enable=enable),
            correlation_id=visit.correlation_id,
        )
        said = f"Tool {name.tool_name!r} {'enabled' if enable else 'disabled'}"
        return answer(known, settings, said)

    @get(f"{TOOLS}/available", responses=ERRORS, tags=["tools"])
    async def list_available(request: Visitor, conversation_id: PathId) -> AvailableTools:
        """What could be enabled: the tools that the caller may use and whose servers run."""
        caller = visit_of(request.scope).caller
        await service.known(conversation_id, caller, "see")
        tools = [available(tool) for tool in service.tools(caller)]
        return AvailableTools(available_tools=tools, count=len(tools))

    @get(TOOLS, responses=ERRORS, tags=["tools"])
    async def list_enabled(request: Visitor, conversation_id: PathId) -> EnabledTools:
        """What is enabled; a tool whose server is stopped stays, with `"available": false`."""
        caller = visit_of(request.scope).caller
        state = await state_of(service, conversation_id, caller, "see")
        return answer(known_tools(service, caller), state.settings, "Enabled tools")

    @post(TOOLS, status_code=200, responses=ERRORS, tags=["tools"])
    async def enable(request: Visitor, conversation_id: PathId, data: JSONBody[ToolName]) -> EnabledTools:
        """Enable a tool; it is offered from the next turn on. Enabling it again changes nothing."""
        return await changed(visit_of(request.scope), conversation_id, data, enable=True)

    @delete(TOOLS, status_code=200, responses=ERRORS, tags=["tools"])
    async def disable(
        request: Visitor,
        conversation_id: PathId,
        data: JSONBody[ToolName | None] = None,
        on_server: ServerId = "",
        named: Named = "",
    ) -> EnabledTools:
        """Disable a tool, named in the body or in the query; it binds at once."""
        name = data or ToolName(server_id=on_server, tool_name=named)
        if not name.server_id or not name.tool_name:
            raise invalid("tool_name", "name the tool by server_id and tool_name, in the body or in the query")
        return await changed(visit_of(request.scope), conversation_id, name, enable=False)

    return [list_available, list_enabled, enable, disable]


def switched(settings: Settings, known: Sequence[Tool], name: ToolName, *, enable: bool) -> SettingsChange:
    """A conversation that may use everything gets a list of its own with the first tool that is taken from it."""
    there = next((tool.name for tool in known if _is_named(tool, name)), None)
    listed = settings.tools is not None and name.tool_name in settings.tools  # perhaps of a server that has gone
    if there is None and (enable or not listed):
        raise NotFound(f"there is no tool {name.tool_name[:80]!r} on the server {name.server_id[:80]!r}")
    chosen = there or name.tool_name
    if enable:
        return SettingsChange(tools=None if settings.tools is None else settings.tools | {chosen})
    every = frozenset(tool.name for tool in known)
    return SettingsChange(tools=(every if settings.tools is None else settings.tools) - {chosen})


def _is_named(tool: Tool, name: ToolName) -> bool:
    """By the name on its server, or by the one that models know."""
    return server_id(tool) == name.server_id and name.tool_name in (name_there(tool), tool.name)


def available(tool: Tool) -> AvailableTool:
    server = server_id(tool)
    return AvailableTool(
        server_id=server,
        server_name=server,
        server_slug=server,
        tool_name=name_there(tool),
        tool_description=tool.description,
        input_schema=tool.parameters,
    )


def answer(known: KnownTools, settings: Settings, said: str) -> EnabledTools:
    enabled = enabled_tools(known, settings)
    return EnabledTools(enabled_tools=enabled, count=len(enabled), message=said)
