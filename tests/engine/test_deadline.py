"""A deadline cancels its task, tells its own doing from a stop, and lets go of what does not listen."""

import asyncio
import contextlib
from collections.abc import Callable

from toolyard.engine.loop.deadline import Deadline, DeadlineTimer


def never() -> bool:
    return False


async def attempt(
    after_s: float, work: asyncio.Event, abandoned: asyncio.Event, is_stopped: Callable[[], bool] = never
) -> str:
    loop = asyncio.get_running_loop()
    deadline = Deadline(loop, DeadlineTimer(loop), after_s, abandoned.set, is_stopped)
    try:
        await work.wait()
        return "done"
    except asyncio.CancelledError as error:
        if deadline.absorb_cancellation(error):
            return "late" if deadline.passed else "cancelled itself"
        raise
    finally:
        deadline.finish()


async def test_work_that_ends_in_time_is_left_alone() -> None:
    work, abandoned = asyncio.Event(), asyncio.Event()
    work.set()
    assert await attempt(10, work, abandoned) == "done"


async def test_work_that_is_late_is_told_and_its_task_is_not_marked_as_stopped() -> None:
    task = asyncio.create_task(attempt(0.01, asyncio.Event(), asyncio.Event()))
    assert await task == "late" and task.cancelling() == 0


async def test_a_stop_is_not_taken_for_a_deadline() -> None:
    stop = asyncio.Event()
    task = asyncio.create_task(attempt(10, asyncio.Event(), asyncio.Event(), stop.is_set))
    await asyncio.sleep(0)
    stop.set()
    task.cancel()
    assert (await asyncio.gather(task, return_exceptions=True))[0].__class__ is asyncio.CancelledError


async def test_what_ignores_its_deadline_is_let_go_of() -> None:
    async def stubborn(release: asyncio.Event, abandoned: asyncio.Event) -> int:
        loop = asyncio.get_running_loop()
        deadline = Deadline(loop, DeadlineTimer(loop), 0.01, abandoned.set, never)
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()
        deadline.finish()
        task = asyncio.current_task()
        return task.cancelling() if task else -1

    release, abandoned = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(stubborn(release, abandoned))
    await asyncio.wait_for(abandoned.wait(), 10)
    release.set()
    assert await task == 0
