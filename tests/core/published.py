"""What a live reader of a log gets: its entries, with the fleeting events that came between them."""

from collections.abc import Iterator, Sequence

from toolyard.core.conversation.cursor import START, Cursor
from toolyard.core.conversation.events import (
    ArgumentsAppended,
    CallProgressed,
    CallStarted,
    Entry,
    Fleeting,
    Published,
    ReasoningAppended,
    TextAppended,
    TurnEnded,
    TurnFailed,
    TurnStarted,
)
from toolyard.core.items import Call, ModelText
from toolyard.engine.log.readers import Reader, Readers

DELTA_CHARS = 4
CUT_OFF = "an an"
"""What came of a turn whose owner died."""


def publish(readers: Readers, item: Published) -> None:
    if isinstance(item, Entry):
        readers.publish_entries((item,))
    else:
        readers.publish(item)


class StoredLog:
    """The log of one conversation."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = entries

    async def read_entries(self, conversation: str, *, after: int = 0, until: int = 0) -> Sequence[Entry]:
        return [entry for entry in self.entries if entry.conversation == conversation and after < entry.seq <= until]

    async def read_page(self, after: int, limit: int) -> Sequence[Entry]:
        return [entry for entry in self.entries if entry.seq > after][:limit]

    async def read_live(self) -> list[tuple[Published, Cursor]]:
        """Return everything that a reader gets that was there from the start."""
        readers = Readers(self.read_page, 0)
        reader = Reader(readers, START)
        for item in self._publish():
            publish(readers, item)
        received: list[tuple[Published, Cursor]] = []
        while batch := await reader.read_batch(timeout_s=0.0):
            received += batch
        reader.detach()
        return received

    def _publish(self) -> Iterator[Published]:
        for index, entry in enumerate(self.entries):
            yield entry
            match entry.event:
                case TurnStarted(number=number):
                    yield from self._stream_turn(number, index)
                case CallStarted(call_id=call_id):
                    yield CallProgressed(call_id=call_id, offset=0, progress=0.5)
                case _:
                    pass

    def _stream_turn(self, number: int, start: int) -> Iterator[Fleeting]:
        events = (entry.event for entry in self.entries[start + 1 :])
        end = next((event for event in events if isinstance(event, TurnEnded | TurnFailed | TurnStarted)), None)
        items = end.items if isinstance(end, TurnEnded) else ()
        yield ReasoningAppended(turn=number, offset=0, text="well")
        text = "".join(item.text for item in items if isinstance(item, ModelText)) or CUT_OFF
        for offset in range(0, len(text), DELTA_CHARS):
            yield TextAppended(turn=number, offset=offset, text=text[offset : offset + DELTA_CHARS])
        for index, item in enumerate(item for item in items if isinstance(item, Call)):
            yield ArgumentsAppended(turn=number, index=index, call_id=item.id, tool=item.tool, offset=0, text="{}")
