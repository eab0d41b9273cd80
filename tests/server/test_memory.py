"""Memory that large requests leave behind is given back to the operating system."""

import asyncio
import gc

from support import wait_until
from toolyard.server.memory import MemoryWatch, read_resident_bytes

MEGABYTE = 1024 * 1024


class Cycle:
    """Blocks that only the garbage collector frees."""

    def __init__(self, blocks: list[bytes]) -> None:
        self.blocks = blocks
        self.itself = self


async def test_what_is_free_is_given_back_after_the_process_has_grown() -> None:
    before = read_resident_bytes()
    watch = MemoryWatch(check_every_s=0.01, min_growth_bytes=64 * MEGABYTE)
    gc.disable()
    try:
        # Small enough for the heap. The last block lies above the others, so that the heap cannot shrink by itself.
        blocks = [b"x" * 100_000 for _ in range(3_000)]
        last = blocks.pop()
        Cycle(blocks)
        del blocks
        assert read_resident_bytes() - before > 200 * MEGABYTE
        async with asyncio.timeout(30):
            await wait_until(lambda: read_resident_bytes() - before < 100 * MEGABYTE)
        assert last
    finally:
        gc.enable()
        watch.close()
