"""Lets one process at a time own a file; an error names the process that owns it."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from toolyard.core.errors import Misconfigured

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


@contextmanager
def exclusive_lock(file: Path) -> Generator[None]:
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
