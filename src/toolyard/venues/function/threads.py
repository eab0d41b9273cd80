"""A bounded set of daemon threads for tools that block. A thread that ignores its deadline is abandoned, and counted.

No owner (a tool, a caller) can take all threads: some are always left to others, among those at work and among those
that hang. It does not know what it runs.
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
"""On whose behalf a function runs, each with the share of the threads that may hang for it."""
RUNNING_SHARE = 0.75
"""How much of the pool one owner may have at work at once."""
NO_OWNERS: Owners = {}


class NoThreadAvailable(Exception):
    """The function was not started, and why."""


class ThreadPool:
    """At most `most` at work at once, and as many again that were abandoned."""

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
        """Return what the function returns. Raises NoThread if it was not started."""
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
        jobs = self._idle.pop() if self._idle else self._new_thread()
        jobs.put((lambda: context.run(function), loop, future))
        try:
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
        """Return what a share of the pool is in threads: at least one, and where there are two or more never all."""
        return max(1, min(self._max_threads - 1, int(self._max_threads * share)))

    def _may_start(self, owners: Owners) -> bool:
        bound = self._share_limit(RUNNING_SHARE)
        return self._running < self._max_threads and all(self._running_for[owner] < bound for owner in owners)

    def _count_start(self, owners: Owners) -> None:
        self._running += 1
        self._running_for.update(owners.keys())

    async def _acquire(self, owners: Owners, max_wait_s: float | None) -> None:
        if self._may_start(owners):  # whoever waits could not start either, or would have been started
            self._count_start(owners)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((owners, turn))
        try:
            await asyncio.wait((turn,), timeout=max_wait_s)
        except asyncio.CancelledError:
            if turn.done():  # it was given a thread in the same moment
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
            if turn.done():  # it waits no longer
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
            except BaseException as raised:  # handed to whoever waits, whatever it is
                answer, error = None, raised
            try:
                loop.call_soon_threadsafe(_settle, future, answer, error)
            except RuntimeError:  # the loop is gone, and with it everybody who could have waited
                return


def _subtract(counts: Counter[Hashable], owners: Owners) -> None:
    """Count one less for each owner, without keeping owners that have nothing left."""
    for owner in owners:
        counts[owner] -= 1
        if not counts[owner]:
            del counts[owner]


def _settle(future: "asyncio.Future[JobOutcome]", answer: object, error: BaseException | None) -> None:
    if not future.cancelled():
        future.set_result((answer, error))
