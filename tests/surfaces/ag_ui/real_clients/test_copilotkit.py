"""CopilotKit's core, unchanged, against `/ag-ui`."""

import asyncio
from pathlib import Path

import msgspec

from real_servers import find_node, install_npm_package
from surfaces.ag_ui.real_clients.agents import describe, order
from surfaces.api_client import build_yard
from surfaces.http_server import serve_yard
from toolyard.testing import call, say

DRIVER = Path(__file__).parent / "drive_copilotkit.mjs"
RUN_S = 120.0


async def test_a_tool_of_the_page_runs_there_and_one_of_the_server_is_approved() -> None:
    folder = await asyncio.to_thread(install_npm_package, "@copilotkit/core")
    script = [call("take_photo", of="fridge"), say("No milk."), call("order", item="milk"), say("It is ordered.")]
    async with build_yard(script, tools=[order]) as yard, serve_yard(yard) as url:
        command = [find_node()[0], str(DRIVER), str(folder), url]
        process = await asyncio.create_subprocess_exec(*command, stdout=-1, stderr=-1)
        out, errors = await asyncio.wait_for(process.communicate(), RUN_S)
        assert process.returncode == 0, errors.decode()
    assert [describe(message) for message in msgspec.json.decode(out)] == [
        "user: Look into the fridge",
        'assistant: take_photo{"of":"fridge"}',
        "tool: a photo of fridge",
        "assistant: No milk.",
        "user: Order milk",
        'assistant: order{"item":"milk"}',
        "tool: ordered milk",
        "assistant: It is ordered.",
    ]
