"""What a server says beside the protocol, in the log under its name: bounded, so that a chatty one fills no disk."""

import asyncio
import logging
from collections import deque

MAX_LINE_CHARS = 1000
MAX_LINES = 200
"""In one spell of `SPELL_S`; what comes beyond is counted, not written."""
WINDOW_S = 10.0
TAIL_LINES = 5
LOG_LINES = 100
_log = logging.getLogger("toolyard.mcp")


class StderrLog(asyncio.Protocol):
    """The lines of a child's stderr, and whatever else it writes that is not the protocol."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._partial_line = b""
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self.log: deque[str] = deque(maxlen=LOG_LINES)
        """The last lines of all its children, for whoever looks after it."""
        self._window_start = 0.0
        self._window_lines = 0
        self.ended = asyncio.Event()

    def reset(self) -> None:
        """Another child begins to speak."""
        self._tail.clear()
        self.ended = asyncio.Event()

    @property
    def tail(self) -> str:
        """The last words, for an error that tells why a server ended."""
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
