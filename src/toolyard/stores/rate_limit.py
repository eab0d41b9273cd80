"""Counts requests per minute in this process's memory, exactly: GCRA in whole numbers. Does not know who asks."""

from collections import OrderedDict
from math import floor

from toolyard.core.store import Allowance

_TICKS_PER_S = 1 << 20  # a power of two: turning a time into ticks, and ticks into a time, rounds nothing
_MINUTE = 60 * _TICKS_PER_S


class GcraLimiter:
    """Up to `per_minute` requests at once, then one more each `60 / per_minute` seconds."""

    def __init__(self, max_remembered: int = 100_000) -> None:
        self._max_remembered = max_remembered
        self._free_at = OrderedDict[tuple[str, int], int]()
        """When all is given back, in ticks times `per_minute`: so a request costs a minute of ticks, always whole.

        Whoever took last is last; whom it does not name has taken nothing.
        """
        self._last_tick = 0
        self._stepped_back = 0
        """The ticks that the clock was set back in all. They are added, so that time here never runs backwards."""

    def __len__(self) -> int:
        return len(self._free_at)

    def take(self, who: str, per_minute: int, now: float) -> Allowance:
        if per_minute < 1:
            raise ValueError(f"per_minute must be at least 1, not {per_minute}")
        tick = self._advance(floor(now * _TICKS_PER_S))
        self._drop_old(tick)
        at, whole = tick * per_minute, per_minute * _MINUTE
        free_at = self._free_at.get((who, per_minute), at)
        taken = max(free_at - at, 0)
        late = taken + _MINUTE - whole
        if late > 0:
            retry_after_s = -(-late // per_minute) / _TICKS_PER_S
            return Allowance(granted=False, remaining=0, retry_after_s=retry_after_s)
        self._free_at[who, per_minute] = at + taken + _MINUTE
        self._free_at.move_to_end((who, per_minute))
        return Allowance(granted=True, remaining=-late // _MINUTE, retry_after_s=0.0)

    def _advance(self, tick: int) -> int:
        """Return the tick on a clock that stands still while the system's clock is set back, and then goes on."""
        self._stepped_back += max(0, self._last_tick - tick)
        self._last_tick = tick
        return tick + self._stepped_back

    def _drop_old(self, tick: int) -> None:
        """Forget the two who took longest ago, if all was given back to them: more than one can come meanwhile."""
        for _ in range(min(2, len(self._free_at))):
            oldest = next(iter(self._free_at))
            if self._free_at[oldest] > tick * oldest[1] and len(self._free_at) < self._max_remembered:
                return
            del self._free_at[oldest]
