"""Encodes entries, events and commands as JSON and decodes them. No other module defines their stored form."""

from collections.abc import Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.conversation.commands import Command, CommandOutcome
from toolyard.core.conversation.events import Entry, Event
from toolyard.core.errors import Invalid
from toolyard.core.items import Item, ModelText, SystemText, TextPart, UserMessage

LONG_TEXT_CHARS = 1000
_NOT_ENCODABLE = (msgspec.MsgspecError, TypeError, ValueError, RecursionError)
_encoder = msgspec.json.Encoder()
_entries = msgspec.json.Decoder(Entry)
_commands: msgspec.json.Decoder[Command] = msgspec.json.Decoder(Command)
_outcomes = msgspec.json.Decoder(CommandOutcome)
_items = msgspec.json.Decoder(tuple[Item, ...])


def encode(value: Entry | Event) -> bytes:
    return _encoder.encode(value)


def encode_entries(entries: Sequence[Entry]) -> list[bytes]:
    return [_encoder.encode(entry) for entry in entries]


def encode_command(command: Command) -> bytes:
    return _encoder.encode(command)


def decode_command(body: bytes) -> Command:
    return _commands.decode(body)


def encode_outcome(outcome: CommandOutcome) -> bytes:
    return _encoder.encode(outcome)


def decode_outcome(body: bytes) -> CommandOutcome:
    return _outcomes.decode(body)


def decode_entry(body: bytes) -> Entry:
    return _entries.decode(body)


T = TypeVar("T", bound=Struct)


def check_encodable(value: T) -> T:
    """Return the value if it can be encoded and decoded again as its own type. Raises Invalid."""
    # Input is checked before it enters the log: a single entry that cannot be decoded would make the conversation
    # unreadable.
    try:
        msgspec.json.decode(_encoder.encode(value), type=type(value))
    except _NOT_ENCODABLE as error:
        raise _build_invalid(type(value).__name__, error) from None
    return value


def check_items(items: Sequence[Item]) -> None:
    """Raise Invalid for items that could not be decoded again, as `check_encodable` does for a whole command."""
    try:
        _items.decode(_encoder.encode(items))
    except _NOT_ENCODABLE as error:
        raise _build_invalid("Item", error) from None


def omit_long_text(item: Item) -> Item:
    """Return an item to check instead of one with a long text, which is checked here. Raises Invalid.

    A string comes back from the log as it was if it can be encoded as UTF-8, and to ask this is much cheaper than to
    encode it as JSON and to decode that.
    """
    if type(item) is UserMessage:
        (part,) = item.parts if len(item.parts) == 1 else (None,)
        text = part.text if type(part) is TextPart else None
        shortened = {"parts": ()}
    else:
        text = item.text if type(item) is ModelText or type(item) is SystemText else None
        shortened = {"text": ""}
    if type(text) is not str or len(text) < LONG_TEXT_CHARS:
        return item
    try:
        text.encode()
    except _NOT_ENCODABLE as error:
        raise _build_invalid(type(item).__name__, error) from None
    return replace(item, **shortened)


def _build_invalid(kind: str, error: Exception) -> Invalid:
    return Invalid(f"this cannot be kept: {error}", {"type": kind})
