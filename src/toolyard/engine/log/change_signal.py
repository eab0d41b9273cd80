"""How the driver of a conversation waits for a change of its state or for a deadline."""

import asyncio

from toolyard.core.ports import Clock

TIMER_TOLERANCE_S = 0.001
"""Two deadlines this close are the same: `plan` computes a deadline from the current time, so that it varies by
rounding."""


class ChangeSignal:
    """Wakes one waiter at a change or at a deadline, whichever comes first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._change: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    def notify(self) -> None:
        if self._change is not None and not self._change.done():
            self._change.set_result(None)

    def wait(self, until: float) -> asyncio.Future[None]:
        """Return a future that ends with the next change, or at that time.

        Not a coroutine: the driver waits several times in each turn, and would pass through one more frame each time.
        """
        change = self._change = self._loop.create_future()
        # The timer outlives this wait. A run waits many times for the same deadline, so the timer is replaced only
        # when the deadline has moved.
        if self._timer is None or abs(self._timer_at - until) > TIMER_TOLERANCE_S:
            self.cancel_timer()
            self._timer_at = until
            self._timer = self._loop.call_later(max(0.0, until - self._clock.now()), self._on_timer)
        return change

    def cancel_timer(self) -> None:
        """Cancel the timer of `wait`, once nobody waits any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        self._timer = None
        self.notify()
