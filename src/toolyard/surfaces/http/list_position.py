"""Encode a position in a list of conversations as text that is URL-safe and opaque to clients, and parse it."""

import base64
import binascii

import msgspec

from toolyard.core.store import ListPosition
from toolyard.surfaces.http.errors import invalid_field


def encode_position(position: ListPosition) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode().rstrip("=")


def parse_position(text: str) -> ListPosition | None:
    if not text:
        return None
    try:
        body = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(body, type=ListPosition)
    except (binascii.Error, msgspec.DecodeError, UnicodeError, ValueError):
        raise invalid_field("after", "this is not the `next` of a page") from None
