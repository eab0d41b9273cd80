"""Encodes batches of entries as stores with rows keep them: one line for each entry."""

from collections.abc import Iterator, Sequence

import msgspec

from toolyard import codec
from toolyard.core.conversation.events import Entry


def encode_batch(entries: Sequence[Entry]) -> bytes:
    return b"\n".join(codec.encode_entries(entries))


def decode_batch(batch: bytes) -> Iterator[Entry]:
    return map(codec.decode_entry, batch.split(b"\n"))


def decode_readable_batch(batch: bytes) -> list[Entry]:
    """Return the entries, or none of a batch that only a newer version can read."""
    try:
        return list(decode_batch(batch))
    except msgspec.DecodeError:
        return []
