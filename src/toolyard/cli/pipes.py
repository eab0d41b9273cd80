"""Standard input and output as lines of a protocol; whatever else would go to standard output goes to standard error.

Threads do the reading and writing: they work with pipes, files and terminals alike, on every system.
"""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator

MAX_LINE_BYTES = 8 * 1024 * 1024
PIECE_BYTES = 64 * 1024
UNREADABLE_LINE = b"{"
"""What stands in for a line that is longer than any message may be: it cannot be read, and is told so."""


def claim_stdout() -> int:
    """Standard output for ourselves alone: a tool that prints must not speak in our name."""
    own = os.dup(1)
    os.dup2(2, 1)
    return own


class LineWriter:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = asyncio.Lock()

    async def write(self, line: bytes) -> None:
        async with self._lock:
            await asyncio.to_thread(self._write, line)

    def _write(self, line: bytes) -> None:
        left = memoryview(line)
        while left:
            left = left[os.write(self._descriptor, left) :]


async def read_lines(descriptor: int = 0) -> AsyncGenerator[bytes, None]:
    """The lines of an input until it ends. One that is too long is let go of, and what stands for it is unreadable."""
    loop, pieces = asyncio.get_running_loop(), asyncio.Queue[bytes](maxsize=16)

    def read() -> None:
        piece = b"-"
        while piece:
            try:
                piece = os.read(descriptor, PIECE_BYTES)
            except OSError:
                piece = b""
            try:
                asyncio.run_coroutine_threadsafe(pieces.put(piece), loop).result()
            except RuntimeError:
                return  # nobody listens any more

    threading.Thread(target=read, daemon=True, name="standard input").start()
    rest, skipping = b"", False
    while piece := await pieces.get():
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield UNREADABLE_LINE if skipping else line
            skipping = False
        if len(rest) > MAX_LINE_BYTES:
            rest, skipping = b"", True
    if rest and not skipping:
        yield rest
