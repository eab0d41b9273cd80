"""Turns the parts of a user's message into Gemini's parts. Pure."""

import mimetypes
from typing import assert_never

from toolyard.core.items import FilePart, ImagePart, Part, TextPart, UserMessage
from toolyard.core.media import PDF
from toolyard.models.shared.attachments import (
    ImageLimits,
    InlineFile,
    convert_image_file,
    parse_inline_file,
    resolve_image_url,
)

IMAGE_LIMITS = ImageLimits(formats=("PNG", "JPEG", "WebP"))
EMPTY_TEXT = "[no text]"
"""Replaces an empty message, which Gemini refuses."""


def build_text_part(text: str) -> dict[str, object]:
    return {"text": text or EMPTY_TEXT}


def build_parts(message: UserMessage) -> list[object]:
    return [_build_part(part) for part in message.parts if not isinstance(part, TextPart) or part.text] or [
        build_text_part("")
    ]


def _build_part(part: Part) -> dict[str, object]:
    match part := convert_image_file(part):
        case TextPart():
            return build_text_part(part.text)
        case ImagePart():
            url, words = resolve_image_url(part.url, IMAGE_LIMITS)
            return _build_url_part(url, "", "image/jpeg") if url else build_text_part(words)
        case FilePart() if file := parse_inline_file(part):
            return _build_file_part(file)
        case FilePart():
            return _build_url_part(part.url, part.name, PDF)
        case _:
            assert_never(part)


def _build_file_part(file: InlineFile) -> dict[str, object]:
    if file.is_pdf:
        return _build_inline_data(PDF, file.data)
    is_media = file.kind.startswith(("audio/", "video/")) and file.body
    return _build_inline_data(file.kind, file.data) if is_media else build_text_part(file.prompt_text)


def _build_url_part(url: str, name: str, default_type: str) -> dict[str, object]:
    """Return a part for an address: inline data for a `data:` URL, else a reference with a guessed type."""
    head, inline, data = url.partition(";base64,")
    if inline and head.startswith("data:"):
        return _build_inline_data(head.removeprefix("data:"), data)
    kind = _guess_type(name) or _guess_type(url.partition("?")[0]) or default_type
    return {"fileData": {"fileUri": url, "mimeType": kind}}


def _build_inline_data(kind: str, data: str) -> dict[str, object]:
    return {"inlineData": {"mimeType": kind, "data": data}}


def _guess_type(name: str) -> str | None:
    return mimetypes.guess_type(name)[0] if name else None
