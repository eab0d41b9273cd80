"""Proves that a replica of the same machine has died: the kernel frees its file lock when its process ends.

Nothing that the database sees can prove a death: a process that was killed and one whose connections were cut look
alike there, and the calls of the second one still run. Its lease has to end first. A free file lock is a proof, so that
a replica on the same machine may take over at once.
"""

import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

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


class Presence:
    """A locked file for this process, beside those of the other processes of this user that use the same database."""

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
