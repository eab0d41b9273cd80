"""The ring of recent publications: bounded, and nothing missed by a reader that falls behind it."""

import asyncio
from collections.abc import Sequence

from toolyard.core.conversation.cursor import START, Cursor
from toolyard.core.conversation.events import CallProgressed, Entry, StopRequested, TextAppended, TurnEnded, TurnStarted
from toolyard.core.items import ModelText
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


async def test_a_reader_inside_a_turn_without_deltas_learns_the_number_of_the_turn_from_the_log() -> None:
    text = ModelText(id="text", at=0.0, text="Hello")
    events = [
        TurnStarted(number=7, epoch=1, offer="", offered=0),
        StopRequested(by="ann", call_id="call"),
        TurnEnded(items=(text,), finish="stop"),
    ]
    stored = [Entry(conversation="c", seq=seq, at=0.0, event=event) for seq, event in enumerate(events, 1)]

    async def read_log(after: int, limit: int) -> Sequence[Entry]:
        return stored[after : after + limit]

    readers = Readers(read_log, 1)
    reader = Reader(readers, Cursor(1))
    readers.publish_entries(stored[1:2])
    progress = CallProgressed(call_id="call", offset=0, progress=1.0)
    readers.publish(progress)
    readers.publish_entries(stored[2:])
    received: list[object] = []
    async with asyncio.timeout(20):
        while stored[2] not in received:
            received += [item for item, _ in await reader.read_batch()]
    reader.detach()
    assert received == [stored[1], progress, TextAppended(turn=7, offset=0, text="Hello"), stored[2]]
