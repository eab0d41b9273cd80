"""A task of a call that somebody else cancels ends its call, whenever that happens."""

import asyncio

from support import collect_events, get_ending, get_result
from toolyard import Yard, tool
from toolyard.app import Wiring
from toolyard.core.conversation.events import CallStarted, Entry
from toolyard.testing import Scripted, call, say


@tool
async def look() -> str:
    """Look."""
    return "seen"


def cancel_call_tasks(entry: Entry) -> None:
    """Cancel the task of a call after its start is stored, before its first step."""
    if isinstance(entry.event, CallStarted):
        for task in asyncio.all_tasks():
            if "_run_call" in repr(task.get_coro()):
                task.cancel()


async def test_a_call_whose_task_is_cancelled_before_its_first_step_ends() -> None:
    wiring = Wiring(model=Scripted([call("look"), say("done")]), tools=(look,), observers=(cancel_call_tasks,))
    async with asyncio.timeout(20), Yard.from_wiring(wiring) as yard:
        events = await collect_events(yard.run("go"))
    assert get_ending(events).ending == "done"
    assert get_result(events).outcome == "cancelled"
