"""The ring of recent publications: bounded, and nothing missed by a reader that falls behind it."""

import asyncio
from collections.abc import Sequence

from toolyard.core.conversation.cursor import START
from toolyard.core.conversation.events import Entry, StopRequested
from toolyard.engine.log.readers import RING_SIZE, Reader, Readers


async def test_large_batches_leave_the_ring_bounded_and_a_slow_reader_misses_nothing() -> None:
    stored = [Entry(conversation="c", seq=seq, at=0.0, event=StopRequested(by="ann")) for seq in range(1, 20_001)]

    async def read_log(after: int, limit: int) -> Sequence[Entry]:
        return stored[after : after + limit]

    readers = Readers(read_log, 0)
    reader = Reader(readers, START)
    for start in range(0, len(stored), 5000):
        readers.publish_entries(stored[start : start + 5000])
        assert readers.end - readers.base <= 2 * RING_SIZE
    received: list[object] = []
    async with asyncio.timeout(20):
        while len(received) < len(stored):
            received += [item for item, _ in await reader.read_batch()]
    reader.detach()
    assert received == stored
