"""A proxy before a real server that breaks connections where a test wants it. It knows just enough HTTP for that."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

from msgspec import Struct

from tcp_servers import serve_connections

POST = b"POST /chat/v1/conversation"


class ProxyFault(Struct, frozen=True, kw_only=True):
    """What happens to one of the posts: nothing, unless a field says otherwise."""

    cut_after: int | None = None
    """The connection breaks after so many events; with none the whole answer is lost."""
    twice: bool = False
    """Every event comes two times."""
    rewritten: Callable[[bytes], bytes] | None = None
    """Every event comes as the proxy would rather write it."""
    answer: bytes = b""
    """The proxy answers instead of the server."""
    late: bool = False
    """The proxy, which has answered, passes the post on to the server when the next one comes."""
    meanwhile: Callable[[bytes], Awaitable[None]] | None = None
    """What happens before the server gets the post, which it is told."""


class FaultProxy:
    """Posts are counted from 1; what is planned for one happens to it. The first of other requests are answered so."""

    def __init__(
        self,
        plan: dict[int, ProxyFault] | None = None,
        always: ProxyFault | None = None,
        stops: Sequence[bytes] = (),
        follows: Sequence[bytes] = (),
    ) -> None:
        self._plan = plan or {}
        self._always = always or ProxyFault()
        self._stops = list(stops)
        self._follows = list(follows)
        self.follow_times: list[float] = []
        self._late_post = b""
        self.posts: list[bytes] = []
        self.times: list[float] = []
        self.followed = asyncio.Event()
        """Set when somebody follows a conversation."""

    @asynccontextmanager
    async def serve_before(self, url: str) -> AsyncGenerator[str, None]:
        """The address of the proxy for the server at that address."""
        target = urlsplit(url)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._serve(reader, writer, target.hostname or "", target.port or 0)
            writer.transport.abort()

        async with serve_connections(serve) as port:
            yield f"http://127.0.0.1:{port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int) -> None:
        head, body = await _read_request(reader)
        fault = ProxyFault()
        if head.startswith(POST):
            self.posts.append(body)
            self.times.append(time.monotonic())
            fault = self._plan.get(len(self.posts), self._always)
            await self._pass_on_late_post(host, port)
            self._late_post = _close_after(head) + body if fault.late else b""
        if b"/cancel HTTP" in head and self._stops:
            fault = ProxyFault(answer=self._stops.pop(0))
        if head.startswith(b"GET /conversations/"):
            self.follow_times.append(time.monotonic())
            if self._follows:
                fault = ProxyFault(answer=self._follows.pop(0))
            else:
                self.followed.set()
        if fault.meanwhile is not None:
            await fault.meanwhile(body)
        if fault.answer:
            writer.write(fault.answer)
            await writer.drain()
            writer.close()
            await writer.wait_closed()
            return
        answer, onwards = await asyncio.open_connection(host, port)
        try:
            onwards.write(_close_after(head) + body)
            await _relay(answer, writer, fault)
            writer.close()
            await writer.wait_closed()
        finally:
            onwards.transport.abort()

    async def _pass_on_late_post(self, host: str, port: int) -> None:
        if self._late_post:
            answer, onwards = await asyncio.open_connection(host, port)
            try:
                onwards.write(self._late_post)
                await answer.read()
            finally:
                onwards.transport.abort()


def _close_after(head: bytes) -> bytes:
    return head.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")


async def _read_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
    kept_head = b"\r\n".join(line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:"))
    return kept_head, await reader.readexactly(int(fields.get(b"content-length", b"0")))


async def _relay(answer: asyncio.StreamReader, writer: asyncio.StreamWriter, fault: ProxyFault) -> None:
    head = await answer.readuntil(b"\r\n\r\n")
    chunked = b"transfer-encoding: chunked" in head.lower()
    if fault.cut_after == 0:
        writer.transport.abort()
        return
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith((b"transfer-encoding", b"connection"))]
    writer.write(b"\r\n".join(lines).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    events, remainder = 0, b""
    async for piece in _pieces(answer, chunked):
        *whole, remainder = (remainder + piece).split(b"\n\n") if chunked else (piece, b"")
        for event in whole:
            end = b"\n\n" if chunked else b""
            event = fault.rewritten(event + end) if fault.rewritten else event + end
            writer.write(event * (2 if fault.twice and event.startswith((b"id", b"data")) else 1))
            await writer.drain()
            events += b"data: " in event
            if events == fault.cut_after:
                writer.transport.abort()
                return


async def _pieces(answer: asyncio.StreamReader, chunked: bool) -> AsyncGenerator[bytes, None]:
    if not chunked:
        yield await answer.read()
        return
    while size := int(await answer.readline(), 16):
        yield await answer.readexactly(size)
        await answer.readexactly(2)
