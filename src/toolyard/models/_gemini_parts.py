"""A user's message as Gemini's parts. Pure."""

import base64
import binascii
import mimetypes
from typing import assert_never
from urllib.parse import unquote_to_bytes

from toolyard.core.items import FilePart, ImagePart, Part, TextPart, UserMessage
from toolyard.models._images import address_of, as_shown

NOTHING = "[no text]"
"""Stands in for a message without a word: Gemini refuses one that is empty."""


def text_part(text: str) -> dict[str, object]:
    return {"text": text or NOTHING}


def parts_of(message: UserMessage) -> list[object]:
    return [_part(part) for part in message.parts if not isinstance(part, TextPart) or part.text] or [text_part("")]


def _part(part: Part) -> dict[str, object]:
    match part := as_shown(part):
        case TextPart():
            return text_part(part.text)
        case ImagePart():
            url, words = address_of(part.url)
            return _media(url, "", "image/jpeg") if url else text_part(words)
        case FilePart():
            return _media(part.url, part.name, "application/pdf")
        case _:
            assert_never(part)


def _media(url: str, name: str, otherwise: str) -> dict[str, object]:
    if not url.startswith("data:"):
        kind = _guessed(name) or _guessed(url.partition("?")[0]) or otherwise
        return {"fileData": {"fileUri": url, "mimeType": kind}}
    head, _, body = url.removeprefix("data:").partition(",")
    kind, *flags = head.split(";")
    inline = body if "base64" in flags and _is_base64(body) else base64.b64encode(unquote_to_bytes(body)).decode()
    return {"inlineData": {"mimeType": kind or _guessed(name) or "text/plain", "data": inline}}


def _guessed(name: str) -> str | None:
    return mimetypes.guess_type(name)[0] if name else None


def _is_base64(body: str) -> bool:
    try:
        return bool(base64.b64decode(body, validate=True)) or not body
    except (binascii.Error, ValueError):
        return False
