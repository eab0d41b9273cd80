"""Reads turns that have ended as wholes.

For a turn that it has missed, a `Reader` hands out the text and then the entry with all items. Encoded in this order,
the text would come before the reasoning that the model wrote first.
"""

from toolyard.core.conversation.cursor import Cursor
from toolyard.core.conversation.events import Entry, Published, TextAppended, TurnEnded
from toolyard.engine.log.readers import Reader


class WholeTurnReader:
    """Leaves out the text of a turn that arrives all at once, as the entry that follows holds it as well."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def read_batch(self, timeout_s: float | None = None) -> list[tuple[Published, Cursor]]:
        # A reader hands out both in one batch.
        batch = await self._reader.read_batch(timeout_s)
        return [pair for index, pair in enumerate(batch) if not _is_whole_text(batch, index)]

    def detach(self) -> None:
        self._reader.detach()


def _is_whole_text(batch: list[tuple[Published, Cursor]], index: int) -> bool:
    text = batch[index][0]
    if not isinstance(text, TextAppended) or text.offset or index + 1 == len(batch):
        return False
    following = batch[index + 1][0]
    return isinstance(following, Entry) and isinstance(following.event, TurnEnded)
