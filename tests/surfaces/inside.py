"""A client that calls the ASGI application in this process, without a socket. It asks as `served.Client` does."""

import asyncio
import json
from collections.abc import AsyncGenerator, MutableMapping
from contextlib import asynccontextmanager
from urllib.parse import unquote

from toolyard import Yard
from toolyard.app import AsgiApp

Message = MutableMapping[str, object]


class Exchange:
    """One request on its way."""

    def __init__(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        raw, _, query = path.partition("?")
        self.scope: Message = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(raw),
            "raw_path": raw.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        self._body: bytes | None = body
        self.gone = asyncio.Event()
        self.said: asyncio.Queue[Message] = asyncio.Queue()

    async def receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.said.put_nowait(message)

    async def begin(self) -> tuple[int, dict[str, str]]:
        message = await self.said.get()
        assert message["type"] == "http.response.start", message
        pairs: list[tuple[bytes, bytes]] = message["headers"]  # pyright: ignore[reportAssignmentType]
        status = message["status"]
        assert isinstance(status, int)
        return status, {name.decode().lower(): value.decode() for name, value in pairs}

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        while True:
            message = await self.said.get()
            body = message.get("body", b"")
            assert isinstance(body, bytes)
            yield body
            if not message.get("more_body"):
                return


class Inside:
    def __init__(self, app: AsgiApp, headers: dict[str, str]) -> None:
        self._app = app
        self.headers = {"host": "127.0.0.1", **headers}

    async def ask(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> tuple[int, dict[str, object], dict[str, str]]:
        async with self._exchange(method, path, body, headers) as exchange:
            status, told = await exchange.begin()
            text = b"".join([piece async for piece in exchange.pieces()])
            return status, json.loads(text) if text else {}, told

    async def stream(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> AsyncGenerator[tuple[str, dict[str, object]], None]:
        """Leaving it is a disconnect."""
        async with self._exchange(method, path, body, {"accept": "text/event-stream", **headers}) as exchange:
            status, told = await exchange.begin()
            assert (status, told["content-type"].partition(";")[0]) == (200, "text/event-stream")
            last, rest = "", b""
            async for piece in exchange.pieces():
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    if line.startswith(b"id: "):
                        last = line[4:].decode()
                    elif line.startswith(b"data: "):
                        yield last, json.loads(line[6:])

    @asynccontextmanager
    async def _exchange(
        self, method: str, path: str, body: object, headers: dict[str, str]
    ) -> AsyncGenerator[Exchange, None]:
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        sent = {**self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if data:
            sent |= {"content-type": "application/json", "content-length": str(len(data))}
        exchange = Exchange(method, path, sent, data)
        serving = asyncio.ensure_future(self._app(exchange.scope, exchange.receive, exchange.send))
        try:
            yield exchange
        finally:
            exchange.gone.set()
            await serving


@asynccontextmanager
async def inside(yard: Yard, **headers: str) -> AsyncGenerator[Inside, None]:
    """A client of an open yard."""
    yield Inside(yard.asgi(), {name.replace("_", "-"): value for name, value in headers.items()})
