"""Commits appends in groups: all that wait while one group commits form the next one, which is one statement.

A commit whose connection broke is unknown until it was read: its group is sent again, and where the fence rejects an
append then, the log shows whether the first attempt had stored it. So a restart of the database fails no append.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from asyncpg import Connection

from toolyard.core.errors import Fenced, ToolyardError
from toolyard.core.store import Append
from toolyard.stores.entries import build_closed_error, build_repeated_error, check_order, encode_batch, ends_run
from toolyard.stores.postgres.catalog import (
    PROJECTION,
    REQUEST_CONSTRAINT,
    Projection,
    build_projection_parameters,
    project_entries,
)
from toolyard.stores.postgres.connections import DATABASE_ERRORS, LOCK_TIMEOUT_S, Database, get_sqlstate, is_outage
from toolyard.stores.postgres.lease import MAX_BACKOFF_S, MIN_BACKOFF_S
from toolyard.stores.postgres.ledger import build_ledger_parameters, continue_statement

MAX_GROUP_JOBS = 256
MAX_GROUP_BYTES = 8 * 1024 * 1024
MAX_QUEUED_JOBS = 4096
MAX_QUEUED_BYTES = 32 * 1024 * 1024
"""Beyond this, or `MAX_QUEUED_JOBS`, callers wait: a slow database must not fill the memory."""
RETRY_S = 0.2
MAX_ATTEMPTS = 100
"""How often an append is tried that another connection stands in the way of."""
MAX_CLOSE_S = 5.0
MIN_TIMEOUT_S = 3.0
_RETRYABLE = frozenset({"55P03", "40P01", "57014"})
"""A row stayed locked, a deadlock, a statement that took too long."""

# The fence: only the owner of the current epoch appends, and only the next entries. An epoch is given out once, so that
# a row with it has been ours ever since, also while its `replica` is an id that this process had before; an empty one
# means that we have released it. Rows are locked in the order of their ids, as all replicas do.
_FENCE = """WITH job AS (
    SELECT * FROM unnest(
        $1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::float8[], $6::bigint[], $7::boolean[], $8::bytea[]
    ) AS job (id, epoch, first, count, wake_at, release_at, ends_run, entries)
), locked AS MATERIALIZED (
    SELECT c.id, c.wake_at IS NOT NULL AS was_open FROM conversations c JOIN job USING (id)
    WHERE c.epoch = job.epoch AND c.epoch > 0 AND c.replica <> '' AND (job.count = 0 OR c.last_seq + 1 = job.first)
    ORDER BY c.id FOR NO KEY UPDATE OF c
)"""
# A command that the owner has not seen yet keeps it from releasing the conversation, and keeps the conversation due.
_ADVANCE = f"""{_FENCE}, advanced AS (
    UPDATE conversations c SET
        last_seq = c.last_seq + job.count,
        wake_at = CASE WHEN job.release_at <> c.mail THEN 0 ELSE job.wake_at END,
        replica = CASE WHEN job.release_at = c.mail THEN '' ELSE c.replica END,
        deaths = CASE WHEN job.ends_run THEN 0 ELSE c.deaths END
    FROM job JOIN locked USING (id) WHERE c.id = job.id
    RETURNING c.id, c.replica = '' AS released, locked.was_open, job.wake_at IS NOT NULL AS is_open
), stored AS (
    INSERT INTO batches (conversation, last_seq, epoch, entries)
    SELECT id, first + count - 1, epoch, entries FROM job JOIN advanced USING (id) WHERE count > 0
)"""
_APPEND = f"{_ADVANCE} SELECT id, released FROM advanced"
_PROJECT = f"{_ADVANCE}{PROJECTION} SELECT id, released FROM advanced"
_PROJECT_SPENDING = f"{continue_statement(_ADVANCE + PROJECTION)} SELECT id, released FROM advanced"
_WAIT, _DO_NOT_WAIT = "FOR NO KEY UPDATE OF c", "FOR NO KEY UPDATE OF c NOWAIT"
_SETTLE = """SELECT job.id, c.epoch, c.last_seq, c.replica, b.epoch
FROM unnest($1::text[], $2::bigint[]) AS job (id, last) LEFT JOIN conversations c USING (id)
LEFT JOIN batches b ON b.conversation = job.id AND b.last_seq = job.last"""


@dataclass(slots=True, eq=False)
class _QueuedAppend:
    append: Append
    first: int
    count: int
    lines: bytes
    done: asyncio.Future[bool]
    projection: Projection
    ends_run: bool
    is_uncertain: bool = False
    """Whether an earlier attempt may have been committed."""
    attempts: int = 0
    is_settled: bool = False
    size_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.size_bytes = len(self.lines) + sum(len(answer.outcome) for answer in self.append.answers)

    @property
    def needs_projection(self) -> bool:
        """Return whether more than the log and the conversation's row may change."""
        append = self.append
        return bool(not self.projection.is_empty or append.answers or not self.count or append.wake_at is None)


class PostgresWriter:
    """Commits appends on a connection of its own."""

    def __init__(self, database: Database, owned: dict[str, int], get_replica: Callable[[], str]) -> None:
        """`owned` holds the conversations of this replica; those that an append releases are removed from it.

        `get_replica` returns the id of this replica, under which its usage is counted.
        """
        self._get_replica = get_replica
        self.commits = 0
        self._database = database
        self._owned = owned
        self._queue = deque[_QueuedAppend]()
        self._deferred = set[_QueuedAppend]()
        """Appends that a locked row stopped: they return to the queue after RETRY_S."""
        self._queued_jobs = 0
        self._queued_bytes = 0
        self._has_work = asyncio.Event()
        self._has_room = asyncio.Event()
        self._admission_lock = asyncio.Lock()
        self._connection: Connection | None = None
        self._closing = False
        self._task = asyncio.create_task(self._run(), name="toolyard writer")

    def begin(self, append: Append) -> asyncio.Future[bool] | None:
        """Submit an append and return its future; if the queue is full, return None and do not submit it."""
        # While others wait for room (they hold the lock), an append must not overtake them.
        if self._is_full or self._admission_lock.locked():
            self._require_open()
            return None
        return self._submit(_build_job(append))

    async def append(self, append: Append) -> bool:
        """Commit an append and return whether it released the conversation. A cancelled caller does not stop it."""
        job = _build_job(append)
        if self._is_full or self._admission_lock.locked():
            await self._wait_for_room(job)
        return await self._submit(job)

    async def close(self) -> None:
        """Commit what was submitted, for a limited time; whatever is left then fails with StoreDown."""
        self._closing = True
        self._has_work.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(MAX_CLOSE_S):
                await asyncio.shield(self._task)
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        for job in (*self._queue, *self._deferred):
            self._fail(job, build_closed_error(self._database.address))
        self._queue.clear()
        self._deferred.clear()
        self._drop_connection()

    @property
    def _is_full(self) -> bool:
        return self._queued_jobs >= MAX_QUEUED_JOBS or self._queued_bytes >= MAX_QUEUED_BYTES

    async def _wait_for_room(self, job: _QueuedAppend) -> None:
        """Wait until the queue has room, in the order of arrival."""
        try:
            async with self._admission_lock:
                while self._is_full:
                    self._has_room.clear()
                    await self._has_room.wait()
        except asyncio.CancelledError:
            # A queued append is committed even if its caller is cancelled. The same holds here, so that the outcome
            # does not depend on how full the queue was.
            if not self._closing:
                self._submit(job).cancel()
            raise

    def _submit(self, job: _QueuedAppend) -> asyncio.Future[bool]:
        self._require_open()
        self._queued_jobs += 1
        self._queued_bytes += job.size_bytes
        self._queue.append(job)
        self._has_work.set()
        return job.done

    def _require_open(self) -> None:
        if self._closing:
            raise build_closed_error(self._database.address)

    async def _run(self) -> None:
        while True:
            while not self._queue:
                if self._closing:
                    return
                self._has_work.clear()
                await self._has_work.wait()
            group = self._next_group()
            try:
                await self._commit_until_settled(group)
            except BaseException as error:
                for job in group:
                    self._fail(job, _to_store_error(error, self._database))
                if not isinstance(error, Exception):
                    raise

    def _next_group(self) -> list[_QueuedAppend]:
        """Take the appends that are committed next: at most one for each conversation, and one that was stopped alone.

        So such an append cannot stop others again.
        """
        if self._queue[0].attempts:
            return [self._queue.popleft()]
        group: dict[str, _QueuedAppend] = {}
        size_bytes = 0
        while self._queue and len(group) < MAX_GROUP_JOBS and size_bytes < MAX_GROUP_BYTES:
            job = self._queue[0]
            if job.attempts or job.append.conversation in group:
                break
            group[job.append.conversation] = self._queue.popleft()
            size_bytes += job.size_bytes
        return list(group.values())

    async def _commit_until_settled(self, group: list[_QueuedAppend]) -> None:
        """Commit the group; while the database is down, try again. Returns once each append has its result."""
        backoff_s = MIN_BACKOFF_S
        while group := [job for job in group if not (job.is_settled or job in self._deferred)]:
            try:
                await self._commit(group)
            except DATABASE_ERRORS as error:
                if not is_outage(error):
                    raise
                for job in group:
                    job.is_uncertain = True
                self._drop_connection()
                self._database.health.fail("writer", error)
                self._database.on_trouble()
                await asyncio.sleep(backoff_s)
                backoff_s = min(backoff_s * 2, MAX_BACKOFF_S)
            else:
                self._database.health.recover("writer")
                return

    async def _commit(self, group: list[_QueuedAppend]) -> None:
        """Commit the group in one statement, or one by one if one of its appends stands in the way of the others."""
        connection = await self._connect()
        try:
            await self._send(connection, group)
        except DATABASE_ERRORS as error:
            if is_outage(error):
                raise
            if len(group) > 1:
                for job in group:
                    await self._commit([job])
                return
            self._handle_rejection(group[0], error)

    def _handle_rejection(self, job: _QueuedAppend, error: Exception) -> None:
        """Handle an error of the statement for one append, which was certainly not committed."""
        job.attempts += 1
        if getattr(error, "constraint_name", "") == REQUEST_CONSTRAINT:
            self._fail(job, build_repeated_error())
        elif get_sqlstate(error) in _RETRYABLE and job.attempts < MAX_ATTEMPTS:
            self._deferred.add(job)
            asyncio.get_running_loop().call_later(RETRY_S, self._requeue, job)
        else:
            self._fail(job, _to_store_error(error, self._database))

    def _requeue(self, job: _QueuedAppend) -> None:
        if job in self._deferred:  # else the store was closed meanwhile
            self._deferred.remove(job)
            self._queue.append(job)
            self._has_work.set()

    async def _send(self, connection: Connection, group: list[_QueuedAppend]) -> None:
        has_spending = any(job.append.usage or job.append.settlements for job in group)
        needs_projection = has_spending or any(job.needs_projection for job in group)
        statement = _PROJECT_SPENDING if has_spending else _PROJECT if needs_projection else _APPEND
        if group[0].attempts:  # alone in its group: it must not hold up the others again
            statement = statement.replace(_WAIT, _DO_NOT_WAIT)
        parameters: list[object] = [*_build_parameters(group)]
        if needs_projection:
            parameters += build_projection_parameters([(job.append, job.projection) for job in group])
        if has_spending:
            parameters += build_ledger_parameters([job.append for job in group], self._get_replica())
        rows = await self._database.run(connection, statement, *parameters)
        self.commits += 1
        released = {row[0]: row[1] for row in rows}
        rejected: list[_QueuedAppend] = []
        for job in group:
            is_released = released.get(job.append.conversation)
            if is_released is None:
                rejected.append(job)
            else:
                self._finish(job, is_released)
        if rejected:
            await self._settle(connection, rejected)

    async def _settle(self, connection: Connection, jobs: list[_QueuedAppend]) -> None:
        """Find out why the fence rejected these appends: an earlier attempt may have stored them."""
        rows = await self._database.run(
            connection, _SETTLE, [job.append.conversation for job in jobs], [job.first + job.count - 1 for job in jobs]
        )
        state = {row[0]: row for row in rows}
        for job in jobs:
            _, epoch, last_seq, replica, batch_epoch = state[job.append.conversation]
            # Nobody else releases an epoch that is ours, so that an empty replica shows our own commit.
            is_released = job.append.release_at is not None and (epoch != job.append.epoch or not replica)
            was_stored = batch_epoch == job.append.epoch if job.count else is_released
            if job.is_uncertain and was_stored:
                self._finish(job, is_released)
            else:
                if epoch != job.append.epoch or not replica:
                    self._owned.pop(job.append.conversation, None)
                self._fail(job, Fenced(_explain_fence(job, epoch, last_seq, replica)))

    def _finish(self, job: _QueuedAppend, is_released: bool) -> None:
        if is_released:
            self._owned.pop(job.append.conversation, None)
        self._settle_job(job, lambda: job.done.set_result(is_released))

    def _fail(self, job: _QueuedAppend, error: ToolyardError) -> None:
        self._settle_job(job, lambda: job.done.set_exception(error))

    def _settle_job(self, job: _QueuedAppend, resolve: Callable[[], None]) -> None:
        if job.is_settled:
            return
        job.is_settled = True
        self._queued_jobs -= 1
        self._queued_bytes -= job.size_bytes
        self._has_room.set()
        if not job.done.done():  # its caller may have been cancelled
            resolve()

    async def _connect(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            settings = self._database.settings
            # A cut network must not hold up appends for much longer than the lease: see `is_uncertain`.
            timeout_s = min(settings.statement_timeout_s + LOCK_TIMEOUT_S, max(settings.lease_s, MIN_TIMEOUT_S))
            self._connection = await self._database.connect("writer", timeout_s)
        return self._connection

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None


def _to_store_error(error: BaseException, database: Database) -> ToolyardError:
    return error if isinstance(error, ToolyardError) else database.build_error(error)


def _explain_fence(job: _QueuedAppend, epoch: int | None, last_seq: int | None, replica: str | None) -> str:
    conversation = job.append.conversation
    if epoch is not None and epoch < 0:
        return f"conversation {conversation!r} was deleted"
    if epoch != job.append.epoch:
        return f"epoch {job.append.epoch} does not own conversation {conversation!r}: its epoch is {epoch}"
    if not replica:
        return f"this replica has released conversation {conversation!r}"
    return f"entry {job.first} of conversation {conversation!r} is out of order: {(last_seq or 0) + 1} comes next"


def _build_job(append: Append) -> _QueuedAppend:
    entries = append.entries
    first = entries[0].seq if entries else 0
    check_order(append.conversation, entries, first)
    done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    return _QueuedAppend(
        append, first, len(entries), encode_batch(entries), done, project_entries(entries), ends_run(entries)
    )


def _build_parameters(group: Sequence[_QueuedAppend]) -> list[list[object]]:
    """Return the parameters of the fence, one list for each column."""
    return [
        [job.append.conversation for job in group],
        [job.append.epoch for job in group],
        [job.first for job in group],
        [job.count for job in group],
        [job.append.wake_at for job in group],
        [job.append.release_at for job in group],
        [job.ends_run for job in group],
        [job.lines for job in group],
    ]
