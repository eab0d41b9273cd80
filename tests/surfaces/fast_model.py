"""A model that streams faster than a slow client reads."""

from collections.abc import AsyncGenerator

from toolyard import Yard
from toolyard.core.conversation.events import (
    Entry,
    ModelDelta,
    ReasoningAppended,
    RunEnded,
    TextAppended,
    TurnEnded,
    TurnFailed,
)
from toolyard.core.items import ModelText, Reasoning
from toolyard.core.ports import ModelRequest
from toolyard.engine.log.readers import RING_SIZE

WORDS = [f"wört{number} " for number in range(4 * RING_SIZE)]
"""More pieces than the ring of recent events holds."""
WHOLE_TEXT = "".join(WORDS)


class FastModel:
    """Writes the words as its reasoning, and then as its text."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        for kind in (ReasoningAppended, TextAppended):
            offset = 0
            for word in WORDS:
                yield kind(turn=1, offset=offset, text=word)
                offset += len(word.encode())
        clock = request.clock
        items = (
            Reasoning(id=clock.new_id("reasoning"), at=clock.now(), text=WHOLE_TEXT),
            ModelText(id=clock.new_id("text"), at=clock.now(), text=WHOLE_TEXT),
        )
        yield TurnEnded(items=items, finish="stop")

    async def close(self) -> None: ...


async def read_late(yard: Yard, conversation: str, stream: AsyncGenerator[bytes, None], first_bytes: int) -> bytes:
    """Return a stream of which only the beginning is read before the run has ended."""
    body = b""
    while len(body) < first_bytes:
        body += await anext(stream)
    reader = await yard.follow(conversation)
    async for item in reader:
        if isinstance(item, Entry) and isinstance(item.event, RunEnded):
            break
    reader.detach()
    async for piece in stream:
        body += piece
    return body
