"""Turns the parts of a user's message into blocks of the Messages API; a text names what it does not accept. Pure."""

from collections.abc import Iterator, Sequence
from typing import assert_never
from urllib.parse import urlsplit

import msgspec

from toolyard.core.items import FilePart, ImagePart, Part, TextPart, UserMessage
from toolyard.core.media import PDF
from toolyard.core.messages_blocks import BlockFields, Mark
from toolyard.models.shared.attachments import Image, ImageLimits, convert_image_file, parse_image, parse_inline_file

Block = dict[str, object]
IMAGE_LIMITS = ImageLimits(max_characters=5 * 1024 * 1024, max_pixels=8_000)


def build_blocks(message: UserMessage, fields: Sequence[BlockFields] = ()) -> Iterator[Block]:
    """Yield the blocks of a message. `fields` has what the client said of each part, if it said anything."""
    for number, part in enumerate(message.parts):
        block = _build_block(part)
        if block is None:
            continue
        more = fields[number] if number < len(fields) else None
        if more is not None and block["type"] == "document":
            block |= {name: value for name in ("citations", "context") if (value := getattr(more, name))}
        yield block if more is None else mark_block(block, more.cache_control)


def mark_block(block: Block, mark: Mark | None) -> Block:
    """Return a block with a mark that its client has set, if any.

    The space before the mark tells it from data with the same key: everything else is encoded without spaces.
    """
    return block if mark is None else {**block, "cache_control": msgspec.Raw(b" " + msgspec.json.encode(mark))}


def build_text_block(text: str) -> Block:
    return {"type": "text", "text": text}


def is_blank(text: str) -> bool:
    """Return whether a text is empty or white space: Anthropic refuses a request with such a text block."""
    return not text or text.isspace()


def _build_block(part: Part) -> Block | None:
    match part := convert_image_file(part):
        case TextPart():
            return None if is_blank(part.text) else build_text_block(part.text)
        case ImagePart():
            return _build_url_block(part.url)
        case FilePart():
            return _build_file_block(part)
        case _:
            assert_never(part)


def build_image_block(image: Image) -> Block:
    return {"type": "image", "source": {"type": "base64", "media_type": image.kind, "data": image.data}}


def _build_url_block(url: str) -> Block:
    if _is_https(url):
        return {"type": "image", "source": {"type": "url", "url": url}}
    if url[:5].lower() != "data:":
        return build_text_block(f"[an image at {url}]")
    image = parse_image(url, IMAGE_LIMITS)
    return build_image_block(image) if isinstance(image, Image) else build_text_block(image)


def _build_file_block(part: FilePart) -> Block:
    document: Block = {"type": "document", "title": part.name} if part.name.strip() else {"type": "document"}
    if file := parse_inline_file(part):
        if file.is_pdf:
            return {**document, "source": {"type": "base64", "media_type": PDF, "data": file.data}}
        if file.text is not None:
            return {**document, "source": {"type": "text", "media_type": "text/plain", "data": file.text}}
        return build_text_block(file.prompt_text)
    if _is_https(part.url) and _get_path(part.url).lower().endswith(".pdf"):
        return {**document, "source": {"type": "url", "url": part.url}}
    return build_text_block(f"[file {part.name}: {part.url}]" if part.name else f"[file: {part.url}]")


def _get_path(url: str) -> str:
    """Return the path of an address; empty if it is none."""
    try:
        return urlsplit(url).path
    except ValueError:
        return ""


def _is_https(url: str) -> bool:
    """Return whether Anthropic fetches the address itself: it accepts https only."""
    return url.startswith("https://")
