"""The readiness probe: checks that the store accepts, in time, a write of the size of a turn."""

import asyncio
import logging

from toolyard.core.errors import StoreDown
from toolyard.core.store import KeyValue

MAX_WRITE_S = 1.0
"""How long a write may take. Load balancers usually wait no longer for a probe."""
TURN = bytes(64 * 1024)
"""As much as a turn writes, in pages of a SQLite file. On a full disk a smaller write can still find a place."""
TURN_PAUSE_S = 1.0
"""Probes that come sooner after a write of that size write next to nothing: anybody may ask for them."""
_KIND, _NAME, _TURN_NAME = "readiness", "probe", "turn"
_log = logging.getLogger("toolyard.readiness")


class StoreProbe:
    """Writes to the store what a turn would need. Concurrent probes share one write."""

    def __init__(self, store: KeyValue, tasks: asyncio.TaskGroup, max_write_s: float = MAX_WRITE_S) -> None:
        self._store = store
        self._tasks = tasks
        self._max_write_s = max_write_s
        self._writing: asyncio.Task[str] | None = None
        self._turn_due_at = 0.0
        """When a record of the size of a turn is to be written again, in the time of the event loop."""

    async def find_problem(self) -> str:
        """Return why the store accepts no write, without paths; empty if it does."""
        writing = self._writing
        if writing is None or writing.done():
            writing = self._writing = self._tasks.create_task(self._write())
        # A late write is not cancelled: later probes wait for the same one, so that a stuck store gets only one.
        done, _ = await asyncio.wait({writing}, timeout=self._max_write_s)
        return writing.result() if done else f"the store took no write within {self._max_write_s:g} s"

    async def _write(self) -> str:
        try:
            now = asyncio.get_running_loop().time()
            if now < self._turn_due_at:
                await self._store.set_record(_KIND, _NAME, b"")
            else:
                await self._write_turn()
                self._turn_due_at = now + TURN_PAUSE_S
        except StoreDown as error:
            return f"the store takes no write: {error.reason}"
        except Exception:
            _log.exception("the store could not be probed")
            return "the store takes no write; the log says why"
        return ""

    async def _write_turn(self) -> None:
        # A record that replaces itself needs no space, and SQLite does not even write one that is unchanged; one that
        # stayed would take the last space from the turns. So it is new each time, and its space is free afterwards.
        await self._store.delete_record(_KIND, _TURN_NAME)  # left by a process that was killed
        await self._store.set_record(_KIND, _TURN_NAME, TURN)
        await self._store.delete_record(_KIND, _TURN_NAME)
