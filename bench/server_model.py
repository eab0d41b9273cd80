"""The mock model of the server bench: it answers as the prompt says, and paces every stream by itself.

`bench 10 20 50` in the last message of the user means ten turns that each ask for add(a, b), then a text of 20 chunks:
the first at once, the others 50 ms after one another, each in a packet of its own. It prints its port as soon as it
listens, and ends when its standard input does. `python bench/server_model.py`
"""

import asyncio
import contextlib
import re
import socket
import sys

import uvloop

from mock_server import HEAD, asks_to_add, delta, end, says

WISH = re.compile(rb"bench (\d+) (\d+) (\d+)")


async def answer(writer: asyncio.StreamWriter, body: bytes) -> None:
    asked_at = body.rfind(b'"user"')
    turns, chunks, pace_ms = (int(number) for number in WISH.findall(body, asked_at)[-1])
    results = len(re.findall(rb'"role": ?"tool"', body[asked_at:]))
    if results < turns:
        writer.write(asks_to_add(results))
        return
    writer.write(HEAD + delta(role="assistant", content="") + says(chunks)[1])
    for piece in says(chunks)[2:-1]:
        await asyncio.sleep(pace_ms / 1000)
        writer.write(piece)
    writer.write(b"".join(end("stop")))


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection, request after request."""
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            sizes = [int(line[15:]) for line in head if line.lower().startswith("content-length:")]
            body = await (reader.readexactly(sizes[0]) if sizes else in_chunks(reader))
            await answer(writer, body)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError, RuntimeError):  # uvloop's word for a connection that is gone
        writer.close()


async def in_chunks(reader: asyncio.StreamReader) -> bytes:
    """A body that was sent piece by piece, as very long ones are."""
    body = bytearray()
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return bytes(body)


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 20, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    asyncio.get_running_loop().add_reader(sys.stdin, sys.exit)  # nothing is written to it: it can only have ended
    await server.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt, SystemExit):
        uvloop.run(main())
