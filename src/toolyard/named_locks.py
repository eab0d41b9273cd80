"""Locks by name, for the tasks of one process."""

import asyncio
from weakref import WeakValueDictionary


class NamedLocks:
    """Lets one task at a time hold a name; the others that want the same name wait for it."""

    def __init__(self) -> None:
        # A lock stays as long as somebody holds it or waits for it.
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    def lock(self, kind: str, name: str) -> asyncio.Lock:
        """Return the lock of a name."""
        return self._locks.setdefault((kind, name), asyncio.Lock())
