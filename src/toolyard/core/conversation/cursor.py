"""A position in the stream of a conversation. Clients treat it as opaque."""

from msgspec import Struct

from toolyard.core.errors import Invalid


class Cursor(Struct, frozen=True, gc=False):
    """The number of the last entry that a reader got and, inside a turn in progress, how much of the turn's text."""

    seq: int = 0
    turn: int = 0
    """0 if the reader has not read the number: its first cursor was that of an entry inside the turn."""
    seen: int = 0
    """UTF-8 bytes of the turn's text that the reader got."""

    def __str__(self) -> str:
        return f"{self.seq}.{self.turn}.{self.seen}" if self.turn or self.seen else str(self.seq)


START = Cursor()


def parse_cursor(text: str) -> Cursor:
    """Return the cursor of a text; an empty text is the beginning. Raises Invalid."""
    if not text:
        return START
    parts = text.split(".")
    if len(parts) not in (1, 3) or not all(part.isascii() and part.isdigit() and len(part) < 16 for part in parts):
        raise Invalid(f"{text[:40]!r} is not a place in this stream; send the id of the last event you received")
    return Cursor(*map(int, parts))
