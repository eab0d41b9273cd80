"""Why a text is not JSON, in words for the client that sent it. Pure."""

import re

HALF_CHARACTER = (
    r"a text has half a character (a lone surrogate such as \ud83d): "
    "send both halves of its escape, or the character itself"
)
_HALF_AT_END = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}[^\\]{0,5}\Z")


def describe_json_error(body: bytes, error: Exception) -> str:
    """Return the reason why a decoder refused a body."""
    message = str(error)
    # msgspec reads six bytes for the other half, and takes it for the end of its input if there are fewer.
    is_half_at_end = "truncated" in message and _HALF_AT_END.search(body[-12:]) is not None
    return HALF_CHARACTER if is_half_at_end or "surrogate" in message else message
