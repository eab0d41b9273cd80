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
from toolyard.surfaces.mcp.client import Peer, modern_peer, negotiated, version_of
from toolyard.surfaces.mcp.jsonrpc import (
    INVALID_REQUEST,
    Incoming,
    Json,
    Note,
    Reply,
    Request,
    RpcError,
    encode,
    error,
    notification,
    object_of,
    parse,
)
from toolyard.surfaces.mcp.methods import Desk, Exchange
from toolyard.surfaces.mcp.notifications import LISTS
from toolyard.surfaces.mcp.sessions import Session

LAST_WORDS_S = 2.0
"""How long answers may still take once the host has closed our input."""
Write = Callable[[bytes], Awaitable[None]]


async def serve_lines(service: Service, caller: Caller, lines: AsyncIterator[bytes], write: Write) -> None:
    """Answer every line until there are no more; what is under way then has a moment, and is left to the yard."""
    talk = _Talk(service, caller, write)
    async with anyio.create_task_group() as group:
        async for line in lines:
            if line.strip():
                await talk.hear(line, group)
        group.cancel_scope.deadline = anyio.current_time() + LAST_WORDS_S


class _Talk:
    def __init__(self, service: Service, caller: Caller, write: Write) -> None:
        self._desk = Desk(service)
        self._service = service
        self._caller = caller
        self._write = write
        self._session = Session("stdio", caller, {}, "")
        self._initialized = False

    async def hear(self, line: bytes, group: anyio.abc.TaskGroup) -> None:
        heard: Incoming | None = None
        try:
            heard = parse(line)
            match heard:
                case Reply():
                    await self._session.standing.questions.hear(heard)
                case Note():
                    await self._session.hear(heard)
                    if heard.method == "notifications/initialized":
                        group.start_soon(self._tell, self._session)
                case Request():
                    exchange = Exchange(self._desk, heard, self._peer(heard))
                    self._session.begin(heard.id, exchange)
                    group.start_soon(self._answer, heard, exchange)
        except RpcError as failure:
            await self._say(error(heard.id if isinstance(heard, Request) else None, failure))

    def _peer(self, asked: Request) -> Peer:
        correlation_id = self._service.mint.id("trace")
        if version_of(asked.params) is not None or asked.method == "server/discover":
            return modern_peer(asked.params, self._caller, correlation_id)
        if asked.method == "initialize":
            version = negotiated(asked.params.get("protocolVersion"))
            self._session = Session("stdio", self._caller, object_of(asked.params, "capabilities"), version)
            self._initialized = True
        elif not self._initialized and asked.method != "ping":
            said = "send initialize first, or with each request the _meta of protocol version 2026-07-28"
            raise RpcError(INVALID_REQUEST, said)
        return self._session.peer(self._caller, correlation_id)

    async def _answer(self, asked: Request, exchange: Exchange) -> None:
        session = self._session
        try:
            async for message in exchange.messages():
                if message is not None and not exchange.given_up:
                    await self._say(message)
        finally:
            session.end(asked.id)

    async def _tell(self, session: Session) -> None:
        """What a legacy host is told unasked."""
        notices = self._desk.notices
        feed = notices.open(self._caller, frozenset(LISTS.values()), session.standing)
        try:
            async with aclosing(feed.news()) as news:
                async for one in news:
                    if one is not None:
                        await self._say(notification(*one))
        finally:
            notices.close(feed)

    async def _say(self, message: Json) -> None:
        await self._write(encode(message) + b"\n")
