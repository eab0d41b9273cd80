"""Follows the current run of a conversation, and waits until it waits for somebody or has ended."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from toolyard.core.caller import Caller
from toolyard.core.conversation.cursor import Cursor
from toolyard.core.conversation.events import Entry
from toolyard.core.conversation.run_view import RunView
from toolyard.core.errors import NotFound, Unavailable
from toolyard.engine.log.open_runs import load_open_runs
from toolyard.engine.service import Service, StartedRun
from toolyard.surfaces.http.sse import HEARTBEAT_S


async def wait_for_current_run(service: Service, conversation: str, caller: Caller) -> RunView | None:
    """Return the current or last run of a conversation once it is at rest; None if there never was one."""
    last: RunView | None = None
    async with aclosing(watch_current_run(service, conversation, caller)) as views:
        async for view in views:
            last = view
    return last


async def load_front_run(service: Service, conversation: str) -> RunView | None:
    """Return the run of a conversation that has started and not ended, as it is now."""
    reader = await service.conversations.follow(conversation)
    try:
        return (await load_open_runs(service.conversations, conversation, Cursor(reader.end))).front
    finally:
        reader.detach()


async def watch_current_run(
    service: Service, conversation: str, caller: Caller
) -> AsyncGenerator[RunView | None, None]:
    """Yield the current or last run of a conversation now, and at least every HEARTBEAT_S until it is at rest."""
    reader = await service.conversations.follow(conversation)
    try:
        runs = await load_open_runs(service.conversations, conversation, Cursor(reader.end))
        view = runs.front or runs.last
        end_at = asyncio.get_running_loop().time() + service.runs.limits_for(caller).run_seconds
        yield view
        while view is not None and not view.at_rest:
            left_s = end_at - asyncio.get_running_loop().time()
            if left_s <= 0:
                raise Unavailable("a call of the conversation still runs: send the request again in a moment")
            for item, _ in await reader.read_batch(min(HEARTBEAT_S, left_s)):
                if isinstance(item, Entry) and not view.at_rest:
                    view.apply(item)
            yield view
    finally:
        reader.detach()


async def follow_run(
    service: Service, conversation: str, run_id: str, *, include_argument_deltas: bool = False
) -> StartedRun:
    """Follow a run from its start. The caller detaches the reader."""
    entries = await service.conversations.read_entries(conversation)
    first = next((entry.seq for entry in entries if entry.run == run_id), 0)
    if not first:
        raise NotFound("the conversation was deleted")
    reader = await service.conversations.follow(
        conversation, Cursor(first - 1), include_argument_deltas=include_argument_deltas
    )
    return StartedRun(conversation=conversation, run_id=run_id, reader=reader, repeated=True)
