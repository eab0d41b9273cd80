"""What a server says beside the protocol, in the log under its name: bounded, so that a chatty one fills no disk."""

import asyncio
import logging
from collections import deque

LONGEST_LINE = 1000
MOST_LINES = 200
"""In one spell of `SPELL_S`; what comes beyond is counted, not written."""
SPELL_S = 10.0
KEPT_LINES = 5
LOG_LINES = 100
_log = logging.getLogger("toolyard.mcp")


class Said(asyncio.Protocol):
    """The lines of a child's stderr, and whatever else it writes that is not the protocol."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._rest = b""
        self._last: deque[str] = deque(maxlen=KEPT_LINES)
        self.log: deque[str] = deque(maxlen=LOG_LINES)
        """The last lines of all its children, for whoever looks after it."""
        self._began = 0.0
        self._lines = 0
        self.ended = asyncio.Event()

    def again(self) -> None:
        """Another child begins to speak."""
        self._last.clear()
        self.ended = asyncio.Event()

    @property
    def tail(self) -> str:
        """The last words, for an error that tells why a server ended."""
        return " | ".join(self._last)

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self.line(line)
        if len(self._rest) > LONGEST_LINE * 4:
            self.line(self._rest)
            self._rest = b""

    def connection_lost(self, exc: Exception | None) -> None:
        if self._rest:
            self.line(self._rest)
            self._rest = b""
        self.ended.set()

    def line(self, line: bytes, what: str = "says") -> None:
        text = line[: LONGEST_LINE * 4].decode("utf-8", "replace").strip()[:LONGEST_LINE]
        if not text:
            return
        self._last.append(text)
        self.log.append(text)
        now = asyncio.get_running_loop().time()
        if now - self._began > SPELL_S:
            if self._lines > MOST_LINES:
                _log.warning("%s said %d lines more, left out here", self._server, self._lines - MOST_LINES)
            self._began, self._lines = now, 0
        self._lines += 1
        if self._lines <= MOST_LINES:
            _log.info("%s %s: %s", self._server, what, text, extra={"server": self._server})
