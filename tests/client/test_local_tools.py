"""The application's own tools, without a server."""

import asyncio

from toolyard.client.events import PendingToolCall, PendingToolCalls
from toolyard.client.local_tools import STOPPED, LocalTools
from toolyard.core.caller import Caller
from toolyard.venues.function import FunctionVenue


async def test_a_call_whose_wait_was_cancelled_is_told_as_stopped_and_does_not_run_again() -> None:
    ran = 0
    started = asyncio.Event()

    async def for_ever() -> None:
        """Does not end by itself."""
        nonlocal ran
        ran += 1
        started.set()
        await asyncio.Event().wait()

    tools = LocalTools((FunctionVenue([for_ever]),), Caller(user="app"))
    pending_calls = PendingToolCalls(
        conversation_id="c", run_id="r", tool_calls=[PendingToolCall(id="1", name="for_ever", arguments={})]
    )
    waiting = asyncio.create_task(tools.run_calls(pending_calls))
    await started.wait()
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    assert await tools.run_calls(pending_calls) == [{"toolCallId": "1", "error": STOPPED}]
    assert ran == 1
