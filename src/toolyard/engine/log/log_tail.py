"""Follows the log of a conversation that this process does not own, for its readers.

New entries are read from the store when the owner announces them. Fleeting events come from the owner, if it is another
replica; each names its place, so that one that comes twice or for another turn changes nothing.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from toolyard.core.conversation.events import (
    ArgumentsAppended,
    CallProgressed,
    Entry,
    Fleeting,
    ReasoningAppended,
    TextAppended,
    TurnEnded,
    TurnFailed,
    TurnStarted,
)
from toolyard.core.conversation.run_state import TurnState
from toolyard.core.errors import NotFound, StoreDown, ToolyardError
from toolyard.core.ports import Spawn
from toolyard.core.store import LogHead, Store
from toolyard.core.utf8 import utf8_size
from toolyard.engine.log.readers import PAGE_SIZE, Readers
from toolyard.engine.log.replica_messages import FollowerJoined, LiveEvents, encode_message

MAX_EARLY_MESSAGES = 64
"""Messages that are kept until the entries before them have been read."""

_log = logging.getLogger("toolyard.tail")


class LogTail:
    """Publishes new entries of a log to the readers in this process, while no journal of this process does."""

    def __init__(
        self,
        conversation: str,
        seq: int,
        epoch: int,
        turn: TurnState | None,
        *,
        store: Store,
        spawn: Spawn,
        find_tail: "Callable[[str], LogTail | None]",
    ) -> None:
        """`seq` is the last entry that was read, `epoch` the owner that wrote it, `turn` the turn that is open then.

        `find_tail` returns the tail that this process has of a conversation now.
        """
        self.readers = Readers(partial(store.read, conversation), seq)
        self._conversation = conversation
        self._epoch = epoch
        self._store = store
        self._spawn = spawn
        self._find_tail = find_tail
        self._live = LiveStreams()
        if turn is not None:
            self._live.begin_turn(turn.number, turn.epoch)
        self._early: list[LiveEvents] = []
        self._owner = ""
        """The replica that was asked for what is live."""
        self._is_recorded = asyncio.Event()
        """Set when the record of this follower was written, or could not be."""
        self._closed = False
        self._reading = False
        self._woken = False
        if store.is_shared:
            spawn(self.follow())
        self.wake()  # entries may have been stored since the view was read

    def close(self, why: ToolyardError | None) -> None:
        if self._closed:
            return
        self._closed = True
        if self._store.is_shared:
            self._spawn(self._unfollow())
        if why is not None:
            self.readers.fail(why)

    def wake(self) -> None:
        """Read what was stored since."""
        self._woken = True
        if not self._reading:
            self._reading = True
            self._spawn(self._read())

    def compare(self, head: LogHead | None) -> None:
        """Catch up if the log has grown or its owner has changed without a message about it."""
        if head is None or head.epoch < 0 or head.last_seq != self.readers.stored:
            self.wake()
        if head is not None and head.replica != self._owner:
            self._ask_owner(head)

    def receive(self, message: LiveEvents) -> None:
        """Publish fleeting events of the conversation's owner."""
        if self._closed:
            return
        for event in message.events:
            delta = self._live.accept(event, message.epoch, self._epoch)
            if delta is not None:
                self.readers.publish(delta)
        if self._live.is_behind and len(self._early) < MAX_EARLY_MESSAGES:
            self._early.append(message)
            self.wake()
        elif self._live.has_gap:
            self._live.has_gap = False
            self._tell_owner()

    async def follow(self) -> None:
        """Record that this replica follows the conversation, and ask its owner for what is live."""
        try:
            head = await self._store.follow(self._conversation)
        except ToolyardError as error:  # the regular comparison makes up for it
            _log.warning("conversation %s is followed late: %s", self._conversation, error)
            return
        finally:
            self._is_recorded.set()
        if head is not None:
            self._ask_owner(head)

    async def _unfollow(self) -> None:
        await self._is_recorded.wait()  # else it could be written after it was deleted
        try:
            await self._store.unfollow(self._conversation)
            if tail := self._find_tail(self._conversation):  # its record may be the one that was just deleted
                await tail.follow()
        except ToolyardError as error:
            _log.warning("conversation %s is still marked as followed: %s", self._conversation, error)

    def _ask_owner(self, head: LogHead) -> None:
        self._owner = head.replica
        self._tell_owner()

    def _tell_owner(self) -> None:
        if self._owner and self._owner != self._store.replica and not self._closed:
            message = FollowerJoined(self._conversation, self._store.replica)
            self._store.tell(self._owner, encode_message(message))

    async def _read(self) -> None:
        try:
            while self._woken and not self._closed:
                self._woken = False
                await self._publish_new()
        except Exception as error:  # ends the readers of this conversation only
            if not isinstance(error, ToolyardError):
                _log.error("conversation %s cannot be followed", self._conversation, exc_info=error)
                error = StoreDown(f"the log could not be read: {type(error).__name__}")
            self.close(error)
        finally:
            self._reading = False

    async def _publish_new(self) -> None:
        stored = self.readers.stored
        # The last entry is read again, as in `Views`, to learn that the conversation was deleted or opened anew.
        entries = await self._store.read(self._conversation, max(0, stored - 1), PAGE_SIZE)
        if self._closed:
            return
        if stored and (not entries or (entries[0].seq, entries[0].epoch) != (stored, self._epoch)):
            raise NotFound("the conversation was deleted")
        for entry in entries:
            if entry.seq > stored:
                self._publish(entry)
        self._woken = self._woken or len(entries) == PAGE_SIZE
        early, self._early = self._early, []
        for message in early:
            self.receive(message)

    def _publish(self, entry: Entry) -> None:
        self._epoch = entry.epoch
        match entry.event:
            case TurnStarted(number=number, epoch=epoch):
                self._live.begin_turn(number, epoch)
            case TurnEnded() | TurnFailed():
                self._live.end_turn()
            case _:
                pass
        self.readers.publish_entries((entry,))


class LiveStreams:
    """The fleeting streams of the turn that is open, and how far each was received."""

    def __init__(self) -> None:
        self.is_behind = False
        """Whether the last event was of a turn or an owner that the log was not read up to yet."""
        self.has_gap = False
        """Whether events are missing before one that came."""
        self._turn = 0
        self._turn_epoch = 0
        self._is_open = False
        self._ends: dict[tuple[object, ...], int] = {}

    def begin_turn(self, number: int, epoch: int) -> None:
        self._turn, self._turn_epoch, self._is_open = number, epoch, True
        self._ends.clear()

    def end_turn(self) -> None:
        self._is_open = False

    def accept(self, event: Fleeting, epoch: int, log_epoch: int) -> Fleeting | None:
        """Return the part of an event that is new, or None. `epoch` is its owner's, `log_epoch` the last writer's."""
        self.is_behind = False
        if isinstance(event, CallProgressed):
            self.is_behind = epoch > log_epoch
            last = self._ends.get((event.call_id,), -1)
            if epoch != log_epoch or event.offset <= last:
                return None
            self._ends[event.call_id,] = event.offset
            return event
        self.is_behind = epoch > self._turn_epoch or (epoch == self._turn_epoch and event.turn > self._turn)
        if not self._is_open or epoch != self._turn_epoch or event.turn != self._turn:
            return None
        return self._trim(event)

    def _trim(self, event: TextAppended | ReasoningAppended | ArgumentsAppended) -> Fleeting | None:
        key = (type(event), event.index if isinstance(event, ArgumentsAppended) else 0)
        end, size = self._ends.get(key, 0), utf8_size(event.text)
        if event.offset > end:
            self.has_gap = True
            return None
        signature = event.signature if isinstance(event, ReasoningAppended) else ""
        if signature and self._ends.setdefault((signature,), event.offset + size) != event.offset + size:
            return None
        if event.offset + size <= end and not (signature and event.offset == end):
            return None
        self._ends[key] = event.offset + size
        if event.offset == end:
            return event
        unseen = event.text.encode()[end - event.offset :].decode(errors="ignore")
        return replace(event, offset=end, text=unseen)
