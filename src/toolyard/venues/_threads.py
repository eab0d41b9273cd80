"""A bounded set of daemon threads for tools that block. A thread that ignores its deadline is abandoned, and counted.

It does not know what it runs.
"""

import asyncio
import threading
from collections.abc import Callable
from contextvars import copy_context
from queue import SimpleQueue

Outcome = tuple[object, BaseException | None]
Job = tuple[Callable[[], object], asyncio.AbstractEventLoop, "asyncio.Future[Outcome]"]


class TooManyAbandoned(Exception):
    """As many threads as may run at once have been abandoned and still run: nothing more is started."""


class Threads:
    """At most `most` at work at once, and as many again that were abandoned."""

    def __init__(self, most: int = 32) -> None:
        self._most = most
        self._free = asyncio.Semaphore(most)
        self._idle: list[SimpleQueue[Job | None]] = []
        self.abandoned = 0
        self.closed = False

    async def run(self, function: Callable[[], object]) -> object:
        if self.abandoned >= self._most:
            raise TooManyAbandoned
        async with self._free:
            loop = asyncio.get_running_loop()
            future: asyncio.Future[Outcome] = loop.create_future()
            context = copy_context()
            jobs = self._idle.pop() if self._idle else self._new_thread()
            jobs.put((lambda: context.run(function), loop, future))
            try:
                answer, error = await asyncio.shield(future)
            except asyncio.CancelledError:
                if not future.done():
                    self.abandoned += 1
                    future.add_done_callback(lambda _: self._came_back(jobs))
                raise
            finally:
                if future.done():
                    self._rest(jobs)
            if error is not None:
                raise error
            return answer

    def close(self) -> None:
        self.closed = True
        for jobs in self._idle:
            jobs.put(None)
        self._idle.clear()

    def _came_back(self, jobs: "SimpleQueue[Job | None]") -> None:
        self.abandoned -= 1
        self._rest(jobs)

    def _rest(self, jobs: "SimpleQueue[Job | None]") -> None:
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


def _settle(future: "asyncio.Future[Outcome]", answer: object, error: BaseException | None) -> None:
    if not future.cancelled():
        future.set_result((answer, error))
