"""The load generator of the server bench, in its own process. It reads the server's CPU and memory from outside.

A line on standard input names a scenario, and one line of JSON on standard output is its result, as with the
contestants of the library bench. A server that leaves out a chunk or a tool call fails: it would be faster otherwise.
"""

import asyncio
import json
import re
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from time import clock_gettime, perf_counter
from typing import Any
from uuid import uuid4

import uvloop

WORD = re.compile(rb" word(\d+)")
ENDED = b"\r\n0\r\n\r\n"
MAX_S = 120.0


class Connection(asyncio.Protocol):
    """One kept-alive connection: a request, then the stream that answers it."""

    def __init__(self) -> None:
        self.body = bytearray()
        self.first_at = 0.0
        self.words = 0
        self.mark = b""
        """The bytes after which a stream without an end counts as complete."""
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
            self.end()

    def connection_lost(self, exc: Exception | None) -> None:
        self.end()

    def end(self) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    def send(self, request: bytes) -> "asyncio.Future[None]":
        self.body.clear()
        self.first_at, self.words = 0.0, 0
        self._over = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._over

    async def ask(self, request: bytes) -> bytes:
        async with asyncio.timeout(MAX_S):
            await self.send(request)
        if not self.body.endswith(ENDED):
            raise AssertionError(f"the answer is {bytes(self.body[:400])!r}")
        return bytes(self.body)

    def close(self) -> None:
        self._transport.abort()


class Order(dict[str, Any]):
    """A scenario's parameters, and the server to load."""

    @property
    def path(self) -> str:
        return self.get("path", "/ai/respond")

    def build_prompt(self) -> str:
        return f"bench {self.get('turns', 0)} {self['chunks']} {self.get('pace_ms', 0)}"

    def build_request(self, number: int = 0) -> bytes:
        """Return a request. Those with different numbers are not sendings of the same one."""
        prompt = f"{self.build_prompt()} #{number:012}"
        bodies: dict[str, object] = {
            "/ai/respond": {"prompt": prompt, **self.get("more", {})},
            "/v1/chat/completions": {
                "model": self.get("model", "default"),
                "stream": True,
                "messages": [*self.get("documents", []), {"role": "user", "content": prompt}],
                **({"tools": self["tools"]} if "tools" in self else {}),
            },
            "/v1/responses": {"model": "default", "stream": True, "store": False, "input": prompt},
            "/ai-sdk/chat": {
                "id": f"thread-{uuid4().hex}",
                "messages": [{"id": "message-1", "role": "user", "parts": [{"type": "text", "text": prompt}]}],
            },
            "/ag-ui": {
                "threadId": f"thread-{uuid4().hex}",
                "runId": "run-1",
                "protocolVersion": "1.0",
                "messages": [{"id": "message-1", "role": "user", "content": prompt}],
            },
        }
        return encode_post(self.path, bodies[self.path])

    def compute_stream_s(self) -> float:
        return self["chunks"] * self["pace_ms"] / 1000

    def is_complete(self, body: bytes) -> bool:
        """Return whether a body has every chunk once and in order, and every call.

        Not every door shows calls in this form, but the model begins its text only after the result of the last one.
        """
        deltas = body.partition(b"event: response.output_text.done")[0]
        words = [int(number) for number in WORD.findall(deltas)]
        shows_calls = self.path == "/ai/respond"
        calls_are_complete = not shows_calls or body.count(b'"finished"') == self.get("turns", 0)
        return words == list(range(self["chunks"])) and calls_are_complete

    def check(self, body: bytes) -> None:
        if not self.is_complete(body):
            raise AssertionError(f"{self.build_prompt()!r} got an incomplete answer that ends with {body[-600:]!r}")

    async def connect(self) -> Connection:
        _, connection = await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", self["port"])
        return connection

    def read_cpu_s(self) -> float:
        """Return the CPU time that all threads of the server's process have used, to the nanosecond."""
        # Linux: the id of a process's CPU clock, as clock_getcpuclockid(3) computes it.
        return clock_gettime((~self["pid"] << 3) | 2)

    def read_resident_kib(self) -> int:
        with open(f"/proc/{self['pid']}/statm") as statm:
            return int(statm.read().split()[1]) * 4


def encode_post(path: str, body: object) -> bytes:
    text = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n%b" % (len(text), text)


async def measure_loops(order: Order) -> dict[str, float]:
    """Measure the CPU of a whole loop, with several at a time."""
    remaining = order["loops"]
    connections = [await order.connect() for _ in range(order["together"])]

    async def work(connection: Connection) -> None:
        nonlocal remaining
        while remaining > 0:
            remaining -= 1
            order.check(await connection.ask(order.build_request(remaining)))

    started, cpu_before_s = perf_counter(), order.read_cpu_s()
    async with asyncio.TaskGroup() as group:
        for connection in connections:
            group.create_task(work(connection))
    cpu_s, wall_s = order.read_cpu_s() - cpu_before_s, perf_counter() - started
    for connection in connections:
        connection.close()
    return {"us": cpu_s / order["loops"] * 1e6, "loops_per_s": order["loops"] / wall_s}


async def measure_streams(order: Order) -> dict[str, float]:
    """Measure the CPU of a chunk while all streams are open, the memory of a stream, and the incomplete streams."""
    count = order["streams"]
    connections = [await order.connect() for _ in range(count)]
    resident_before_kib, ends = order.read_resident_kib(), list[asyncio.Future[None]]()
    for number, connection in enumerate(connections, 1):
        ends.append(connection.send(order.build_request(number)))
        if number % 10 == 0:
            await asyncio.sleep(order["ramp_ms"] / 1000 / count * 10)
    with suppress(TimeoutError):
        async with asyncio.timeout(order.compute_stream_s() / 2):
            while not all(connection.words for connection in connections):  # noqa: ASYNC110 - cheaper than signals
                await asyncio.sleep(0.05)
    # From here until the first stream ends, all streams are open.
    words_before = sum(connection.words for connection in connections)
    started, cpu_before_s = perf_counter(), order.read_cpu_s()
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    chunks = sum(connection.words for connection in connections) - words_before
    wall_s, cpu_s = perf_counter() - started, order.read_cpu_s() - cpu_before_s
    grown_kib = order.read_resident_kib() - resident_before_kib
    await asyncio.wait(ends, timeout=order.compute_stream_s() + 10)
    lost = sum(not order.is_complete(bytes(connection.body)) for connection in connections)
    for connection in connections:
        connection.close()
    if not chunks:
        raise AssertionError("the first streams ended before the last ones began")
    return {"us": cpu_s / chunks * 1e6, "kib": grown_kib / count, "chunks_per_s": chunks / wall_s, "lost": lost}


async def measure_first_tokens(order: Order) -> dict[str, list[float]]:
    """Measure the milliseconds to the first token, in several streams that begin at different moments."""
    took: list[float] = []
    request, together = order.build_request(), order["together"]

    async def work(number: int) -> None:
        connection = await order.connect()
        await asyncio.sleep(order.compute_stream_s() * number / together)
        for turn in range(order["each"] + 1):
            started = perf_counter()
            await connection.ask(request)
            if turn:  # in the first turn, the server opens its connections to the model
                took.append((connection.first_at - started) * 1000)
        connection.close()

    async with asyncio.TaskGroup() as group:
        for number in range(together):
            group.create_task(work(number))
    return {"ms": took}


async def converse(order: Order) -> dict[str, object]:
    """Run a conversation of some runs, one unless `runs` says more, and return its id and the number of its entries."""
    connection = await order.connect()
    for number in range(order.get("runs", 1)):
        body = await connection.ask(order.build_request(number))
        order.check(body)
        [conversation] = set(re.findall(rb'"conversation_id":"(\w+)"', body))
        order["more"] = {"conversation_id": conversation.decode()}
    connection.close()
    last = re.findall(rb"id: (\d+)\n", body)[-1]
    return {"conversation": conversation.decode(), "entries": int(last)}


async def measure_replay(order: Order) -> dict[str, list[float]]:
    """Measure the milliseconds until a reader that reconnects has received all that it missed."""
    took: list[float] = []
    path = f"/conversations/{order['conversation']}/events"
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nLast-Event-ID: {order['after']}\r\n\r\n".encode()
    cpu_before_s = order.read_cpu_s()
    for _ in range(order["times"]):
        connection = await order.connect()
        connection.mark = b"id: %d\n" % order["entries"]
        started = perf_counter()
        async with asyncio.timeout(MAX_S):
            await connection.send(request)
        took.append((perf_counter() - started) * 1000)
        connection.close()
    return {"ms": took, "cpu_ms": [(order.read_cpu_s() - cpu_before_s) / order["times"] * 1000]}


async def measure_sent_messages(order: Order) -> dict[str, float]:
    """Measure the CPU of requests, one after the other, that send many prior messages along."""
    roles = ("user", "assistant")
    history = [
        {"role": roles[number % 2], "content": f"This was message {number}."} for number in range(order["prior"])
    ]
    order["more"] = {"history": history}
    return await measure_loops(order)


async def get(order: Order, path: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", order["port"])
    writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    if not answer.startswith(b"HTTP/1.1 200"):
        raise AssertionError(f"{path} answers {answer[:400]!r}")


async def respond(order: Order) -> None:
    """Send a request to the stored conversation, and read its answer."""
    order["more"] = {"conversation_id": order["conversation"]}
    connection = await order.connect()
    order.check(await connection.ask(order.build_request()))
    connection.close()


async def warm_up(order: Order) -> None:
    for _ in range(20):  # the first requests of any kind set up what the others use
        await get(order, "/healthz")


async def measure_first_request(order: Order) -> dict[str, float]:
    """Measure the CPU of the first request to a stored conversation."""
    await warm_up(order)
    cpu_before_s = order.read_cpu_s()
    await respond(order)
    return {"cpu_ms": (order.read_cpu_s() - cpu_before_s) * 1000}


async def measure_opening(order: Order) -> dict[str, float]:
    """Measure the CPU of showing a stored conversation, and then of its last events, as a client opens it."""
    await warm_up(order)
    cpu_before_s = order.read_cpu_s()
    await get(order, f"/conversations/{order['conversation']}")
    shown_s = order.read_cpu_s() - cpu_before_s
    replayed = await measure_replay(order)
    return {"show_ms": shown_s * 1000, "events_ms": replayed["cpu_ms"][0]}


async def measure_stall(order: Order) -> dict[str, float]:
    """Measure how long other requests wait at most while a client opens a stored conversation and goes on with it."""
    await warm_up(order)
    others = await order.connect()
    others.mark = b"}"

    async def open_and_respond() -> None:
        await get(order, f"/conversations/{order['conversation']}")
        await measure_replay(order)
        await respond(order)

    opening, longest_s = asyncio.ensure_future(open_and_respond()), 0.0
    while not opening.done():
        started = perf_counter()
        await others.send(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        longest_s = max(longest_s, perf_counter() - started)
        await asyncio.sleep(0.002)
    await opening
    others.close()
    return {"stall_ms": longest_s * 1000}


SCENARIOS = {
    "sent": measure_sent_messages,
    "first request": measure_first_request,
    "opening": measure_opening,
    "stall": measure_stall,
    "loops": measure_loops,
    "streams": measure_streams,
    "first": measure_first_tokens,
    "converse": converse,
    "replay": measure_replay,
}


def main(scenarios: Mapping[str, Callable[[Order], Coroutine[Any, Any, object]]] = SCENARIOS) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for line in sys.stdin:
            order = Order(json.loads(line))
            try:
                result = runner.run(scenarios[str(order["scenario"])](order))
            except Exception as error:
                result = {"error": f"{type(error).__name__}: {getattr(error, 'exceptions', [error])[0]}"}
            print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
