"""`/mcp`: the tools of this yard as an MCP server over streamable HTTP, in both eras of the protocol.

A modern client (2026-07-28) sends each request by itself; a legacy one (until 2025-11-25) opens a session first. Plain
ASGI: an answer is one object or a stream, whichever it turns out to be, and leaving a modern one stops the call.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import cast

import anyio
from litestar import asgi
from litestar.exceptions import HTTPException
from litestar.handlers import ASGIRouteHandler
from litestar.types import Receive, Scope, Send

from toolyard.engine.service import Service
from toolyard.surfaces.mcp.client import LEGACY_VERSIONS, Peer, negotiate_version, parse_modern_peer, read_version
from toolyard.surfaces.mcp.headers import check_headers
from toolyard.surfaces.mcp.jsonrpc import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    Incoming,
    Json,
    RpcError,
    RpcNotification,
    RpcRequest,
    RpcResponse,
    build_error,
    build_notification,
    encode_message,
    is_response,
    parse_message,
    read_object,
)
from toolyard.surfaces.mcp.methods import ActiveRequest, Dispatcher
from toolyard.surfaces.mcp.notifications import LIST_NOTIFICATIONS, NotificationFeed
from toolyard.surfaces.mcp.sessions import LegacySession, LegacySessions
from toolyard.surfaces.request_context import RequestContext, get_request_context

MAX_BODY_BYTES = 8 * 1024 * 1024
JSON_TYPE, EVENT_STREAM_TYPE = b"application/json", b"text/event-stream"
_STATUS_BY_CODE = {
    **dict.fromkeys((PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS, HEADER_MISMATCH), 400),
    **dict.fromkeys((MISSING_CAPABILITY, UNSUPPORTED_VERSION), 400),
    METHOD_NOT_FOUND: 404,
}
"""Of the errors of a modern request; a legacy client reads them from the body alone."""


def routes(service: Service) -> list[ASGIRouteHandler]:
    endpoint = McpEndpoint(service)

    @asgi("/mcp", copy_scope=False)
    async def mcp(scope: Scope, receive: Receive, send: Send) -> None:
        await endpoint(McpHttpRequest(scope, receive, send))

    return [mcp]


class McpHttpRequest:
    """One HTTP request, and the way back."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = cast(Mapping[str, object], scope)
        self.method = str(request["method"])
        self.context: RequestContext = get_request_context(request)
        self.headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        self._receive = receive
        self._send = send
        self._responded = False

    @property
    def accepts_stream(self) -> bool:
        """Whether it takes a stream for an answer; a client that does not say takes anything."""
        accept = self.headers.get("accept", "*/*")
        return "text/event-stream" in accept or "*/*" in accept or "text/*" in accept

    async def read_body(self) -> bytes:
        pieces, size = list[bytes](), 0
        while True:
            message = await self._receive()
            if message["type"] != "http.request":
                return b""
            pieces.append(message["body"])
            size += len(message["body"])
            if size > MAX_BODY_BYTES:
                raise HTTPException(f"the body may have {MAX_BODY_BYTES:,} bytes at most", status_code=413)
            if not message["more_body"]:
                return b"".join(pieces)

    async def respond(self, status: int, message: Json | None = None, **headers: str) -> None:
        body = b"" if message is None else encode_message(message)
        self._responded = True
        await self._send_head(status, JSON_TYPE, {"content-length": str(len(body)), **headers})
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    async def send_stream(self, messages: AsyncGenerator[Json | None, None], first: Json | None) -> None:
        """Server-sent events, each whole in one piece."""
        await self._send_head(200, EVENT_STREAM_TYPE, {"cache-control": "no-store", "x-accel-buffering": "no"})
        await self._send_event(first)
        async for message in messages:
            await self._send_event(message)
        self._responded = True
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_event(self, message: Json | None) -> None:
        body = b": heartbeat\n\n" if message is None else b"event: message\ndata: %b\n\n" % encode_message(message)
        await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def _send_head(self, status: int, kind: bytes, headers: dict[str, str]) -> None:
        told = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind), *told]})

    async def wait_for_disconnect(self) -> bool:
        """Returns when the client has gone: whether that was before its answer."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        return not self._responded


class McpEndpoint:
    def __init__(self, service: Service) -> None:
        self._dispatcher = Dispatcher(service)
        self._sessions = LegacySessions(service.clock.now)

    async def __call__(self, http_request: McpHttpRequest) -> None:
        try:
            match http_request.method:
                case "POST":
                    await self._handle_post(http_request)
                case "GET":
                    await self._listen(http_request)
                case "DELETE":
                    self._sessions.close(self._find_session(http_request))
                    await http_request.respond(200)
                case _:
                    await http_request.respond(405, allow="POST, GET, DELETE")
        except RpcError as failure:
            await http_request.respond(400, build_error(None, failure))
        except _SessionError as gone:
            await http_request.respond(gone.status, build_error(None, RpcError(INVALID_REQUEST, str(gone))))

    async def _handle_post(self, http_request: McpHttpRequest) -> None:
        try:
            heard = parse_message(await http_request.read_body())
        except RpcError as failure:
            await http_request.respond(400, build_error(None, failure))
            return
        try:
            await (self._handle_modern if _is_modern(http_request, heard) else self._handle_legacy)(http_request, heard)
        except RpcError as failure:
            id = heard.id if isinstance(heard, RpcRequest) else None
            await http_request.respond(_STATUS_BY_CODE.get(failure.code, 400), build_error(id, failure))

    async def _handle_modern(self, http_request: McpHttpRequest, message: Incoming) -> None:
        if isinstance(message, RpcResponse):
            raise RpcError(INVALID_REQUEST, "a client of this version does not answer requests: it asks again")
        if isinstance(message, RpcNotification):
            await http_request.respond(202)  # none is defined: leaving the stream is what cancels
            return
        caller = http_request.context.caller
        if read_version(message.params) is not None:
            check_headers(
                http_request.headers, message, self._dispatcher.service.list_tools(caller, include_native=False)
            )
        peer = parse_modern_peer(message.params, caller, http_request.context.correlation_id)
        exchange = ActiveRequest(self._dispatcher, message, peer)
        await _run_until_disconnect(http_request, exchange.cancel, lambda: _send_messages(http_request, exchange, peer))

    async def _handle_legacy(self, http_request: McpHttpRequest, message: Incoming) -> None:
        if isinstance(message, RpcRequest) and message.method == "initialize":
            await self._initialize(http_request, message)
            return
        session = self._find_session(http_request)
        if isinstance(message, RpcResponse):
            await session.client_state.questions.resolve(message)
            await http_request.respond(202)
        elif isinstance(message, RpcNotification):
            await session.handle_notification(message)
            await http_request.respond(202)
        else:
            peer = session.build_peer(
                http_request.context.caller,
                http_request.context.correlation_id,
                accepts_stream=http_request.accepts_stream,
            )
            exchange = ActiveRequest(self._dispatcher, message, peer)
            session.add_request(message.id, exchange)
            try:
                await _send_messages(http_request, exchange, peer)
            finally:
                session.remove_request(message.id)

    async def _listen(self, http_request: McpHttpRequest) -> None:
        """What a legacy client is told unasked, for as long as it stays."""
        session = self._find_session(http_request)
        if not http_request.accepts_stream:
            await http_request.respond(406)
            return
        feed = self._dispatcher.feeds.open(
            http_request.context.caller, frozenset(LIST_NOTIFICATIONS.values()), session.client_state
        )
        try:
            with session.track_listener():
                await _run_until_disconnect(
                    http_request,
                    _build_closer(feed),
                    lambda: http_request.send_stream(_stream_notifications(feed), None),
                )
        finally:
            self._dispatcher.feeds.close(feed)

    async def _initialize(self, http_request: McpHttpRequest, request: RpcRequest) -> None:
        version = negotiate_version(request.params.get("protocolVersion"))
        capabilities = read_object(request.params, "capabilities")
        session = self._sessions.open(http_request.context.caller, capabilities, version)
        exchange = ActiveRequest(
            self._dispatcher,
            request,
            session.build_peer(http_request.context.caller, http_request.context.correlation_id),
        )
        async with aclosing(exchange.stream_messages()) as messages:
            await http_request.respond(200, await anext(messages), mcp_session_id=session.id)

    def _find_session(self, http_request: McpHttpRequest) -> LegacySession:
        id = http_request.headers.get("mcp-session-id", "")
        if not id:
            raise _SessionError(
                400, "this needs the header Mcp-Session-Id, which an initialize request is answered with"
            )
        session = self._sessions.find(id, http_request.context.caller)
        if session is None:
            raise _SessionError(404, "this session is over or never was; send initialize for a new one")
        return session


async def _stream_notifications(feed: NotificationFeed) -> AsyncGenerator[Json | None, None]:
    async for news in feed.iter_notifications():
        yield None if news is None else build_notification(*news)


def _build_closer(feed: NotificationFeed) -> Callable[[], Awaitable[None]]:
    async def close() -> None:
        feed.close()

    return close


class _SessionError(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def _is_modern(http_request: McpHttpRequest, message: Incoming) -> bool:
    """By what the request says; one that names a version we have never heard of is told so as a modern one."""
    named = read_version(message.params) if isinstance(message, RpcRequest | RpcNotification) else None
    header = http_request.headers.get("mcp-protocol-version", LEGACY_VERSIONS[0])
    return named is not None or header not in LEGACY_VERSIONS


async def _send_messages(http_request: McpHttpRequest, exchange: ActiveRequest, peer: Peer) -> None:
    """One object if that is all there is to say, or a stream."""
    async with aclosing(exchange.stream_messages()) as messages:
        first = await anext(messages)
        while not http_request.accepts_stream and (first is None or not is_response(first)):
            first = await anext(messages)
        if first is None or not is_response(first):
            await http_request.send_stream(messages, first)
            return
        failure = first.get("error")
        code = failure.get("code") if isinstance(failure, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        await http_request.respond(
            _STATUS_BY_CODE.get(code, 200) if peer.modern and isinstance(code, int) else 200, first
        )


async def _run_until_disconnect(
    http_request: McpHttpRequest, on_disconnect: Callable[[], Awaitable[None]], work: Callable[[], Awaitable[None]]
) -> None:
    """Do the work; if the client leaves before it is done, say so."""

    async def watch() -> None:
        if await http_request.wait_for_disconnect():
            await on_disconnect()

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        await work()
        group.cancel_scope.cancel()
