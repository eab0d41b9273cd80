"""The venue contract, over every venue: whatever a tool does, the venue answers; it never raises and never hangs."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import mkdtemp

import pytest

from toolyard import Caller, Tool, ToolError, tool
from toolyard.app import SystemClock
from toolyard.core.items import Call
from toolyard.core.ports import Context, Failure, Pending, Value, Venue
from toolyard.core.tools.definition import NAME_PATTERN
from toolyard.core.tools.mcp_servers import ServerSpec
from toolyard.stores.memory import MemoryStore
from toolyard.tool_index.find_tools_result import build_result
from toolyard.venues.builtin.find_tools import FindToolsVenue
from toolyard.venues.builtin.read_result import ReadResultVenue
from toolyard.venues.client import ClientVenue
from toolyard.venues.function import FunctionVenue
from toolyard.venues.mcp import McpManager, McpVenue
from toolyard.venues.mcp.connector import SdkConnector
from venues.mcp.plain import PlainServer

CONTEXT = Context(
    caller=Caller(),
    conversation="c",
    run_id="r",
    call_id="call",
    correlation_id="abc",
    idempotency_key="c:call",
    attempt=1,
    deadline=0.0,
    progress=lambda *_: None,
)
GOOD = Tool(name="good")
stopped_tools: list[str] = []


@tool
async def good() -> str:
    """Works."""
    return "fine"


@tool
def bad() -> None:
    """Raises."""
    raise OSError("disk")


@tool
def refuse() -> None:
    """Says no in its own words."""
    raise ToolError("not today", "closed")


@tool
async def endless() -> None:
    """Never ends by itself."""
    try:
        await asyncio.Event().wait()
    finally:
        stopped_tools.append("endless")


async def function_venue() -> Venue:
    return FunctionVenue([good, bad, refuse, endless])


async def results_venue() -> Venue:
    store = MemoryStore()
    await store.put_blob("c", "h", b"kept")
    return ReadResultVenue(store)


async def client_venue() -> Venue:
    return ClientVenue()


async def finding_venue() -> Venue:
    return FindToolsVenue(
        lambda query, caller, allowed: [tool for tool in (GOOD,) if query == tool.name and allowed(tool)]
    )


async def mcp_venue() -> Venue:
    """With one real server, in the old era, and another that is away."""
    plain = PlainServer(Path(mkdtemp(prefix="toolyard-")), trust=True)
    away = ServerSpec(url="http://127.0.0.1:9/mcp")
    manager = McpManager(
        {"plain": plain.spec, "away": away},
        make_connector=SdkConnector,
        store=MemoryStore(),
        clock=SystemClock(),
        reserved_names=lambda: (),
        apply_rules=lambda tool: tool,
        on_tools_changed=lambda: None,
    )
    await manager.open()
    await manager.wait_until_listed()
    return McpVenue(manager)


VENUES: list[Callable[[], Awaitable[Venue]]] = [function_venue, results_venue, client_venue, finding_venue, mcp_venue]
CASES: list[tuple[Callable[[], Awaitable[Venue]], str, dict[str, object], object]] = [
    (function_venue, "good", {}, Value(value="fine")),
    (function_venue, "bad", {}, "execution_error"),
    (function_venue, "refuse", {}, "closed"),
    (finding_venue, "find_tools", {"query": "good"}, Value(value=build_result([]))),  # this caller may use nothing
    (results_venue, "read_result", {"handle": "other"}, "not_found"),
    (
        results_venue,
        "read_result",
        {"handle": "h", "length": 2},
        Value(value={"text": "ke", "offset": 0, "total_bytes": 4, "next_offset": 2}),
    ),
    (client_venue, "anything", {}, Pending(kind="client")),
    (mcp_venue, "fails", {}, "out_of_stock"),
    (mcp_venue, "big", {}, Value(value="m" * 1000)),
]


def make_call(name: str, arguments: dict[str, object]) -> Call:
    return Call(id="call", at=0.0, tool=name, arguments=arguments)


@pytest.mark.parametrize("build", VENUES)
async def test_a_venue_lists_tools_that_can_be_offered_and_closes(build: Callable[[], Awaitable[Venue]]) -> None:
    venue = await build()
    for listed in venue.tools():
        assert NAME_PATTERN.fullmatch(listed.name) and listed.parameters["type"] == "object" and listed.description
        assert venue.hooks(listed.name) is not None
    await venue.close()


@pytest.mark.parametrize(("build", "name", "arguments", "expected"), CASES)
async def test_a_venue_answers_with_a_value_a_failure_or_later(
    build: Callable[[], Awaitable[Venue]], name: str, arguments: dict[str, object], expected: object
) -> None:
    venue = await build()
    venue_tool = {tool.name: tool for tool in venue.tools()}.get(name) or Tool(name=name, venue="client")
    answer = await venue.run(make_call(name, arguments), venue_tool, CONTEXT)
    if isinstance(answer, Failure):
        assert answer.problem.error_type == expected and answer.problem.error
    else:
        assert answer == expected
    await venue.close()


async def test_cancelling_a_venue_cancels_its_tool() -> None:
    venue = await function_venue()
    running = asyncio.ensure_future(venue.run(make_call("endless", {}), endless.definition, CONTEXT))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert stopped_tools == ["endless"]
    await venue.close()
