"""Notices that another replica has changed keys or other records, and lets their users in this process read again."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from toolyard.core.store import SharedKeyValue

POLL_S = 0.8
"""With the time of the query and of reading again, a change counts in all replicas within a second."""
_log = logging.getLogger("toolyard.records")
ReadAgain = Callable[[], Awaitable[None]]


class _Listener:
    """Somebody who reads records of some kinds, and the versions that were read last: None at the start."""

    def __init__(self, kinds: frozenset[str], read_again: ReadAgain) -> None:
        self.kinds = kinds
        self.read_again = read_again
        self.versions: Mapping[str, int] | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        return self.task is not None and not self.task.done()


class RecordWatcher:
    """Asks the store for the versions of all kinds of records, with one query, and calls the listeners of changed ones.

    A store of one process is never asked: nobody else changes its records.
    """

    def __init__(self, store: SharedKeyValue) -> None:
        self._store = store
        self._listeners: list[_Listener] = []
        self._task: asyncio.Task[None] | None = None
        self._failing = False

    def subscribe(self, read_again: ReadAgain, *kinds: str) -> None:
        """Call `read_again` when a record of one of these kinds may have changed: also once at the start.

        It is called again until it succeeds, so it must not depend on how often.
        """
        self._listeners.append(_Listener(frozenset(kinds), read_again))

    def start(self, tasks: asyncio.TaskGroup) -> None:
        if self._store.is_shared:
            self._task = tasks.create_task(self._watch(tasks))

    def stop(self) -> None:
        for task in (self._task, *(listener.task for listener in self._listeners)):
            if task is not None:
                task.cancel()

    async def _watch(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            try:
                versions = await self._store.read_versions()
            except Exception as error:
                self._report(error)
            else:
                self._failing = self._failing and any(listener.versions is None for listener in self._listeners)
                for listener in self._listeners:
                    current = {kind: version for kind, version in versions.items() if kind in listener.kinds}
                    # A task each: revoked keys must not wait until servers have been read, which may take longer. At
                    # the start all is read again, so that a change since the first reading is not missed.
                    if current != listener.versions and not listener.busy:
                        listener.task = tasks.create_task(self._call(listener, current))
            await asyncio.sleep(POLL_S)

    async def _call(self, listener: _Listener, versions: Mapping[str, int]) -> None:
        try:
            await listener.read_again()
        except Exception as error:
            listener.versions = None  # so that it is called again
            self._report(error)
        else:
            listener.versions = versions

    def _report(self, error: Exception) -> None:
        """Log the first failure of a series. The records that were read before stay in force."""
        if not self._failing:
            self._failing = True
            _log.warning("keys and settings that other replicas change cannot be read for now: %s", error)
