"""The ids of responses and of their items, and the numbers of stream events. Pure.

A response is a run: its id holds those of the conversation and of the run. A number in a stream holds the place after
an event, so that a client that comes back with it gets exactly what follows, and stays below 2**31.
"""

import re
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from toolyard.core.conversation.cursor import Cursor
from toolyard.core.conversation.events import CallEnded, CallStarted, Entry, RunEnded, RunQueued, TurnEnded, TurnStarted
from toolyard.core.errors import Invalid, NotFound

APPROVAL_ID_PREFIX = "mcpr_"
"""The prefix of the id of a request for an approval; the id of its call follows."""
_RESPONSE_ID = re.compile(r"resp_([0-9a-f]{24})([0-9a-f]{24})")
_HEX = re.compile(r"[0-9a-f]{24}")
_IN_TURN, _IN_MESSAGE = 1 << 30, 1 << 29
"""The bits of a part in a turn before its text: in the reasoning, and with both in the beginning of the message."""
_AFTER_REASONING = 1 << 4
"""The bit of a part in a message whose turn has shown reasoning, which comes before it in the output."""
_REASONING_PARTS = 3
"""The most events that end the reasoning, at the beginning of a message."""
_IN_ARGUMENTS = 1 << 28
"""With `_IN_TURN`, the bit of a part in the arguments of a call: the number of the call, then the bytes shown."""
_ARGUMENT_BITS = 17
_CLOSING_PARTS = 2
"""The events that end a call, which have the last numbers of its range."""
MAX_STREAMED_CALLS, MAX_STREAMED_BYTES = 16, (1 << _ARGUMENT_BITS) - 2 - _CLOSING_PARTS
"""How many calls of a turn, and how many bytes of each one's arguments, are streamed; the turn's end has the others."""
_MAX_SHOWN = (1 << 20) - 1
"""The bytes of a turn's text, and of its reasoning, that have numbers of their own."""
_STEPS = _AFTER_REASONING << 1
_REASONING_START = _STEPS
_MESSAGE_START = _REASONING_START + _MAX_SHOWN + 2
_TEXT_START = _MESSAGE_START + _STEPS
_ARGUMENTS_START = _TEXT_START + 2 * (_MAX_SHOWN + 1)
_TURN_NUMBERS, _ENTRY_NUMBERS = _ARGUMENTS_START + (MAX_STREAMED_CALLS << _ARGUMENT_BITS), 4_096
"""How many numbers the events of a turn in progress have, and those of any other entry."""
_MAX_NUMBER = (1 << 31) - 1


class ResponseId(Struct, frozen=True):
    conversation: str
    run: str


def encode_response_id(conversation: str, run: str) -> str:
    """Return the id of a response in a conversation whose id is one of ours."""
    return f"resp_{_take_hex(conversation)}{_take_hex(run)}"


def parse_response_id(text: str) -> ResponseId:
    """Return the conversation and the run of a response. Raise NotFound for an id that was not handed out here."""
    if match := _RESPONSE_ID.fullmatch(text):
        return ResponseId(f"conversation_{match[1]}", f"run_{match[2]}")
    raise NotFound(f"there is no response {text[:80]!r}")


def build_item_id(prefix: str, item_id: str, conversation: str = "") -> str:
    """Return the id of an item, of at most 64 characters. That of an output item names its conversation as well."""
    digits = _take_hex(conversation) if conversation else ""
    return f"{prefix}_{digits}{item_id.partition('_')[2] or item_id}"[:64]


class StreamPlace(Struct, frozen=True):
    """The place after an event of a stream: the entry, the bytes of text after it, and the number within the item."""

    seq: int
    seen: int
    part: int

    @property
    def offset(self) -> int:
        """Return the number of the place among those of its entry."""
        follows_reasoning = bool(self.part & _AFTER_REASONING)
        if self.seen:
            return _TEXT_START + follows_reasoning * (_MAX_SHOWN + 1) + min(self.seen, _MAX_SHOWN)
        if not self.part & _IN_TURN:
            return min(self.part, _ENTRY_NUMBERS - 1)
        if self.part & _IN_MESSAGE:
            return _MESSAGE_START + self.part % _STEPS
        if self.part & _IN_ARGUMENTS:
            return _ARGUMENTS_START + self.part % _IN_ARGUMENTS
        return _REASONING_START + (1 + self.reasoning_bytes if self.reasoning_bytes else self.part & 1)

    @property
    def cursor(self) -> Cursor:
        """Return where to read on: in a turn after its entry, inside a text right after it, else at the entry again."""
        if self.seen:
            return Cursor(self.seq, 0, self.seen)
        return Cursor(self.seq if self.part & _IN_TURN else max(0, self.seq - 1))

    @property
    def reasoning_bytes(self) -> int:
        """Return how much reasoning of the turn was shown, if this is a place in it."""
        is_reasoning = self.part & _IN_TURN and not self.part & (_IN_MESSAGE | _IN_ARGUMENTS)
        return self.part >> 1 & _MAX_SHOWN if is_reasoning else 0

    @property
    def streamed_call(self) -> tuple[int, int]:
        """Return the number of the call whose arguments were shown last, and the bytes of them; -1 and 0 for none."""
        if self.seen or not (self.part & _IN_TURN and self.part & _IN_ARGUMENTS):
            return -1, 0
        number, shown = divmod(self.part % _IN_ARGUMENTS, 1 << _ARGUMENT_BITS)
        return number, max(0, shown - 1)

    @property
    def follows_reasoning(self) -> bool:
        """Return whether reasoning comes before the message that this is a place in."""
        return bool((self.seen or self.part & _IN_MESSAGE) and self.part & _AFTER_REASONING)

    @property
    def open_item(self) -> Literal["reasoning", "message"] | None:
        """Return which item has begun and not ended, of a turn that has not ended."""
        if self.seen:
            return "message"
        if not self.part & _IN_TURN:
            return None
        if self.part & _IN_ARGUMENTS:
            return None  # the turn is read again from its beginning
        step = self.part & (_AFTER_REASONING - 1)
        if self.part & _IN_MESSAGE and step >= _REASONING_PARTS:
            return "message"
        return None if self.part & _IN_MESSAGE and step == _REASONING_PARTS - 1 else "reasoning"


def place_reasoning(seq: int, shown_bytes: int) -> StreamPlace:
    """Return the place after so many bytes of a turn's reasoning; with none, that after its beginning."""
    return StreamPlace(seq, 0, _IN_TURN | min(shown_bytes, _MAX_SHOWN) << 1)


def place_message(seq: int, *, reasoning_parts: int = 0) -> StreamPlace:
    """Return the place where the message of a turn begins, after so many events that end the reasoning, if any."""
    step = (_AFTER_REASONING if reasoning_parts else 0) | (_REASONING_PARTS - reasoning_parts)
    return StreamPlace(seq, 0, _IN_TURN | _IN_MESSAGE | step)


def place_arguments(seq: int, number: int, shown_bytes: int | None = None) -> StreamPlace:
    """Return the place after so many bytes of a call's arguments; with None, that of the call's beginning."""
    shown = 0 if shown_bytes is None else shown_bytes + 1
    return StreamPlace(seq, 0, _IN_TURN | _IN_ARGUMENTS | number << _ARGUMENT_BITS | shown)


def place_text(seq: int, seen_bytes: int, *, follows_reasoning: bool) -> StreamPlace:
    """Return the place after so many bytes of the text of a message."""
    return StreamPlace(seq, seen_bytes, _AFTER_REASONING if follows_reasoning else 0)


def place_call_end(seq: int, number: int) -> StreamPlace:
    """Return the place where a call ends whose arguments were streamed."""
    last = (1 << _ARGUMENT_BITS) - _CLOSING_PARTS
    return StreamPlace(seq, 0, _IN_TURN | _IN_ARGUMENTS | number << _ARGUMENT_BITS | last)


class EventNumbers:
    """Numbers the events of a run's stream, from 0. Each entry that has events takes a range, whatever was shown of it.

    So the log alone tells which place a number is, also to another replica, and also after text that it does not have,
    such as that of a turn which failed.
    """

    def __init__(self) -> None:
        self._first, self._next = 0, _ENTRY_NUMBERS
        """The range of the latest entry; before the first one that of the stream's opening."""
        self._is_turn = False

    def add(self, entry: Entry) -> bool:
        """Give the next range to an entry of the run. Return whether it has one."""
        match entry.event:
            case TurnStarted():
                count = _TURN_NUMBERS
            case RunQueued() | TurnEnded() | CallStarted() | CallEnded() | RunEnded():
                count = _ENTRY_NUMBERS
            case _:
                return False
        self._first, self._next = self._next, self._next + count
        self._is_turn = count == _TURN_NUMBERS
        return True

    def number(self, place: StreamPlace) -> int:
        """Return the number of a place in the latest entry."""
        return min(self._first + place.offset, _MAX_NUMBER)

    def has(self, number: int) -> bool:
        """Return whether the number lies in the range of the latest entry, or in one before it."""
        return number < self._next

    def parse(self, number: int, seq: int) -> StreamPlace:
        """Return the place of a number in the range of the latest entry, which is `seq`."""
        offset = number - self._first
        if not self._is_turn or offset < _REASONING_START:
            return StreamPlace(seq, 0, offset)
        if offset >= _ARGUMENTS_START:
            return StreamPlace(seq, 0, _IN_TURN | _IN_ARGUMENTS | (offset - _ARGUMENTS_START))
        if offset >= _TEXT_START:
            follows_reasoning, seen = divmod(offset - _TEXT_START, _MAX_SHOWN + 1)
            return StreamPlace(seq, seen, _AFTER_REASONING * follows_reasoning)
        if offset >= _MESSAGE_START:
            return StreamPlace(seq, 0, _IN_TURN | _IN_MESSAGE | (offset - _MESSAGE_START))
        shown = offset - _REASONING_START
        return StreamPlace(seq, 0, _IN_TURN | shown) if shown < 2 else place_reasoning(seq, shown - 1)


def find_place(entries: Iterable[Entry], before_run: int, number: int) -> StreamPlace:
    """Return the place of a number in the stream of a run with these entries. Raise Invalid if there is none."""
    numbers, seq = EventNumbers(), before_run
    for entry in entries:
        if numbers.has(number):
            break
        if numbers.add(entry):
            seq = entry.seq
    if not numbers.has(number):
        raise Invalid("starting_after: no event of this response has the number", {"field": "starting_after"})
    return numbers.parse(number, seq)


def _take_hex(own_id: str) -> str:
    match = _HEX.search(own_id)
    return match[0] if match else "0" * 24
