"""Reads the server-sent events of a Toolyard server."""

from collections.abc import AsyncGenerator

import aiohttp

from toolyard.core.errors import Unavailable

MAX_LINE_BYTES = 64 * 1024 * 1024
"""The longest line that is buffered. An event is one line, and holds a whole message with its files."""


async def read_events(
    content: aiohttp.StreamReader, max_line_bytes: int = MAX_LINE_BYTES
) -> AsyncGenerator[tuple[str, bytes], None]:
    """Yield the last event id and the data of each event. Raise Unavailable if a line is too long to be buffered.

    The server writes the data of an event on one line.
    """
    event_id, unfinished = "", bytearray()
    async for chunk in content.iter_any():
        # The start of a long line was searched for its end before: only the new chunk is split.
        first, *later_lines = chunk.split(b"\n")
        unfinished += first
        if len(unfinished) > max_line_bytes:
            raise Unavailable(f"the server sent an event of more than {max_line_bytes:,} bytes")
        if not later_lines:
            continue
        lines = [bytes(unfinished), *later_lines[:-1]]
        unfinished = bytearray(later_lines[-1])
        for line in lines:
            name, _, value = line.partition(b":")
            if name == b"id":
                event_id = value.strip().decode()
            elif name == b"data":
                yield event_id, value.strip()
