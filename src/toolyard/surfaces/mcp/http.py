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
from toolyard.surfaces.mcp.client import LEGACY, Peer, modern_peer, negotiated, version_of
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
    Note,
    Reply,
    Request,
    RpcError,
    encode,
    error,
    is_response,
    notification,
    object_of,
    parse,
)
from toolyard.surfaces.mcp.methods import Desk, Exchange
from toolyard.surfaces.mcp.notifications import LISTS, Feed
from toolyard.surfaces.mcp.sessions import Session, Sessions
from toolyard.surfaces.request_context import Visit, visit_of

MOST_BODY_BYTES = 8 * 1024 * 1024
JSON, EVENTS = b"application/json", b"text/event-stream"
_STATUS = {
    **dict.fromkeys((PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS, HEADER_MISMATCH), 400),
    **dict.fromkeys((MISSING_CAPABILITY, UNSUPPORTED_VERSION), 400),
    METHOD_NOT_FOUND: 404,
}
"""Of the errors of a modern request; a legacy client reads them from the body alone."""


def routes(service: Service) -> list[ASGIRouteHandler]:
    endpoint = Endpoint(service)

    @asgi("/mcp", copy_scope=False)
    async def mcp(scope: Scope, receive: Receive, send: Send) -> None:
        await endpoint(Visitor(scope, receive, send))

    return [mcp]


class Visitor:
    """One HTTP request, and the way back."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = cast(Mapping[str, object], scope)
        self.method = str(request["method"])
        self.visit: Visit = visit_of(request)
        self.headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        self._receive = receive
        self._send = send
        self._answered = False

    @property
    def streams(self) -> bool:
        """Whether it takes a stream for an answer; a client that does not say takes anything."""
        accept = self.headers.get("accept", "*/*")
        return "text/event-stream" in accept or "*/*" in accept or "text/*" in accept

    async def body(self) -> bytes:
        pieces, size = list[bytes](), 0
        while True:
            message = await self._receive()
            if message["type"] != "http.request":
                return b""
            pieces.append(message["body"])
            size += len(message["body"])
            if size > MOST_BODY_BYTES:
                raise HTTPException(f"the body may have {MOST_BODY_BYTES:,} bytes at most", status_code=413)
            if not message["more_body"]:
                return b"".join(pieces)

    async def answer(self, status: int, message: Json | None = None, **headers: str) -> None:
        body = b"" if message is None else encode(message)
        self._answered = True
        await self._begin(status, JSON, {"content-length": str(len(body)), **headers})
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    async def stream(self, messages: AsyncGenerator[Json | None, None], first: Json | None) -> None:
        """Server-sent events, each whole in one piece."""
        await self._begin(200, EVENTS, {"cache-control": "no-store", "x-accel-buffering": "no"})
        await self._event(first)
        async for message in messages:
            await self._event(message)
        self._answered = True
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _event(self, message: Json | None) -> None:
        body = b": heartbeat\n\n" if message is None else b"event: message\ndata: %b\n\n" % encode(message)
        await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def _begin(self, status: int, kind: bytes, headers: dict[str, str]) -> None:
        told = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind), *told]})

    async def left(self) -> bool:
        """Returns when the client has gone: whether that was before its answer."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        return not self._answered


class Endpoint:
    def __init__(self, service: Service) -> None:
        self._desk = Desk(service)
        self._sessions = Sessions(service.mint.now)

    async def __call__(self, visitor: Visitor) -> None:
        try:
            match visitor.method:
                case "POST":
                    await self._post(visitor)
                case "GET":
                    await self._listen(visitor)
                case "DELETE":
                    self._sessions.close(self._session(visitor))
                    await visitor.answer(200)
                case _:
                    await visitor.answer(405, allow="POST, GET, DELETE")
        except RpcError as failure:
            await visitor.answer(400, error(None, failure))
        except _NoSession as gone:
            await visitor.answer(gone.status, error(None, RpcError(INVALID_REQUEST, str(gone))))

    async def _post(self, visitor: Visitor) -> None:
        try:
            heard = parse(await visitor.body())
        except RpcError as failure:
            await visitor.answer(400, error(None, failure))
            return
        try:
            await (self._modern if _is_modern(visitor, heard) else self._legacy)(visitor, heard)
        except RpcError as failure:
            id = heard.id if isinstance(heard, Request) else None
            await visitor.answer(_STATUS.get(failure.code, 400), error(id, failure))

    async def _modern(self, visitor: Visitor, heard: Incoming) -> None:
        if isinstance(heard, Reply):
            raise RpcError(INVALID_REQUEST, "a client of this version does not answer requests: it asks again")
        if isinstance(heard, Note):
            await visitor.answer(202)  # none is defined: leaving the stream is what cancels
            return
        caller = visitor.visit.caller
        if version_of(heard.params) is not None:
            check_headers(visitor.headers, heard, self._desk.service.tools(caller, hosted=False))
        peer = modern_peer(heard.params, caller, visitor.visit.correlation_id)
        exchange = Exchange(self._desk, heard, peer)
        await _attended(visitor, exchange.cancel, lambda: _told(visitor, exchange, peer))

    async def _legacy(self, visitor: Visitor, heard: Incoming) -> None:
        if isinstance(heard, Request) and heard.method == "initialize":
            await self._initialize(visitor, heard)
            return
        session = self._session(visitor)
        if isinstance(heard, Reply):
            await session.standing.questions.hear(heard)
            await visitor.answer(202)
        elif isinstance(heard, Note):
            await session.hear(heard)
            await visitor.answer(202)
        else:
            peer = session.peer(visitor.visit.caller, visitor.visit.correlation_id, streams=visitor.streams)
            exchange = Exchange(self._desk, heard, peer)
            session.begin(heard.id, exchange)
            try:
                await _told(visitor, exchange, peer)
            finally:
                session.end(heard.id)

    async def _listen(self, visitor: Visitor) -> None:
        """What a legacy client is told unasked, for as long as it stays."""
        session = self._session(visitor)
        if not visitor.streams:
            await visitor.answer(406)
            return
        feed = self._desk.notices.open(visitor.visit.caller, frozenset(LISTS.values()), session.standing)
        try:
            with session.listening():
                await _attended(visitor, _closing(feed), lambda: visitor.stream(_notes(feed), None))
        finally:
            self._desk.notices.close(feed)

    async def _initialize(self, visitor: Visitor, heard: Request) -> None:
        version = negotiated(heard.params.get("protocolVersion"))
        capabilities = object_of(heard.params, "capabilities")
        session = self._sessions.open(visitor.visit.caller, capabilities, version)
        exchange = Exchange(self._desk, heard, session.peer(visitor.visit.caller, visitor.visit.correlation_id))
        async with aclosing(exchange.messages()) as messages:
            await visitor.answer(200, await anext(messages), mcp_session_id=session.id)

    def _session(self, visitor: Visitor) -> Session:
        id = visitor.headers.get("mcp-session-id", "")
        if not id:
            raise _NoSession(400, "this needs the header Mcp-Session-Id, which an initialize request is answered with")
        session = self._sessions.find(id, visitor.visit.caller)
        if session is None:
            raise _NoSession(404, "this session is over or never was; send initialize for a new one")
        return session


async def _notes(feed: Feed) -> AsyncGenerator[Json | None, None]:
    async for news in feed.news():
        yield None if news is None else notification(*news)


def _closing(feed: Feed) -> Callable[[], Awaitable[None]]:
    async def close() -> None:
        feed.close()

    return close


class _NoSession(Exception):
    def __init__(self, status: int, said: str) -> None:
        super().__init__(said)
        self.status = status


def _is_modern(visitor: Visitor, heard: Incoming) -> bool:
    """By what the request says; one that names a version we have never heard of is told so as a modern one."""
    named = version_of(heard.params) if isinstance(heard, Request | Note) else None
    header = visitor.headers.get("mcp-protocol-version", LEGACY[0])
    return named is not None or header not in LEGACY


async def _told(visitor: Visitor, exchange: Exchange, peer: Peer) -> None:
    """One object if that is all there is to say, or a stream."""
    async with aclosing(exchange.messages()) as messages:
        first = await anext(messages)
        while not visitor.streams and (first is None or not is_response(first)):
            first = await anext(messages)
        if first is None or not is_response(first):
            await visitor.stream(messages, first)
            return
        failure = first.get("error")
        code = failure.get("code") if isinstance(failure, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        await visitor.answer(_STATUS.get(code, 200) if peer.modern and isinstance(code, int) else 200, first)


async def _attended(visitor: Visitor, left: Callable[[], Awaitable[None]], work: Callable[[], Awaitable[None]]) -> None:
    """Do the work; if the client leaves before it is done, say so."""

    async def watch() -> None:
        if await visitor.left():
            await left()

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        await work()
        group.cancel_scope.cancel()
