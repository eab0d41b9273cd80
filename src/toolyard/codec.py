"""Entries and values to and from JSON. Nobody else knows how they are written."""

from collections.abc import Sequence

import msgspec

from toolyard.core.events import Entry, Event

_encoder = msgspec.json.Encoder()
_entries = msgspec.json.Decoder(Entry)


def encode(value: Entry | Event) -> bytes:
    return _encoder.encode(value)


def encode_entries(entries: Sequence[Entry]) -> list[bytes]:
    return [_encoder.encode(entry) for entry in entries]


def decode_entry(body: bytes) -> Entry:
    return _entries.decode(body)
