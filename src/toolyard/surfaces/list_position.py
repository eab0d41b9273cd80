"""A place in a list of conversations, as a text that is safe in an address and opaque to clients."""

import base64
import binascii

import msgspec

from toolyard.core.store import Place
from toolyard.surfaces.errors import invalid


def place_text(place: Place) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def parse_place(text: str) -> Place | None:
    if not text:
        return None
    try:
        body = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(body, type=Place)
    except (binascii.Error, msgspec.DecodeError, UnicodeError, ValueError):
        raise invalid("after", "this is not the `next` of a page") from None
