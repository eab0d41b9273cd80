"""A process of somebody's client: it reads requests as lines of JSON, and writes its answers the same way."""

import asyncio
import subprocess
import sys
from collections.abc import Mapping, Sequence
from threading import Lock, Timer

import msgspec

START_S, ANSWER_S = 240.0, 50.0
"""A busy machine may take a minute to load the packages of a client."""


class LineProcess:
    """A process that has written its first line: it is ready."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sys.stderr)
        self._lock = Lock()
        self.first_line = self._read_line(START_S)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    async def request(self, request: Mapping[str, object]) -> bytes:
        """Send a request, and return the line that answers it."""
        return await asyncio.to_thread(self.exchange, request)

    def exchange(self, request: Mapping[str, object]) -> bytes:
        """Send a request, and wait for the line that answers it. One request at a time is under way."""
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write(msgspec.json.encode(request) + b"\n")
            self._process.stdin.flush()
            return self._read_line(ANSWER_S)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _read_line(self, timeout_s: float) -> bytes:
        """Return the next line of output. A process that takes too long is killed, which ends its output."""
        assert self._process.stdout is not None
        timer = Timer(timeout_s, self._process.kill)
        timer.start()
        try:
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        assert line, f"the client wrote nothing within {timeout_s:.0f} s"
        return line
