"""Holds back the headers of a stream until the model begins to answer: a failure before that is a status, not an event.

A client that only starts a run and reads it elsewhere sends `Prefer: respond-async`, and is answered at once.
"""

import asyncio
from collections.abc import Callable

from toolyard.core.conversation.cursor import Cursor
from toolyard.core.conversation.events import (
    ConversationChanged,
    ConversationOpened,
    Entry,
    HistoryCompacted,
    Published,
    RunQueued,
    RunStarted,
    TurnFailed,
    TurnStarted,
)
from toolyard.core.conversation.run_view import RunView
from toolyard.engine.log.readers import Reader
from toolyard.surfaces.http.errors import raise_model_failure
from toolyard.surfaces.http.request_context import HttpRequest

MAX_HEADER_WAIT_S = 4.0
"""How long headers wait for the model: longer than the retries of a provider that fails at once, and no timeout."""
_BEFORE_ANSWER = (
    ConversationOpened,
    ConversationChanged,
    RunQueued,
    RunStarted,
    TurnStarted,
    TurnFailed,  # the end of the run follows, or another attempt with a shorter history
    HistoryCompacted,
)


def wants_headers_at_once(request: HttpRequest) -> bool:
    """Return whether the client does not wait for the model, by RFC 7240."""
    preferences = request.headers.get("prefer", "").split(",")
    return any(preference.strip().lower() == "respond-async" for preference in preferences)


async def wait_for_beginning(
    reader: Reader, run_id: str, check: Callable[[RunView], None] = raise_model_failure
) -> None:
    """Wait until the model begins to answer or the run is at rest, at most MAX_HEADER_WAIT_S.

    `check` raises for a run that has failed by then; the reader is then detached. Else it reads everything once more.
    """
    try:
        check(await _peek(reader, run_id))
    except BaseException:
        reader.detach()
        raise


async def _peek(reader: Reader, run_id: str) -> RunView:
    """Return the run up to where the model begins to answer, and put back what was read."""
    view, loop = RunView(run_id=run_id), asyncio.get_running_loop()
    start, due = reader.cursor, loop.time() + MAX_HEADER_WAIT_S
    items: list[tuple[Published, Cursor]] = []
    while (remaining_s := due - loop.time()) > 0:
        batch = await reader.read_batch(remaining_s)
        items += batch
        if not batch or any(_is_beginning(item, view) for item, _ in batch):
            break
    reader.unread(items, start)
    return view


def _is_beginning(item: Published, view: RunView) -> bool:
    """Apply an item, and return whether headers need not wait any longer."""
    if not isinstance(item, Entry):
        return True
    view.apply(item)
    is_other_run = bool(item.run) and item.run != view.run_id  # it may wait for days
    return is_other_run or not isinstance(item.event, _BEFORE_ANSWER)
