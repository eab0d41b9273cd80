"""Logs what a child process writes beside the protocol, under its server's name, with a bound on lines and length."""

import asyncio
import logging
from collections import deque

MAX_LINE_CHARS = 1000
MAX_LINES = 200
"""In one window of `WINDOW_S`; lines beyond it are counted, not logged."""
WINDOW_S = 10.0
TAIL_LINES = 5
LOG_LINES = 100
_log = logging.getLogger("toolyard.mcp")


class StderrLog(asyncio.Protocol):
    """Collects the lines of a child's stderr, and its lines on stdout that are no messages."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._partial_line = b""
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self.log: deque[str] = deque(maxlen=LOG_LINES)
        """The last lines of the server, over all its restarts, for its card."""
        self._window_start = 0.0
        self._window_lines = 0
        self.ended = asyncio.Event()

    def reset(self) -> None:
        """Begin with a new child process."""
        self._tail.clear()
        self.ended = asyncio.Event()

    @property
    def tail(self) -> str:
        """Return the last lines of the current child, for the error that explains why it ended."""
        return " | ".join(self._tail)

    def data_received(self, data: bytes) -> None:
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        for line in lines:
            self.add_line(line)
        if len(self._partial_line) > MAX_LINE_CHARS * 4:
            self.add_line(self._partial_line)
            self._partial_line = b""

    def connection_lost(self, exc: Exception | None) -> None:
        if self._partial_line:
            self.add_line(self._partial_line)
            self._partial_line = b""
        self.ended.set()

    def add_line(self, line: bytes, verb: str = "says") -> None:
        text = line[: MAX_LINE_CHARS * 4].decode("utf-8", "replace").strip()[:MAX_LINE_CHARS]
        if not text:
            return
        self._tail.append(text)
        self.log.append(text)
        now = asyncio.get_running_loop().time()
        if now - self._window_start > WINDOW_S:
            if self._window_lines > MAX_LINES:
                _log.warning("%s said %d lines more, left out here", self._server, self._window_lines - MAX_LINES)
            self._window_start, self._window_lines = now, 0
        self._window_lines += 1
        if self._window_lines <= MAX_LINES:
            _log.info("%s %s: %s", self._server, verb, text, extra={"server": self._server})
