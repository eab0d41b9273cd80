"""The MCP servers of an application: objects in this process, child processes, or servers over HTTP.

This module needs the extra `toolyard[mcp]` and is imported only if an application has servers.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import cast

import msgspec
from mcp import Client
from mcp.server import MCPServer
from mcp_types import RequestParamsMeta

from toolyard.app import SystemClock
from toolyard.core.errors import Misconfigured
from toolyard.core.items import Call
from toolyard.core.json_types import Json
from toolyard.core.ports import Context, Failure, Pending, ToolHooks, Value, Venue
from toolyard.core.tool_identity import ToolIdentity
from toolyard.core.tools.definition import Tool
from toolyard.core.tools.mcp_servers import ServerSpec
from toolyard.stores.memory import MemoryStore
from toolyard.venues.mcp import (
    Connector,
    McpManager,
    McpVenue,
    Router,
    build_meta,
    build_tool,
    parse_call_result,
)


async def open_servers(
    servers: Mapping[str, object], reserved_names: Collection[str], stack: AsyncExitStack
) -> list[Venue]:
    """Start the servers and return their venues. A tool whose name is taken gets its server's name as a prefix."""
    in_process = {
        name: cast(MCPServer[object], server) for name, server in servers.items() if isinstance(server, MCPServer)
    }
    specs = {name: _parse_spec(name, config) for name, config in servers.items() if name not in in_process}
    in_process_venue = await InProcessVenue.open(in_process, reserved_names, stack)
    names = {*reserved_names, *(tool.name for tool in in_process_venue.tools())}
    manager = McpManager(
        specs,
        make_connector=_load_connector,
        store=MemoryStore(),
        clock=SystemClock(),
        reserved_names=lambda: names,
        apply_rules=lambda tool: tool,
        on_tools_changed=lambda: None,
    )
    await manager.open()
    await manager.wait_until_listed()
    return [in_process_venue, McpVenue(manager)]


class InProcessVenue:
    """MCP servers in this process, whose tools are called without a transport."""

    def __init__(self, clients: Mapping[str, Client], tools: Sequence[Tool]) -> None:
        self._clients = clients
        self._tools = tools

    @classmethod
    async def open(
        cls, servers: Mapping[str, MCPServer[object]], reserved_names: Collection[str], stack: AsyncExitStack
    ) -> "InProcessVenue":
        clients = {name: await stack.enter_async_context(Client(server)) for name, server in servers.items()}
        router, tools = Router(), list[Tool]()
        for server, client in clients.items():
            for listed in (await client.list_tools()).tools:
                definition: Json = listed.model_dump(by_alias=True, mode="json", exclude_none=True)
                name = router.assign(ToolIdentity(server, listed.name), reserved_names)
                tools.append(build_tool(definition, name, server, ServerSpec(trust=True)))
        return cls(clients, tools)

    def tools(self) -> Sequence[Tool]:
        return self._tools

    def hooks(self, tool: str) -> ToolHooks:
        return ToolHooks()

    async def run(self, call: Call, tool: Tool, context: Context) -> Value | Failure | Pending:
        meta = cast(RequestParamsMeta, build_meta(context))
        result = await self._clients[tool.server].call_tool(tool.remote, call.arguments, meta=meta)
        return parse_call_result(result.model_dump(by_alias=True, mode="json", exclude_none=True))

    async def close(self) -> None:
        return None  # the exit stack that the clients were opened on closes them


def _load_connector() -> Connector:
    from toolyard.venues.mcp.connector import SdkConnector

    return SdkConnector()


def _parse_spec(name: str, config: object) -> ServerSpec:
    if isinstance(config, ServerSpec):
        return config
    try:
        return msgspec.convert(config, ServerSpec)
    except msgspec.ValidationError as error:
        advice = 'give an MCPServer of this process, {"command": …, "args": […]} or {"url": …}'
        raise Misconfigured(f"server {name!r}: {advice} ({error})") from None
