"""Measure a call of an MCP tool through our venue against the SDK's own session, and a turn with many tools.

Figures are the CPU time of this process, with both sides against the same real server, each the lowest of several
rounds: other work on a shared machine can only make a round more expensive. The exit code is 1 if a figure is missed.
"""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from mcp import Client, StdioServerParameters

from toolyard import Caller, Yard
from toolyard.core.conversation.events import ModelDelta, TurnEnded, TurnFailed
from toolyard.core.items import Call, ModelText
from toolyard.core.ports import Context, ModelRequest, Value
from toolyard.core.tools.mcp_servers import ServerSpec
from toolyard.models.chat import to_wire
from toolyard.testing import Scripted
from toolyard.venues.mcp import McpVenue
from venues.mcp.modern import over_http
from venues.mcp.plain import PlainServer

ROUNDS, CALLS, TURNS = 7, 200, 100
MAX_CALL_RATIO = 1.5
MAX_TURN_RATIO = 1.2
CONTEXT = Context(
    caller=Caller(),
    conversation="c",
    run_id="r",
    call_id="call",
    correlation_id="abc",
    idempotency_key="c:call",
    attempt=1,
    deadline=float("inf"),
    progress=lambda *_: None,
)


async def measure_lowest_ms(once: Callable[[], Awaitable[object]]) -> float:
    """Return the CPU time of one call: the lowest of several rounds."""
    lowest = float("inf")
    for _ in range(ROUNDS):
        started = process_time()
        for _ in range(CALLS):
            await once()
        lowest = min(lowest, (process_time() - started) / CALLS * 1000)
    return lowest


async def measure_sdk_ms(spec: ServerSpec, tool: str, arguments: dict[str, object]) -> float:
    target = spec.url or StdioServerParameters(command=spec.command, args=list(spec.args))
    async with Client(target) as client:
        await client.list_tools()
        return await measure_lowest_ms(lambda: client.call_tool(tool, arguments))


async def measure_venue_ms(spec: ServerSpec, tool: str, arguments: dict[str, object]) -> float:
    async with Yard(model=Scripted([]), servers={"s": spec}) as yard:
        venue = McpVenue(yard.servers)
        (definition,) = [listed for listed in yard.service.tools.list_usable(Caller()) if listed.remote == tool]
        call = Call(id="call", at=0.0, tool=definition.name, arguments=arguments)

        async def once() -> None:
            answer = await venue.run(call, definition, CONTEXT)
            assert isinstance(answer, Value), answer

        return await measure_lowest_ms(once)


class CallingModel:
    """A model that encodes each request as the wire does, and calls the same tool in each turn."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        to_wire(request)
        clock = request.clock
        if request.turn <= TURNS:
            call = Call(id=clock.new_id("call"), at=clock.now(), tool="look", arguments={})
            yield TurnEnded(items=(call,), finish="calls")
        else:
            yield TurnEnded(items=(ModelText(id=clock.new_id("item"), at=clock.now(), text="done"),), finish="stop")

    async def close(self) -> None:
        pass


async def measure_turn_ms(spec: ServerSpec) -> float:
    """Return the CPU time of one turn in a run of many, with the tools of the server."""
    lowest = float("inf")
    for _ in range(ROUNDS):
        async with Yard(model=CallingModel(), servers={"s": spec}) as yard:
            turns, started = 0, 0.0
            async for event in yard.run("go"):
                if type(event).__name__ == "TurnStarted":
                    turns += 1
                    started = started or (process_time() if turns == 3 else 0.0)  # the first two turns warm up
            lowest = min(lowest, (process_time() - started) / (turns - 2) * 1000)
    return lowest


async def main() -> int:
    with TemporaryDirectory() as folder:
        few, many = PlainServer(Path(folder), trust=True), PlainServer(Path(folder), "many", trust=True)
        async with over_http() as web:
            figures = {
                "stdio_sdk_ms": await measure_sdk_ms(few.spec, "look", {}),
                "stdio_ours_ms": await measure_venue_ms(few.spec, "look", {}),
                "http_sdk_ms": await measure_sdk_ms(web.spec(), "whoami", {}),
                "http_ours_ms": await measure_venue_ms(web.spec(), "whoami", {}),
                "turn_9_tools_ms": await measure_turn_ms(few.spec),
                "turn_1009_tools_ms": await measure_turn_ms(many.spec),
            }
    times = {
        "stdio_times": figures["stdio_ours_ms"] / figures["stdio_sdk_ms"],
        "http_times": figures["http_ours_ms"] / figures["http_sdk_ms"],
        "turn_times": figures["turn_1009_tools_ms"] / figures["turn_9_tools_ms"],
    }
    print(json.dumps({name: round(value, 3) for name, value in {**figures, **times}.items()}))
    calls_pass = max(times["stdio_times"], times["http_times"]) <= MAX_CALL_RATIO
    return 0 if calls_pass and times["turn_times"] <= MAX_TURN_RATIO else 1


if __name__ == "__main__":
    logging.disable()  # log lines of the measured runs would bury the table
    sys.exit(asyncio.run(main()))
