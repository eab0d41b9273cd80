"""The ids of responses and of their items, and the numbers of stream events. Pure.

A response is a run: its id holds those of the conversation and of the run. A number in a stream holds the place after
an event, so that a client that comes back with it gets exactly what follows.
"""

import re
from typing import Literal

from msgspec import Struct

from toolyard.core.cursor import Cursor
from toolyard.core.errors import NotFound

APPROVAL_ID_PREFIX = "mcpr_"
"""The prefix of the id of a request for an approval; the id of its call follows."""
_RESPONSE_ID = re.compile(r"resp_([0-9a-f]{24})([0-9a-f]{24})")
_HEX = re.compile(r"[0-9a-f]{24}")
_PLACE_BITS, _PART_BITS = 32, 5
_IN_TEXT = 1 << (_PLACE_BITS - 1)
"""The bit of a number inside a turn's text."""
_IN_TURN, _IN_MESSAGE = 1 << 30, 1 << 29
"""The bits of a number in a turn before its text: in the reasoning, and with both in the beginning of the message."""
_AFTER_REASONING = 1 << 4
"""The bit of a part in a message whose turn has shown reasoning, which comes before it in the output."""
MAX_REASONING = (_IN_MESSAGE >> 1) - 1
MAX_PART = _IN_TEXT - 1
MAX_PART_IN_TEXT = (1 << _PART_BITS) - 1
MAX_SEEN = (_IN_TEXT >> _PART_BITS) - 1
_REASONING_PARTS = 2
"""The events that end the reasoning, at the beginning of a message."""


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


def build_item_id(prefix: str, item_id: str) -> str:
    """Return the id of an output item, of at most 64 characters."""
    return f"{prefix}_{item_id.partition('_')[2] or item_id}"[:64]


class StreamPlace(Struct, frozen=True):
    """The place after an event of a stream: the entry, the bytes of text after it, and the number within the item."""

    seq: int
    seen: int
    part: int

    @property
    def number(self) -> int:
        """Return the place as a number of 53 bits, which every JSON reader takes."""
        if self.seen:
            low_bits = _IN_TEXT | min(self.seen, MAX_SEEN) << _PART_BITS | min(self.part, MAX_PART_IN_TEXT)
        else:
            low_bits = min(self.part, MAX_PART)
        return self.seq << _PLACE_BITS | low_bits

    @property
    def cursor(self) -> Cursor:
        """Return where to read on: in a turn after its entry, inside a text right after it, else at the entry again."""
        if self.seen:
            return Cursor(self.seq, 0, self.seen)
        return Cursor(self.seq if self.part & _IN_TURN else max(0, self.seq - 1))

    @property
    def reasoning_bytes(self) -> int:
        """Return how much reasoning of the turn was shown, if this is a place in it."""
        return self.part >> 1 & MAX_REASONING if self.part & _IN_TURN and not self.part & _IN_MESSAGE else 0

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
        step = self.part & (_AFTER_REASONING - 1)
        if self.part & _IN_MESSAGE and step >= _REASONING_PARTS:
            return "message"
        return None if self.part & _IN_MESSAGE and step else "reasoning"


def place_reasoning(seq: int, shown_bytes: int) -> StreamPlace:
    """Return the place after so many bytes of a turn's reasoning; with none, that after its beginning."""
    return StreamPlace(seq, 0, _IN_TURN | min(shown_bytes, MAX_REASONING) << 1)


def place_message(seq: int, *, follows_reasoning: bool) -> StreamPlace:
    """Return the place where the message of a turn begins, and with the end of the reasoning, if there is any."""
    return StreamPlace(seq, 0, _IN_TURN | _IN_MESSAGE | (_AFTER_REASONING if follows_reasoning else _REASONING_PARTS))


def place_text(cursor: Cursor, *, follows_reasoning: bool) -> StreamPlace:
    """Return a place in the text of a message."""
    return StreamPlace(cursor.seq, cursor.seen, _AFTER_REASONING if follows_reasoning else 0)


def parse_number(number: int) -> StreamPlace:
    seq, low_bits = number >> _PLACE_BITS, number & ((1 << _PLACE_BITS) - 1)
    if low_bits & _IN_TEXT:
        return StreamPlace(seq, (low_bits & MAX_PART) >> _PART_BITS, low_bits & MAX_PART_IN_TEXT)
    return StreamPlace(seq, 0, low_bits)


def _take_hex(own_id: str) -> str:
    match = _HEX.search(own_id)
    return match[0] if match else "0" * 24
