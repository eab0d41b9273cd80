"""A client that calls the ASGI application in this process, without a socket, with the methods of `SocketClient`."""

import asyncio
import json
from collections.abc import AsyncGenerator, MutableMapping
from contextlib import asynccontextmanager
from urllib.parse import unquote

from toolyard import Yard
from toolyard.hosting import AsgiApp

Message = MutableMapping[str, object]


class InProcessExchange:
    """One request and its response."""

    def __init__(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        raw_path, _, query = path.partition("?")
        self.scope: Message = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(raw_path),
            "raw_path": raw_path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        self._body: bytes | None = body
        self.disconnected = asyncio.Event()
        self.messages: asyncio.Queue[Message] = asyncio.Queue()

    async def receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self.disconnected.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.messages.put_nowait(message)

    async def read_start(self) -> tuple[int, dict[str, str]]:
        message = await self.messages.get()
        assert message["type"] == "http.response.start", message
        pairs: list[tuple[bytes, bytes]] = message["headers"]  # pyright: ignore[reportAssignmentType]
        status = message["status"]
        assert isinstance(status, int)
        return status, {name.decode().lower(): value.decode() for name, value in pairs}

    async def iter_body(self) -> AsyncGenerator[bytes, None]:
        while True:
            message = await self.messages.get()
            body = message.get("body", b"")
            assert isinstance(body, bytes)
            yield body
            if not message.get("more_body"):
                return


class InProcessClient:
    def __init__(self, app: AsgiApp, headers: dict[str, str]) -> None:
        self._app = app
        self.headers = {"host": "127.0.0.1", **headers}

    async def ask(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> tuple[int, dict[str, object], dict[str, str]]:
        async with self._exchange(method, path, body, headers) as exchange:
            status, response_headers = await exchange.read_start()
            text = b"".join([piece async for piece in exchange.iter_body()])
            return status, json.loads(text) if text else {}, response_headers

    async def stream(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> AsyncGenerator[tuple[str, dict[str, object]], None]:
        """Yield the events of a stream. Closing the generator disconnects the client."""
        async with self._exchange(method, path, body, {"accept": "text/event-stream", **headers}) as exchange:
            status, response_headers = await exchange.read_start()
            assert (status, response_headers["content-type"].partition(";")[0]) == (200, "text/event-stream")
            last_id, unfinished = "", b""
            async for piece in exchange.iter_body():
                *lines, unfinished = (unfinished + piece).split(b"\n")
                for line in lines:
                    if line.startswith(b"id: "):
                        last_id = line[4:].decode()
                    elif line.startswith(b"data: "):
                        yield last_id, json.loads(line[6:])

    async def stream_data(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> AsyncGenerator[str, None]:
        """Yield the data of each event of a stream. Closing the generator disconnects the client."""
        async with self._exchange(method, path, body, headers) as exchange:
            status, response_headers = await exchange.read_start()
            assert (status, response_headers["content-type"].partition(";")[0]) == (200, "text/event-stream")
            unfinished = b""
            async for piece in exchange.iter_body():
                *lines, unfinished = (unfinished + piece).split(b"\n")
                for line in lines:
                    if line.startswith(b"data: "):
                        yield line[6:].decode()

    @asynccontextmanager
    async def _exchange(
        self, method: str, path: str, body: object, headers: dict[str, str]
    ) -> AsyncGenerator[InProcessExchange, None]:
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        all_headers = {**self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if data:
            all_headers |= {"content-type": "application/json", "content-length": str(len(data))}
        exchange = InProcessExchange(method, path, all_headers, data)
        task = asyncio.ensure_future(self._app(exchange.scope, exchange.receive, exchange.send))
        try:
            yield exchange
        finally:
            exchange.disconnected.set()
            await task


@asynccontextmanager
async def open_in_process_client(yard: Yard, **headers: str) -> AsyncGenerator[InProcessClient, None]:
    """Open a client of an open yard that sends these headers."""
    yield InProcessClient(yard.asgi(), {name.replace("_", "-"): value for name, value in headers.items()})
