"""Ends the child processes if this process dies, even by `kill -9`: a shell waits for its end of a pipe to close.

There is one shell for the whole process. It takes a megabyte and sleeps. When the kernel closes the pipe, the shell
ends the process groups that are still registered, grandchildren included.
"""

import contextlib
import os
import subprocess
import threading
from collections.abc import Sequence

# `kill -s TERM`, not `kill -TERM`: dash takes the "--" after the latter for the number of a process and kills nothing.
_SCRIPT = """groups=
while read -r action group; do
  others=
  for id in $groups; do [ "$id" = "$group" ] || others="$others $id"; done
  [ "$action" = add ] && others="$others $group"
  groups=$others
done
[ -z "$groups" ] && exit 0
for id in $groups; do kill -s TERM -- "-$id" 2>/dev/null; done
sleep 1
for id in $groups; do kill -s KILL -- "-$id" 2>/dev/null; done
"""


class ChildReaper:
    """Registers the process groups that must not outlive this process."""

    def __init__(self, shell: Sequence[str] = ("/bin/sh",)) -> None:
        self._command = [*shell, "-c", _SCRIPT]
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
        """End the shell, once no group is registered: it finds its input closed and nothing to kill."""
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
        # A shell that was killed by somebody is replaced, and told all groups again. It has a session of its own, so
        # that a Ctrl-C in the terminal, which signals our whole process group, does not end it with us.
        self._shell = subprocess.Popen(
            self._command,
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
