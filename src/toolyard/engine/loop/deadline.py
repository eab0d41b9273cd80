"""The deadline of one attempt of a call: it is cancelled then, and a second timer is for a tool that ignores that."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

CANCEL_GRACE_S = 1.0
"""How long a cancelled task may take to end before it is abandoned."""


class DeadlineTimer:
    """One timer for many deadlines: most calls end long before theirs, and to set a timer takes longer than to note it.

    It stays set when a deadline is dropped, so that the next ones, which are later, find it set.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._deadlines: set[Deadline] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    def add(self, deadline: "Deadline") -> None:
        self._deadlines.add(deadline)
        if self._timer is None or deadline.due < self._timer_at:
            self._set(deadline.due)

    def drop(self, deadline: "Deadline") -> None:
        self._deadlines.discard(deadline)

    def close(self) -> None:
        """Cancel the timer, unless calls are left that were told to end and did not."""
        if self._timer is not None and not self._deadlines:
            self._timer.cancel()
            self._timer = None

    def _set(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = self._loop.call_at(at, self._expire), at

    def _expire(self) -> None:
        self._timer = None
        # The loop may call a moment early, by the resolution of its clock.
        passed = [deadline for deadline in self._deadlines if deadline.due <= self._timer_at]
        for deadline in passed:
            self._deadlines.discard(deadline)
            deadline.expire()
        if self._deadlines:
            self._set(min(deadline.due for deadline in self._deadlines))


class Deadline:
    """Cancels the task that created it after `after_s`; if the task goes on, calls `give_up`. End it with `finish`.

    `is_stopped` returns whether the task's owner wants the task to end. `Task.cancelling()` does not tell: a tool may
    cancel the task that it runs in, any number of times.
    """

    __slots__ = ("_give_up", "_is_stopped", "_loop", "_task", "_timer", "_timer_to_give_up", "due", "passed")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        timer: DeadlineTimer,
        after_s: float,
        give_up: Callable[[], None],
        is_stopped: Callable[[], bool],
    ) -> None:
        task = asyncio.current_task(loop)
        assert task is not None
        self.passed = False
        self._loop, self._task, self._give_up, self._is_stopped = loop, task, give_up, is_stopped
        self._timer = timer
        self._timer_to_give_up: asyncio.TimerHandle | None = None
        self.due = loop.time() + after_s
        timer.add(self)

    def absorb_cancellation(self, error: BaseException) -> bool:
        """Return whether the error is a cancellation that the owner did not ask for, and if so undo it."""
        if not isinstance(error, asyncio.CancelledError) or self._is_stopped():
            return False
        self._forget_cancellations()
        return True

    async def absorb_pending(self) -> None:
        """Undo a cancellation that was requested but not raised yet."""
        # `Task.cancel` raises at the next await. A tool that cancelled its task just before it returned would
        # otherwise cancel the storing of its own result, so the exception is raised and dropped here.
        if self._task.cancelling() and not self._is_stopped():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
            if not self._is_stopped():
                self._forget_cancellations()

    def finish(self) -> None:
        self._timer.drop(self)
        if self._timer_to_give_up is not None:
            self._timer_to_give_up.cancel()
        # The tool may have swallowed the cancellation, or raised something else in its place: without this the task
        # would still count as being cancelled.
        if self.passed:
            self._task.uncancel()

    def _forget_cancellations(self) -> None:
        while self._task.cancelling():
            self._task.uncancel()

    def expire(self) -> None:
        """Cancel the task, and give it a moment to end."""
        self.passed = True
        self._task.cancel()
        self._timer_to_give_up = self._loop.call_later(CANCEL_GRACE_S, self._give_up)


def is_own_cancellation(error: BaseException) -> bool:
    """Return whether the error cancels the current task. A CancelledError that other code raised is a plain failure."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0
