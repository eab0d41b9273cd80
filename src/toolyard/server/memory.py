"""Give memory that is no longer used back to the operating system, some time after the process has grown.

Two things keep it after large requests. Litestar leaves the error of a wrong field in a reference cycle with the whole
request, and an idle process allocates too little for the garbage collector to look for cycles. And glibc keeps freed
blocks below others that are in use. Elsewhere than on Linux with glibc nothing is done.
"""

import asyncio
import ctypes
import gc
import logging
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

CHECK_EVERY_S = 10.0
MAX_CHECK_EVERY_S = 120.0
"""The longest time between two attempts while the memory is in use: each one takes twice as long to come."""
MIN_GROWTH_BYTES = 64 * 1024 * 1024
"""How much the process must have grown, compared with the least that it has used."""
_STATM = Path("/proc/self/statm")
_log = logging.getLogger("toolyard.server")


def read_resident_bytes() -> int:
    """Return how much memory the process uses; 0 where the system does not say."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def find_trim() -> Callable[[int], int] | None:
    """Return glibc's function that gives free memory back; None with another C library."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None


class MemoryWatch:
    """Looks from time to time whether the process has grown, and then gives back what is free."""

    def __init__(self, check_every_s: float = CHECK_EVERY_S, min_growth_bytes: int = MIN_GROWTH_BYTES) -> None:
        self._check_every_s = check_every_s
        self._delay_s = check_every_s
        self._min_growth_bytes = min_growth_bytes
        self._trim = find_trim()
        self._loop = asyncio.get_running_loop()
        self._least_bytes = read_resident_bytes()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = self._trim is None or not self._least_bytes
        self._schedule()

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self) -> None:
        if not self._closed:
            self._timer = self._loop.call_later(self._delay_s, self._check)

    def _check(self) -> None:
        used_bytes = read_resident_bytes()
        self._least_bytes = min(self._least_bytes, used_bytes)
        if used_bytes - self._least_bytes < self._min_growth_bytes:
            self._delay_s = self._check_every_s
            self._schedule()
            return
        # The large requests may be under way still, so that only a later attempt gives their memory back.
        self._delay_s = min(2 * self._delay_s, MAX_CHECK_EVERY_S)
        gc.collect(1)  # what was allocated lately; a full collection could take long
        self._loop.run_in_executor(None, self._give_back, used_bytes)

    def _give_back(self, used_bytes: int) -> None:
        assert self._trim is not None
        self._trim(0)
        _log.debug("gave %d MB of memory back", (used_bytes - read_resident_bytes()) >> 20)
        with suppress(RuntimeError):  # the event loop may be closed by now
            self._loop.call_soon_threadsafe(self._schedule)


@contextmanager
def watch_memory() -> Generator[None]:
    """Give free memory back within the block."""
    watch = MemoryWatch()
    try:
        yield
    finally:
        watch.close()
