"""The frames of the runs of a log: as a client gets them that reads from the start, and as one that resumes."""

import asyncio
from collections.abc import Iterator, Sequence

import msgspec

from core.published import StoredLog, publish
from surfaces.ai_sdk.chats import Json
from toolyard.core.conversation.cursor import START, Cursor
from toolyard.core.conversation.events import (
    Entry,
    Fleeting,
    Published,
    ReasoningAppended,
    RunQueued,
    TextAppended,
    TurnEnded,
    TurnFailed,
    TurnStarted,
)
from toolyard.core.conversation.run_view import RunView
from toolyard.core.items import ModelText
from toolyard.engine.log.readers import Reader, Readers
from toolyard.surfaces.ai_sdk.encoder import UiMessageEncoder, WholeTurnReader


class FaithfulLog(StoredLog):
    """A log whose live events are those of its items: what is streamed of a turn is what its entry holds."""

    def _stream_turn(self, number: int, start: int) -> Iterator[Fleeting]:
        later = (entry.event for entry in self.entries[start + 1 :])
        end = next((event for event in later if isinstance(event, TurnEnded | TurnFailed | TurnStarted)), None)
        items = end.items if isinstance(end, TurnEnded) else None
        for event in super()._stream_turn(number, start):
            # What is made up stays in turns that were cut off: it is to be dropped.
            is_made_up = isinstance(event, ReasoningAppended) or (
                isinstance(event, TextAppended) and not any(isinstance(item, ModelText) for item in items or ())
            )
            if items is None or not is_made_up:
                yield event

    async def read_from(self, share: float) -> list[tuple[Published, Cursor]]:
        """Return what a reader gets that begins to read when this share of everything has happened."""
        items = list(self._publish())
        published = int(share * len(items))
        readers = Readers(self._read_published, 0)
        self._readers = readers
        for item in items[:published]:
            publish(readers, item)
        reader = WholeTurnReader(Reader(readers, START))
        received: list[tuple[Published, Cursor]] = []
        for item in items[published:]:
            received += await reader.read_batch(timeout_s=0.0)
            publish(readers, item)
        while batch := await reader.read_batch(timeout_s=0.0):
            received += batch
        reader.detach()
        return received

    async def _read_published(self, after: int, limit: int) -> Sequence[Entry]:
        return [entry for entry in self.entries if after < entry.seq <= self._readers.stored][:limit]


def encode_log(entries: Sequence[Entry], share: float) -> list[tuple[list[Json], list[Json]]]:
    """Return the frames of each run of a log, live and resumed."""
    log = FaithfulLog(entries)
    live, resumed = (asyncio.run(log.read_from(start)) for start in (0.0, share))
    runs = [entry.run for entry in entries if isinstance(entry.event, RunQueued)]
    return [(_encode_run(run, live, len(entries)), _encode_run(run, resumed, len(entries))) for run in runs]


def _encode_run(run: str, items: Sequence[tuple[Published, Cursor]], log_end: int) -> list[Json]:
    """Return the frames of a run through all its waits."""
    encoder = UiMessageEncoder(RunView(run_id=run), log_end)
    pieces = [encoder.opening()]
    for item, cursor in items:
        if not encoder.over:
            pieces.append(encoder.item(item, cursor))
    pieces.append(encoder.closing())
    frames = b"".join(pieces).decode().split("\n\n")[:-1]
    assert frames[-1] == "data: [DONE]", frames
    return [msgspec.json.decode(frame.removeprefix("data: ")) for frame in frames[:-1]]
