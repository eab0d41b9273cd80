"""The events of a server's stream are the same, however the network cuts the stream into pieces."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

import aiohttp
import pytest

from tcp_servers import serve_connections
from toolyard.client.http import ServerClient
from toolyard.client.sse import read_events
from toolyard.core.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
STREAM = b': hello\n\nid: 1-2\nevent: entry\ndata: {"a": 1}\n\ndata: {"b":2}\n\n: heartbeat\n\nid:3\ndata:{"c":3}\n\n'
EVENTS = [("1-2", b'{"a": 1}'), ("1-2", b'{"b":2}'), ("3", b'{"c":3}')]


@asynccontextmanager
async def serve_pieces(pieces: Sequence[bytes]) -> "AsyncGenerator[str, None]":
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for piece in (HEAD, *pieces):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)

    async with serve_connections(answer) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("size", [1, 2, 7, len(STREAM)])
async def test_events_arrive_whole_in_pieces_of_any_size(size: int) -> None:
    pieces = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    async with asyncio.timeout(30), serve_pieces(pieces) as url:
        client = ServerClient(url)
        async with aclosing(client.stream_events("GET", "/events")) as stream:
            assert [event async for event in stream] == EVENTS
        await client.close()


async def test_a_line_that_does_not_end_is_not_buffered_without_bound() -> None:
    async with (
        asyncio.timeout(30),
        serve_pieces([b"data: ", *[b"x" * 1_000] * 20]) as url,
        aiohttp.ClientSession() as session,
        session.get(url) as response,
        aclosing(read_events(response.content, max_line_bytes=10_000)) as stream,
    ):
        with pytest.raises(Unavailable, match="more than 10,000 bytes"):
            await anext(stream)
