"""JSON whose text cannot be written as UTF-8: what is broken becomes U+FFFD. It does not know what the JSON is for."""

import json
import re

import msgspec

_encode = msgspec.json.Encoder().encode
_ESCAPES = re.compile(
    r"\\\\"  # an escaped backslash hides what follows it
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair: fine
    r"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"  # a lone half
    r"|([\ud800-\udfff])"
)


def has_lone_surrogates(text: str) -> bool:
    return any(found[1] or found[2] for found in _ESCAPES.finditer(text))


def repair_unicode(body: bytes) -> bytes:
    """The same JSON with each broken character replaced."""
    text = body.decode("utf-8", "replace")
    return _ESCAPES.sub(lambda found: "\ufffd" if found[1] or found[2] else found[0], text).encode()


def encode_json(value: object) -> bytes:
    """The value as JSON, whatever is in its texts."""
    try:
        return _encode(value)
    except UnicodeEncodeError:  # half a character, which a tool may return and no provider takes
        return repair_unicode(json.dumps(value).encode())
