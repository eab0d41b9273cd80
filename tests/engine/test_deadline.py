"""A deadline cancels its task, tells its own doing from a stop, and lets go of what does not listen."""

import asyncio
import contextlib
import weakref
from collections.abc import Callable

from toolyard.engine.loop.deadline import Deadline, DeadlineTimer


def never() -> bool:
    return False


async def attempt(
    after_s: float,
    work: asyncio.Event,
    abandoned: asyncio.Event,
    is_stopped: Callable[[], bool] = never,
    timer: DeadlineTimer | None = None,
) -> str:
    loop = asyncio.get_running_loop()
    deadline = Deadline(loop, timer or DeadlineTimer(loop), after_s, abandoned.set, is_stopped)
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


async def test_each_of_several_works_is_told_at_its_own_deadline_whichever_came_first() -> None:
    timer, work, abandoned, told = (
        DeadlineTimer(asyncio.get_running_loop()),
        asyncio.Event(),
        asyncio.Event(),
        list[int](),
    )

    async def note(number: int, after_s: float) -> None:
        assert await attempt(after_s, work, abandoned, timer=timer) == "late"
        told.append(number)

    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        for number, after_s in enumerate((0.06, 0.02, 0.04)):
            tasks.create_task(note(number, after_s))
    assert told == [1, 2, 0]


async def test_work_is_told_although_the_deadline_before_it_was_dropped() -> None:
    timer, ended, abandoned = DeadlineTimer(asyncio.get_running_loop()), asyncio.Event(), asyncio.Event()
    ended.set()
    assert await attempt(0.01, ended, abandoned, timer=timer) == "done"
    async with asyncio.timeout(10):
        assert await attempt(0.03, asyncio.Event(), abandoned, timer=timer) == "late"


async def test_a_closed_timer_leaves_nothing_to_the_event_loop() -> None:
    timer, ended = DeadlineTimer(asyncio.get_running_loop()), asyncio.Event()
    ended.set()
    assert await attempt(3_600, ended, asyncio.Event(), timer=timer) == "done"
    timer.close()
    watched = weakref.ref(timer)
    del timer
    assert watched() is None  # else a callback in an hour would hold it


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
