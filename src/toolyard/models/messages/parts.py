"""The parts of a user's message as blocks of the Messages API. What it cannot take is named in words. Pure."""

from collections.abc import Iterator
from typing import assert_never
from urllib.parse import urlsplit

from toolyard.core.items import FilePart, ImagePart, Part, TextPart, UserMessage
from toolyard.models.files import PDF, inline
from toolyard.models.images import Bounds, Image, as_shown, image_in

Block = dict[str, object]
IMAGES = Bounds(characters=5 * 1024 * 1024, pixels=8_000)


def parts(message: UserMessage) -> Iterator[Block]:
    return (block for part in message.parts if (block := _part(part)) is not None)


def text_block(text: str) -> Block:
    return {"type": "text", "text": text}


def is_blank(text: str) -> bool:
    """Such a text is refused."""
    return not text or text.isspace()


def _part(part: Part) -> Block | None:
    match part := as_shown(part):
        case TextPart():
            return None if is_blank(part.text) else text_block(part.text)
        case ImagePart():
            return _image(part.url)
        case FilePart():
            return _file(part)
        case _:
            assert_never(part)


def image_block(image: Image) -> Block:
    return {"type": "image", "source": {"type": "base64", "media_type": image.kind, "data": image.data}}


def _image(url: str) -> Block:
    if _is_web(url):
        return {"type": "image", "source": {"type": "url", "url": url}}
    if url[:5].lower() != "data:":
        return text_block(f"[an image at {url}]")
    image = image_in(url, IMAGES)
    return image_block(image) if isinstance(image, Image) else text_block(image)


def _file(part: FilePart) -> Block:
    titled: Block = {"type": "document", "title": part.name} if part.name.strip() else {"type": "document"}
    if file := inline(part):
        if file.is_pdf:
            return {**titled, "source": {"type": "base64", "media_type": PDF, "data": file.data}}
        if file.text is not None:
            return {**titled, "source": {"type": "text", "media_type": "text/plain", "data": file.text}}
        return text_block(file.told)
    if _is_web(part.url) and urlsplit(part.url).path.lower().endswith(".pdf"):
        return {**titled, "source": {"type": "url", "url": part.url}}
    return text_block(f"[file {part.name}: {part.url}]" if part.name else f"[file: {part.url}]")


def _is_web(url: str) -> bool:
    """Whether the provider fetches it itself."""
    return url.startswith("https://")
