"""The file: lets one process at a time own it, opens one connection to write and one to read, and runs statements."""

import asyncio
import os
import sqlite3
import sys
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar, get_args

import msgspec

from toolyard.core.errors import Misconfigured, StoreDown
from toolyard.core.store import UsageRow
from toolyard.stores.entries import build_closed_error
from toolyard.stores.single_process import SingleProcessPorts
from toolyard.stores.sqlite.schema import migrate
from toolyard.stores.sqlite.writer import SqliteWriter, Work, build_store_down

if sys.platform == "win32":
    import msvcrt

    def _take(descriptor: int) -> None:
        os.lseek(descriptor, 1 << 30, os.SEEK_SET)  # not the pid: others cannot read a locked byte
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)
else:
    import fcntl

    def _take(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


Synchronous = Literal["NORMAL", "FULL"]
"""NORMAL survives a crash of the process; FULL also survives a power cut, at the cost of a disk flush per commit."""
CHECKPOINT_PAGES = 4000
"""16 MB of write-ahead log: a page that many appends change is copied into the file once for all of them."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFile:
    path: Path
    writing: sqlite3.Connection
    reading: sqlite3.Connection
    readers: ThreadPoolExecutor
    resources: ExitStack
    """Closes everything in the right order: the last connection to close checkpoints, then the lock is released."""


class SqliteDatabase:
    """One SQLite file: a writer thread with group commit, and a reader thread."""

    def __init__(
        self,
        file: StoreFile,
        background: Work[bool],
        add_usage: Callable[[sqlite3.Connection, Sequence[UsageRow]], None],
    ) -> None:
        self.reading = file.reading
        self.writer = SqliteWriter(file.writing, file.path, file.resources, background, add_usage)
        self._path = file.path
        self._readers = file.readers

    async def read(self, query: Work[_T]) -> _T:
        """Return the result of a query in the reader's thread. Raises StoreDown."""
        self.require_open()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._readers, query, self.reading)
        except sqlite3.Error as error:
            raise build_store_down(self._path, error) from error
        except msgspec.DecodeError as error:
            reason = f"it holds an entry that cannot be read: {error}. A newer version may read it"
            raise StoreDown(reason, address=str(self._path)) from error

    async def fetch(self, query: str, *values: object) -> list[sqlite3.Row]:
        """Return the rows of one query."""
        return await self.read(lambda connection: connection.execute(query, values).fetchall())

    async def fetch_row(self, query: str, *values: object) -> sqlite3.Row | None:
        return await self.read(lambda connection: connection.execute(query, values).fetchone())

    async def write(self, work: Work[_T], size_bytes: int = 0) -> _T:
        """Return the result of `work` once it is committed. Raises StoreDown."""
        return await self.writer.run(work, size_bytes)

    async def execute(self, statement: str, *values: object, size_bytes: int = 0) -> int:
        """Commit one statement, and return how many rows it changed. Raises StoreDown."""
        return await self.writer.run(lambda connection: connection.execute(statement, values).rowcount, size_bytes)

    def require_open(self) -> None:
        if self.writer.closed:
            raise build_closed_error(str(self._path))


class SqlitePorts(SingleProcessPorts):
    """What the ports of the store share: its database."""

    def __init__(self, database: SqliteDatabase) -> None:
        super().__init__()
        self._database = database

    def _require_open(self) -> None:
        self._database.require_open()


def open_file(path: Path, synchronous: Synchronous) -> StoreFile:
    """Open the file as its owner, creating it if needed. Raises StoreDown or Misconfigured."""
    if synchronous not in get_args(Synchronous):
        raise Misconfigured(f"synchronous must be NORMAL or FULL, not {synchronous!r}")
    try:
        path = path.expanduser().resolve()  # so that two names of one file share one lock
        with ExitStack() as resources:
            path.parent.mkdir(parents=True, exist_ok=True)
            resources.enter_context(_exclusive_lock(path))
            _require_one_name(path)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            writing = resources.enter_context(closing(_connect(path, "rw")))
            migrate(writing, path)
            _set_durability(writing, path, synchronous)
            reading = resources.enter_context(closing(_connect(path, "ro")))
            reading.row_factory = sqlite3.Row
            readers = resources.enter_context(ThreadPoolExecutor(1, thread_name_prefix="toolyard-reader"))
            return StoreFile(
                path=path, writing=writing, reading=reading, readers=readers, resources=resources.pop_all()
            )
    except (sqlite3.Error, OSError) as error:
        raise build_store_down(path, error) from error


def _require_one_name(path: Path) -> None:
    """Raise Misconfigured for a file with hard links: the lock and the write-ahead log belong to one name of it."""
    # The file is not opened for this: closing it would drop the locks that SQLite has on it in this process.
    names = path.stat().st_nlink if path.is_file() else 1
    if names > 1:
        remedy = "Remove the others, and copy the file instead of linking it"
        raise Misconfigured(f"{path} has {names} names (hard links), and two processes could open it at once. {remedy}")


def _connect(path: Path, mode: Literal["ro", "rw"]) -> sqlite3.Connection:
    # Opened here, but used only in the writer's or the reader's thread: hence check_same_thread=False.
    return sqlite3.connect(f"{path.as_uri()}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False)


def _set_durability(connection: sqlite3.Connection, path: Path, synchronous: Synchronous) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise Misconfigured(f"{path} is on a disk that cannot keep a write-ahead log: give a path on a local disk")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")


@contextmanager
def _exclusive_lock(file: Path) -> Generator[None]:
    """Own `file` until the block or the process ends, even by a kill. Raises Misconfigured or OSError."""
    path = Path(f"{file}.lock")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            _take(descriptor)
        except (BlockingIOError, PermissionError):
            raise Misconfigured(_describe_owner(file, path.read_text().strip())) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, b"%d\n" % os.getpid())
        yield
    finally:
        os.close(descriptor)  # the lock file stays: removing it would let two processes lock two files of one name


def _describe_owner(file: Path, pid: str) -> str:
    owner = "this process" if pid == str(os.getpid()) else f"process {pid or '(unknown)'}"
    remedy = "Stop that one, or name another file with `store`, at the command line with --store"
    return f"{file} is in use by {owner}: one process owns a store. {remedy}"
