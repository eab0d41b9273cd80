"""The servers of the tests leave no connection open, whenever they are stopped."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import pytest
from aiohttp import web

from client.faults import FaultProxy
from crash.tcp_proxy import TcpProxy
from surfaces.http_server import serve_app
from tcp_servers import serve_connections, serve_web_app


async def refuse_request(_scope: object, _receive: object, _send: object) -> None:
    raise AssertionError("no request is sent")


async def read_all(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


@asynccontextmanager
async def serve_app_with_uvicorn() -> AsyncGenerator[int]:
    async with serve_app(refuse_request) as url:
        yield find_port(url)


@asynccontextmanager
async def serve_app_with_aiohttp() -> AsyncGenerator[int]:
    async with serve_web_app(web.Application()) as url:
        yield find_port(url)


@asynccontextmanager
async def serve_fault_proxy() -> AsyncGenerator[int]:
    async with serve_connections(read_all) as target, FaultProxy().serve_before(f"http://127.0.0.1:{target}") as url:
        yield find_port(url)


@asynccontextmanager
async def serve_tcp_proxy() -> AsyncGenerator[int]:
    async with serve_connections(read_all) as target:
        proxy = TcpProxy(target)
        await proxy.open()
        yield proxy.port
        await proxy.close()


def find_port(url: str) -> int:
    return int(url.rsplit(":", 1)[1])


@pytest.mark.parametrize("steps", range(6))
@pytest.mark.parametrize(
    "serve",
    [
        serve_app_with_uvicorn,
        serve_app_with_aiohttp,
        lambda: serve_connections(read_all),
        serve_fault_proxy,
        serve_tcp_proxy,
    ],
    ids=["uvicorn", "aiohttp", "connections", "fault proxy", "TCP proxy"],
)
async def test_a_connection_that_is_accepted_while_the_server_stops_is_closed(
    serve: Callable[[], AbstractAsyncContextManager[int]], steps: int
) -> None:
    async with serve() as port:
        await asyncio.sleep(0)
        connection = socket.create_connection(("127.0.0.1", port))
        for _ in range(steps):
            await asyncio.sleep(0)
    with connection:
        connection.setblocking(False)
        with suppress(ConnectionResetError):  # it was never accepted, or is closed at once
            assert connection.recv(1) == b""


async def test_a_handler_that_fails_fails_the_test() -> None:
    async def fail(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        raise LookupError("not as expected")

    with pytest.raises(LookupError, match="not as expected"):
        async with serve_connections(fail) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            assert await reader.read() == b""
            writer.close()
