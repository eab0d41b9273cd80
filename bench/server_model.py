"""The mock model of the server bench: the prompt selects the answer, and each stream has its own pace.

`bench 10 20 50` in the last message of the user means ten turns that each call add(a, b), then a text of 20 chunks:
the first at once, the others 50 ms apart, each in its own packet. The server prints its port as soon as it listens,
and ends when its standard input ends. `python bench/server_model.py`
"""

import asyncio
import contextlib
import re
import socket
import sys

import uvloop

from mock_server import HEAD, build_add_call, build_delta, build_end, build_text

ANSWER_FORM = re.compile(rb"bench (\d+) (\d+) (\d+)")


async def write_answer(writer: asyncio.StreamWriter, body: bytes) -> None:
    message_at = body.rfind(b'"user"')
    turns, chunks, pace_ms = (int(number) for number in ANSWER_FORM.findall(body, message_at)[-1])
    results = len(re.findall(rb'"role": ?"tool"', body[message_at:]))
    if results < turns:
        writer.write(build_add_call(results))
        return
    writer.write(HEAD + build_delta(role="assistant", content="") + build_text(chunks)[1])
    for piece in build_text(chunks)[2:-1]:
        await asyncio.sleep(pace_ms / 1000)
        writer.write(piece)
    writer.write(b"".join(build_end("stop")))


async def serve_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one connection, request after request."""
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            sizes = [int(line[15:]) for line in head if line.lower().startswith("content-length:")]
            body = await (reader.readexactly(sizes[0]) if sizes else read_chunked_body(reader))
            await write_answer(writer, body)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError, RuntimeError):  # RuntimeError: uvloop, after a close
        writer.close()


async def read_chunked_body(reader: asyncio.StreamReader) -> bytes:
    """Read a chunked body: clients send long bodies like this."""
    body = bytearray()
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return bytes(body)


async def main() -> None:
    server = await asyncio.start_server(serve_connection, "127.0.0.1", 0, limit=1 << 20, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    asyncio.get_running_loop().add_reader(sys.stdin, sys.exit)  # nothing is written to it: readable only at its end
    await server.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt, SystemExit):
        uvloop.run(main())
