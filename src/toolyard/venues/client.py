"""Tools that the calling application runs itself: a call is handed out to it and waits for its result."""

from collections.abc import Sequence

from toolyard.core.items import Call
from toolyard.core.ports import Context, Pending, ToolHooks
from toolyard.core.tools.definition import Tool


class ClientVenue:
    """The venue of tools that come with each request, so that it lists none of its own."""

    def tools(self) -> Sequence[Tool]:
        return ()

    def hooks(self, tool: str) -> ToolHooks:
        return ToolHooks()

    async def run(self, call: Call, tool: Tool, context: Context) -> Pending:
        return Pending(kind="client")

    async def close(self) -> None:
        return None
