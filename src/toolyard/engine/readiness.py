"""The readiness probe: checks that the store accepts a write in time."""

import asyncio
import logging

from toolyard.core.errors import StoreDown
from toolyard.core.store import KeyValue

MAX_WRITE_S = 1.0
"""How long a write may take. Load balancers usually wait no longer for a probe."""
_KIND, _NAME = "readiness", "probe"
_log = logging.getLogger("toolyard.readiness")


class StoreProbe:
    """Writes one small record to the store. Concurrent probes share one write."""

    def __init__(self, store: KeyValue, tasks: asyncio.TaskGroup, max_write_s: float = MAX_WRITE_S) -> None:
        self._store = store
        self._tasks = tasks
        self._max_write_s = max_write_s
        self._writing: asyncio.Task[str] | None = None

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
            await self._store.set_record(_KIND, _NAME, b"")
        except StoreDown as error:
            return f"the store takes no write: {error.reason}"
        except Exception:
            _log.exception("the store could not be probed")
            return "the store takes no write; the log says why"
        return ""
