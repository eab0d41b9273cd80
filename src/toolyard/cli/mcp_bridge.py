"""Forward MCP messages from standard input to a server that is reached over HTTP, and write its answers back.

Messages pass unchanged. The bridge adds what MCP over HTTP needs: the session id of a legacy client, and the headers
that repeat parts of a modern request.
"""

import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress

import aiohttp
import anyio
import anyio.abc
import msgspec
from msgspec import Struct

from toolyard.client.sse import read_events
from toolyard.core.errors import Unavailable
from toolyard.core.json_types import is_object

MAX_SILENCE_S = 60.0
"""A stream without a byte for this long is taken for dead: the server sends a heartbeat every 15 s."""
INTERNAL_ERROR = -32603
_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_NAME_PARAMS = ("name", "uri")

Write = Callable[[bytes], Awaitable[None]]


class _MessageHead(Struct):
    """The parts of a message that are needed to forward it."""

    id: str | int | None = None
    method: str = ""
    params: dict[str, object] = {}

    @property
    def version(self) -> str:
        """The protocol version that each request of a modern client names; empty for a legacy client."""
        meta = self.params.get("_meta")
        version = meta.get(_VERSION_KEY) if is_object(meta) else None
        return version if isinstance(version, str) else ""

    @property
    def name(self) -> str:
        """The tool, prompt or resource that the request is about, if any."""
        return next((name for part in _NAME_PARAMS if isinstance(name := self.params.get(part), str)), "")


class Bridge:
    """A connection of one MCP client, which speaks in lines, to the `/mcp` endpoint of a server."""

    def __init__(self, url: str, key: str, write: Write) -> None:
        self._url = f"{url.rstrip('/')}/mcp"
        self._key = key
        self._write = write
        self._session = ""
        self._active: dict[str | int, anyio.CancelScope] = {}

    async def forward_lines(self, lines: AsyncIterator[bytes]) -> None:
        """Forward messages until the lines end. Cancel what is still running then, and end the session."""
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
            head = msgspec.json.decode(line, type=_MessageHead)
        except (msgspec.DecodeError, RecursionError):
            head = _MessageHead()  # forwarded all the same: the server answers with the error
        cancelled = head.params.get("requestId") if head.method == "notifications/cancelled" else None
        if isinstance(cancelled, str | int) and not self._session:
            # Without a session the client is a modern one, and the protocol cancels a request by closing its POST.
            if scope := self._active.get(cancelled):
                scope.cancel()
        elif head.method == "initialize" or not head.method or head.id is None:
            # Awaited, so that later messages come after it: they need the session that `initialize` begins, and the
            # server must have an answer or a notification before the messages that follow it.
            await self._post(http, line, head)
            if head.method == "notifications/initialized" and self._session:
                group.start_soon(self._listen, http)
        else:
            group.start_soon(self._forward_request, http, line, head.id, head)

    async def _forward_request(
        self, http: aiohttp.ClientSession, line: bytes, id: str | int, head: _MessageHead
    ) -> None:
        with anyio.CancelScope() as scope:
            self._active[id] = scope
            try:
                await self._post(http, line, head)
            finally:
                self._active.pop(id, None)

    async def _post(self, http: aiohttp.ClientSession, line: bytes, head: _MessageHead) -> None:
        try:
            async with http.post(self._url, data=line, headers=self._build_headers(head)) as response:
                if head.method == "initialize":
                    self._session = response.headers.get("mcp-session-id", "")
                await self._write_answer(response, head)
        except (aiohttp.ClientError, TimeoutError, OSError, Unavailable) as error:
            await self._write_error(head, f"{self._url} does not answer: {str(error) or type(error).__name__}")

    async def _listen(self, http: aiohttp.ClientSession) -> None:
        """Write the messages that the server sends a legacy client on its own. All else works without this stream."""
        with suppress(aiohttp.ClientError, TimeoutError, OSError, Unavailable):
            async with http.get(self._url, headers=self._build_headers(_MessageHead())) as response:
                if response.status == 200:
                    await self._write_answer(response, _MessageHead())

    async def _write_answer(self, response: aiohttp.ClientResponse, head: _MessageHead) -> None:
        if response.content_type == "text/event-stream":
            async with aclosing(read_events(response.content)) as events:
                async for _, message in events:
                    await self._write(message + b"\n")
            return
        body = await response.read()
        # An HTTP error may hold a JSON-RPC error without an id, which the client could not match with its request:
        # it gets an error with the id instead.
        if b'"jsonrpc"' in body[:20] and (b'"id"' in body[:60] or head.id is None):
            await self._write(body + b"\n")
        elif response.status >= 400:
            await self._write_error(
                head, f"{self._url} answered {response.status}: {body[:500].decode(errors='replace')}"
            )

    async def _write_error(self, head: _MessageHead, message: str) -> None:
        if head.method and head.id is not None:
            response = {"jsonrpc": "2.0", "id": head.id, "error": {"code": INTERNAL_ERROR, "message": message}}
            await self._write(msgspec.json.encode(response) + b"\n")

    def _build_headers(self, head: _MessageHead) -> dict[str, str]:
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        if not head.version:
            return {**headers, **({"mcp-session-id": self._session} if self._session else {})}
        headers |= {"mcp-protocol-version": head.version, "mcp-method": head.method}
        return {**headers, **({"mcp-name": _encode_header(head.name)} if head.name else {})}


def _encode_header(name: str) -> str:
    """Return a name as MCP encodes it in a header: as it is, or as base64 if a header cannot hold it."""
    if name.isascii() and name.isprintable() and name == name.strip() and not name.startswith("=?base64?"):
        return name
    return f"=?base64?{base64.b64encode(name.encode()).decode()}?="
