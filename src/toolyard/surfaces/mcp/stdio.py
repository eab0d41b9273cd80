"""MCP over a pair of byte streams, as hosts use it with a child process: one message per line, in both eras.

A request with modern metadata is handled by itself; `initialize` opens a legacy session for the other ones.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing

import anyio
import anyio.abc

from toolyard.core.caller import Caller
from toolyard.core.json_types import Json
from toolyard.engine.service import Service
from toolyard.surfaces.mcp.client import Peer, negotiate_version, parse_modern_peer, read_version
from toolyard.surfaces.mcp.jsonrpc import (
    INVALID_REQUEST,
    Incoming,
    RpcError,
    RpcNotification,
    RpcRequest,
    RpcResponse,
    build_error,
    build_notification,
    encode_message,
    parse_message,
    read_object,
)
from toolyard.surfaces.mcp.methods import ActiveRequest, Dispatcher
from toolyard.surfaces.mcp.notifications import LIST_NOTIFICATIONS
from toolyard.surfaces.mcp.sessions import LegacySession

SHUTDOWN_GRACE_S = 2.0
"""How long requests in progress may still take once the host has closed our input."""
Write = Callable[[bytes], Awaitable[None]]


async def serve_lines(service: Service, caller: Caller, lines: AsyncIterator[bytes], write: Write) -> None:
    """Answer every line until the input ends. Requests in progress then have a moment; their runs are not stopped."""
    connection = _StdioConnection(service, caller, write)
    async with anyio.create_task_group() as group:
        async for line in lines:
            if line.strip():
                await connection.handle_line(line, group)
        group.cancel_scope.deadline = anyio.current_time() + SHUTDOWN_GRACE_S


class _StdioConnection:
    def __init__(self, service: Service, caller: Caller, write: Write) -> None:
        self._dispatcher = Dispatcher(service)
        self._service = service
        self._caller = caller
        self._write = write
        self._session = LegacySession("stdio", caller, {}, "")
        self._initialized = False

    async def handle_line(self, line: bytes, group: anyio.abc.TaskGroup) -> None:
        message: Incoming | None = None
        try:
            message = parse_message(line)
            match message:
                case RpcResponse():
                    await self._session.client_state.questions.resolve(message)
                case RpcNotification():
                    await self._session.handle_notification(message)
                    if message.method == "notifications/initialized":
                        group.start_soon(self._send_notifications, self._session)
                case RpcRequest():
                    active_request = ActiveRequest(self._dispatcher, message, self._build_peer(message))
                    self._session.add_request(message.id, active_request)
                    group.start_soon(self._respond, message, active_request)
        except RpcError as failure:
            await self._send(build_error(message.id if isinstance(message, RpcRequest) else None, failure))

    def _build_peer(self, request: RpcRequest) -> Peer:
        correlation_id = self._service.clock.new_id("trace")
        if read_version(request.params) is not None or request.method == "server/discover":
            return parse_modern_peer(request.params, self._caller, correlation_id)
        if request.method == "initialize":
            version = negotiate_version(request.params.get("protocolVersion"))
            self._session = LegacySession("stdio", self._caller, read_object(request.params, "capabilities"), version)
            self._initialized = True
        elif not self._initialized and request.method != "ping":
            error_text = "send initialize first, or with each request the _meta of protocol version 2026-07-28"
            raise RpcError(INVALID_REQUEST, error_text)
        return self._session.build_peer(self._caller, correlation_id)

    async def _respond(self, request: RpcRequest, active_request: ActiveRequest) -> None:
        session = self._session  # another `initialize` may replace it before the response is complete
        try:
            async for message in active_request.stream_messages():
                if message is not None and not active_request.cancelled:
                    await self._send(message)
        finally:
            session.remove_request(request.id)

    async def _send_notifications(self, session: LegacySession) -> None:
        """Send notifications to a legacy host until the connection ends."""
        feeds = self._dispatcher.feeds
        feed = feeds.open(self._caller, frozenset(LIST_NOTIFICATIONS.values()), session.client_state)
        try:
            async with aclosing(feed.iter_notifications()) as notifications:
                async for notification in notifications:
                    if notification is not None:
                        await self._send(build_notification(*notification))
        finally:
            feeds.close(feed)

    async def _send(self, message: Json) -> None:
        await self._write(encode_message(message) + b"\n")
