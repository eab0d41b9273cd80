"""Limits requests per minute, counted exactly in integers (GCRA). Its state is in this process's memory."""

from collections import OrderedDict
from math import floor

from toolyard.core.store import Allowance

TICKS_PER_S = 1 << 20  # a power of two: converting between times and ticks does not round
MINUTE_TICKS = 60 * TICKS_PER_S


def build_allowance(excess: int, per_minute: int) -> Allowance:
    """Return the answer to a request, by how much it exceeds the allowance, in ticks times `per_minute`."""
    if excess > 0:
        return Allowance(granted=False, remaining=0, retry_after_s=-(-excess // per_minute) / TICKS_PER_S)
    return Allowance(granted=True, remaining=-excess // MINUTE_TICKS, retry_after_s=0.0)


class GcraLimiter:
    """Grants up to `per_minute` requests at once, then one more every `60 / per_minute` seconds."""

    def __init__(self, max_remembered: int = 100_000) -> None:
        self._max_remembered = max_remembered
        self._free_at = OrderedDict[tuple[str, int], int]()
        """When each caller's allowance is full again, in ticks times `per_minute`.

        In this unit a request costs one minute of ticks, always an integer. The last caller is at the end; a caller
        that is missing has its whole allowance.
        """
        self._last_tick = 0
        self._stepped_back = 0
        """The ticks that the clock was set back in total. They are added, so that time never runs backwards here."""

    def __len__(self) -> int:
        return len(self._free_at)

    def take_allowance(self, key: str, per_minute: int, now: float) -> Allowance:
        if per_minute < 1:
            raise ValueError(f"per_minute must be at least 1, not {per_minute}")
        tick = self._advance(floor(now * TICKS_PER_S))
        self._drop_old(tick)
        at, allowance = tick * per_minute, per_minute * MINUTE_TICKS
        free_at = self._free_at.get((key, per_minute), at)
        used = max(free_at - at, 0)
        excess = used + MINUTE_TICKS - allowance
        if excess <= 0:
            self._free_at[key, per_minute] = at + used + MINUTE_TICKS
            self._free_at.move_to_end((key, per_minute))
        return build_allowance(excess, per_minute)

    def return_allowance(self, key: str, per_minute: int) -> None:
        # A time in the past stands for a full allowance, so that nothing has to be clamped here.
        if (key, per_minute) in self._free_at:
            self._free_at[key, per_minute] -= MINUTE_TICKS

    def _advance(self, tick: int) -> int:
        """Return the tick on a clock that stands still while the system's clock is set back, and then continues."""
        self._stepped_back += max(0, self._last_tick - tick)
        self._last_tick = tick
        return tick + self._stepped_back

    def _drop_old(self, tick: int) -> None:
        """Drop up to two of the oldest callers with a full allowance: a request adds one, so the number shrinks."""
        for _ in range(min(2, len(self._free_at))):
            oldest = next(iter(self._free_at))
            if self._free_at[oldest] > tick * oldest[1] and len(self._free_at) < self._max_remembered:
                return
            del self._free_at[oldest]
