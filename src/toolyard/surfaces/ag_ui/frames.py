"""The frames of an AG-UI stream: one event in each, as JSON. Pure.

Fields that have no value are left out: the protocol has no null for them.
"""

import msgspec

PROTOCOL_VERSION = "1.0"


def encode_frame(kind: str, **fields: object) -> bytes:
    """Return the frame of an event."""
    return b"data: %b\n\n" % msgspec.json.encode({"type": kind, **fields})


def encode_head(kind: str, **fields: str) -> bytes:
    """Return the beginning of frames that differ in their `delta` only. `}` and two newlines come after the delta."""
    return b'data: %b,"delta":' % msgspec.json.encode({"type": kind, **fields})[:-1]
