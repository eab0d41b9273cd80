"""Waits until the current run of a conversation waits for somebody or has ended."""

import asyncio

from toolyard.core.caller import Caller
from toolyard.core.cursor import Cursor
from toolyard.core.errors import Unavailable
from toolyard.core.events import Entry
from toolyard.core.run_view import RunView
from toolyard.engine.open_runs import load_open_runs
from toolyard.engine.service import Service


async def wait_for_current_run(service: Service, conversation: str, caller: Caller) -> RunView | None:
    """Return the current or last run of a conversation once it is at rest; None if there never was one."""
    reader = await service.follow(conversation)
    try:
        runs = await load_open_runs(service, conversation, Cursor(reader.end))
        view = runs.front or runs.last
        async with asyncio.timeout(service.limits_for(caller).run_seconds):
            while view is not None and not view.at_rest:
                item = await anext(reader)
                if isinstance(item, Entry):
                    view.apply(item)
        return view
    except TimeoutError:
        raise Unavailable("a call of the conversation still runs: send the request again in a moment") from None
    finally:
        reader.detach()
