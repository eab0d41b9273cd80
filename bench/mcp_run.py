"""What a call of an MCP tool costs through our venue, beside the SDK's own session; and what many tools cost a turn.

CPU of this process only, both sides against the same real child or server, each the lowest of several rounds: whatever
else a shared machine does makes a round dearer, never cheaper. Exit code 1 if a figure is missed.
"""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from mcp import Client, StdioServerParameters

from toolyard import Caller, Scripted, Yard
from toolyard.core.events import ModelDelta, TurnEnded, TurnFailed
from toolyard.core.items import Call, ModelText
from toolyard.core.mcp_servers import ServerSpec
from toolyard.core.ports import Context, ModelRequest, Value
from toolyard.models.chat import to_wire
from toolyard.venues.mcp import McpVenue
from venues.mcp.modern import over_http
from venues.mcp.plain import Plain

ROUNDS, CALLS, TURNS = 7, 200, 100
MOST_TIMES = 1.5
MOST_TURN_TIMES = 1.2
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


async def lowest_ms(once: Callable[[], Awaitable[object]]) -> float:
    """CPU of one call: the best of several rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = process_time()
        for _ in range(CALLS):
            await once()
        best = min(best, (process_time() - began) / CALLS * 1000)
    return best


async def with_sdk(spec: ServerSpec, tool: str, arguments: dict[str, object]) -> float:
    where = spec.url or StdioServerParameters(command=spec.command, args=list(spec.args))
    async with Client(where) as client:
        await client.list_tools()
        return await lowest_ms(lambda: client.call_tool(tool, arguments))


async def with_ours(spec: ServerSpec, tool: str, arguments: dict[str, object]) -> float:
    async with Yard(model=Scripted([]), servers={"s": spec}) as yard:
        venue = McpVenue(yard.servers)
        (known,) = [one for one in yard.service.tools(Caller()) if one.remote == tool]
        asked = Call(id="call", at=0.0, tool=known.name, arguments=arguments)

        async def once() -> None:
            answer = await venue.run(asked, known, CONTEXT)
            assert isinstance(answer, Value), answer

        return await lowest_ms(once)


class Asking:
    """Writes each request as the wire does, and asks for the same tool again and again."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        to_wire(request)
        mint = request.mint
        if request.turn <= TURNS:
            yield TurnEnded(items=(Call(id=mint.id("call"), at=mint.now(), tool="look", arguments={}),), finish="calls")
        else:
            yield TurnEnded(items=(ModelText(id=mint.id("item"), at=mint.now(), text="done"),), finish="stop")

    async def close(self) -> None:
        pass


async def turn_ms(spec: ServerSpec) -> float:
    """CPU of one turn in a run of many, with whatever tools there are."""
    best = float("inf")
    for _ in range(ROUNDS):
        async with Yard(model=Asking(), servers={"s": spec}) as yard:
            turns, began = 0, 0.0
            async for event in yard.run("go"):
                if type(event).__name__ == "TurnStarted":
                    turns += 1
                    began = began or (process_time() if turns == 3 else 0.0)
            best = min(best, (process_time() - began) / (turns - 2) * 1000)
    return best


async def main() -> int:
    with TemporaryDirectory() as folder:
        few, many = Plain(Path(folder), trust=True), Plain(Path(folder), "many", trust=True)
        async with over_http() as web:
            figures = {
                "stdio_sdk_ms": await with_sdk(few.spec, "look", {}),
                "stdio_ours_ms": await with_ours(few.spec, "look", {}),
                "http_sdk_ms": await with_sdk(web.spec(), "whoami", {}),
                "http_ours_ms": await with_ours(web.spec(), "whoami", {}),
                "turn_9_tools_ms": await turn_ms(few.spec),
                "turn_1009_tools_ms": await turn_ms(many.spec),
            }
    times = {
        "stdio_times": figures["stdio_ours_ms"] / figures["stdio_sdk_ms"],
        "http_times": figures["http_ours_ms"] / figures["http_sdk_ms"],
        "turn_times": figures["turn_1009_tools_ms"] / figures["turn_9_tools_ms"],
    }
    print(json.dumps({name: round(value, 3) for name, value in {**figures, **times}.items()}))
    well = max(times["stdio_times"], times["http_times"]) <= MOST_TIMES and times["turn_times"] <= MOST_TURN_TIMES
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
