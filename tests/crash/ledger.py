"""The ledger of payments: a file that only grows, written by the replicas and read by the storm.

Each line is on the disk before the tool goes on. A payment has three: `begin` before it, `pay` when it takes effect and
`end` right before the tool returns.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Step = Literal["begin", "pay", "end"]
STEPS: tuple[Step, ...] = ("begin", "pay", "end")


@dataclass(frozen=True, slots=True)
class Line:
    """What a process noted about a call, and when."""

    step: Step
    replica: str
    pid: int
    at: float
    conversation: str
    call: str
    amount: int

    def encode(self) -> bytes:
        words = (self.step, self.replica, self.pid, f"{self.at:.6f}", self.conversation, self.call, self.amount)
        return (" ".join(map(str, words)) + "\n").encode()


def parse_line(text: str) -> Line:
    step, replica, pid, at, conversation, call, amount = text.split()
    return Line(
        next(name for name in STEPS if name == step), replica, int(pid), float(at), conversation, call, int(amount)
    )


class LedgerWriter:
    """Adds lines of one process."""

    def __init__(self, path: Path, replica: str) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        self._replica = replica

    def note(self, step: Step, conversation: str, call: str, amount: int) -> None:
        line = Line(step, self._replica, os.getpid(), time.time(), conversation, call, amount)
        os.write(self._file, line.encode())
        os.fsync(self._file)


class LedgerReader:
    """Reads what was added since the last time, and tells which calls each process is in."""

    def __init__(self, path: Path) -> None:
        path.touch()
        self._file = path.open("rb")
        self._rest = b""
        self.lines: list[Line] = []
        self._open: dict[tuple[int, str, str], Line] = {}

    def update(self) -> None:
        *complete, self._rest = (self._rest + self._file.read()).split(b"\n")
        for text in complete:
            line = parse_line(text.decode())
            self.lines.append(line)
            key = line.pid, line.conversation, line.call
            if line.step == "begin":
                self._open[key] = line
            elif line.step == "end":
                self._open.pop(key, None)

    def list_in_flight(self, pid: int) -> list[Line]:
        """Return the calls that this process has begun and not ended."""
        self.update()
        return [line for (of_pid, _, _), line in self._open.items() if of_pid == pid]

    def forget_process(self, pid: int) -> None:
        """Drop the calls of a process that has ended."""
        self._open = {key: line for key, line in self._open.items() if key[0] != pid}

    def close(self) -> None:
        self._file.close()
