"""MCP over a pair of byte streams, as hosts speak it with a child process: one message a line, in both eras.

A request with modern metadata is served by what it says itself; `initialize` opens a legacy session for the rest. It
does not know where the lines come from.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing

import anyio
import anyio.abc

from toolyard.core.caller import Caller
from toolyard.engine.service import Service
from toolyard.surfaces.mcp.client import Peer, negotiate_version, parse_modern_peer, read_version
from toolyard.surfaces.mcp.jsonrpc import (
    INVALID_REQUEST,
    Incoming,
    Json,
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
"""How long answers may still take once the host has closed our input."""
Write = Callable[[bytes], Awaitable[None]]


async def serve_lines(service: Service, caller: Caller, lines: AsyncIterator[bytes], write: Write) -> None:
    """Answer every line until there are no more; what is under way then has a moment, and is left to the yard."""
    talk = _StdioConnection(service, caller, write)
    async with anyio.create_task_group() as group:
        async for line in lines:
            if line.strip():
                await talk.handle_line(line, group)
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
        heard: Incoming | None = None
        try:
            heard = parse_message(line)
            match heard:
                case RpcResponse():
                    await self._session.client_state.questions.resolve(heard)
                case RpcNotification():
                    await self._session.handle_notification(heard)
                    if heard.method == "notifications/initialized":
                        group.start_soon(self._send_notifications, self._session)
                case RpcRequest():
                    exchange = ActiveRequest(self._dispatcher, heard, self._build_peer(heard))
                    self._session.add_request(heard.id, exchange)
                    group.start_soon(self._respond, heard, exchange)
        except RpcError as failure:
            await self._send(build_error(heard.id if isinstance(heard, RpcRequest) else None, failure))

    def _build_peer(self, request: RpcRequest) -> Peer:
        correlation_id = self._service.clock.new_id("trace")
        if read_version(request.params) is not None or request.method == "server/discover":
            return parse_modern_peer(request.params, self._caller, correlation_id)
        if request.method == "initialize":
            version = negotiate_version(request.params.get("protocolVersion"))
            self._session = LegacySession("stdio", self._caller, read_object(request.params, "capabilities"), version)
            self._initialized = True
        elif not self._initialized and request.method != "ping":
            said = "send initialize first, or with each request the _meta of protocol version 2026-07-28"
            raise RpcError(INVALID_REQUEST, said)
        return self._session.build_peer(self._caller, correlation_id)

    async def _respond(self, request: RpcRequest, exchange: ActiveRequest) -> None:
        session = self._session
        try:
            async for message in exchange.stream_messages():
                if message is not None and not exchange.cancelled:
                    await self._send(message)
        finally:
            session.remove_request(request.id)

    async def _send_notifications(self, session: LegacySession) -> None:
        """What a legacy host is told unasked."""
        notices = self._dispatcher.feeds
        feed = notices.open(self._caller, frozenset(LIST_NOTIFICATIONS.values()), session.client_state)
        try:
            async with aclosing(feed.iter_notifications()) as news:
                async for one in news:
                    if one is not None:
                        await self._send(build_notification(*one))
        finally:
            notices.close(feed)

    async def _send(self, message: Json) -> None:
        await self._write(encode_message(message) + b"\n")
