"""Live readers of one conversation. What is published goes into one shared ring, and a reader is a position in it.

A reader that falls behind the ring catches up from the log: it holds up nobody and misses nothing. The text of a turn
in progress comes from a live buffer, starting at the byte where the reader's cursor is.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from toolyard.core.conversation.cursor import Cursor
from toolyard.core.conversation.events import (
    ArgumentsAppended,
    CallProgressed,
    Entry,
    Fleeting,
    Published,
    TextAppended,
    TurnEnded,
    TurnFailed,
    TurnStarted,
)
from toolyard.core.errors import Fenced, NotFound
from toolyard.core.items import ModelText

RING_SIZE = 1024
MAX_RING_SIZE = 2 * RING_SIZE
PAGE_SIZE = 500
BATCH_SIZE = 128
"""Items that a reader takes from the ring at once: it holds them in memory until they are handed out."""

LOOK_BACK = 16
"""Entries that are read first on the way back to the start of a turn: most turns have no entries inside."""

TURN_EVENTS = frozenset({TurnStarted, TurnEnded, TurnFailed})
FindReaders = Callable[[], Awaitable["Readers"]]
ReadLog = Callable[[int, int], Awaitable[Sequence[Entry]]]


class Readers:
    """The ring of recent publications, and the fleeting events of the turn in progress."""

    def __init__(self, read_log: ReadLog, stored: int) -> None:
        self.read_log = read_log
        self.stored = stored
        self.attached = 0
        self.argument_readers = 0
        """How many of the attached readers want argument deltas."""
        self.broken: Exception | None = None
        self.on_idle: Callable[[], None] | None = None
        """Called when the last reader has detached."""
        self.base = 0
        """The position of the oldest item in the ring."""
        self.end = 0
        """The position after the newest item."""
        self._ring: list[Published] = []
        self._live: list[Fleeting] = []
        self.waiting: list[Reader] = []

    def publish_entries(self, entries: Sequence[Entry]) -> None:
        """Publish entries that were stored together."""
        self.stored = entries[-1].seq
        for entry in entries:
            if type(entry.event) in TURN_EVENTS:
                self._live.clear()
        self._add_to_ring(entries)

    def publish(self, event: Fleeting) -> None:
        kind = type(event)  # compared by type, not by `isinstance`: this runs for every chunk
        if kind is not CallProgressed:
            self._live.append(event)
        if kind is not ArgumentsAppended or self.argument_readers or not self.attached:
            self._add_to_ring((event,))

    def _add_to_ring(self, items: Sequence[Published]) -> None:
        self.end += len(items)
        if not self.attached:
            # Nothing is buffered without readers. The position moves on as if the items had been dropped, so that a
            # position from before is behind the base and its reader goes to the log.
            self.base, self._ring = self.end, []
            return
        ring = self._ring
        ring += items
        # Let the ring grow to twice its size and drop half: moving the list once per item would cost too much.
        if len(ring) > MAX_RING_SIZE:
            excess = len(ring) - RING_SIZE
            del ring[:excess]
            self.base += excess
        if self.waiting:
            self.wake()

    def fail(self, error: Exception) -> None:
        """Raise the error in every reader once it has read what was published before."""
        self.broken = error
        self.wake()

    def wake(self) -> None:
        waiting, self.waiting = self.waiting, []
        for reader in waiting:
            reader.wake(published=True)

    def read_from(self, position: int) -> list[Published]:
        """Return up to BATCH_SIZE items from that position on."""
        start = position - self.base
        return self._ring[start : start + BATCH_SIZE]

    def live_events(self) -> list[Fleeting]:
        return list(self._live)

    def live_text(self) -> str:
        """Return the text of the turn in progress so far."""
        return "".join(event.text for event in self._live if isinstance(event, TextAppended))

    def live_output(self) -> str:
        """Return all that the model has written so far in the turn in progress: text, reasoning and arguments."""
        return "".join(event.text for event in self._live if not isinstance(event, CallProgressed))


class _UnknownTurn(Exception):
    """An entry ends a turn with text, and the reader has not read the turn's number: its first cursor was inside it."""

    def __init__(self, entry: Entry) -> None:
        super().__init__()
        self.entry = entry


class Reader:
    """An endless iterator over entries and fleeting events after a cursor.

    `cursor` is the position after the last item that was handed out. A new reader that starts there misses and repeats
    nothing.
    """

    def __init__(
        self,
        readers: Readers,
        after: Cursor,
        *,
        include_argument_deltas: bool = True,
        find_readers: FindReaders | None = None,
    ) -> None:
        """Attach to `readers`. Argument deltas are skipped unless `include_argument_deltas` is set.

        When another owner takes the conversation over, the reader goes on with what `find_readers` returns.
        """
        self.cursor = self._last_cursor = after
        self._find_readers = find_readers
        self._ready: list[tuple[Published, Cursor]] = []
        self._next: deque[tuple[Published, Cursor]] = deque()
        """Items of the last batch that `__anext__` has not returned yet."""
        self._seq, self._turn, self._seen = after.seq, after.turn, after.seen
        self._detached = False
        self._include_argument_deltas = include_argument_deltas
        self._waiter: asyncio.Future[bool] | None = None
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()  # kept: in Python 3.11 each lookup is a system call
        self._attach(readers)

    @property
    def end(self) -> int:
        """Return the number of the last entry that is stored by now."""
        return self._readers.stored

    def __aiter__(self) -> "Reader":
        return self

    async def __anext__(self) -> Published:
        if not self._next:
            self._next.extend(await self.read_batch())
        if not self._next:
            raise StopAsyncIteration
        item, self.cursor = self._next.popleft()
        return item

    async def read_batch(self, timeout_s: float | None = None) -> list[tuple[Published, Cursor]]:
        """Return the next items, each with its cursor, as soon as there are any; an empty list after `timeout_s`."""
        while not self._ready:
            readers = self._readers
            try:
                if self._position < readers.base:
                    await self._catch_up()
                    continue
                if self._position < readers.end:
                    self._drain()
            except _UnknownTurn as unknown:
                self._turn = await self._find_turn(unknown.entry.seq)
                continue
            if self._ready or self._detached:
                break
            if readers.broken:
                await self._follow_new_owner(readers.broken)
                continue
            try:
                is_published = await self._wait_for_more(timeout_s)
            finally:
                self._end_wait()
            if not is_published:
                break
        batch, self._ready = self._ready, []
        if batch:
            self.cursor = batch[-1][1]
        return batch

    @property
    def is_detached(self) -> bool:
        return self._detached

    def unread(self, items: Sequence[tuple[Published, Cursor]], cursor: Cursor) -> None:
        """Put back all that was read after the cursor: the next reads return it again."""
        self._ready[:0] = items
        self.cursor = cursor

    def detach(self) -> None:
        if not self._detached:
            self._detached = True
            self.wake(published=False)  # a `read_batch` that is waiting returns
            self._leave()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _attach(self, readers: Readers) -> None:
        self._readers = readers
        readers.attached += 1
        readers.argument_readers += self._include_argument_deltas
        self._position = -1
        self._try_join_ring()

    def _leave(self) -> None:
        readers = self._readers
        readers.attached -= 1
        readers.argument_readers -= self._include_argument_deltas
        if not readers.attached and readers.on_idle:
            readers.on_idle()

    async def _follow_new_owner(self, error: Exception) -> None:
        """Go on at the same place in the log that another owner writes. Any other failure is raised."""
        if not isinstance(error, Fenced) or self._find_readers is None:
            raise error
        readers = await self._find_readers()
        if readers.stored < self._seq:
            raise NotFound("the conversation was deleted")
        if not self._detached:
            self._leave()
        self._attach(readers)
        if self._detached:  # meanwhile: `detach` has left the old readers
            self._leave()

    def wake(self, *, published: bool) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(published)

    def _wait_for_more(self, timeout_s: float | None) -> asyncio.Future[bool]:
        """Return a future that is true as soon as something is published, and false after `timeout_s`.

        Not a coroutine: a reader waits for each chunk, and would pass through one more frame each time.
        """
        loop = self._loop
        waiter = self._waiter = loop.create_future()
        self._readers.waiting.append(self)
        if timeout_s is not None:
            self._due = loop.time() + timeout_s
            # One timer serves many waits: when it fires early for the current wait, `_on_timer` sets it again.
            if self._timer is not None and self._timer.when() > self._due:
                self._timer.cancel()
                self._timer = None
            if self._timer is None:
                self._timer = loop.call_at(self._due, self._on_timer, loop)
        return waiter

    def _end_wait(self) -> None:
        self._waiter = None
        waiting = self._readers.waiting
        if waiting and self in waiting:
            waiting.remove(self)

    def _on_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if loop.time() < self._due:
            self._timer = loop.call_at(self._due, self._on_timer, loop)
        else:
            self.wake(published=False)

    def _drain(self) -> None:
        """Take the next batch from the ring."""
        batch = self._readers.read_from(self._position)
        try:
            for item in batch:
                # `_take` inline for entries: each reader does this for every one.
                if type(item) is not Entry:
                    self._take(item)
                elif item.seq > self._seq:
                    self._take_entry(item)
        except _UnknownTurn as unknown:
            self._position += next(at for at, item in enumerate(batch) if item is unknown.entry)
            raise
        self._position += len(batch)

    async def _catch_up(self) -> None:
        """Read the next page of the log, or join the ring if nothing is missing."""
        if self._try_join_ring():
            return
        # Entries that are stored later may not be published yet: they are left to the next page or to the ring, where
        # they come in order with the fleeting events around them.
        readers, stored, seq = self._readers, self._readers.stored, self._seq
        for entry in await readers.read_log(seq, PAGE_SIZE):
            if entry.seq > stored:
                break
            self._take(entry)
        if self._seq == seq and readers is self._readers:  # the missing entries are gone
            await self._follow_new_owner(readers.broken or NotFound("the conversation was deleted"))

    async def _find_turn(self, seq: int) -> int:
        """Return the number of the turn that entry `seq` ends: that of the last start before it."""
        end, size = seq - 1, LOOK_BACK
        while end > 0:
            start = max(0, end - size)
            entries = await self._readers.read_log(start, end - start)
            for entry in reversed(entries):
                if isinstance(entry.event, TurnStarted):
                    return entry.event.number
            if not entries:
                break
            end, size = start, min(2 * size, PAGE_SIZE)
        raise NotFound("the conversation was deleted")

    def _try_join_ring(self) -> bool:
        """Go on from the end of the ring, after the events of the turn in progress, unless entries are missing."""
        if self._seq < self._readers.stored:
            return False
        self._position = self._readers.end
        for event in self._readers.live_events():
            self._take(event)
        return True

    def _take(self, item: Published) -> None:
        if isinstance(item, Entry):
            if item.seq > self._seq:
                self._take_entry(item)
        elif isinstance(item, TextAppended):
            self._take_text(item)
        elif self._include_argument_deltas or not isinstance(item, ArgumentsAppended):  # else they are another reader's
            self._ready.append((item, self._last_cursor))

    def _take_entry(self, entry: Entry) -> None:
        event = entry.event
        if type(event) is TurnStarted:
            self._turn, self._seen = event.number, 0
        elif type(event) is TurnEnded:
            # The entry holds the whole text of the turn. The part that this reader has not seen is handed out first, so
            # that a client which only appends deltas has all of it.
            texts = [item for item in event.items if type(item) is ModelText]
            if texts and (text := "".join([item.text for item in texts])):
                if not self._turn:
                    raise _UnknownTurn(entry)
                logprobs = ",".join([item.logprobs for item in texts if item.logprobs])
                self._take_text(TextAppended(turn=self._turn, offset=0, text=text, logprobs=logprobs))
            self._seen = 0
        self._seq = entry.seq
        self._last_cursor = Cursor(entry.seq, self._turn, self._seen) if self._seen else Cursor(entry.seq)
        self._ready.append((entry, self._last_cursor))

    def _take_text(self, event: TextAppended) -> None:
        """Hand out the part of a delta that was not seen yet. Skip a delta after a gap: TurnEnded has the text."""
        if not self._turn:  # a cursor of an entry inside a turn does not name the turn
            self._turn = event.turn
        if event.turn != self._turn or event.offset > self._seen:
            return
        # `utf8_size` inline: this runs for every chunk and reader, and the call costs half as much again.
        end = event.offset + (len(event.text) if event.text.isascii() else len(event.text.encode()))
        if end <= self._seen:
            return
        if event.offset < self._seen:
            # Offsets count UTF-8 bytes. Every delta ends with a whole character, so only a cursor that a client made up
            # points into one; the broken character is left out.
            unseen = event.text.encode()[self._seen - event.offset :].decode(errors="ignore")
            event = TextAppended(turn=event.turn, offset=self._seen, text=unseen)
        self._seen = end
        self._last_cursor = Cursor(self._seq, self._turn, end)
        self._ready.append((event, self._last_cursor))
