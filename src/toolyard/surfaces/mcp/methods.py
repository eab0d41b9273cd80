"""The MCP methods of both eras and the handlers that answer them, for every transport."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from toolyard.core.caller import Caller
from toolyard.core.errors import Invalid, NotFound, Refused, ToolyardError
from toolyard.core.json_types import Json
from toolyard.engine.service import Service
from toolyard.surfaces.mcp import render
from toolyard.surfaces.mcp.calls import ToolCallHandler, UndecidedCalls
from toolyard.surfaces.mcp.client import LEGACY_VERSIONS, LOG_LEVELS, MODERN_VERSIONS, Peer, negotiate_version
from toolyard.surfaces.mcp.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    RpcError,
    RpcRequest,
    build_error,
    build_result,
    require_text,
)
from toolyard.surfaces.mcp.notifications import MAX_WATCHED, NotificationFeeds
from toolyard.surfaces.mcp.passthrough import McpPassthrough
from toolyard.surfaces.mcp.subscriptions import SubscriptionHandler

_log = logging.getLogger("toolyard.mcp")
INSTRUCTIONS = "The tools of a Toolyard server. A call may have to be approved by a person before it runs."

Method = Callable[[RpcRequest, Peer], Awaitable[Json]]


class Dispatcher:
    """Maps methods to handlers; an `ActiveRequest` runs them for one request."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.undecided = UndecidedCalls()
        self.feeds = NotificationFeeds(service)
        self.passthrough = passthrough = McpPassthrough(service)
        shared: dict[str, Method] = {
            "tools/list": self._list_tools,
            "resources/list": passthrough.list_items,
            "resources/templates/list": passthrough.list_items,
            "resources/read": passthrough.read_resource,
            "prompts/list": passthrough.list_items,
            "prompts/get": passthrough.get_prompt,
            "completion/complete": passthrough.complete,
        }
        self._modern: dict[str, Method] = {"server/discover": self._discover, **shared}
        self._legacy: dict[str, Method] = {
            "initialize": self._initialize,
            "ping": self._ping,
            "logging/setLevel": self._set_level,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            **shared,
        }

    def build_stream_handler(self, request: RpcRequest, peer: Peer) -> ToolCallHandler | SubscriptionHandler | None:
        """Return the handler of a request whose answer may be several messages, else None."""
        if request.method == "tools/call":
            return ToolCallHandler(self.service, self.undecided, request, peer)
        if request.method == "subscriptions/listen" and peer.modern:
            return SubscriptionHandler(self.feeds, self.passthrough, request, peer)
        return None

    async def wait_for_tool(self, request: RpcRequest, caller: Caller) -> None:
        """Wait while a server that is starting may still list the tool of a `tools/call` request."""
        name, tools = str(request.params.get("name")), self.service.tools
        await tools.wait_for(caller, lambda: tools.find_usable(name, caller) is not None)

    def find_method(self, request: RpcRequest, peer: Peer) -> Method:
        """Return the handler of a request with a single result. Raise RpcError if the era has no such method."""
        method = (self._modern if peer.modern else self._legacy).get(request.method)
        if method is None:
            raise RpcError(METHOD_NOT_FOUND, f"there is no method {request.method[:80]!r} here")
        return method

    async def _list_tools(self, request: RpcRequest, peer: Peer) -> Json:
        await self.service.tools.wait_for(peer.caller)
        definition = self.service.mcp_proxy.get_definition
        tools = [
            render.encode_tool(tool, definition(tool.server, tool.remote, peer.caller) if tool.venue == "mcp" else {})
            for tool in self.service.tools.list_usable(peer.caller, include_native=False)
        ]
        return {"tools": tools}

    async def _discover(self, request: RpcRequest, peer: Peer) -> Json:
        about: Json = {"supportedVersions": list(MODERN_VERSIONS), "capabilities": self._build_capabilities(peer)}
        return {**about, "instructions": INSTRUCTIONS}

    async def _initialize(self, request: RpcRequest, peer: Peer) -> Json:
        version = negotiate_version(request.params.get("protocolVersion"))
        server = (
            render.SERVER_INFO
            if version in LEGACY_VERSIONS[:1]
            else {k: render.SERVER_INFO[k] for k in ("name", "version")}
        )
        about: Json = {"protocolVersion": version, "capabilities": self._build_capabilities(peer), "serverInfo": server}
        return {**about, "instructions": INSTRUCTIONS}

    async def _ping(self, request: RpcRequest, peer: Peer) -> Json:
        return {}

    async def _set_level(self, request: RpcRequest, peer: Peer) -> Json:
        assert peer.client_state is not None
        level = require_text(request.params, "level")
        if level not in LOG_LEVELS:
            raise RpcError(INVALID_PARAMS, f"params.level must be one of {', '.join(LOG_LEVELS)}", {"field": "level"})
        peer.client_state.log_level = level
        return {}

    async def _subscribe(self, request: RpcRequest, peer: Peer) -> Json:
        assert peer.client_state is not None
        uri, watched = require_text(request.params, "uri"), peer.client_state.watched_uris
        if len(watched) >= MAX_WATCHED:
            raise RpcError(INVALID_PARAMS, f"{MAX_WATCHED} resources are watched already; let go of some")
        watched.add(uri)  # before subscribing, so that an update that follows at once is not missed
        try:
            await self.passthrough.watch(uri, peer)
        except BaseException:
            watched.discard(uri)
            raise
        return {}

    async def _unsubscribe(self, request: RpcRequest, peer: Peer) -> Json:
        assert peer.client_state is not None
        uri = require_text(request.params, "uri")
        peer.client_state.watched_uris.discard(uri)
        if not self.feeds.is_watched(uri):
            await self.passthrough.unwatch(uri, peer)
        return {}

    def _build_capabilities(self, peer: Peer) -> Json:
        """Return the capabilities of this server for a client, which depend on the MCP servers that it may use."""
        changing: Json = {"listChanged": True}
        capabilities: Json = {"tools": changing}
        if self.passthrough.is_offered("resources", peer.caller):
            capabilities["resources"] = {**changing, "subscribe": True}
        if self.passthrough.is_offered("prompts", peer.caller):
            capabilities["prompts"] = changing
        if self.passthrough.is_offered("completions", peer.caller):
            capabilities["completions"] = {}
        if not peer.modern and self.passthrough.is_offered("logging", peer.caller):
            capabilities["logging"] = {}
        return capabilities


class ActiveRequest:
    """A request in progress: its messages, and its cancellation. Every request gets exactly one response."""

    def __init__(self, dispatcher: Dispatcher, request: RpcRequest, peer: Peer) -> None:
        self._dispatcher = dispatcher
        self._request = request
        self._peer = peer
        self._stream_handler: ToolCallHandler | SubscriptionHandler | None = None
        self.cancelled = False
        """Whether the client has cancelled the request and expects no response."""

    @property
    def replayed(self) -> bool:
        """Whether an earlier request with the same Idempotency-Key made the call; known with the first message."""
        return isinstance(self._stream_handler, ToolCallHandler) and self._stream_handler.replayed

    async def stream_messages(self) -> AsyncGenerator[Json | None, None]:
        """Yield messages, the response last; None for a heartbeat where nothing happens. Errors become responses."""
        try:
            self._stream_handler = self._dispatcher.build_stream_handler(self._request, self._peer)
            if self._stream_handler is None:
                reject_cursor(self._request)
                result = await self._dispatcher.find_method(self._request, self._peer)(self._request, self._peer)
                yield build_result(
                    self._request.id, render.finish_result(result, self._request.method, modern=self._peer.modern)
                )
                return
            async with aclosing(self._stream_handler.stream_messages()) as messages:
                async for message in messages:
                    yield message
        except Exception as failure:
            yield build_error(self._request.id, self._to_rpc_error(failure))

    async def cancel(self) -> None:
        self.cancelled = True
        if self._stream_handler is not None:
            await self._stream_handler.cancel()

    def _to_rpc_error(self, failure: Exception) -> RpcError:
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
                details = {"correlation_id": self._peer.correlation_id}
                _log.error("a request over MCP failed", exc_info=failure, extra=details)
                message = "internal error; the server's log has the details under this correlation id"
                return RpcError(INTERNAL_ERROR, message, details)


def reject_cursor(request: RpcRequest) -> None:
    """Raise RpcError if a request names a page: lists have one page here, so no cursor was ever returned."""
    if request.params.get("cursor") is not None:
        raise RpcError(INVALID_PARAMS, "this list has one page; no cursor was given out for it", {"field": "cursor"})
