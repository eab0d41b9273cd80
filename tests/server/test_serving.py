"""The socket that the server listens on."""

import asyncio
import socket

from toolyard.server.serving import open_socket


async def test_what_a_server_writes_is_sent_at_once() -> None:
    """Not held back until the client confirms what came before, which clients delay by 40 ms."""
    is_immediate: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def look_at(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted = writer.get_extra_info("socket")
        is_immediate.set_result(bool(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)))
        writer.close()

    with open_socket("127.0.0.1", 0) as listening:
        async with await asyncio.start_server(look_at, sock=listening):
            _, writer = await asyncio.open_connection(*listening.getsockname())
            assert await is_immediate
            writer.close()
