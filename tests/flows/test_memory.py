"""What rests in memory is bounded in bytes, not only in number."""

import asyncio
import tracemalloc
from pathlib import Path

from support import TEST_TIMEOUT_S
from toolyard import UserMessage, Yard
from toolyard.core.items import ImagePart
from toolyard.core.ports import ModelRequest
from toolyard.engine.replicas.ownership import MAX_IDLE_BYTES
from toolyard.testing import Scripted, Turn, say

IMAGE_BYTES = 4 * 1024 * 1024


async def test_idle_conversations_hold_a_bounded_number_of_bytes(tmp_path: Path) -> None:
    count = 2 * MAX_IDLE_BYTES // IMAGE_BYTES

    def script(request: ModelRequest) -> Turn:
        model.requests.clear()  # which hold all that was sent
        return say(f"{len(request.history)} items")

    async def run(yard: Yard) -> None:
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            for number in range(count):
                image = ImagePart(url="data:image/png;base64," + "A" * IMAGE_BYTES)
                message = UserMessage(id=f"message_{number}", at=0.0, parts=(image,))
                assert await yard.ask(message, conversation=f"c{number}") == "1 items"
                del image, message
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert after - before < MAX_IDLE_BYTES + 4 * IMAGE_BYTES
        assert await yard.ask("again", conversation="c0") == "3 items", "what was let go of is read again"

    model = Scripted(script)
    async with asyncio.timeout(TEST_TIMEOUT_S), Yard(model=model, store=f"sqlite:///{tmp_path}/toolyard.db") as yard:
        await run(yard)
