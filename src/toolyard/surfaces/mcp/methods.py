"""The methods of MCP, each with what answers it, in both eras. It does not know any transport."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from toolyard.core.errors import Invalid, NotFound, Refused, ToolyardError
from toolyard.engine.service import Service
from toolyard.surfaces.mcp import render
from toolyard.surfaces.mcp.calls import ToolCall, Undecided
from toolyard.surfaces.mcp.client import LEGACY, LEVELS, MODERN, Peer, negotiated
from toolyard.surfaces.mcp.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Json,
    Request,
    RpcError,
    error,
    result,
    text_of,
)
from toolyard.surfaces.mcp.notifications import MOST_WATCHED, Notices
from toolyard.surfaces.mcp.passthrough import Aside
from toolyard.surfaces.mcp.subscriptions import Listening

_log = logging.getLogger("toolyard.mcp")
INSTRUCTIONS = "The tools of a Toolyard server. A call may have to be approved by a person before it runs."

Method = Callable[[Request, Peer], Awaitable[Json]]


class Desk:
    """Knows the methods; each request gets an Exchange of its own."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.undecided = Undecided()
        self.notices = Notices(service)
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
        self._legacy: dict[str, Method] = {
            "initialize": self._initialize,
            "ping": self._ping,
            "logging/setLevel": self._set_level,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            **both,
        }

    def lasting(self, asked: Request, peer: Peer) -> ToolCall | Listening | None:
        """What takes its time, and perhaps more than one message."""
        if asked.method == "tools/call":
            return ToolCall(self.service, self.undecided, asked, peer)
        if asked.method == "subscriptions/listen" and peer.modern:
            return Listening(self.notices, self.aside, asked, peer)
        return None

    def method(self, asked: Request, peer: Peer) -> Method:
        """What answers it with one result. Raises RpcError."""
        found = (self._modern if peer.modern else self._legacy).get(asked.method)
        if found is None:
            raise RpcError(METHOD_NOT_FOUND, f"there is no method {asked.method[:80]!r} here")
        return found

    async def _tools(self, asked: Request, peer: Peer) -> Json:
        definition = self.service.beside.definition
        tools = [
            render.tool(tool, definition(tool.server, tool.remote, peer.caller) if tool.venue == "mcp" else {})
            for tool in self.service.tools(peer.caller, hosted=False)
        ]
        return {"tools": tools}

    async def _discover(self, asked: Request, peer: Peer) -> Json:
        about: Json = {"supportedVersions": list(MODERN), "capabilities": self._capabilities(peer)}
        return {**about, "instructions": INSTRUCTIONS}

    async def _initialize(self, asked: Request, peer: Peer) -> Json:
        version = negotiated(asked.params.get("protocolVersion"))
        server = render.SERVER if version in LEGACY[:1] else {k: render.SERVER[k] for k in ("name", "version")}
        about: Json = {"protocolVersion": version, "capabilities": self._capabilities(peer), "serverInfo": server}
        return {**about, "instructions": INSTRUCTIONS}

    async def _ping(self, asked: Request, peer: Peer) -> Json:
        return {}

    async def _set_level(self, asked: Request, peer: Peer) -> Json:
        assert peer.standing is not None
        level = text_of(asked.params, "level")
        if level not in LEVELS:
            raise RpcError(INVALID_PARAMS, f"params.level must be one of {', '.join(LEVELS)}", {"field": "level"})
        peer.standing.log_level = level
        return {}

    async def _subscribe(self, asked: Request, peer: Peer) -> Json:
        assert peer.standing is not None
        uri, watched = text_of(asked.params, "uri"), peer.standing.watched
        if len(watched) >= MOST_WATCHED:
            raise RpcError(INVALID_PARAMS, f"{MOST_WATCHED} resources are watched already; let go of some")
        watched.add(uri)  # before: what is told at once is not missed
        try:
            await self.aside.watch(uri, peer)
        except BaseException:
            watched.discard(uri)
            raise
        return {}

    async def _unsubscribe(self, asked: Request, peer: Peer) -> Json:
        assert peer.standing is not None
        uri = text_of(asked.params, "uri")
        peer.standing.watched.discard(uri)
        if not self.notices.watches(uri):
            await self.aside.unwatch(uri, peer)
        return {}

    def _capabilities(self, peer: Peer) -> Json:
        """What can be asked of us depends on the servers behind us."""
        changing: Json = {"listChanged": True}
        told: Json = {"tools": changing}
        if self.aside.has("resources", peer.caller):
            told["resources"] = {**changing, "subscribe": True}
        if self.aside.has("prompts", peer.caller):
            told["prompts"] = changing
        if self.aside.has("completions", peer.caller):
            told["completions"] = {}
        if not peer.modern and self.aside.has("logging", peer.caller):
            told["logging"] = {}
        return told


class Exchange:
    """One request on its way: what it is told, and a way to give it up. Every request gets exactly one response."""

    def __init__(self, desk: Desk, asked: Request, peer: Peer) -> None:
        self._desk = desk
        self._asked = asked
        self._peer = peer
        self._lasting: ToolCall | Listening | None = None
        self.given_up = False
        """Whether the client wants no answer any more."""

    async def messages(self) -> AsyncGenerator[Json | None, None]:
        """The response comes last; None now and then where nothing happens."""
        try:
            self._lasting = self._desk.lasting(self._asked, self._peer)
            if self._lasting is None:
                only_page(self._asked)
                told = await self._desk.method(self._asked, self._peer)(self._asked, self._peer)
                yield result(self._asked.id, render.finished(told, self._asked.method, modern=self._peer.modern))
                return
            async with aclosing(self._lasting.messages()) as messages:
                async for message in messages:
                    yield message
        except Exception as failure:
            yield error(self._asked.id, self._told(failure))

    async def cancel(self) -> None:
        self.given_up = True
        if self._lasting is not None:
            await self._lasting.cancel()

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
