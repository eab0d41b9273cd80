"""Passes requests of a surface through to the servers: resources, prompts and whatever else they have besides tools."""

from collections.abc import Callable, Mapping

from toolyard.core.caller import Caller
from toolyard.core.errors import Declined, NotFound, Refused, Unavailable
from toolyard.core.json_types import Json
from toolyard.core.ports import NotificationHandler
from toolyard.core.tools.mcp_servers import McpClient, select_visible_error
from toolyard.venues.mcp.manager import McpManager
from toolyard.venues.mcp.outcomes import ErrorReply, NoReply, ResultReply


class McpManagerProxy:
    def __init__(self, manager: McpManager) -> None:
        self._manager = manager

    def find_servers(self, capability: str, caller: Caller) -> Mapping[str, bool]:
        return self._manager.find_servers(capability, caller)

    def get_definition(self, server: str, tool: str, caller: Caller) -> Json:
        return self._manager.get_definition(server, tool, caller)

    async def ask(
        self, server: str, caller: Caller, method: str, params: Json, client: McpClient | None = None
    ) -> Json:
        try:
            answer = await self._manager.ask(server, caller, method, params, client)
        except (NotFound, Refused) as error:
            raise Unavailable(str(error)) from None
        match answer:
            case ResultReply(raw=raw):
                return raw
            case ErrorReply(code=code, message=message, data=data):
                raise Declined(message, code=code, data=data)
            case NoReply(why=why):
                raise Unavailable(f"the server {server!r} is not available: {select_visible_error(why, caller)}")

    def subscribe(self, handler: NotificationHandler) -> Callable[[], None]:
        return self._manager.subscribe(handler)
