"""Before anybody is let in, a request is bounded in bytes and in time, and refused in the shape of every error."""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable

import pytest
import uvicorn

from toolyard import Scripted, Yard
from toolyard.bounded_http import BoundedHttp


class Hasty(BoundedHttp):
    request_s = 0.2


async def answer(url_port: int, *pieces: bytes) -> bytes:
    """Everything that comes back for these bytes, until the server hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", url_port)
    for piece in pieces:
        writer.write(piece)
    await writer.drain()
    told = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    return told


def served(protocol: type[BoundedHttp], test: Callable[[int], Awaitable[None]]) -> None:
    async def run() -> None:
        async with Yard(model=Scripted([])) as yard:
            config = uvicorn.Config(yard.asgi(), http=protocol, lifespan="off", log_config=None, ws="none")
            server = uvicorn.Server(config)
            listening = socket.create_server(("127.0.0.1", 0))
            serving = asyncio.create_task(server.serve(sockets=[listening]))
            try:
                await test(listening.getsockname()[1])
            finally:
                server.should_exit = True
                await serving

    asyncio.run(run())


HEALTHY = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "status", "kind"),
    [
        ((b"GET / HTTP/1.1\r\nX-A: ", *[b"x" * 10_000] * 20), b"431", "too_large"),
        ((b"GET / HTTP/1.1\r\nHost: local",), b"408", "timeout"),
        ((b"",), b"408", "timeout"),
        (
            (b"POST /ai/respond HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
             b"Content-Length: 100\r\n\r\n{",),
            b"408",
            "timeout",
        ),
        ((b"BLAH\x00BLAH\r\n\r\n",), b"400", "invalid_request"),
    ],
)  # fmt: skip
def test_a_request_that_is_too_large_too_slow_or_broken_is_told_so(
    sent: tuple[bytes, ...], status: bytes, kind: str
) -> None:
    async def test(port: int) -> None:
        head, _, body = (await answer(port, *sent)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 " + status) and b"x-correlation-id: trace_" in head
        told = json.loads(body)
        assert told["error_type"] == kind and told["ok"] is False and told["correlation_id"].encode() in head
        assert (await answer(port, HEALTHY)).startswith(b"HTTP/1.1 200")

    served(Hasty, test)


def test_a_request_in_time_is_not_cut_off_while_it_is_answered() -> None:
    async def test(port: int) -> None:
        for _ in range(3):
            assert (await answer(port, HEALTHY)).startswith(b"HTTP/1.1 200")
        pipelined = HEALTHY.replace(b"Connection: close\r\n", b"") * 2 + HEALTHY
        assert (await answer(port, pipelined)).count(b"HTTP/1.1 200") == 3

    served(BoundedHttp, test)
