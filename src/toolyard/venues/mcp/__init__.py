"""MCP servers as a venue: their tools are offered, and a call is run on the server that has it.

Its public face: `McpVenue` runs calls, `Fleet` looks after the servers, `Router` is the table of names. None of them
loads the SDK.
"""

import hashlib

from toolyard.core.errors import NotFound, Refused
from toolyard.core.items import Call, Problem
from toolyard.core.ports import Context, Failure, Later, Own, Value
from toolyard.core.results import problem_of
from toolyard.core.tools import Tool
from toolyard.venues.mcp._answers import Answered, Gone, Json, Rejected
from toolyard.venues.mcp._content import outcome
from toolyard.venues.mcp._server import Connector
from toolyard.venues.mcp.fleet import Fleet
from toolyard.venues.mcp.router import Route, Router

__all__ = ["Connector", "Fleet", "McpVenue", "Route", "Router"]

_CODES = {-32602: "validation_error", -32601: "not_found", -32001: "timeout"}


class McpVenue:
    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def tools(self) -> "tuple[Tool, ...]":
        return tuple(self._fleet.tools())

    def own(self, tool: str) -> Own:
        return Own()

    async def run(self, call: Call, tool: Tool, context: Context) -> Value | Failure | Later:
        try:
            link = self._fleet.link(tool.server, context.caller)
        except (NotFound, Refused) as error:
            return Failure(problem=problem_of(error, "unavailable"))

        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            context.progress(progress, total, message or "")

        params: Json = {"name": tool.remote, "arguments": call.arguments, "_meta": _meta(context)}
        answer = await link.ask("tools/call", params, progress=progressed)
        match answer:
            case Answered(raw=raw):
                return outcome(raw)
            case Rejected(code=code, message=message, data=data):
                return Failure(problem=problem_of(message, _CODES.get(code, "execution_error"), _details(code, data)))
            case Gone(why=why, read=read):
                return _gone(tool, why, read)

    async def close(self) -> None:
        await self._fleet.close()


def _meta(context: Context) -> Json:
    """Under which trace this runs, and what to tell a repeated request by."""
    digits = hashlib.blake2b(context.correlation_id.encode(), digest_size=16).hexdigest()
    trace = context.correlation_id if _is_trace(context.correlation_id) else digits
    span = hashlib.blake2b(context.idempotency_key.encode(), digest_size=8).hexdigest()
    return {"traceparent": f"00-{trace}-{span}-01", "toolyard/idempotency-key": context.idempotency_key}


def _is_trace(text: str) -> bool:
    return len(text) == 32 and not text.strip("0123456789abcdef") and bool(text.strip("0"))


def _details(code: int, data: object) -> Json:
    return {"code": code} if data is None else {"code": code, "data": data}


def _gone(tool: Tool, why: str, read: bool) -> Failure:
    """A call that was lost: whether it took effect is told as far as it is known."""
    if not read or tool.idempotent:
        said = f"the server {tool.server!r} is not available: {why}"
        return Failure(problem=Problem(error=said[:4000], error_type="unavailable"), passing=True)
    said = (
        f"the server {tool.server!r} went away while this call was running ({why}); it may or may not have taken "
        "effect. Find out before asking for it again."
    )
    return Failure(problem=Problem(error=said[:4000], error_type="unknown_outcome"))
