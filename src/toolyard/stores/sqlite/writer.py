"""Runs write jobs on one SQLite connection in one thread, many in each transaction.

A commit costs much more than a statement, so all jobs that wait while one group commits form the next group. A job is a
function of the connection; the ports hold the statements.
"""

import asyncio
import errno
import logging
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import TypeVar, cast

from toolyard.core.errors import StoreDown
from toolyard.core.store import UsageRow
from toolyard.stores.entries import build_closed_error

MAX_GROUP_JOBS = 512
MAX_QUEUED_JOBS = 4096
MAX_QUEUED_BYTES = 32 * 1024 * 1024
"""Beyond this, or `MAX_QUEUED_JOBS`, callers wait: a slow disk must not fill the memory."""

_log = logging.getLogger("toolyard.sqlite")
_T = TypeVar("_T")
BACKGROUND_PAUSE_S = 0.1
"""How long the writer is idle before it works in the background."""
MAX_BACKGROUND_DELAY_S = 0.25
"""A step of that work comes at least this often, however busy the writer is."""

Work = Callable[[sqlite3.Connection], _T]
"""The statements of one job. An exception rolls back this job alone and is raised to its caller.

A job may run twice (see `_commit`), so it must have no effects besides its statements.
"""

_ADVICE = {
    sqlite3.SQLITE_FULL: "Free some space on that disk; the store then goes on by itself",
    sqlite3.SQLITE_READONLY: "Make the file and its directory writable for this user",
    sqlite3.SQLITE_CANTOPEN: "Give a path to a file that this user may read and write",
    sqlite3.SQLITE_NOTADB: "Give the path of a Toolyard store or of a new file; this one was left as it is",
    sqlite3.SQLITE_CORRUPT: "Move the file aside and restore a copy, or save what can be read: sqlite3 FILE .recover",
    sqlite3.SQLITE_IOERR: "Check that the disk works, has space and is not over a quota or file size limit",
    sqlite3.SQLITE_BUSY: "Another program has locked it: close that one",
    sqlite3.SQLITE_TOOBIG: "Keep less in one piece",
}

_SQLITE_CODES = {
    errno.ENOSPC: sqlite3.SQLITE_FULL,
    errno.EDQUOT: sqlite3.SQLITE_FULL,
    errno.EROFS: sqlite3.SQLITE_READONLY,
    errno.EIO: sqlite3.SQLITE_IOERR,
    errno.EFBIG: sqlite3.SQLITE_IOERR,
}


def build_store_down(file: Path, error: sqlite3.Error | OSError) -> StoreDown:
    """Return an error of SQLite or of the file system as one that names the file and says what to do."""
    if isinstance(error, OSError):
        similar_code = _SQLITE_CODES.get(error.errno or 0, sqlite3.SQLITE_CANTOPEN)
        return StoreDown(f"{error.strerror}. {_ADVICE[similar_code]}", address=str(file))
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    advice = _ADVICE.get(code, "See the SQLite documentation for this error")
    return StoreDown(f"{error}. {advice}", address=str(file))


@dataclass(slots=True, eq=False)
class _Job:
    work: Work[object]
    size_bytes: int
    usage: Sequence[UsageRow]
    done: "asyncio.Future[object] | Outcome"
    outcome: object = None


class Outcome:
    """The outcome of a job to come: a future whose callbacks run at once, not one step of the event loop later."""

    __slots__ = ("_callbacks", "_error", "_is_done", "_result")

    def __init__(self) -> None:
        self._callbacks: list[Callable[[Outcome], object]] = []
        self._result: object = None
        self._error: BaseException | None = None
        self._is_done = False

    def done(self) -> bool:
        return self._is_done

    def cancelled(self) -> bool:
        return False

    def exception(self) -> BaseException | None:
        return self._error

    def result(self) -> bool:
        if self._error is not None:
            raise self._error
        return bool(self._result)

    def add_done_callback(self, callback: "Callable[[Outcome], object]", /) -> None:
        if self._is_done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def set_result(self, result: object) -> None:
        self._result, self._is_done = result, True
        self._call_back()

    def set_exception(self, error: BaseException) -> None:
        self._error, self._is_done = error, True
        self._call_back()

    def _call_back(self) -> None:
        for callback in self._callbacks:
            try:
                callback(self)
            except Exception as error:  # it must not keep the other jobs of its group from their outcomes
                _log.error("a callback of a commit failed", exc_info=error)


class SqliteWriter:
    """The only writer of the file. It belongs to the event loop that created it."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        file: Path,
        resources: ExitStack,
        background: Callable[[sqlite3.Connection], bool] = lambda _: False,
        add_usage: Callable[[sqlite3.Connection, Sequence[UsageRow]], None] = lambda _, __: None,
    ) -> None:
        """Take over the connection, and the resources to release in the writer's thread after its last commit.

        `background` does a step of work that can wait, in a transaction of its own, and returns whether more is left.
        `add_usage` adds the rows of a group of jobs to the usage.
        """
        self.commits = 0
        self._connection = connection
        self._file = file
        self._resources = resources
        self._loop = asyncio.get_running_loop()
        self._stopped: asyncio.Future[None] = self._loop.create_future()
        self._queue = SimpleQueue[_Job | None]()
        self.queued_jobs = 0
        self._queued_bytes = 0
        self._admission_lock = asyncio.Lock()
        self._has_room = asyncio.Event()
        self.closed = False
        self._add_usage = add_usage
        self._background = background
        self._has_background = True
        self._background_at = monotonic()
        self._background_pause_s = BACKGROUND_PAUSE_S
        self._thread = Thread(target=self._serve, name="toolyard-writer", daemon=True)
        self._thread.start()

    async def run(self, work: Work[_T], size_bytes: int = 0, usage: Sequence[UsageRow] = ()) -> _T:
        """Return the result of `work` once it is committed. It runs even if the caller is cancelled meanwhile.

        The `usage` of all jobs in a group is added in one statement for each row that it changes.
        """
        if self._is_full or self._admission_lock.locked():
            await self._wait_for_room(work, size_bytes, usage)
        return await self._submit(work, size_bytes, usage)

    def run_now(self, work: Work[bool], size_bytes: int = 0, usage: Sequence[UsageRow] = ()) -> Outcome | None:
        """Submit `work` and return its outcome to come; if the queue is full, return None and do not submit it."""
        # While others wait for room (they hold the lock), a job must not overtake them.
        if self._is_full or self._admission_lock.locked():
            return None
        outcome = Outcome()
        self._put(_Job(work, size_bytes, usage, outcome))
        return outcome

    @property
    def _is_full(self) -> bool:
        return self.queued_jobs >= MAX_QUEUED_JOBS or self._queued_bytes >= MAX_QUEUED_BYTES

    async def _wait_for_room(self, work: Work[object], size_bytes: int, usage: Sequence[UsageRow]) -> None:
        """Wait until the queue has room, in the order of arrival."""
        try:
            async with self._admission_lock:
                while self._is_full:
                    self._has_room.clear()
                    await self._has_room.wait()
        except asyncio.CancelledError:
            # A queued job is committed even if its caller is cancelled. The same holds here, so that the outcome does
            # not depend on how full the queue was.
            if not self.closed:
                self._submit(work, size_bytes, usage).cancel()
            raise

    async def close(self) -> None:
        """Commit all submitted jobs, then release everything. May be called again."""
        if not self.closed:
            self.closed = True
            self._queue.put(None)
        await asyncio.shield(self._stopped)  # a cancelled caller must not cancel the future that others wait for
        self._thread.join()

    def _submit(self, work: Work[_T], size_bytes: int, usage: Sequence[UsageRow]) -> asyncio.Future[_T]:
        done: asyncio.Future[_T] = self._loop.create_future()
        self._put(_Job(work, size_bytes, usage, cast("asyncio.Future[object]", done)))
        return done

    def _put(self, job: _Job) -> None:
        if self.closed:
            raise build_closed_error(str(self._file))
        self.queued_jobs += 1
        self._queued_bytes += job.size_bytes
        self._queue.put(job)

    def _settle(self, group: list[_Job]) -> None:
        """Resolve the futures of a group. Runs in the event loop: futures and counters are not thread-safe."""
        for job in group:
            self.queued_jobs -= 1
            self._queued_bytes -= job.size_bytes
            if job.done.cancelled():
                continue
            if isinstance(job.outcome, Exception):
                job.done.set_exception(job.outcome)
            else:
                job.done.set_result(job.outcome)
        self._has_room.set()

    def _serve(self) -> None:
        try:
            with self._resources:
                while group := self._next_group():
                    self._commit(group)
                    with suppress(RuntimeError):  # the loop is closed, so no caller waits any more
                        self._loop.call_soon_threadsafe(self._settle, group)
        finally:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stopped.set_result, None)

    def _next_group(self) -> list[_Job]:
        """Wait for a job and return it with all others in the queue; empty once the writer is closed and idle."""
        group: list[_Job] = []
        job = self._next_job()
        while job is not None:
            group.append(job)
            if len(group) == MAX_GROUP_JOBS:
                return group
            try:
                job = self._queue.get_nowait()
            except Empty:
                return group
        if group:
            self._queue.put(None)  # the end was read behind these jobs: leave it for the next call
        return group

    def _next_job(self) -> _Job | None:
        """Wait for a job. Work in the background is done while there is none, and now and then between jobs."""
        while self._has_background:
            if monotonic() < self._background_at + MAX_BACKGROUND_DELAY_S:
                try:
                    return self._queue.get(timeout=self._background_pause_s)
                except Empty:
                    pass
            self._run_background()
        return self._queue.get()

    def _run_background(self) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._has_background = self._background(self._connection)
            self._connection.execute("COMMIT")
        except Exception as error:
            self._has_background = False  # until the next commit
            with suppress(sqlite3.Error):
                self._connection.rollback()
            _log.warning("work in the background of %s failed: %s", self._file, error)
        self._background_at = monotonic()
        self._background_pause_s = 0.0

    def _commit(self, group: list[_Job]) -> None:
        """Commit a group in one transaction; if a job fails, run all again, each in a savepoint of its own.

        Failures are rare, so the first attempt saves the cost of savepoints.
        """
        error = self._transact(group, self._run_all)
        if error is not None and len(group) > 1:
            error = self._transact(group, self._attempt_each)
        if error is not None:
            for job in group:
                job.outcome = self._to_store_error(error)

    def _transact(self, group: list[_Job], run: Callable[[list[_Job]], None]) -> Exception | None:
        """Run and commit the jobs; return the error if nothing was committed."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            run(group)
            self._connection.execute("COMMIT")
            self.commits += 1
            self._has_background, self._background_pause_s = True, BACKGROUND_PAUSE_S
        except Exception as error:
            with suppress(sqlite3.Error):
                self._connection.rollback()
            return error
        return None

    def _run_all(self, group: list[_Job]) -> None:
        for job in group:
            job.outcome = job.work(self._connection)
        if usage := [row for job in group for row in job.usage]:
            self._add_usage(self._connection, usage)

    def _attempt_each(self, group: list[_Job]) -> None:
        execute = self._connection.execute
        for job in group:
            execute("SAVEPOINT job")
            try:
                self._run_all([job])
            except Exception as error:
                if not self._connection.in_transaction:
                    raise  # SQLite has rolled back the whole transaction, for example on a full disk
                execute("ROLLBACK TO job")
                job.outcome = self._to_store_error(error)
            execute("RELEASE job")

    def _to_store_error(self, error: Exception) -> Exception:
        return build_store_down(self._file, error) if isinstance(error, sqlite3.Error) else error
