"""The load of the server bench, in a process of its own: raw connections, and the server's CPU and memory from outside.

A line on standard input names a scenario, one line of JSON on standard output tells what came of it, as the contestants
of the library bench do. A server that leaves out a chunk or a tool call fails: it would win otherwise.
"""

import asyncio
import json
import re
import sys
from contextlib import suppress
from time import clock_gettime, perf_counter

import uvloop

WORD = re.compile(rb" word(\d+)")
ENDED = b"\r\n0\r\n\r\n"
MOST_S = 120.0


class Connection(asyncio.Protocol):
    """One connection that is kept: a request, then the stream that answers it."""

    def __init__(self) -> None:
        self.body = bytearray()
        self.first_at = 0.0
        self.words = 0
        self.mark = b""
        """Ends a stream that has no end of its own."""
        self._over: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.body += data
        if words := data.count(b" word"):
            self.words += words
            self.first_at = self.first_at or perf_counter()
        marked = self.mark and self.mark in self.body[-len(data) - len(self.mark) :]
        if marked or self.body.endswith(ENDED) or not self.body.startswith(b"HTTP/1.1 200"):
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def _end(self) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    def send(self, request: bytes) -> "asyncio.Future[None]":
        self.body.clear()
        self.first_at, self.words = 0.0, 0
        self._over = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._over

    async def ask(self, request: bytes) -> bytes:
        async with asyncio.timeout(MOST_S):
            await self.send(request)
        if not self.body.endswith(ENDED):
            raise AssertionError(f"the answer is {bytes(self.body[:400])!r}")
        return bytes(self.body)

    def close(self) -> None:
        self._transport.abort()


class Order(dict[str, int]):
    """What to do, to which server."""

    def prompt(self) -> str:
        return f"bench {self.get('turns', 0)} {self['chunks']} {self.get('pace_ms', 0)}"

    def request(self) -> bytes:
        if self.get("direct"):
            body: object = {"messages": [{"role": "user", "content": self.prompt()}]}
        else:
            body = {"prompt": self.prompt()}
        return post("/v1/chat/completions" if self.get("direct") else "/ai/respond", body)

    def stream_s(self) -> float:
        return self["chunks"] * self["pace_ms"] / 1000

    def complete(self, body: bytes) -> bool:
        """Every chunk once and in order, and every call."""
        words = [int(found) for found in WORD.findall(body)]
        return words == list(range(self["chunks"])) and body.count(b'"finished"') == self.get("turns", 0)

    def check(self, body: bytes) -> None:
        if not self.complete(body):
            raise AssertionError(f"{self.prompt()!r} got an incomplete answer that ends with {body[-600:]!r}")

    async def connect(self) -> Connection:
        _, made = await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", self["port"])
        return made

    def cpu_s(self) -> float:
        """CPU that the server's process has spent, all threads, to the nanosecond."""
        return clock_gettime((~self["pid"] << 3) | 2)

    def resident_kib(self) -> int:
        with open(f"/proc/{self['pid']}/statm") as statm:
            return int(statm.read().split()[1]) * 4


def post(path: str, body: object) -> bytes:
    text = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n%b" % (len(text), text)


async def loops(order: Order) -> dict[str, float]:
    """CPU of a whole loop, so many of them at a time."""
    left, request = order["loops"], order.request()
    connections = [await order.connect() for _ in range(order["together"])]

    async def work(connection: Connection) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            order.check(await connection.ask(request))

    began, before = perf_counter(), order.cpu_s()
    async with asyncio.TaskGroup() as group:
        for connection in connections:
            group.create_task(work(connection))
    cpu_s, wall_s = order.cpu_s() - before, perf_counter() - began
    for connection in connections:
        connection.close()
    return {"us": cpu_s / order["loops"] * 1e6, "loops_per_s": order["loops"] / wall_s}


async def streams(order: Order) -> dict[str, float]:
    """CPU of a chunk while all streams are open, the memory of a stream, and how many streams missed something."""
    request, count = order.request(), order["streams"]
    connections = [await order.connect() for _ in range(count)]
    resident, overs = order.resident_kib(), list[asyncio.Future[None]]()
    for number, connection in enumerate(connections, 1):
        overs.append(connection.send(request))
        if number % 10 == 0:
            await asyncio.sleep(order["ramp_ms"] / 1000 / count * 10)
    with suppress(TimeoutError):
        async with asyncio.timeout(order.stream_s() / 2):
            while not all(connection.words for connection in connections):  # noqa: ASYNC110 - cheaper than signals
                await asyncio.sleep(0.05)
    began, words, before = perf_counter(), sum(connection.words for connection in connections), order.cpu_s()
    await asyncio.wait(overs, return_when=asyncio.FIRST_COMPLETED)
    chunks = sum(connection.words for connection in connections) - words
    wall_s, cpu_s, resident = perf_counter() - began, order.cpu_s() - before, order.resident_kib() - resident
    await asyncio.wait(overs, timeout=order.stream_s() + 10)
    lost = sum(not order.complete(bytes(connection.body)) for connection in connections)
    for connection in connections:
        connection.close()
    if not chunks:
        raise AssertionError("the first streams ended before the last ones began")
    return {"us": cpu_s / chunks * 1e6, "kib": resident / count, "chunks_per_s": chunks / wall_s, "lost": lost}


async def first(order: Order) -> dict[str, list[float]]:
    """Milliseconds to the first token, in so many streams at a time that begin at different moments."""
    took: list[float] = []
    request, together = order.request(), order["together"]

    async def work(number: int) -> None:
        connection = await order.connect()
        await asyncio.sleep(order.stream_s() * number / together)
        for turn in range(order["each"] + 1):
            began = perf_counter()
            await connection.ask(request)
            if turn:  # the first opens the connections
                took.append((connection.first_at - began) * 1000)
        connection.close()

    async with asyncio.TaskGroup() as group:
        for number in range(together):
            group.create_task(work(number))
    return {"ms": took}


async def converse(order: Order) -> dict[str, object]:
    """A conversation of that many turns; where it ends."""
    connection = await order.connect()
    body = await connection.ask(order.request())
    order.check(body)
    connection.close()
    last = re.findall(rb"id: (\d+)\n", body)[-1]
    [conversation] = set(re.findall(rb'"conversation_id":"(\w+)"', body))
    return {"conversation": conversation.decode(), "entries": int(last)}


async def replay(order: Order) -> dict[str, list[float]]:
    """Milliseconds until a reader that comes back has all that it missed."""
    took: list[float] = []
    path = f"/conversations/{order['conversation']}/events"
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nLast-Event-ID: {order['after']}\r\n\r\n".encode()
    before = order.cpu_s()
    for _ in range(order["times"]):
        connection = await order.connect()
        connection.mark = b"id: %d\n" % order["entries"]
        began = perf_counter()
        async with asyncio.timeout(MOST_S):
            await connection.send(request)
        took.append((perf_counter() - began) * 1000)
        connection.close()
    return {"ms": took, "cpu_ms": [(order.cpu_s() - before) / order["times"] * 1000]}


SCENARIOS = {"loops": loops, "streams": streams, "first": first, "converse": converse, "replay": replay}


def main() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for line in sys.stdin:
            order = Order(json.loads(line))
            try:
                told: object = runner.run(SCENARIOS[str(order["scenario"])](order))
            except Exception as error:
                told = {"error": f"{type(error).__name__}: {getattr(error, 'exceptions', [error])[0]}"}
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
