"""Lines of a protocol on standard input and output; other output of the process goes to standard error.

Threads do the reading and writing, because event loops cannot wait for files and terminals on every system.
"""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator

MAX_LINE_BYTES = 8 * 1024 * 1024
PIECE_BYTES = 64 * 1024
UNREADABLE_LINE = b"{"
"""Stands for a line that is too long. It is no valid JSON, so that the protocol answers with a parse error."""


def claim_stdout() -> int:
    """Return a new descriptor for standard output, and send all other output to standard error.

    A tool that prints would otherwise write between the lines of the protocol.
    """
    descriptor = os.dup(1)
    os.dup2(2, 1)
    return descriptor


class LineWriter:
    """Write lines one after another, in threads: a pipe that is full must not block the event loop."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = asyncio.Lock()

    async def write(self, line: bytes) -> None:
        async with self._lock:
            await asyncio.to_thread(self._write, line)

    def _write(self, line: bytes) -> None:
        remaining = memoryview(line)
        while remaining:
            remaining = remaining[os.write(self._descriptor, remaining) :]


async def read_lines(descriptor: int = 0) -> AsyncGenerator[bytes, None]:
    """Yield the lines of an input until it ends, and UNREADABLE_LINE for a line that is too long."""
    loop, pieces = asyncio.get_running_loop(), asyncio.Queue[bytes](maxsize=16)

    def read() -> None:
        piece = b"-"
        while piece:
            try:
                piece = os.read(descriptor, PIECE_BYTES)
            except OSError:
                piece = b""
            try:
                # Waits while the queue is full, so that a fast writer cannot fill the memory.
                asyncio.run_coroutine_threadsafe(pieces.put(piece), loop).result()
            except RuntimeError:
                return  # the event loop is closed

    threading.Thread(target=read, daemon=True, name="standard input").start()
    unfinished, skipping = b"", False
    while piece := await pieces.get():
        *lines, unfinished = (unfinished + piece).split(b"\n")
        for line in lines:
            yield UNREADABLE_LINE if skipping else line
            skipping = False
        if len(unfinished) > MAX_LINE_BYTES:
            unfinished, skipping = b"", True
    if unfinished and not skipping:
        yield unfinished
