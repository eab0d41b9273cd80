"""The MCP servers of an application, behind one router of names: in this process, as children, or over HTTP.

Needs the extra `toolyard[mcp]`, and is loaded when an application has servers.
"""

import importlib
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import cast

import msgspec
from mcp import Client
from mcp.server import MCPServer
from mcp_types import RequestParamsMeta

from toolyard.app import SystemMint
from toolyard.core.errors import Misconfigured
from toolyard.core.items import Call
from toolyard.core.mcp_servers import ServerSpec
from toolyard.core.ports import Context, Failure, Later, Own, Value, Venue
from toolyard.core.tools import Tool
from toolyard.stores.memory import MemoryStore
from toolyard.venues.mcp import Connector, Fleet, McpVenue, Route, Router, meta_of, outcome, tool_of

Json = dict[str, object]


async def opened(servers: Mapping[str, object], taken: Collection[str], stack: AsyncExitStack) -> list[Venue]:
    """The venues of these servers, started. A tool whose name is taken has its server's before it."""
    inside = {name: cast(MCPServer[object], one) for name, one in servers.items() if isinstance(one, MCPServer)}
    apart = {name: _spec(name, one) for name, one in servers.items() if name not in inside}
    near = await InProcess.opened(inside, taken, stack)
    names = {*taken, *(tool.name for tool in near.tools())}
    fleet = Fleet(
        apart,
        connector=_sdk,
        shelf=MemoryStore(),
        mint=SystemMint(),
        taken=lambda: names,
        ruled=lambda tool: tool,
        published=lambda: None,
    )
    await fleet.open()
    return [near, McpVenue(fleet)]


class InProcess:
    """Servers of this process: their tools are called without any transport."""

    def __init__(self, clients: Mapping[str, Client], tools: Sequence[Tool]) -> None:
        self._clients = clients
        self._tools = tools

    @classmethod
    async def opened(
        cls, servers: Mapping[str, MCPServer[object]], taken: Collection[str], stack: AsyncExitStack
    ) -> "InProcess":
        clients = {name: await stack.enter_async_context(Client(server)) for name, server in servers.items()}
        router, tools = Router(), list[Tool]()
        for server, client in clients.items():
            for listed in (await client.list_tools()).tools:
                definition: Json = listed.model_dump(by_alias=True, mode="json", exclude_none=True)
                name = router.give(Route(server, listed.name), taken)
                tools.append(tool_of(definition, name, server, ServerSpec(trust=True)))
        return cls(clients, tools)

    def tools(self) -> Sequence[Tool]:
        return self._tools

    def own(self, tool: str) -> Own:
        return Own()

    async def run(self, call: Call, tool: Tool, context: Context) -> Value | Failure | Later:
        meta = cast(RequestParamsMeta, meta_of(context))
        result = await self._clients[tool.server].call_tool(tool.remote, call.arguments, meta=meta)
        return outcome(result.model_dump(by_alias=True, mode="json", exclude_none=True))

    async def close(self) -> None:
        return None  # whoever opened the clients closes them


def _sdk() -> Connector:
    return importlib.import_module("toolyard.venues.mcp.connector").SdkConnector()


def _spec(name: str, given: object) -> ServerSpec:
    if isinstance(given, ServerSpec):
        return given
    try:
        return msgspec.convert(given, ServerSpec)
    except msgspec.ValidationError as error:
        said = 'give an MCPServer of this process, {"command": …, "args": […]} or {"url": …}'
        raise Misconfigured(f"server {name!r}: {said} ({error})") from None
