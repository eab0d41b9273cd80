"""`/mcp`: this server's tools as an MCP server over streamable HTTP, in both eras of the protocol.

The requests of a modern client (2026-07-28) are independent of each other; a legacy client (until 2025-11-25) opens a
session first. This is plain ASGI, because only the first message decides whether the response is JSON or a stream.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import cast

import msgspec
from litestar import asgi
from litestar.exceptions import HTTPException
from litestar.types import Receive, Scope, Send
from msgspec.structs import replace

from toolyard.core.conversation.events import RequestKey
from toolyard.core.errors import Invalid
from toolyard.core.json_types import Json
from toolyard.surfaces.http.errors import MAX_BODY_BYTES
from toolyard.surfaces.http.event_stream import run_beside
from toolyard.surfaces.http.idempotency import KEY_HEADER, REPLAYED_HEADERS, build_request_key
from toolyard.surfaces.http.request_context import RequestContext, get_backend, get_request_context
from toolyard.surfaces.http.sse import NO_HEADERS, STREAM_HEADERS
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
from toolyard.surfaces.surface import Backend, Surface

JSON_TYPE, EVENT_STREAM_TYPE = b"application/json", b"text/event-stream"
_STATUS_BY_CODE = {
    **dict.fromkeys((PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS, HEADER_MISMATCH), 400),
    **dict.fromkeys((MISSING_CAPABILITY, UNSUPPORTED_VERSION), 400),
    METHOD_NOT_FOUND: 404,
}
"""The HTTP status for an error of a modern request; a legacy client gets 200 and reads the error from the body."""


@asgi("/mcp", copy_scope=False)
async def mcp(scope: Scope, receive: Receive, send: Send) -> None:
    endpoint = get_backend(scope).share(McpEndpoint)
    await endpoint(McpHttpRequest(scope, receive, send))


class McpHttpRequest:
    """One HTTP request and the sending of its response."""

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
        """Whether the client accepts an event stream; without an `Accept` header it accepts anything."""
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

    async def respond(self, status: int, message: Json | None = None, headers: Mapping[str, str] = NO_HEADERS) -> None:
        body = b"" if message is None else encode_message(message)
        self._responded = True
        await self._send_head(status, JSON_TYPE, {"content-length": str(len(body)), **headers})
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    async def send_stream(
        self,
        messages: AsyncGenerator[Json | None, None],
        first: Json | None,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> None:
        """Send the messages as server-sent events, `first` before the others; None is sent as a heartbeat."""
        await self._send_head(200, EVENT_STREAM_TYPE, {**STREAM_HEADERS, **headers})
        await self._send_event(first)
        async for message in messages:
            await self._send_event(message)
        self._responded = True
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_event(self, message: Json | None) -> None:
        body = b": heartbeat\n\n" if message is None else b"event: message\ndata: %b\n\n" % encode_message(message)
        await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def _send_head(self, status: int, kind: bytes, headers: dict[str, str]) -> None:
        encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self._send(
            {"type": "http.response.start", "status": status, "headers": [(b"content-type", kind), *encoded]}
        )

    async def wait_for_disconnect(self) -> bool:
        """Wait until the client disconnects, and return whether that was before the response was complete."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        return not self._responded


class McpEndpoint:
    """Serves `/mcp`: POST for messages, and for legacy clients GET to listen and DELETE to end a session."""

    def __init__(self, backend: Backend) -> None:
        self._dispatcher = Dispatcher(backend.service)
        self._sessions = LegacySessions(backend.service.clock.now, backend.records)

    async def __call__(self, http_request: McpHttpRequest) -> None:
        try:
            match http_request.method:
                case "POST":
                    await self._handle_post(http_request)
                case "GET":
                    await self._listen(http_request)
                case "DELETE":
                    await self._sessions.close(await self._find_session(http_request))
                    await http_request.respond(200)
                case _:
                    await http_request.respond(405, headers={"allow": "POST, GET, DELETE"})
        except RpcError as failure:
            await http_request.respond(400, build_error(None, failure))
        except _SessionError as error:
            await http_request.respond(error.status, build_error(None, RpcError(INVALID_REQUEST, str(error))))

    async def _handle_post(self, http_request: McpHttpRequest) -> None:
        try:
            message = parse_message(await http_request.read_body())
        except RpcError as failure:
            await http_request.respond(400, build_error(None, failure))
            return
        if isinstance(message, RpcRequest) and message.method == "tools/call":
            await self._dispatcher.wait_for_tool(message, http_request.context.caller)
        try:
            await (self._handle_modern if _is_modern(http_request, message) else self._handle_legacy)(
                http_request, message
            )
        except RpcError as failure:
            id = message.id if isinstance(message, RpcRequest) else None
            await http_request.respond(_STATUS_BY_CODE.get(failure.code, 400), build_error(id, failure))

    async def _handle_modern(self, http_request: McpHttpRequest, message: Incoming) -> None:
        if isinstance(message, RpcResponse):
            raise RpcError(INVALID_REQUEST, "a client of this version does not answer requests: it asks again")
        if isinstance(message, RpcNotification):
            await http_request.respond(202)  # this era defines no notification from clients: closing a stream cancels
            return
        caller = http_request.context.caller
        # Without a version the headers cannot match anything: `parse_modern_peer` then reports what is missing.
        if read_version(message.params) is not None:
            tools = self._dispatcher.service.tools
            check_headers(http_request.headers, message, lambda name: tools.find_usable(name, caller))
        peer = replace(
            parse_modern_peer(message.params, caller, http_request.context.correlation_id),
            request_key=_read_request_key(http_request, message),
        )
        active_request = ActiveRequest(self._dispatcher, message, peer)
        # A client that can send the call again may have lost its connection only; any other one has cancelled it.
        on_disconnect = active_request.cancel if peer.request_key is None else _ignore_disconnect
        await _run_until_disconnect(
            http_request, on_disconnect, lambda: _send_messages(http_request, active_request, peer)
        )

    async def _handle_legacy(self, http_request: McpHttpRequest, message: Incoming) -> None:
        if isinstance(message, RpcRequest) and message.method == "initialize":
            await self._initialize(http_request, message)
            return
        session = await self._find_session(http_request)
        if isinstance(message, RpcResponse):
            await session.client_state.questions.resolve(message)
            await http_request.respond(202)
        elif isinstance(message, RpcNotification):
            await session.handle_notification(message)
            await http_request.respond(202)
        else:
            peer = replace(
                session.build_peer(
                    http_request.context.caller,
                    http_request.context.correlation_id,
                    accepts_stream=http_request.accepts_stream,
                ),
                request_key=_read_request_key(http_request, message),
            )
            active_request = ActiveRequest(self._dispatcher, message, peer)
            session.add_request(message.id, active_request)
            # A lost connection does not cancel a legacy request, only `notifications/cancelled` does.
            try:
                await _send_messages(http_request, active_request, peer)
            finally:
                session.remove_request(message.id)

    async def _listen(self, http_request: McpHttpRequest) -> None:
        """Stream notifications to a legacy client until it disconnects."""
        session = await self._find_session(http_request)
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
        session = await self._sessions.open(http_request.context.caller, capabilities, version)
        active_request = ActiveRequest(
            self._dispatcher,
            request,
            session.build_peer(http_request.context.caller, http_request.context.correlation_id),
        )
        async with aclosing(active_request.stream_messages()) as messages:
            await http_request.respond(200, await anext(messages), {"mcp-session-id": session.id})

    async def _find_session(self, http_request: McpHttpRequest) -> LegacySession:
        id = http_request.headers.get("mcp-session-id", "")
        if not id:
            raise _SessionError(
                400, "this needs the header Mcp-Session-Id, which an initialize request is answered with"
            )
        session = await self._sessions.find(id, http_request.context.caller)
        if session is None:
            raise _SessionError(404, "this session has ended or does not exist; send initialize for a new one")
        return session


async def _stream_notifications(feed: NotificationFeed) -> AsyncGenerator[Json | None, None]:
    async for notification in feed.iter_notifications():
        yield None if notification is None else build_notification(*notification)


def _build_closer(feed: NotificationFeed) -> Callable[[], Awaitable[None]]:
    async def close() -> None:
        feed.close()

    return close


class _SessionError(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def _is_modern(http_request: McpHttpRequest, message: Incoming) -> bool:
    """Return whether to handle a message as a modern client's.

    A version in the body is modern by definition, since legacy clients send it in the header only. An unknown version
    in the header counts as modern, because the modern errors name the version that is supported.
    """
    version = read_version(message.params) if isinstance(message, RpcRequest | RpcNotification) else None
    header = http_request.headers.get("mcp-protocol-version", LEGACY_VERSIONS[0])
    return version is not None or header not in LEGACY_VERSIONS


def _read_request_key(http_request: McpHttpRequest, request: RpcRequest) -> RequestKey | None:
    """Return the Idempotency-Key of a request, whose body is its method and parameters: the id is new each time."""
    key = http_request.headers.get(KEY_HEADER)
    if key is None:
        return None
    params = {name: value for name, value in request.params.items() if name != "_meta"}
    body = msgspec.json.encode((request.method, params), order="deterministic")
    try:
        return build_request_key(key, http_request.context.caller, "POST", "/mcp", body)
    except Invalid as error:
        raise RpcError(INVALID_PARAMS, str(error)) from None


async def _ignore_disconnect() -> None:
    return


async def _send_messages(http_request: McpHttpRequest, active_request: ActiveRequest, peer: Peer) -> None:
    """Send the messages of a request: as one JSON object if the response is the first of them, else as a stream.

    Messages before the response are dropped for a client that accepts no stream.
    """
    async with aclosing(active_request.stream_messages()) as messages:
        first = await anext(messages)
        while not http_request.accepts_stream and (first is None or not is_response(first)):
            first = await anext(messages)
        headers = REPLAYED_HEADERS if active_request.replayed else NO_HEADERS
        if first is None or not is_response(first):
            await http_request.send_stream(messages, first, headers)
            return
        failure = first.get("error")
        code = failure.get("code") if isinstance(failure, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        status = _STATUS_BY_CODE.get(code, 200) if peer.modern and isinstance(code, int) else 200
        await http_request.respond(status, first, headers)


async def _run_until_disconnect(
    http_request: McpHttpRequest, on_disconnect: Callable[[], Awaitable[None]], work: Callable[[], Awaitable[None]]
) -> None:
    """Run `work`; if the client disconnects before the response is complete, call `on_disconnect` meanwhile.

    The work itself is not cancelled here: it ends by what `on_disconnect` does, such as stopping the run.
    """

    async def watch() -> None:
        if await http_request.wait_for_disconnect():
            await on_disconnect()

    with run_beside(watch()):
        await work()


SURFACE = Surface(
    routes=(mcp,),
    response_headers=("mcp-session-id",),
)
