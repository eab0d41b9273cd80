"""The methods of MCP, each with what answers it, in both eras. It does not know any transport."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from toolyard.core.errors import Invalid, NotFound, Refused, ToolyardError
from toolyard.engine.service import Service
from toolyard.surfaces import _mcp_render as render
from toolyard.surfaces._mcp_beside import Aside
from toolyard.surfaces._mcp_call import ToolCall, Undecided
from toolyard.surfaces._mcp_peer import LEGACY, MODERN, Peer, negotiated
from toolyard.surfaces._mcp_wire import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Json,
    Request,
    RpcError,
    error,
    result,
)

_log = logging.getLogger("toolyard.mcp")
INSTRUCTIONS = "The tools of a Toolyard server. A call may have to be approved by a person before it runs."

Method = Callable[[Request, Peer], Awaitable[Json]]


class Desk:
    """Knows the methods; each request gets an Exchange of its own."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.undecided = Undecided()
        self.aside = aside = Aside(service)
        both: dict[str, Method] = {
            "tools/list": self._tools,
            "resources/list": aside.listed,
            "resources/templates/list": aside.listed,
            "resources/read": aside.read,
            "prompts/list": aside.listed,
            "prompts/get": aside.prompt,
            "completion/complete": aside.completed,
        }
        self._modern: dict[str, Method] = {"server/discover": self._discover, **both}
        self._legacy: dict[str, Method] = {"initialize": self._initialize, "ping": self._ping, **both}

    def method(self, asked: Request, peer: Peer) -> Method | None:
        """What answers it with one result; None for a tool call, which takes its time. Raises RpcError."""
        if asked.method == "tools/call":
            return None
        found = (self._modern if peer.modern else self._legacy).get(asked.method)
        if found is None:
            raise RpcError(METHOD_NOT_FOUND, f"there is no method {asked.method[:80]!r} here")
        return found

    async def _tools(self, asked: Request, peer: Peer) -> Json:
        tools = [render.tool(tool) for tool in self.service.tools(peer.caller)]
        return {"tools": tools}

    async def _discover(self, asked: Request, peer: Peer) -> Json:
        about: Json = {"supportedVersions": list(MODERN), "capabilities": self._capabilities()}
        return {**about, "instructions": INSTRUCTIONS}

    async def _initialize(self, asked: Request, peer: Peer) -> Json:
        version = negotiated(asked.params.get("protocolVersion"))
        server = render.SERVER if version in LEGACY[:1] else {k: render.SERVER[k] for k in ("name", "version")}
        about: Json = {"protocolVersion": version, "capabilities": self._capabilities(), "serverInfo": server}
        return {**about, "instructions": INSTRUCTIONS}

    async def _ping(self, asked: Request, peer: Peer) -> Json:
        return {}

    def _capabilities(self) -> Json:
        """What can be asked of us depends on the servers behind us."""
        told: Json = {"tools": {}}
        if self.aside.has("resources"):
            told["resources"] = {}
        if self.aside.has("prompts"):
            told["prompts"] = {}
        if self.aside.has("completions"):
            told["completions"] = {}
        return told


class Exchange:
    """One request on its way: what it is told, and a way to give it up. Every request gets exactly one response."""

    def __init__(self, desk: Desk, asked: Request, peer: Peer) -> None:
        self._desk = desk
        self._asked = asked
        self._peer = peer
        self._call: ToolCall | None = None
        self.given_up = False
        """Whether the client wants no answer any more."""

    async def messages(self) -> AsyncGenerator[Json | None, None]:
        """The response comes last; None now and then where nothing happens."""
        try:
            method = self._desk.method(self._asked, self._peer)
            if method is not None:
                only_page(self._asked)
                told = await method(self._asked, self._peer)
                yield result(self._asked.id, render.finished(told, self._asked.method, modern=self._peer.modern))
                return
            self._call = ToolCall(self._desk.service, self._desk.undecided, self._asked, self._peer)
            async with aclosing(self._call.messages()) as messages:
                async for message in messages:
                    yield message
        except Exception as failure:
            yield error(self._asked.id, self._told(failure))

    async def cancel(self) -> None:
        self.given_up = True
        if self._call is not None:
            await self._call.cancel()

    def _told(self, failure: Exception) -> RpcError:
        match failure:
            case RpcError():
                return failure
            case Invalid():
                return RpcError(INVALID_PARAMS, str(failure), failure.details or None)
            case NotFound() | Refused():
                return RpcError(INVALID_PARAMS, str(failure))
            case ToolyardError():
                return RpcError(INTERNAL_ERROR, str(failure))
            case _:
                bound = {"correlation_id": self._peer.correlation_id}
                _log.error("a request over MCP failed", exc_info=failure, extra=bound)
                said = "something went wrong here; the log knows more by this id"
                return RpcError(INTERNAL_ERROR, said, bound)


def only_page(asked: Request) -> None:
    """Lists here have one page."""
    if asked.params.get("cursor") is not None:
        raise RpcError(INVALID_PARAMS, "this list has one page; no cursor was given out for it", {"field": "cursor"})
