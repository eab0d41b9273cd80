"""The lease of this replica: a row with a time until which the other replicas leave alone what this one owns.

Safety does not depend on it: appends are fenced by epoch. It decides who drives a conversation. A process has a new id
after its lease was lost, and then adopts the conversations that nobody took over meanwhile: their journals stay valid,
and calls in flight go on.
"""

import asyncio
import os
import re
import secrets
import socket
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from asyncpg import Connection

from toolyard.core.errors import StoreDown, ToolyardError
from toolyard.core.store import LOG_FORMAT
from toolyard.stores.postgres.connections import DATABASE_ERRORS, Database, is_outage

if sys.platform != "win32":
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
else:

    def _try_lock(descriptor: int) -> bool:
        return False


MAX_BACKOFF_S = 1.0
MIN_BACKOFF_S = 0.05
CLOCK_SAMPLES = 8
# Parameters 2 and 3 of every statement that uses these: seconds of a lease, and whether this replica has just come back
# from an outage. After a restart of the database or an outage a lease that has ended means nothing for the time of
# another lease: the owner, which runs, gets the chance to renew it and to adopt what it owns. '-infinity' is a proven
# death. A replica without a row has released all that it owned.
LEASE_HOLDS = """(r.alive_until > now() OR (r.alive_until > '-infinity'
    AND ($3 OR pg_postmaster_start_time() + make_interval(secs => $2) > now())))"""
IS_LIVE = f"EXISTS (SELECT 1 FROM replicas r WHERE r.id = {{replica}} AND {LEASE_HOLDS})"
_BEGIN = """INSERT INTO replicas (id, process, alive_until, log_format)
VALUES ($1, $2, clock_timestamp() + make_interval(secs => $3), $4)
RETURNING extract(epoch FROM clock_timestamp())::float8"""
# A lease that has ended is never renewed: others may have taken over by then.
_RENEW = """UPDATE replicas SET alive_until = clock_timestamp() + make_interval(secs => $2)
WHERE id = $1 AND alive_until > clock_timestamp() RETURNING extract(epoch FROM clock_timestamp())::float8"""
_ADOPT = """WITH mine AS (SELECT * FROM unnest($1::text[], $2::bigint[]) AS mine (id, epoch)),
locked AS MATERIALIZED (
    SELECT c.id FROM conversations c JOIN mine USING (id) WHERE c.epoch = mine.epoch AND c.replica = ANY($3)
    ORDER BY c.id FOR NO KEY UPDATE OF c
)
UPDATE conversations c SET replica = $4 FROM locked WHERE c.id = locked.id"""
_FIND_LOST = """SELECT mine.id, mine.epoch FROM unnest($1::text[], $2::bigint[]) AS mine (id, epoch)
LEFT JOIN conversations c ON c.id = mine.id WHERE c.epoch IS DISTINCT FROM mine.epoch"""
_RELEASE_ALL = """UPDATE conversations c SET replica = '', wake_at = CASE WHEN EXISTS (
    SELECT 1 FROM letters l WHERE l.conversation = c.id AND l.outcome IS NULL) THEN 0 ELSE wake_at END
WHERE replica = ANY($1) AND replica <> ''"""
# Deaths that a free file lock proves: see `Presence`.
_RECORD_DEATHS = "UPDATE replicas SET alive_until = '-infinity' WHERE process = ANY($1)"


class Lease:
    """The lease, the conversations that this replica owns under it, and the measured difference of the clocks."""

    def __init__(self, database: Database, installation: str) -> None:
        self._database = database
        self._lease_s = database.settings.lease_s
        self.process = _build_process_name()
        self._presence = Presence(installation, self.process)
        self._lives = 0
        self.id = ""
        self._former_ids: list[str] = []
        """Earlier ids whose conversations were not adopted yet."""
        self.owned: dict[str, int] = {}
        """The epochs of the conversations that this replica has claimed."""
        self.on_lost: Callable[[Sequence[tuple[str, int]]], None] = lambda _: None
        self._valid_until = 0.0
        """By the monotonic clock, counted from before the renewal was sent: never later than the database's."""
        self._sweep_at = 0.0
        self._last_beat_at = time.monotonic()
        self._clock_samples = deque[tuple[float, float]](maxlen=CLOCK_SAMPLES)
        self._connection: Connection | None = None
        self._poke = asyncio.Event()
        self._waiters: list[asyncio.Future[None]] = []
        self._task: asyncio.Task[None] | None = None
        database.on_trouble = self._poke.set

    @property
    def clock_offset(self) -> float:
        """Return the offset of the sample with the shortest round trip, which is the most exact one."""
        return min(self._clock_samples)[1] if self._clock_samples else 0.0

    @property
    def may_sweep(self) -> bool:
        """Return whether others whose lease has ended count as dead.

        After an outage of the database they have had no chance to renew it: they get the time of a lease for it.
        """
        return time.monotonic() >= self._sweep_at

    async def start(self) -> None:
        """Get the first lease. Raises one of DATABASE_ERRORS."""
        await self._beat()
        self._presence.open()
        self._task = asyncio.create_task(self._keep(), name="toolyard heartbeat")

    async def ensure(self) -> None:
        """Return once a third of the lease is left. Raises StoreDown after the time of a lease."""
        if self._is_long_enough():
            return
        try:
            async with asyncio.timeout(self._lease_s):
                while not self._is_long_enough():
                    self._database.require_up(to_write=True)
                    await self._wait_for_beat()
        except TimeoutError as error:
            reason = self._database.health.problem or "the lease of this replica could not be renewed in time"
            raise StoreDown(reason, address=self._database.address) from error

    async def refresh(self) -> None:
        """Renew the lease now, or begin a new one if it has ended. Raises StoreDown."""
        try:
            async with asyncio.timeout(self._lease_s):
                await self._wait_for_beat()
        except TimeoutError as error:
            raise StoreDown("the lease of this replica could not be renewed in time") from error
        self._database.require_up()

    async def adopt(self, conversation: str, epoch: int, claimed_as: str) -> None:
        """Keep a conversation that was claimed under an id that this replica has given up meanwhile."""
        await self._database.fetch(_ADOPT, [conversation], [epoch], [claimed_as], self.id)

    async def record_local_deaths(self) -> None:
        """Tell all replicas of processes on this machine that have died."""
        if dead := self._presence.find_dead():
            await self._database.fetch(_RECORD_DEATHS, dead)
            for process in dead:
                self._presence.remove(process)

    async def close(self) -> None:
        """Release everything, so that the others need not wait for the end of the lease."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        ids = [self.id, *self._former_ids]
        with suppress(ToolyardError):
            await self._database.fetch(_RELEASE_ALL, ids)
            await self._database.fetch("DELETE FROM followers WHERE replica = ANY($1)", ids)
            await self._database.fetch("DELETE FROM replicas WHERE id = ANY($1)", ids)
        self._drop_connection()
        self._presence.close()

    def _is_long_enough(self) -> bool:
        return self._valid_until - time.monotonic() > self._lease_s / 3

    async def _wait_for_beat(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._poke.set()
        await waiter

    async def _keep(self) -> None:
        delay_s, backoff_s = self._lease_s / 3, MIN_BACKOFF_S
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await self._poke.wait()
            self._poke.clear()
            try:
                await self._beat()
            except (*DATABASE_ERRORS, ToolyardError) as error:
                self._note_failure(error)
                delay_s = backoff_s
                backoff_s = min(backoff_s * 2, MAX_BACKOFF_S)
            else:
                delay_s, backoff_s = self._lease_s / 3, MIN_BACKOFF_S
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    async def _beat(self) -> None:
        if self._connection is None or self._connection.is_closed():
            timeout_s = min(self._lease_s / 3, self._database.settings.statement_timeout_s)
            self._connection = await self._database.connect("heartbeat", timeout_s)
        sent_at, wall_time = time.monotonic(), time.time()
        rows = await self._database.run(self._connection, _RENEW, self.id, self._lease_s) if self.id else ()
        if rows:
            clock: float = rows[0][0]
        else:
            # The time when the statement is sent counts, so that this side never takes the lease for longer.
            sent_at, wall_time = time.monotonic(), time.time()
            clock = await self._begin_life(self._connection)
        round_trip_s = time.monotonic() - sent_at
        self._clock_samples.append((round_trip_s, clock - wall_time - round_trip_s / 2))
        if self._former_ids:
            await self._adopt_all(self._connection)
        self._note_success()
        self._valid_until = sent_at + self._lease_s

    async def _begin_life(self, connection: Connection) -> float:
        self._lives += 1
        new_id = f"{self.process}.{self._lives}"
        ((clock,),) = await self._database.run(connection, _BEGIN, new_id, self.process, self._lease_s, LOG_FORMAT)
        if self.id:
            self._former_ids.append(self.id)
        self.id = new_id
        return clock

    async def _adopt_all(self, connection: Connection) -> None:
        mine = list(self.owned.items())
        ids, epochs = [id for id, _ in mine], [epoch for _, epoch in mine]
        run, former_ids = self._database.run, list(self._former_ids)
        await run(connection, _ADOPT, ids, epochs, former_ids, self.id)
        lost = [(id, epoch) for id, epoch in await run(connection, _FIND_LOST, ids, epochs)]
        await run(connection, "UPDATE followers SET replica = $2 WHERE replica = ANY($1)", former_ids, self.id)
        await run(connection, "DELETE FROM replicas WHERE id = ANY($1)", former_ids)
        self._former_ids.clear()
        for conversation, epoch in lost:
            if self.owned.get(conversation) == epoch:  # else it was claimed again meanwhile
                del self.owned[conversation]
        if lost:
            self.on_lost(lost)

    def _note_failure(self, error: Exception) -> None:
        if is_outage(error):
            self._drop_connection()
        self._database.health.fail("heartbeat", error)

    def _note_success(self) -> None:
        self._database.health.recover("heartbeat")
        # Everybody renews its lease with two thirds left, so that a shorter outage ends nobody's. When it began is not
        # known: at the earliest after the last beat.
        now = time.monotonic()
        if now - self._last_beat_at > self._lease_s * 2 / 3:
            self._sweep_at = now + self._lease_s
        self._last_beat_at = now

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None


class Presence:
    """A locked file for this process, beside those of the other processes of this user that use the same database.

    It proves that a replica of the same machine has died: the kernel frees the lock when its process ends. Nothing that
    the database sees can prove a death: a process that was killed and one whose connections were cut look alike there,
    and the calls of the second one still run, so that its lease has to end first. After a free lock a replica on the
    same machine may take over at once.
    """

    def __init__(self, installation: str, process: str) -> None:
        user = os.geteuid() if sys.platform != "win32" else 0
        self._directory = Path(tempfile.gettempdir()) / f"toolyard-replicas-{user}-{installation}"
        self._file = self._directory / process
        self._descriptor = -1

    def open(self) -> None:
        """Create and lock the file. Without it the others wait for the end of the lease."""
        with suppress(OSError):
            self._directory.mkdir(mode=0o700, exist_ok=True)
            if not self._is_ours():
                return
            self._descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            if _try_lock(self._descriptor):
                os.write(self._descriptor, b"locked\n")  # see `_is_free`

    def find_dead(self) -> list[str]:
        """Return the processes whose lock is free. `remove` them once that is recorded."""
        if self._descriptor < 0 or not self._is_ours():
            return []
        with suppress(OSError):
            names = [name for name in os.listdir(self._directory) if name != self._file.name]
            return [name for name in names if self._is_free(name)]
        return []

    def remove(self, process: str) -> None:
        with suppress(OSError):
            (self._directory / process).unlink()

    def close(self) -> None:
        if self._descriptor >= 0:
            self.remove(self._file.name)
            os.close(self._descriptor)
            self._descriptor = -1

    def _is_ours(self) -> bool:
        """Return whether nobody else can put files into the directory: a false proof of death costs calls."""
        if sys.platform == "win32":
            return False
        status = os.lstat(self._directory)
        return status.st_uid == os.geteuid() and not status.st_mode & 0o022 and self._directory.is_dir()

    def _is_free(self, name: str) -> bool:
        with suppress(OSError):
            descriptor = os.open(self._directory / name, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
            try:
                # A process locks its file right after creating it; one without content is not locked yet.
                return _try_lock(descriptor) and os.fstat(descriptor).st_size > 0
            finally:
                os.close(descriptor)
        return False


class LeasedPorts:
    """What the ports of one replica share: the database and the replica's lease."""

    def __init__(self, database: Database, lease: Lease) -> None:
        self._database = database
        self._lease = lease

    @property
    def _grace(self) -> tuple[float, bool]:
        """Return the parameters of IS_LIVE."""
        return self._database.settings.lease_s, not self._lease.may_sweep


def _build_process_name() -> str:
    """Return a new name with a hint at the machine; it is also the name of a channel and of a file."""
    host = re.sub(r"[^a-z0-9]+", "-", socket.gethostname().lower())[:24].strip("-")
    return f"{host or 'replica'}-{secrets.token_hex(4)}"
