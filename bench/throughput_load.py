"""The load generator of `operators_run.py`, which has the scenarios of `server_load.py` as well.

It sends chat completions and MCP calls, as many as a server can answer or at a steady rate, and starts runs that wait.
"""

import asyncio
import json
import random
import re
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from time import perf_counter

from server_load import ENDED, SCENARIOS, Connection, Order, get, main

LINE = 'Line {:06} of the document says, in "plain" words, what the lines before it did not.\n'
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
MCP_VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MCP_VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
}
SUM = re.compile(rb'"text": ?"5"')
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    },
}
Send = Callable[[Connection], Awaitable[object]]


class AnswerConnection(Connection):
    """A connection whose answers have a length, or end as streams do."""

    def data_received(self, data: bytes) -> None:
        self.body += data
        head, end, answer = self.body.partition(b"\r\n\r\n")
        length = LENGTH.search(head)
        if end and (len(answer) >= int(length[1]) if length else answer.endswith(ENDED)):
            self.end()


def build_document(size: int) -> str:
    """Return a text of that many characters."""
    return "".join(LINE.format(number) for number in range(size // len(LINE.format(0)) + 1))[:size]


def build_requests(order: Order) -> Iterator[bytes]:
    """Yield requests that differ in the number after the question. The document before it is encoded only once."""
    if order.get("prompt_bytes"):
        order["documents"] = [{"role": "user", "content": build_document(order["prompt_bytes"])}]
    # Other numbers each time: a body that was sent before would be looked at as a request that is sent again.
    first = random.SystemRandom().randrange(10**11)
    before, after = order.build_request(0).rsplit(b"#000000000000", 1)
    return (b"%b#%012d%b" % (before, number, after) for number in count(first))


async def saturate(order: Order, connections: list[Connection], send: Send) -> dict[str, float]:
    """Send on all connections, one request after the other, and measure how many are answered and the CPU of each."""
    finished = 0
    started, cpu_before_s = perf_counter(), order.read_cpu_s()
    ends_at = started + order["seconds"]

    async def work(connection: Connection) -> None:
        nonlocal finished
        while perf_counter() < ends_at:
            await send(connection)
            finished += 1

    async with asyncio.TaskGroup() as group:
        for connection in connections:
            group.create_task(work(connection))
    cpu_s, wall_s = order.read_cpu_s() - cpu_before_s, perf_counter() - started
    for connection in connections:
        connection.close()
    return {"us": cpu_s / finished * 1e6, "per_s": finished / wall_s, "per_core_s": finished / cpu_s}


async def measure_relays(order: Order) -> dict[str, float]:
    """Measure chat completions without tools that a server answers, with some connections that are never idle."""
    requests = build_requests(order)

    async def send(connection: Connection) -> None:
        order.check(await connection.ask(next(requests)))

    return await saturate(order, [await order.connect() for _ in range(order["together"])], send)


async def measure_steady_rate(order: Order) -> dict[str, list[float]]:
    """Measure the milliseconds of each request at a given rate. The gaps between them are random, as with real ones."""
    requests, took = build_requests(order), list[float]()
    idle = [await order.connect() for _ in range(order["together"])]
    gaps, due = random.Random(0), perf_counter()  # the same gaps for each server
    ends_at = due + order["seconds"]

    async def send() -> None:
        connection = idle.pop() if idle else await order.connect()
        started = perf_counter()
        order.check(await connection.ask(next(requests)))
        took.append((perf_counter() - started) * 1000)
        idle.append(connection)

    async with asyncio.TaskGroup() as group:
        while due < ends_at:
            group.create_task(send())
            due += gaps.expovariate(order["per_s"])
            await asyncio.sleep(max(0.0, due - perf_counter()))
    for connection in idle:
        connection.close()
    return {"ms": took}


def encode_mcp_call(tool: str) -> bytes:
    """Return a call of `add`, or of the same tool under another name, as a modern MCP client sends it."""
    params = {"name": tool, "arguments": {"a": 2, "b": 3}, "_meta": META}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    head = (
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        "Accept: application/json, text/event-stream\r\n"
        f"MCP-Protocol-Version: {MCP_VERSION}\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def measure_mcp_calls(order: Order) -> dict[str, float]:
    """Measure the calls of an MCP tool that a server answers, with some connections that are never idle."""
    request, loop = encode_mcp_call(order["tool"]), asyncio.get_running_loop()

    async def send(connection: Connection) -> None:
        async with asyncio.timeout(30):
            await connection.send(request)
        if not SUM.search(connection.body):
            raise AssertionError(f"the answer is {bytes(connection.body[:600])!r}")

    port = order["port"]
    connections = [
        (await loop.create_connection(AnswerConnection, "127.0.0.1", port))[1] for _ in range(order["together"])
    ]
    return await saturate(order, list(connections), send)


async def start_waiting_runs(order: Order) -> dict[str, float]:
    """Start runs that wait, some at a time, and measure the memory and the CPU of each."""
    if order.path != "/ai/respond":
        order["tools"] = [ADD]
    requests, mark = build_requests(order), order["mark"].encode()
    connections = [await order.connect() for _ in range(order["together"])]
    resident_before_kib, cpu_before_s, left = order.read_resident_kib(), order.read_cpu_s(), order["runs"]

    async def work(connection: Connection) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            body = await connection.ask(next(requests))
            if mark not in body:
                raise AssertionError(f"a run does not wait: {body[-600:]!r}")

    async with asyncio.TaskGroup() as group:
        for connection in connections:
            group.create_task(work(connection))
    for connection in connections:
        connection.close()
    await asyncio.sleep(1)  # for what is done in the background
    grown_kib, cpu_s = order.read_resident_kib() - resident_before_kib, order.read_cpu_s() - cpu_before_s
    return {"kib": grown_kib / order["runs"], "us": cpu_s / order["runs"] * 1e6}


async def measure_rest(order: Order) -> dict[str, float]:
    """Measure the memory of a server after some requests to it."""
    for _ in range(20):
        await get(order, "/healthz")
    await asyncio.sleep(2)  # for what a server does after its start
    return {"kib": order.read_resident_kib()}


if __name__ == "__main__":
    main(
        {
            **SCENARIOS,
            "relays": measure_relays,
            "steady": measure_steady_rate,
            "mcp calls": measure_mcp_calls,
            "wait": start_waiting_runs,
            "rest": measure_rest,
        }
    )
