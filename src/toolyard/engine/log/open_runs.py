"""Loads the views of open runs for a reader that starts at a cursor, and tells which waits are over."""

import asyncio
from collections.abc import Sequence
from itertools import chain
from typing import Protocol

from toolyard.core.conversation.cursor import Cursor
from toolyard.core.conversation.events import Entry, RunQueued, RunStarted
from toolyard.core.conversation.run_view import OpenRuns, RunView


def is_at_rest(view: RunView, seq: int, log_end: int) -> bool:
    """Return whether a run has ended or waits after entry `seq` of a log that had `log_end` entries when it was opened.

    Until these entries are all read, a wait may be over: the entry that ends it is among those that follow.
    """
    return view.end is not None or (view.status == "waiting" and seq >= log_end)


FIRST_PAGE_ENTRIES = 64
"""Most runs have fewer entries."""
MAX_PAGE_ENTRIES = 1024
FOLD_STEP = 200
"""Entries that are folded before other tasks get their turn."""


class EntrySource(Protocol):
    """Reads the stored log of a conversation: the `Service`."""

    async def read_entries(self, conversation: str, *, after: int = 0, until: int = 0) -> Sequence[Entry]: ...


async def load_open_runs(source: EntrySource, conversation: str, at: Cursor) -> OpenRuns:
    """Return the runs as they were at the cursor, folded from the start of the earliest one."""
    runs = OpenRuns()
    for number, entry in enumerate(chain(*await _read_pages(source, conversation, at.seq)), 1):
        runs.apply(entry)
        if number % FOLD_STEP == 0:
            await asyncio.sleep(0)
    return runs


async def _read_pages(source: EntrySource, conversation: str, end: int) -> list[Sequence[Entry]]:
    """Return the entries up to `end` in pages, from the RunQueued of the run that started last.

    Runs start in the order in which they were queued, so that no run that was queued earlier is still open.
    """
    pages: list[Sequence[Entry]] = []
    size, run_id = FIRST_PAGE_ENTRIES, ""
    while end > 0:
        start = max(0, end - size)
        page = await source.read_entries(conversation, after=start, until=end)
        for index in range(len(page) - 1, -1, -1):
            match page[index].event:
                case RunStarted() if not run_id:
                    run_id = page[index].run
                case RunQueued() if page[index].run == run_id:
                    return [page[index:], *pages]
                case _:
                    pass
        pages.insert(0, page)
        end, size = start, min(size * 4, MAX_PAGE_ENTRIES)
    return pages
