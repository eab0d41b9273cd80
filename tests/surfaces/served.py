"""A yard behind a real socket, and a client that reads its streams."""

import asyncio
import io
import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import aiohttp
import uvicorn

from toolyard import Yard

RECEIVED_BYTES = 65_536


@asynccontextmanager
async def served(yard: Yard) -> AsyncGenerator[str, None]:
    """The address of an open yard."""
    async with serving(yard.asgi()) as url:
        yield url


@asynccontextmanager
async def serving(app: Callable[..., Awaitable[None]]) -> AsyncGenerator[str, None]:
    """The address of an application, served by uvicorn on a free port."""
    config = uvicorn.Config(app, port=0, lifespan="off", log_level="error", timeout_graceful_shutdown=2)
    server = uvicorn.Server(config)
    listening = socket.create_server(("127.0.0.1", 0))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving


class Client:
    """Requests to one address with the same headers each."""

    def __init__(self, session: aiohttp.ClientSession, url: str, headers: Mapping[str, str]) -> None:
        self._session = session
        self.url = url
        self.headers = dict(headers)

    async def ask(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> tuple[int, dict[str, object], dict[str, str]]:
        """The status, the JSON body and the headers of an answer; no body of a stream. Bytes are sent as they are."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        data = io.BytesIO(body) if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        kind = {"content-type": "application/json"} if data is not None else {}
        async with self._session.request(
            method, self.url + path, data=data, headers={**self.headers, **kind, **sent}
        ) as answer:
            text = await answer.text()
            told = {name.lower(): value for name, value in answer.headers.items()}
            return answer.status, json.loads(text) if text and "json" in answer.content_type else {}, told

    async def text(self, path: str) -> str:
        async with self._session.get(self.url + path, headers=self.headers) as answer:
            return await answer.text()

    async def stream(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> AsyncGenerator[tuple[str, dict[str, object]], None]:
        """The events of a stream: the last id seen and the object."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self._session.request(
            method, self.url + path, json=body, headers={**self.headers, "accept": "text/event-stream", **sent}
        ) as answer:
            assert answer.status == 200, await answer.text()
            assert answer.content_type == "text/event-stream"
            last, rest = "", b""
            async for piece in answer.content.iter_any():  # a line may be longer than aiohttp's own reader takes
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    if line.startswith(b"id: "):
                        last = line[4:].decode()
                    elif line.startswith(b"data: "):
                        yield last, json.loads(line[6:])


def _bounded(address: tuple[int, int, int, str, object]) -> socket.socket:
    """A client whose machine takes little for it: what it does not read stays with the server."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED_BYTES)
    return made


@asynccontextmanager
async def client(yard: Yard, **headers: str) -> AsyncGenerator[Client, None]:
    """A client of an open yard."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    bounded = aiohttp.TCPConnector(socket_factory=_bounded)
    async with served(yard) as url, aiohttp.ClientSession(connector=bounded) as session:
        yield Client(session, url, named)
