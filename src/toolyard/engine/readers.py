"""Live readers of one conversation. Publications lie in one shared ring and a reader is a position in it.

A reader that is too slow is overrun and catches up from the log by itself: it costs nothing and misses nothing. Text of
a turn in progress comes from the live buffer, from the byte where the reader's cursor stands.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from toolyard.core.cursor import Cursor
from toolyard.core.events import (
    ArgumentsAppended,
    CallProgressed,
    Entry,
    Fleeting,
    TextAppended,
    TurnEnded,
    TurnFailed,
    TurnStarted,
)
from toolyard.core.items import ModelText

RING_SIZE = 1024
PAGE_SIZE = 500
BATCH_SIZE = 128
"""How much a reader takes in one go: what it has taken it holds until it is handed out."""

Published = Entry | Fleeting
TURN_EVENTS = (TurnStarted, TurnEnded, TurnFailed)
ReadLog = Callable[[int, int], Awaitable[Sequence[Entry]]]


class Readers:
    """What was published lately, and the streams of the turn in progress."""

    def __init__(self, read_log: ReadLog, stored: int) -> None:
        self.read_log = read_log
        self.stored = stored
        self.attached = 0
        self.argument_readers = 0
        """How many of the attached want the pieces of arguments, too."""
        self.broken: Exception | None = None
        self.on_idle: Callable[[], None] | None = None
        """Told when the last reader has gone."""
        self.base = 0
        """The position of the oldest that is still there."""
        self._ring: list[Published] = []
        self._live: list[Fleeting] = []
        self.waiting: list[Reader] = []

    @property
    def end(self) -> int:
        return self.base + len(self._ring)

    def publish(self, item: Published) -> None:
        if isinstance(item, Entry):
            self.stored = item.seq
            if isinstance(item.event, TURN_EVENTS):
                self._live.clear()
        elif not isinstance(item, CallProgressed):
            self._live.append(item)
        if not self.attached:
            self.base, self._ring = self.end + 1, []
            return
        if not self.argument_readers and isinstance(item, ArgumentsAppended):
            return  # nobody is woken for what nobody wants
        self._ring.append(item)
        if len(self._ring) > 2 * RING_SIZE:
            del self._ring[:RING_SIZE]
            self.base += RING_SIZE
        if self.waiting:
            self.wake()

    def fail(self, error: Exception) -> None:
        """No more will come: readers are told why."""
        self.broken = error
        self.wake()

    def wake(self) -> None:
        waiting, self.waiting = self.waiting, []
        for reader in waiting:
            reader.wake(published=True)

    def read_from(self, position: int) -> list[Published]:
        """What was published at that position and next after it."""
        start = position - self.base
        return self._ring[start : start + BATCH_SIZE]

    def live_events(self) -> list[Fleeting]:
        return list(self._live)

    def live_text(self) -> str:
        """The answer so far of the turn in progress."""
        return "".join(event.text for event in self._live if isinstance(event, TextAppended))


class Reader:
    """An endless iterator over entries and fleeting events after a cursor.

    `cursor` is the place right after what was handed out last: come back with it, and nothing is missed or repeated.
    """

    def __init__(self, readers: Readers, after: Cursor, *, include_argument_deltas: bool = True) -> None:
        """`keen` means that the pieces of arguments are wanted, too."""
        self.cursor = self._place = after
        self._readers = readers
        self._position = -1
        self._ready: list[tuple[Published, Cursor]] = []
        self._next: deque[tuple[Published, Cursor]] = deque()
        """What was taken to be handed out one by one."""
        self._seq, self._turn, self._seen = after.seq, after.turn, after.seen
        self._detached = False
        self._include_argument_deltas = include_argument_deltas
        self._waiter: asyncio.Future[bool] | None = None
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        readers.attached += 1
        readers.argument_readers += include_argument_deltas
        self._try_join_ring()

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
        """All that is there, each with its cursor, as soon as there is something; nothing if that takes too long."""
        while not self._ready:
            if self._position < self._readers.base:
                await self._catch_up()
                continue
            self._drain()
            if self._ready or self._detached:
                break
            if self._readers.broken:
                raise self._readers.broken
            if not await self._wait_for_more(timeout_s):
                break
        found, self._ready = self._ready, []
        if found:
            self.cursor = found[-1][1]
        return found

    def detach(self) -> None:
        if not self._detached:
            self._detached = True
            self._readers.attached -= 1
            self._readers.argument_readers -= self._include_argument_deltas
            self._readers.wake()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if not self._readers.attached and self._readers.on_idle:
                self._readers.on_idle()

    def wake(self, *, published: bool) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(published)

    async def _wait_for_more(self, timeout_s: float | None) -> bool:
        """Wait until something is published: True; or for that long: False. One timer serves wait after wait."""
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        self._readers.waiting.append(self)
        if timeout_s is not None:
            self._due = loop.time() + timeout_s
            if self._timer is None:
                self._timer = loop.call_at(self._due, self._on_timer, loop)
        try:
            return await self._waiter
        finally:
            self._waiter = None
            if self in self._readers.waiting:
                self._readers.waiting.remove(self)

    def _on_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if loop.time() < self._due:
            self._timer = loop.call_at(self._due, self._on_timer, loop)
        else:
            self.wake(published=False)

    def _drain(self) -> None:
        """Take what the ring holds from here on, a bounded piece of it."""
        found = self._readers.read_from(self._position)
        for item in found:
            self._take(item)
        self._position += len(found)

    async def _catch_up(self) -> None:
        """Read the log up to what is stored now; then the turn in progress; then go on from the ring."""
        if self._try_join_ring():
            return
        stored = self._readers.stored
        for entry in await self._readers.read_log(self._seq, PAGE_SIZE):
            if entry.seq > stored:
                break
            self._take(entry)

    def _try_join_ring(self) -> bool:
        """If nothing of the log is missing, take what the turn in progress said so far, and go on from the ring."""
        if self._seq < self._readers.stored:
            return False
        self._position = self._readers.end
        for event in self._readers.live_events():
            self._take(event)
        return True

    def _take(self, item: Published) -> None:
        if isinstance(item, TextAppended):
            self._take_text(item)
        elif not isinstance(item, Entry):
            self._hand_out(item)
        elif item.seq > self._seq:
            self._take_entry(item)

    def _take_entry(self, entry: Entry) -> None:
        event = entry.event
        if isinstance(event, TurnStarted):
            self._turn, self._seen = event.number, 0
        elif isinstance(event, TurnEnded):
            if text := "".join([item.text for item in event.items if isinstance(item, ModelText)]):
                self._take_text(TextAppended(turn=self._turn, offset=0, text=text))
            self._seen = 0
        self._seq = entry.seq
        self._hand_out(entry)

    def _take_text(self, event: TextAppended) -> None:
        """Only what was not seen yet; a piece after a gap waits for the end of the turn, which has it all."""
        if event.turn != self._turn or event.offset > self._seen:
            return
        end = event.offset + (len(event.text) if event.text.isascii() else len(event.text.encode()))
        if end <= self._seen:
            return
        if event.offset < self._seen:
            rest = event.text.encode()[self._seen - event.offset :].decode(errors="ignore")
            event = TextAppended(turn=event.turn, offset=self._seen, text=rest)
        self._seen = end
        self._hand_out(event)

    def _hand_out(self, item: Published) -> None:
        place = self._place
        if place.seq != self._seq or place.seen != self._seen:
            place = self._place = Cursor(self._seq, self._turn, self._seen) if self._seen else Cursor(self._seq)
        self._ready.append((item, place))
