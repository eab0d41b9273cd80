"""Entries of the audit log for events that may come in floods, which must not fill the disk.

The first event of a kind is written at once, the further ones of the same minute as one entry with their number.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass

from toolyard.core.ports import Spawn

WINDOW_S = 60.0
WriteEntry = Callable[[int], Awaitable[None]]
"""Writes an entry that stands for a number of events."""


@dataclass(slots=True)
class _Count:
    write: WriteEntry
    unwritten: int = 0


class CountedEntries:
    """Counts events by their keys, in windows of a minute."""

    def __init__(self, spawn: Spawn, window_s: float = WINDOW_S) -> None:
        self._spawn = spawn
        self._window_s = window_s
        self._counts: dict[Hashable, _Count] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def __len__(self) -> int:
        """Return the number of keys in the current window."""
        return len(self._counts)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._counts

    async def count(self, key: Hashable, write: WriteEntry) -> tuple[int, float]:
        """Count an event. Return its number in the current window, and the seconds until the window ends."""
        if self._closed:  # the store is about to be closed, and nobody waits for a timer any more
            return 0, 0.0
        loop = asyncio.get_running_loop()
        if self._timer is None:
            self._timer = loop.call_later(self._window_s, self._end_window)
        remaining_s = max(0.0, self._timer.when() - loop.time())
        if (count := self._counts.get(key)) is not None:
            count.unwritten += 1
            return count.unwritten + 1, remaining_s
        self._counts[key] = _Count(write)
        await write(1)
        return 1, remaining_s

    async def close(self) -> None:
        """Write what was counted so far, and count no more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        await self._write_counts()

    def _end_window(self) -> None:
        self._spawn(self._write_counts())

    async def _write_counts(self) -> None:
        counts, self._counts, self._timer = self._counts, {}, None
        for count in counts.values():
            if count.unwritten:
                await count.write(count.unwritten)
