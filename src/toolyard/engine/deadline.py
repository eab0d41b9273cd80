"""The deadline of one attempt of a call: one timer while all is well, and a second one for what ignores the first."""

import asyncio
from collections.abc import Callable

STUBBORN_S = 1.0
"""How long something that was cancelled may take to notice before it is let go of."""


class Deadline:
    """Cancels the task that made it after a while; if that does not help, calls `give_up`. End it with `over`."""

    __slots__ = ("_give_up", "_loop", "_task", "_timer", "passed")

    def __init__(self, loop: asyncio.AbstractEventLoop, after_s: float, give_up: Callable[[], None]) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.passed = False
        self._loop, self._task, self._give_up = loop, task, give_up
        self._timer = loop.call_later(after_s, self._pass)

    def made(self, error: BaseException) -> bool:
        """Whether this error is the deadline's doing, and nobody else wants the task to stop."""
        if not (self.passed and isinstance(error, asyncio.CancelledError)):
            return False
        self.passed = False
        return self._task.uncancel() == 0

    def over(self) -> None:
        self._timer.cancel()
        if self.passed:  # the task took no notice and ended all the same
            self._task.uncancel()

    def _pass(self) -> None:
        self.passed = True
        self._task.cancel()
        self._timer = self._loop.call_later(STUBBORN_S, self._give_up)


def is_own_cancellation(error: BaseException) -> bool:
    """Whether somebody stops this task; a CancelledError that comes from inside is a failure like any other."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0
