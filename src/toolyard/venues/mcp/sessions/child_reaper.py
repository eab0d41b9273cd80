"""Sees to it that no child outlives us, however we end: a shell that waits for our end of a pipe to close.

One for the whole process. It costs a megabyte and sleeps; a `kill -9` of us wakes it, and it ends the process groups
that were still alive, grandchildren and all.
"""

import contextlib
import os
import subprocess
import threading

_SCRIPT = """live=
while read -r word group; do
  kept=
  for one in $live; do [ "$one" = "$group" ] || kept="$kept $one"; done
  [ "$word" = add ] && kept="$kept $group"
  live=$kept
done
[ -z "$live" ] && exit 0
for one in $live; do kill -TERM -- "-$one" 2>/dev/null; done
sleep 1
for one in $live; do kill -KILL -- "-$one" 2>/dev/null; done
"""


class ChildReaper:
    """Knows the process groups that must not outlive this process."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._shell: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def add(self, group: int) -> None:
        with self._lock:
            self._groups.add(group)
            self._send(f"add {group}\n")

    def drop(self, group: int) -> None:
        with self._lock:
            self._groups.discard(group)
            if self._shell is not None:
                self._send(f"drop {group}\n")

    def close(self) -> None:
        """Nothing is left to watch: the shell finds its input closed, and an empty list."""
        with self._lock:
            if self._shell is not None:
                assert self._shell.stdin is not None
                with contextlib.suppress(OSError):
                    self._shell.stdin.close()
                self._shell.wait()
                self._shell = None

    def _send(self, line: str) -> None:
        if os.name != "posix":
            return
        if self._shell is not None and self._shell.poll() is None and self._write(line):
            return
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={"PATH": os.defpath},
        )
        self._write("".join(f"add {group}\n" for group in sorted(self._groups)))

    def _write(self, lines: str) -> bool:
        assert self._shell is not None and self._shell.stdin is not None
        try:
            self._shell.stdin.write(lines.encode())
            self._shell.stdin.flush()
        except OSError:
            return False
        return True
