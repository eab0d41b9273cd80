"""The server of the tests leaves no connection open, whenever it is stopped."""

import asyncio
import socket
from contextlib import suppress

import pytest

from surfaces.http_server import serve_app


async def answer(_scope: object, _receive: object, _send: object) -> None:
    raise AssertionError("no request is sent")


@pytest.mark.parametrize("steps", range(6))
async def test_a_connection_that_is_accepted_while_the_server_stops_is_closed(steps: int) -> None:
    async with serve_app(answer) as url:
        await asyncio.sleep(0)
        connection = socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1])))
        for _ in range(steps):
            await asyncio.sleep(0)
    with connection:
        connection.setblocking(False)
        with suppress(ConnectionResetError):  # it was never accepted
            assert connection.recv(1) == b""
