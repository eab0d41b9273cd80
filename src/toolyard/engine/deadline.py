"""The deadline of one attempt of a call: one timer while all is well, and a second one for what ignores the first."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

CANCEL_GRACE_S = 1.0
"""How long something that was cancelled may take to notice before it is let go of."""


class Deadline:
    """Cancels the task that made it after a while; if that does not help, calls `give_up`. End it with `over`.

    `is_stopped` says whether the task's owner wants it to end. Counting cancellations cannot say so: a tool may cancel
    the task that it runs in, any number of times.
    """

    __slots__ = ("_give_up", "_is_stopped", "_loop", "_task", "_timer", "passed")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        after_s: float,
        give_up: Callable[[], None],
        is_stopped: Callable[[], bool],
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.passed = False
        self._loop, self._task, self._give_up, self._is_stopped = loop, task, give_up, is_stopped
        self._timer = loop.call_later(after_s, self._expire)

    def absorb_cancellation(self, error: BaseException) -> bool:
        """Return whether this is a cancellation that the owner did not ask for. Then the task may go on."""
        if not isinstance(error, asyncio.CancelledError) or self._is_stopped():
            return False
        self._forget_cancellations()
        return True

    async def absorb_pending(self) -> None:
        """Take in a cancellation that the work asked for last: it would strike whatever is awaited next."""
        if self._task.cancelling() and not self._is_stopped():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
            if not self._is_stopped():
                self._forget_cancellations()

    def finish(self) -> None:
        self._timer.cancel()
        if self.passed:  # the task took no notice and ended all the same
            self._task.uncancel()

    def _forget_cancellations(self) -> None:
        while self._task.cancelling():
            self._task.uncancel()

    def _expire(self) -> None:
        self.passed = True
        self._task.cancel()
        self._timer = self._loop.call_later(CANCEL_GRACE_S, self._give_up)


def is_own_cancellation(error: BaseException) -> bool:
    """Whether somebody stops this task; a CancelledError that comes from inside is a failure like any other."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0
