"""Tools that the calling application runs itself: we only say that one is wanted, and wait."""

from collections.abc import Sequence

from toolyard.core.items import Call
from toolyard.core.ports import Context, Later, Own
from toolyard.core.tools import Tool


class ClientVenue:
    """The application's tools come with each request, so it has none of its own."""

    def tools(self) -> Sequence[Tool]:
        return ()

    def own(self, tool: str) -> Own:
        return Own()

    async def run(self, call: Call, tool: Tool, context: Context) -> Later:
        return Later(kind="client")

    async def close(self) -> None:
        return None
