"""A mock model in the OpenAI dialect (and, by path, in those of `dialects.py`), raw asyncio so that it is cheap.

The path says how it answers, and how many tool messages a request carries says which turn it is:

    /turns-10/v1        ten turns that each ask for add(a, b), then a text
    /calls-8/v1         eight calls of nap() in one turn, then a text
    /own-50/v1          a text of 50 chunks, each in a packet of its own: all streams get theirs at one tick, and the
                        next tick comes when a client has long dealt with it
    /batched-300/v1     the chunks written at once

It keeps nothing between requests. It prints its port as soon as it listens, and ends when its standard input does.
`python bench/mock_server.py`
"""

import asyncio
import contextlib
import json
import socket
import sys
from collections.abc import Iterator
from functools import cache

from dialects import Dialect, dialect_of

TICK_S = 0.03
HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
    b"Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n"
)
LAST = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
USAGE = {"prompt_tokens": 120, "completion_tokens": 24, "total_tokens": 144}


def packet(**more: object) -> bytes:
    """One event, with all that providers write around a delta, as one chunk of the HTTP body."""
    body = {"id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1_760_000_000, "model": "bench"}
    line = b"data: " + json.dumps({**body, "system_fingerprint": "fp_bench", **more}).encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(line), line)


def delta(finish_reason: str | None = None, **said: object) -> bytes:
    return packet(choices=[{"index": 0, "delta": said, "logprobs": None, "finish_reason": finish_reason}])


def end(finish_reason: str) -> list[bytes]:
    return [delta(finish_reason), packet(choices=[], usage=USAGE), LAST]


def call(index: int, turn: int, name: str, arguments: str) -> list[bytes]:
    """One call: its head, then its arguments in three pieces."""
    head = {"index": index, "id": f"call_{turn}_{index}", "type": "function"}
    third = len(arguments) // 3 + 1
    pieces = [arguments[at : at + third] for at in range(0, len(arguments), third)]
    return [
        delta(tool_calls=[{**head, "function": {"name": name, "arguments": ""}}]),
        *(delta(tool_calls=[{"index": index, "function": {"arguments": piece}}]) for piece in pieces),
    ]


@cache
def asks_to_add(turn: int) -> bytes:
    arguments = json.dumps({"a": turn, "b": turn + 1})
    first = delta(role="assistant", content=None)
    return HEAD + b"".join([first, *call(0, turn, "add", arguments), *end("tool_calls")])


@cache
def asks_to_nap(calls: int) -> bytes:
    several = [piece for index in range(calls) for piece in call(index, 0, "nap", json.dumps({"ms": 50}))]
    return HEAD + b"".join([delta(role="assistant", content=None), *several, *end("tool_calls")])


@cache
def says(chunks: int) -> list[bytes]:
    """The pieces of a text; `chunks` counts the text alone."""
    return [
        HEAD + delta(role="assistant", content=""),
        *(delta(content=f" word{number}") for number in range(chunks)),
        b"".join(end("stop")),
    ]


@cache
def other(dialect: Dialect, kind: str, number: int) -> list[bytes]:
    return [dialect.asks_to_add(number)] if kind == "turns" else dialect.says(number)


def reply(path: str, body: bytes) -> Iterator[bytes]:
    """The packets of an answer."""
    kind, _, count = path.split("/")[1].partition("-")
    if dialect := dialect_of(path):
        results = body.count(dialect.result)
        packets = other(dialect, "says", 1)
        if kind in ("own", "batched"):
            packets = other(dialect, "says", int(count))
        elif results < int(count):
            packets = other(dialect, "turns", results)
        yield from packets if kind == "own" else [b"".join(packets)]
        return
    results = body.count(b'"role":"tool"') + body.count(b'"role": "tool"')
    if kind == "own":
        yield from says(int(count))
    elif kind == "turns" and results < int(count):
        yield asks_to_add(results)
    elif kind == "calls" and not results:
        yield asks_to_nap(int(count))
    else:
        yield b"".join(says(int(count) if kind == "batched" else 1))


class Ticks:
    """A beat that all streams wait for together."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    async def wait(self) -> None:
        await self._next.wait()

    async def beat(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self._next.set()
            self._next = asyncio.Event()


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ticks: Ticks) -> None:
    """One connection, request after request."""
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            sizes = [int(line[15:]) for line in head if line.lower().startswith("content-length:")]
            body = await reader.readexactly(sizes[0])
            for number, piece in enumerate(reply(head[0].split(" ")[1], body)):
                if number:
                    await ticks.wait()
                writer.write(piece)
                await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main() -> None:
    ticks = Ticks()
    server = await asyncio.start_server(lambda r, w: serve(r, w, ticks), "127.0.0.1", 0, limit=1 << 20)
    print(server.sockets[0].getsockname()[1], flush=True)
    asyncio.get_running_loop().add_reader(sys.stdin, sys.exit)  # nothing is written to it: it can only have ended
    await ticks.beat()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt, SystemExit):
        asyncio.run(main())
