"""A bounded pool of daemon threads for tools that block. A thread that ignores its deadline is abandoned, and counted.

A thread cannot be stopped from outside, so a call that misses its deadline goes on in its thread until the function
returns. No owner (a tool, a caller) can take all threads: some are always left to others, both of the threads at work
and of those that may hang.
"""

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Callable, Hashable, Mapping
from contextvars import copy_context
from queue import SimpleQueue

JobOutcome = tuple[object, BaseException | None]
Job = tuple[Callable[[], object], asyncio.AbstractEventLoop, "asyncio.Future[JobOutcome]"]
Owners = Mapping[Hashable, float]
"""The owners on whose behalf a function runs, each with the share of the threads that may hang for it."""
RUNNING_SHARE = 0.75
"""The share of the pool that one owner may have at work at once."""
NO_OWNERS: Owners = {}


class NoThreadAvailable(Exception):
    """The function was not started; the message says why."""


class ThreadPool:
    """At most `max_threads` functions at work at once, and as many again in threads that were abandoned."""

    def __init__(self, max_threads: int = 32) -> None:
        self._max_threads = max_threads
        self._running = 0
        self._running_for = Counter[Hashable]()
        self._hung_for = Counter[Hashable]()
        self._waiting = deque[tuple[Owners, "asyncio.Future[None]"]]()
        self._idle: list[SimpleQueue[Job | None]] = []
        self.abandoned = 0
        self.closed = False

    async def run(
        self, function: Callable[[], object], owners: Owners = NO_OWNERS, max_wait_s: float | None = None
    ) -> object:
        """Run the function in a thread and return its result. Raise NoThreadAvailable if it was not started."""
        self._refuse_if_hung(owners)
        await self._acquire(owners, max_wait_s)
        try:
            return await self._run(function, owners)
        finally:
            self._release(owners)

    async def _run(self, function: Callable[[], object], owners: Owners) -> object:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[JobOutcome] = loop.create_future()
        context = copy_context()
        # Each thread has a queue of its own and gets a job only while it is idle, so that no job is ever queued behind
        # a function that hangs.
        jobs = self._idle.pop() if self._idle else self._new_thread()
        jobs.put((lambda: context.run(function), loop, future))
        try:
            # Shielded: at the deadline only the waiting is cancelled. The thread still settles the future when its
            # function returns, and is reclaimed then.
            answer, error = await asyncio.shield(future)
        except asyncio.CancelledError:
            if not future.done():
                self.abandoned += 1
                self._hung_for.update(owners.keys())
                future.add_done_callback(lambda _: self._reclaim(jobs, owners))
            raise
        finally:
            if future.done():
                self._make_idle(jobs)
        if error is not None:
            raise error
        return answer

    def close(self) -> None:
        self.closed = True
        for jobs in self._idle:
            jobs.put(None)
        self._idle.clear()

    def _refuse_if_hung(self, owners: Owners) -> None:
        if self.abandoned >= self._max_threads or any(
            self._hung_for[owner] >= self._share_limit(share) for owner, share in owners.items()
        ):
            raise NoThreadAvailable(
                "too many earlier calls still hang in threads that cannot be stopped; restart the server"
            )

    def _share_limit(self, share: float) -> int:
        """Return the number of threads of a share: at least one, and never the whole pool unless it has one thread."""
        return max(1, min(self._max_threads - 1, int(self._max_threads * share)))

    def _may_start(self, owners: Owners) -> bool:
        bound = self._share_limit(RUNNING_SHARE)
        return self._running < self._max_threads and all(self._running_for[owner] < bound for owner in owners)

    def _count_start(self, owners: Owners) -> None:
        self._running += 1
        self._running_for.update(owners.keys())

    async def _acquire(self, owners: Owners, max_wait_s: float | None) -> None:
        # No call that waits is overtaken unfairly: if it could start, the last `_release` would have started it.
        if self._may_start(owners):
            self._count_start(owners)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((owners, turn))
        try:
            await asyncio.wait((turn,), timeout=max_wait_s)
        except asyncio.CancelledError:
            if turn.done():  # `_release` has already counted it as started: give the slot back
                self._release(owners)
            turn.cancel()
            raise
        if not turn.done():
            turn.cancel()
            raise NoThreadAvailable(f"no thread became free within {max_wait_s:g} s")

    def _release(self, owners: Owners) -> None:
        self._running -= 1
        _subtract(self._running_for, owners)
        passed_over = list[tuple[Owners, "asyncio.Future[None]"]]()
        while self._waiting and self._running < self._max_threads:
            waiting, turn = self._waiting.popleft()
            if turn.done():  # it was cancelled, or its wait timed out
                continue
            if self._may_start(waiting):
                self._count_start(waiting)
                turn.set_result(None)
            else:
                passed_over.append((waiting, turn))
        self._waiting.extendleft(reversed(passed_over))

    def _reclaim(self, jobs: "SimpleQueue[Job | None]", owners: Owners) -> None:
        self.abandoned -= 1
        _subtract(self._hung_for, owners)
        self._make_idle(jobs)

    def _make_idle(self, jobs: "SimpleQueue[Job | None]") -> None:
        if self.closed:
            jobs.put(None)
        else:
            self._idle.append(jobs)

    def _new_thread(self) -> "SimpleQueue[Job | None]":
        jobs: SimpleQueue[Job | None] = SimpleQueue()
        threading.Thread(target=self._work, args=(jobs,), name="toolyard-tool", daemon=True).start()
        return jobs

    def _work(self, jobs: "SimpleQueue[Job | None]") -> None:
        while not self.closed and (job := jobs.get()):
            function, loop, future = job
            try:
                answer, error = function(), None
            except BaseException as raised:  # `run` raises it again in the task of the caller
                answer, error = None, raised
            try:
                # The pool and its futures belong to the event loop: a thread touches neither, and only posts to it.
                loop.call_soon_threadsafe(_settle, future, answer, error)
            except RuntimeError:  # the loop is closed, so nobody waits
                return


def _subtract(counts: Counter[Hashable], owners: Owners) -> None:
    """Count one less for each owner, and drop owners that reach zero, so that the counter does not grow for ever."""
    for owner in owners:
        counts[owner] -= 1
        if not counts[owner]:
            del counts[owner]


def _settle(future: "asyncio.Future[JobOutcome]", answer: object, error: BaseException | None) -> None:
    if not future.cancelled():
        future.set_result((answer, error))
