"""A user's message as Gemini's parts. Pure."""

import mimetypes
from typing import assert_never

from toolyard.core.items import FilePart, ImagePart, Part, TextPart, UserMessage
from toolyard.models.files import PDF, Inline, inline
from toolyard.models.images import Bounds, address_of, as_shown

IMAGES = Bounds(kinds=("PNG", "JPEG", "WebP"))
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
            url, words = address_of(part.url, IMAGES)
            return _at(url, "", "image/jpeg") if url else text_part(words)
        case FilePart() if file := inline(part):
            return _file(file)
        case FilePart():
            return _at(part.url, part.name, PDF)
        case _:
            assert_never(part)


def _file(file: Inline) -> dict[str, object]:
    if file.is_pdf:
        return _media(PDF, file.data)
    heard = file.kind.startswith(("audio/", "video/")) and file.body
    return _media(file.kind, file.data) if heard else text_part(file.told)


def _at(url: str, name: str, otherwise: str) -> dict[str, object]:
    """What is elsewhere, or an image that comes along."""
    head, inline, data = url.partition(";base64,")
    if inline and head.startswith("data:"):
        return _media(head.removeprefix("data:"), data)
    kind = _guessed(name) or _guessed(url.partition("?")[0]) or otherwise
    return {"fileData": {"fileUri": url, "mimeType": kind}}


def _media(kind: str, data: str) -> dict[str, object]:
    return {"inlineData": {"mimeType": kind, "data": data}}


def _guessed(name: str) -> str | None:
    return mimetypes.guess_type(name)[0] if name else None
