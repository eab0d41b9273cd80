"""The ids of responses and of their items, and the numbers of stream events. Pure.

A response is a run: its id holds those of the conversation and of the run. A number in a stream holds the place after
an event, so that a client that comes back with it gets exactly what follows.
"""

import re

from msgspec import Struct

from toolyard.core.cursor import Cursor
from toolyard.core.errors import NotFound

APPROVAL_ID_PREFIX = "mcpr_"
"""The prefix of the id of a request for an approval; the id of its call follows."""
_RESPONSE_ID = re.compile(r"resp_([0-9a-f]{24})([0-9a-f]{24})")
_HEX = re.compile(r"[0-9a-f]{24}")
_PLACE_BITS, _PART_BITS = 32, 5
_IN_TEXT = 1 << (_PLACE_BITS - 1)
"""The bit of a number inside a turn's text. Before the text there can be any number of pieces of reasoning."""
MAX_PART = _IN_TEXT - 1
MAX_PART_IN_TEXT = (1 << _PART_BITS) - 1
MAX_SEEN = (_IN_TEXT >> _PART_BITS) - 1


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
            place = _IN_TEXT | min(self.seen, MAX_SEEN) << _PART_BITS | min(self.part, MAX_PART_IN_TEXT)
        else:
            place = min(self.part, MAX_PART)
        return self.seq << _PLACE_BITS | place

    @property
    def cursor(self) -> Cursor:
        """Return where to read on: inside a text right after it, else at the whole entry again."""
        return Cursor(self.seq, 0, self.seen) if self.seen else Cursor(max(0, self.seq - 1))


def parse_number(number: int) -> StreamPlace:
    seq, place = number >> _PLACE_BITS, number & ((1 << _PLACE_BITS) - 1)
    if place & _IN_TEXT:
        return StreamPlace(seq, (place & MAX_PART) >> _PART_BITS, place & MAX_PART_IN_TEXT)
    return StreamPlace(seq, 0, place)


def _take_hex(own_id: str) -> str:
    match = _HEX.search(own_id)
    return match[0] if match else "0" * 24
