"""A mock model in the OpenAI dialect (and, by path, in those of `dialects.py`), raw asyncio so that it is cheap.

The path of a request selects the answer, and the number of tool messages in it is the number of the turn:

    /turns-10/v1        ten turns that each call add(a, b), then a text
    /calls-8/v1         eight calls of nap() in one turn, then a text
    /own-50/v1          a text of 50 chunks, each in its own packet: all streams get theirs at the same tick, and ticks
                        are so far apart that a client has handled a chunk before the next one
    /batched-300/v1     a text of 300 chunks, written at once

The server has no state. It prints its port as soon as it listens, and ends when its standard input ends.
`python bench/mock_server.py`
"""

import asyncio
import contextlib
import json
import socket
import sys
from collections.abc import Iterator
from functools import cache

from dialects import Dialect, find_dialect

TICK_S = 0.03
HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
    b"Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n"
)
LAST = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
USAGE = {"prompt_tokens": 120, "completion_tokens": 24, "total_tokens": 144}


def build_packet(**more: object) -> bytes:
    """Return one event, with the fields that providers write around a delta, as one chunk of the HTTP body."""
    body = {"id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1_760_000_000, "model": "bench"}
    line = b"data: " + json.dumps({**body, "system_fingerprint": "fp_bench", **more}).encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(line), line)


def build_delta(finish_reason: str | None = None, **fields: object) -> bytes:
    return build_packet(choices=[{"index": 0, "delta": fields, "logprobs": None, "finish_reason": finish_reason}])


def build_end(finish_reason: str) -> list[bytes]:
    return [build_delta(finish_reason), build_packet(choices=[], usage=USAGE), LAST]


def build_call(index: int, turn: int, name: str, arguments: str) -> list[bytes]:
    """Return the packets of one call: its head, then its arguments in three pieces."""
    head = {"index": index, "id": f"call_{turn}_{index}", "type": "function"}
    third = len(arguments) // 3 + 1
    pieces = [arguments[at : at + third] for at in range(0, len(arguments), third)]
    return [
        build_delta(tool_calls=[{**head, "function": {"name": name, "arguments": ""}}]),
        *(build_delta(tool_calls=[{"index": index, "function": {"arguments": piece}}]) for piece in pieces),
    ]


@cache
def build_add_call(turn: int) -> bytes:
    arguments = json.dumps({"a": turn, "b": turn + 1})
    first = build_delta(role="assistant", content=None)
    return HEAD + b"".join([first, *build_call(0, turn, "add", arguments), *build_end("tool_calls")])


@cache
def build_nap_calls(calls: int) -> bytes:
    calls_of_nap = [piece for index in range(calls) for piece in build_call(index, 0, "nap", json.dumps({"ms": 50}))]
    return HEAD + b"".join([build_delta(role="assistant", content=None), *calls_of_nap, *build_end("tool_calls")])


@cache
def build_text(chunks: int) -> list[bytes]:
    """Return the pieces of an answer whose text has so many chunks."""
    return [
        HEAD + build_delta(role="assistant", content=""),
        *(build_delta(content=f" word{number}") for number in range(chunks)),
        b"".join(build_end("stop")),
    ]


@cache
def build_dialect_reply(dialect: Dialect, kind: str, number: int) -> list[bytes]:
    return [dialect.build_add_call(number)] if kind == "turns" else dialect.build_text(number)


def build_reply(path: str, body: bytes) -> Iterator[bytes]:
    """Yield the packets of an answer."""
    kind, _, count = path.split("/")[1].partition("-")
    if dialect := find_dialect(path):
        results = body.count(dialect.result)
        packets = build_dialect_reply(dialect, "says", 1)
        if kind in ("own", "batched"):
            packets = build_dialect_reply(dialect, "says", int(count))
        elif results < int(count):
            packets = build_dialect_reply(dialect, "turns", results)
        yield from packets if kind == "own" else [b"".join(packets)]
        return
    results = body.count(b'"role":"tool"') + body.count(b'"role": "tool"')
    if kind == "own":
        yield from build_text(int(count))
    elif kind == "turns" and results < int(count):
        yield build_add_call(results)
    elif kind == "calls" and not results:
        yield build_nap_calls(int(count))
    else:
        yield b"".join(build_text(int(count) if kind == "batched" else 1))


class Ticks:
    """A clock tick that all streams wait for together."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    async def wait(self) -> None:
        await self._next.wait()

    async def beat(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self._next.set()
            self._next = asyncio.Event()


async def serve_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ticks: Ticks) -> None:
    """Serve one connection, request after request."""
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            sizes = [int(line[15:]) for line in head if line.lower().startswith("content-length:")]
            body = await reader.readexactly(sizes[0])
            for number, piece in enumerate(build_reply(head[0].split(" ")[1], body)):
                if number:
                    await ticks.wait()
                writer.write(piece)
                await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main() -> None:
    ticks = Ticks()
    server = await asyncio.start_server(lambda r, w: serve_connection(r, w, ticks), "127.0.0.1", 0, limit=1 << 20)
    print(server.sockets[0].getsockname()[1], flush=True)
    asyncio.get_running_loop().add_reader(sys.stdin, sys.exit)  # nothing is written to it: readable only at its end
    await ticks.beat()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt, SystemExit):
        asyncio.run(main())
