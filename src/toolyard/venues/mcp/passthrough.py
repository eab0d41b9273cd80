"""What the servers have besides tools, for a surface that passes it on. It does not know what is asked."""

from collections.abc import Callable, Mapping

from toolyard.core.caller import Caller
from toolyard.core.errors import Declined, NotFound, Refused, Unavailable
from toolyard.core.mcp_client import McpClient
from toolyard.core.ports import Heard
from toolyard.venues.mcp.manager import Fleet
from toolyard.venues.mcp.outcomes import Answered, Gone, Json, Rejected


class FleetBeside:
    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def offering(self, capability: str, caller: Caller) -> Mapping[str, bool]:
        return self._fleet.offering(capability, caller)

    def definition(self, server: str, tool: str, caller: Caller) -> Json:
        return self._fleet.definition(server, tool, caller)

    async def ask(
        self, server: str, caller: Caller, method: str, params: Json, client: McpClient | None = None
    ) -> Json:
        try:
            answer = await self._fleet.ask(server, caller, method, params, client)
        except (NotFound, Refused) as error:
            raise Unavailable(str(error)) from None
        match answer:
            case Answered(raw=raw):
                return raw
            case Rejected(code=code, message=message, data=data):
                raise Declined(message, code=code, data=data)
            case Gone(why=why):
                raise Unavailable(f"the server {server!r} is not available: {why}")

    def listen(self, heard: Heard) -> Callable[[], None]:
        return self._fleet.listen(heard)
