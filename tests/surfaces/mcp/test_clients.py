"""The official SDK as a client: of `/mcp` over a socket and of `toolyard mcp` over pipes, in both eras."""

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Literal

import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.client.session import ClientRequestContext
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError

from surfaces.api_client import build_yard
from surfaces.http_server import serve_yard
from toolyard import Context, tool

Mode = Literal["auto", "legacy"]
TOOLS = """
from toolyard import Context, tool

@tool(read_only=True)
def opening_hours(day: str) -> dict[str, str]:
    "When the shop is open."
    return {"day": day, "open": "9 to 18"}

@tool(approval="ask")
async def delete_order(number: int, context: Context) -> str:
    "Delete an order for good."
    context.progress(1, total=1, message="gone")
    return f"order {number} is gone"
"""


@tool(read_only=True)
def opening_hours(day: str) -> dict[str, str]:
    """When the shop is open."""
    return {"day": day, "open": "9 to 18"}


@tool(approval="ask")
async def delete_order(number: int, context: Context) -> str:
    """Delete an order for good."""
    context.progress(1, total=1, message="gone")
    return f"order {number} is gone"


async def use_client(target: Any, mode: Mode) -> None:
    """What a host does in its first minute."""
    progress_events: list[tuple[float, float | None, str | None]] = []

    async def accept_deletion(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"approve": "delete_order" in params.message})

    async def record_progress(progress: float, total: float | None, message: str | None) -> None:
        progress_events.append((progress, total, message))

    async with Client(target, mode=mode, elicitation_callback=accept_deletion) as client:
        assert client.protocol_version == ("2026-07-28" if mode == "auto" else "2025-11-25")
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names == ["opening_hours", "delete_order"]
        hours = await client.call_tool("opening_hours", {"day": "Sunday"})
        assert hours.structured_content == {"day": "Sunday", "open": "9 to 18"} and not hours.is_error
        deletion = await client.call_tool("delete_order", {"number": 7}, progress_callback=record_progress)
        assert isinstance(deletion.content[0], types.TextContent) and deletion.content[0].text == "order 7 is gone"
        assert progress_events == [(1, 1, "gone")]
        wrong = await client.call_tool("opening_hours", {})
        assert wrong.is_error
        with pytest.raises(MCPError):
            await client.call_tool("no_such_tool", {})


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client_over_http(mode: Mode) -> None:
    async with asyncio.timeout(30), AsyncExitStack() as stack:
        yard = await stack.enter_async_context(build_yard((), tools=[opening_hours, delete_order]))
        await use_client(f"{await stack.enter_async_context(serve_yard(yard))}/mcp", mode)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client_sends_a_program_and_decides_on_its_calls(mode: Mode) -> None:
    asked: list[str] = []

    async def decide(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message.partition("?")[0])
        return types.ElicitResult(action="accept", content={"approve": '"number": 7' in params.message})

    code = """
kept = []
for number in (7, 8):
    try:
        await delete_order(number=number)
    except PermissionError:
        kept.append(number)
[kept, (await opening_hours(day='Sunday'))['open']]
"""
    async with asyncio.timeout(30), AsyncExitStack() as stack:
        yard = await stack.enter_async_context(build_yard((), tools=[opening_hours, delete_order], code=True))
        url = await stack.enter_async_context(serve_yard(yard))
        client = await stack.enter_async_context(Client(f"{url}/mcp", mode=mode, elicitation_callback=decide))
        result = await client.call_tool("run_code", {"code": code})
        assert result.structured_content == {"value": [[8], "9 to 18"]}
        assert asked == ["Line 5 of the program: may the tool delete_order run with these arguments"] * 2


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client_over_standard_streams(mode: Mode, tmp_path: Path) -> None:
    (tmp_path / "my_tools.py").write_text(TOOLS)
    words = ["-m", "toolyard", "mcp", "--tools", "./my_tools.py", "--store", "memory:"]
    async with asyncio.timeout(30):
        await use_client(StdioServerParameters(command=sys.executable, args=words, cwd=tmp_path), mode)
