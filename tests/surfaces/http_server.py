"""Serve a yard or an ASGI application on a socket, and read its streams with a client."""

import asyncio
import io
import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import aiohttp
import uvicorn

from ports import listen
from tcp_servers import stop_accepting
from toolyard import Yard

RECEIVED_BYTES = 65_536


@asynccontextmanager
async def serve_yard(yard: Yard) -> AsyncGenerator[str, None]:
    """Serve an open yard, and yield its address."""
    async with serve_app(yard.asgi()) as url:
        yield url


@asynccontextmanager
async def serve_app(
    app: Callable[..., Awaitable[None]], config: uvicorn.Config | None = None
) -> AsyncGenerator[str, None]:
    """Serve an application with uvicorn on a free port, and yield its address."""
    plain = uvicorn.Config(
        app, port=0, lifespan="off", log_level="error", timeout_graceful_shutdown=2, ws="websockets-sansio"
    )
    server = PromptServer(config or plain)
    listening = listen()
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.stop()
        await task


class PromptServer(uvicorn.Server):
    """uvicorn without its pauses: its own loop looks ten times a second whether to stop, and then waits once more."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        self.should_exit = True
        self._stopped.set()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self._stopped.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await stop_accepting(sockets or ())
        for listener in (*self.servers, *(sockets or ())):
            listener.close()
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                while state.connections or state.tasks:  # noqa: ASYNC110 - uvicorn tells nobody
                    await asyncio.sleep(0.001)
        except TimeoutError:
            for request in state.tasks:
                request.cancel()
            for connection in state.connections:
                connection.transport.abort()
        await self.lifespan.shutdown()


class SocketClient:
    """A client that sends the same headers with each request to one address."""

    def __init__(self, session: aiohttp.ClientSession, url: str, headers: Mapping[str, str]) -> None:
        self.session = session
        self.url = url
        self.headers = dict(headers)

    async def ask(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> tuple[int, dict[str, object], dict[str, str]]:
        """Return the status, the JSON body and the headers of a response. A body of bytes is sent unchanged."""
        more_headers = {name.replace("_", "-"): value for name, value in headers.items()}
        data = io.BytesIO(body) if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        content_type = {"content-type": "application/json"} if data is not None else {}
        async with self.session.request(
            method, self.url + path, data=data, headers={**self.headers, **content_type, **more_headers}
        ) as response:
            text = await response.text()
            response_headers = {name.lower(): value for name, value in response.headers.items()}
            decoded: dict[str, object] = json.loads(text) if text and "json" in response.content_type else {}
            return response.status, decoded, response_headers

    async def get_text(self, path: str) -> str:
        async with self.session.get(self.url + path, headers=self.headers) as response:
            return await response.text()

    async def stream(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> AsyncGenerator[tuple[str, dict[str, object]], None]:
        """Yield the events of a stream: the last id so far, and the decoded data."""
        more_headers = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.request(
            method, self.url + path, json=body, headers={**self.headers, "accept": "text/event-stream", **more_headers}
        ) as response:
            assert response.status == 200, await response.text()
            assert response.content_type == "text/event-stream"
            last_id, unfinished = "", bytearray()
            async for piece in response.content.iter_any():  # aiohttp's own line reader refuses long lines
                unfinished += piece
                if b"\n" not in piece:
                    continue
                *lines, unfinished = unfinished.split(b"\n")
                for line in lines:
                    if line.startswith(b"id: "):
                        last_id = line[4:].decode()
                    elif line.startswith(b"data: "):
                        yield last_id, json.loads(line[6:])


def _create_bounded_socket(address: tuple[int, int, int, str, object]) -> socket.socket:
    """Return a socket with a small receive buffer: data that the client does not read stays with the server."""
    family, kind, protocol, *_ = address
    bounded_socket = socket.socket(family, kind, protocol)
    bounded_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED_BYTES)
    return bounded_socket


@asynccontextmanager
async def connect_client(yard: Yard, **headers: str) -> AsyncGenerator[SocketClient, None]:
    """Serve an open yard, and open a client of it that sends these headers."""
    header_fields = {name.replace("_", "-"): value for name, value in headers.items()}
    connector = aiohttp.TCPConnector(socket_factory=_create_bounded_socket)
    async with serve_yard(yard) as url, aiohttp.ClientSession(connector=connector) as session:
        yield SocketClient(session, url, header_fields)
