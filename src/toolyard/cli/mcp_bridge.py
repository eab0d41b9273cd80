"""Lines of MCP from standard input, carried to a server that runs elsewhere, and its answers back. It reads no meaning.

It adds what HTTP needs: the session of a legacy client, the headers that repeat parts of a modern request.
"""

import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import cast

import aiohttp
import anyio
import anyio.abc
import msgspec
from msgspec import Struct

MAX_SILENCE_S = 60.0
"""A stream is alive while something comes now and then: the server sends a heartbeat every 15 s."""
INTERNAL_ERROR = -32603
_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_NAME_PARAMS = ("name", "uri")

Write = Callable[[bytes], Awaitable[None]]


class _MessageHead(Struct):
    """What of a message must be known to carry it."""

    id: str | int | None = None
    method: str = ""
    params: dict[str, object] = {}

    @property
    def version(self) -> str:
        meta = self.params.get("_meta")
        named = cast(dict[str, object], meta).get(_VERSION_KEY) if isinstance(meta, dict) else None
        return named if isinstance(named, str) else ""

    @property
    def name(self) -> str:
        return next((name for part in _NAME_PARAMS if isinstance(name := self.params.get(part), str)), "")


class Bridge:
    def __init__(self, url: str, key: str, write: Write) -> None:
        self._url = f"{url.rstrip('/')}/mcp"
        self._key = key
        self._write = write
        self._session = ""
        self._active: dict[str | int, anyio.CancelScope] = {}

    async def carry(self, lines: AsyncIterator[bytes]) -> None:
        """Until there are no more lines."""
        timeout = aiohttp.ClientTimeout(sock_connect=5, sock_read=MAX_SILENCE_S)
        headers = {"authorization": f"Bearer {self._key}"} if self._key else {}
        async with aiohttp.ClientSession(timeout=timeout, headers=headers) as http:
            async with anyio.create_task_group() as group:
                async for line in lines:
                    if line.strip():
                        await self._forward(http, line, group)
                group.cancel_scope.cancel()
            if self._session:
                (await http.delete(self._url, headers=self._build_headers(_MessageHead()))).release()

    async def _forward(self, http: aiohttp.ClientSession, line: bytes, group: anyio.abc.TaskGroup) -> None:
        try:
            seen = msgspec.json.decode(line, type=_MessageHead)
        except (msgspec.DecodeError, RecursionError):
            seen = _MessageHead()  # the server says what is wrong with it
        cancelled = seen.params.get("requestId") if seen.method == "notifications/cancelled" else None
        if isinstance(cancelled, str | int) and not self._session:
            if scope := self._active.get(cancelled):
                scope.cancel()  # a modern server is told by our leaving
        elif seen.method == "initialize" or not seen.method or seen.id is None:
            await self._post(http, line, seen)  # before anything that comes after it
            if seen.method == "notifications/initialized" and self._session:
                group.start_soon(self._listen, http)
        else:
            group.start_soon(self._forward_request, http, line, seen.id, seen)

    async def _forward_request(
        self, http: aiohttp.ClientSession, line: bytes, id: str | int, seen: _MessageHead
    ) -> None:
        with anyio.CancelScope() as scope:
            self._active[id] = scope
            try:
                await self._post(http, line, seen)
            finally:
                self._active.pop(id, None)

    async def _post(self, http: aiohttp.ClientSession, line: bytes, seen: _MessageHead) -> None:
        try:
            async with http.post(self._url, data=line, headers=self._build_headers(seen)) as answer:
                if seen.method == "initialize":
                    self._session = answer.headers.get("mcp-session-id", "")
                await self._write_answer(answer, seen)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            await self._write_error(seen, f"{self._url} does not answer: {str(error) or type(error).__name__}")

    async def _listen(self, http: aiohttp.ClientSession) -> None:
        """What a legacy host is told unasked. Without it everything else goes on."""
        with suppress(aiohttp.ClientError, TimeoutError, OSError):
            async with http.get(self._url, headers=self._build_headers(_MessageHead())) as answer:
                if answer.status == 200:
                    await self._write_answer(answer, _MessageHead())

    async def _write_answer(self, answer: aiohttp.ClientResponse, seen: _MessageHead) -> None:
        if answer.content_type == "text/event-stream":
            rest = b""
            async for piece in answer.content.iter_any():
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    if line.startswith(b"data: "):
                        await self._write(line[6:] + b"\n")
            return
        body = await answer.read()
        if b'"jsonrpc"' in body[:20] and (b'"id"' in body[:60] or seen.id is None):
            await self._write(body + b"\n")
        elif answer.status >= 400:
            await self._write_error(
                seen, f"{self._url} answered {answer.status}: {body[:500].decode(errors='replace')}"
            )

    async def _write_error(self, seen: _MessageHead, message: str) -> None:
        if seen.method and seen.id is not None:
            told = {"jsonrpc": "2.0", "id": seen.id, "error": {"code": INTERNAL_ERROR, "message": message}}
            await self._write(msgspec.json.encode(told) + b"\n")

    def _build_headers(self, seen: _MessageHead) -> dict[str, str]:
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        if not seen.version:
            return {**headers, **({"mcp-session-id": self._session} if self._session else {})}
        headers |= {"mcp-protocol-version": seen.version, "mcp-method": seen.method}
        return {**headers, **({"mcp-name": _encode_header(seen.name)} if seen.name else {})}


def _encode_header(name: str) -> str:
    """A name as a header may hold it."""
    if name.isascii() and name.isprintable() and name == name.strip() and not name.startswith("=?base64?"):
        return name
    return f"=?base64?{base64.b64encode(name.encode()).decode()}?="
