"""Before anybody is let in, a request is bounded in bytes and in time, and refused in the shape of every error."""

import asyncio
import io
import json
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from pathlib import Path
from typing import cast

import aiohttp
import httpx
import pytest
import uvicorn

from ports import listen
from toolyard import Yard
from toolyard.server.bounded_http import BoundedHttp
from toolyard.testing import Scripted


class ShortTimeoutHttp(BoundedHttp):
    request_s = 0.3


async def send_raw(url_port: int, *pieces: bytes) -> bytes:
    """Everything that comes back for these bytes, until the server hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", url_port)
    for piece in pieces:
        writer.write(piece)
    await writer.drain()
    response = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    return response


async def serve_app(
    app: Callable[..., Awaitable[None]], protocol: type[BoundedHttp], test: Callable[[int], Awaitable[None]]
) -> None:
    config = uvicorn.Config(app, http=protocol, lifespan="off", log_config=None, ws="none")
    server = uvicorn.Server(config)
    listening = listen()
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        await test(listening.getsockname()[1])
    finally:
        server.should_exit = True
        await serving


def run_with_yard(protocol: type[BoundedHttp], test: Callable[[int], Awaitable[None]]) -> None:
    async def run() -> None:
        async with Yard(model=Scripted([])) as yard:
            await serve_app(yard.asgi(), protocol, test)

    asyncio.run(run())


Message = MutableMapping[str, object]


async def count_body(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """Answer with the number of bytes of the body, and with the names of the headers."""
    size, more = 0, True
    while more:
        message = await receive()
        body, more = message.get("body", b""), bool(message.get("more_body"))
        assert isinstance(body, bytes)
        size += len(body)
    headers = cast(list[tuple[bytes, bytes]], scope["headers"])
    names = " ".join(name.decode() for name, _ in headers)
    text = f"<{size} {names}>".encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(text))]})
    await send({"type": "http.response.body", "body": text})


def run_with_body_counter(test: Callable[[int], Awaitable[None]]) -> None:
    asyncio.run(serve_app(count_body, BoundedHttp, test))


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
        head, _, body = (await send_raw(port, *sent)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 " + status) and b"x-correlation-id: trace_" in head
        error_body = json.loads(body)
        assert (
            error_body["error_type"] == kind
            and error_body["ok"] is False
            and error_body["correlation_id"].encode() in head
        )
        assert (await send_raw(port, HEALTHY)).startswith(b"HTTP/1.1 200")

    run_with_yard(ShortTimeoutHttp, test)


def test_a_request_in_time_is_not_cut_off_while_it_is_answered() -> None:
    async def test(port: int) -> None:
        for _ in range(3):
            assert (await send_raw(port, HEALTHY)).startswith(b"HTTP/1.1 200")
        pipelined = HEALTHY.replace(b"Connection: close\r\n", b"") * 2 + HEALTHY
        assert (await send_raw(port, pipelined)).count(b"HTTP/1.1 200") == 3

    run_with_yard(BoundedHttp, test)


BODY_BYTES = 8 * 1024 * 1024
HOST = b"Host: localhost\r\n"


def build_post(body: bytes, *headers: bytes) -> bytes:
    lines = b"".join(header + b"\r\n" for header in headers)
    return b"POST / HTTP/1.1\r\n" + HOST + lines + b"Content-Length: %d\r\n\r\n" % len(body) + body


def build_chunked_post(*pieces: bytes, trailer: bytes = b"") -> bytes:
    body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    head = b"POST / HTTP/1.1\r\n" + HOST + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + body + b"0\r\n" + trailer + b"\r\n"


def split_bytes(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


@pytest.mark.parametrize("size", [70_000, 300_000, BODY_BYTES])
def test_a_large_body_arrives_whole_from_every_client(size: int, tmp_path: Path) -> None:
    body = b"x" * size
    (tmp_path / "body").write_bytes(body)

    async def test(port: int) -> None:
        url = f"http://127.0.0.1:{port}/"
        async with aiohttp.ClientSession() as session:
            for _ in range(3):
                async with session.post(url, data=io.BytesIO(body)) as response:
                    assert (response.status, (await response.text()).split()[0]) == (200, f"<{size}")
        async with httpx.AsyncClient() as client:
            for _ in range(3):
                response = await client.post(url, content=body)
                assert (response.status_code, response.text.split()[0]) == (200, f"<{size}")
        flags = ("-sS", "--max-time", "20", "-H", "Expect:", "--data-binary", f"@{tmp_path / 'body'}")
        process = await asyncio.create_subprocess_exec("curl", *flags, url, stdout=asyncio.subprocess.PIPE)
        assert (await process.communicate())[0].split()[0] == b"<%d" % size
        request = build_post(body, b"Connection: close")
        for pieces in (
            [request],
            split_bytes(request, 1 << 20),
            split_bytes(request, 50_000),
            [request[:40], request[40:]],
        ):
            assert b"<%d " % size in await send_raw(port, *pieces)
        assert b"<%d " % size in await send_raw(port, build_chunked_post(*split_bytes(body, 30_000)))

    run_with_body_counter(test)


def test_large_bodies_on_one_connection_one_behind_another_are_all_taken() -> None:
    async def test(port: int) -> None:
        body = b"x" * 300_000
        response = await send_raw(port, build_post(body) * 3 + build_post(body, b"Connection: close"))
        assert response.count(b"HTTP/1.1 200") == 4 and response.count(b"<300000 ") == 4

    run_with_body_counter(test)


LARGE_HEADER = b"X-Large: " + b"x" * 100_000
PADDED_HEADER = b"X-Padded:" + b" " * 100_000 + b"x"


@pytest.mark.parametrize("pieces_of", [1 << 20, 70_000, 10_000])
@pytest.mark.parametrize(
    "sent",
    [
        build_post(b"{}", LARGE_HEADER),
        build_post(b"{}", PADDED_HEADER),
        build_post(b"{}", *[b"X-Many: " + b"x" * 1000] * 70),
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
        build_post(b"x" * 300_000, LARGE_HEADER),
        build_chunked_post(b"x", trailer=LARGE_HEADER + b"\r\n"),
        build_chunked_post(b"x" * 200_000, trailer=(b"X-Many: " + b"x" * 1000 + b"\r\n") * 70),
    ],
    ids=["one header", "padding", "many headers", "address", "with a body", "trailer", "many trailers"],
)
def test_a_head_or_trailer_that_is_too_large_is_refused_however_it_arrives(sent: bytes, pieces_of: int) -> None:
    async def test(port: int) -> None:
        assert (await send_raw(port, *split_bytes(sent, pieces_of))).startswith(b"HTTP/1.1 431")

    run_with_body_counter(test)


@pytest.mark.parametrize(
    "first", [build_post(b""), build_post(b"x" * 10), build_post(b"x" * 200_000)], ids=["none", "small", "large"]
)
def test_a_large_head_behind_another_request_is_refused_after_that_one_is_answered(first: bytes) -> None:
    async def test(port: int) -> None:
        response = await send_raw(port, first + build_post(b"", LARGE_HEADER))
        assert response.startswith(b"HTTP/1.1 200") and response.count(b"HTTP/1.1 431") == 1

    run_with_body_counter(test)


def test_a_head_just_below_the_limit_is_taken_and_a_trailer_is_not_taken_for_a_header() -> None:
    async def test(port: int) -> None:
        below = build_post(b"x" * 100_000, b"Connection: close", b"X-Large: " + b"x" * 65_000)
        for size in (1 << 20, 33_000, 7):
            assert b"<100000 " in await send_raw(port, *split_bytes(below, size))
        with_trailer = await send_raw(port, build_chunked_post(b"abc", trailer=b"X-User: eve\r\n"))
        assert b"<3 " in with_trailer and b"x-user" not in with_trailer

    run_with_body_counter(test)
