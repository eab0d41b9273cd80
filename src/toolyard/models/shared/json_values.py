"""JSON with text that is not valid Unicode: broken characters become U+FFFD."""

import re
from collections.abc import Sequence
from typing import cast

import msgspec

_encode = msgspec.json.Encoder().encode
_ESCAPES = re.compile(
    r"\\\\"  # an escaped backslash hides what follows it
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair: fine
    r"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"  # a lone half
    r"|([\ud800-\udfff])"
)


def has_lone_surrogates(text: str) -> bool:
    return any(match[1] or match[2] for match in _ESCAPES.finditer(text))


def repair_unicode(body: bytes) -> bytes:
    """Return the same JSON with each broken character replaced."""
    text = body.decode("utf-8", "replace")
    return _ESCAPES.sub(lambda match: "\ufffd" if match[1] or match[2] else match[0], text).encode()


def encode_json(value: object) -> bytes:
    """Return the value as JSON, also if its texts hold lone surrogates."""
    try:
        return _encode(value)
    except UnicodeEncodeError:  # a lone surrogate, which a tool may return and no provider accepts
        return _encode(_repair_texts(value))


def _repair_texts(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list | tuple):
        return [_repair_texts(item) for item in cast("Sequence[object]", value)]
    if isinstance(value, dict):
        return {_repair_texts(name): _repair_texts(item) for name, item in cast("dict[str, object]", value).items()}
    return value
