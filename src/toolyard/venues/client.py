"""Tools that the calling application runs itself: we only say that one is wanted, and wait."""

from collections.abc import Sequence

from toolyard.core.items import Call
from toolyard.core.ports import Context, Pending, ToolHooks
from toolyard.core.tools import Tool


class ClientVenue:
    """The application's tools come with each request, so it has none of its own."""

    def tools(self) -> Sequence[Tool]:
        return ()

    def hooks(self, tool: str) -> ToolHooks:
        return ToolHooks()

    async def run(self, call: Call, tool: Tool, context: Context) -> Pending:
        return Pending(kind="client")

    async def close(self) -> None:
        return None
