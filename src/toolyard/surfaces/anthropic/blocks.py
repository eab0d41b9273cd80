"""Blocks of a message, as clients of Anthropic's API send them: their lists, their marks, and the parts of a user."""

import base64
import re
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

import msgspec

from toolyard.core.items import FilePart, ImagePart, Part, TextPart
from toolyard.core.json_types import is_list, is_object
from toolyard.core.messages_blocks import Mark
from toolyard.surfaces.http.errors import invalid_field

Block = dict[str, object]
MAX_BLOCKS = 2_000
"""In a message, with those inside of others: they are read at once."""
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]+")
_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+")
_INLINE_KINDS = ("image/jpeg", "image/png", "image/gif", "image/webp")


def list_blocks(content: object, key: str) -> list[Block]:
    """Return the blocks of a content, which may be a text instead. Raise Invalid for anything else."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not is_list(content):
        raise invalid_field(key, "must be a text or a list of blocks")
    return [
        block if is_object(block) else _refuse(f"{key}.{number}", "must be a block, which is an object with a type")
        for number, block in enumerate(content)
    ]


def _refuse(key: str, why: str) -> Block:
    raise invalid_field(key, why)


def read_mark(block: Block, key: str) -> Mark | None:
    """Return the `cache_control` of a block. Raise Invalid for one that the API does not have."""
    try:
        return msgspec.convert(block.get("cache_control"), Mark | None)
    except msgspec.ValidationError:
        why = 'must be {"type": "ephemeral"}, with a ttl of 5m or 1h if any'
        raise invalid_field(f"{key}.cache_control", why) from None


def require_text(block: Block, name: str, key: str) -> str:
    text = block.get(name)
    if not isinstance(text, str):
        raise invalid_field(f"{key}.{name}", "must be a text")
    return text


def read_part(block: Block, key: str) -> Part:
    """Return a block of the user as a part. Raise Invalid for a block that cannot be sent to a model."""
    match block.get("type"):
        case "text":
            return TextPart(text=require_text(block, "text", key))
        case "image":
            return ImagePart(url=_read_source(block, key, ("base64", "url")))
        case "document":
            return _read_document(block, key)
        case "search_result":
            texts = [require_text(text, "text", key) for text in list_blocks(block.get("content"), f"{key}.content")]
            heading = f"{require_text(block, 'title', key)} ({require_text(block, 'source', key)})"
            return TextPart(text="\n".join((heading, *texts)))
        case kind:
            raise invalid_field(key, f"a block of the type {str(kind)[:40]!r} cannot be read here")


def _read_document(block: Block, key: str) -> Part:
    title, source = block.get("title"), block.get("source")
    name = title if isinstance(title, str) else ""
    kind = source.get("type") if is_object(source) else None
    if is_object(source) and kind == "content":
        blocks = list_blocks(source.get("content"), key := f"{key}.source.content")
        parts = [read_part(inner, f"{key}.{number}") for number, inner in enumerate(blocks)]
        return TextPart(text="\n".join(filter(None, (name, *_list_texts(parts, key)))))
    return FilePart(url=_read_source(block, key, ("base64", "url", "text")), name=name)


def _list_texts(parts: Sequence[Part], key: str) -> Iterator[str]:
    """Yield the texts of a document. Raise Invalid for an image or a file in it."""
    for number, part in enumerate(parts):
        if not isinstance(part, TextPart):
            raise invalid_field(f"{key}.{number}", "must be a text: send images and files beside the document")
        yield part.text


def _is_address(text: str) -> bool:
    try:
        url = urlsplit(text)
    except ValueError:
        return False
    return url.scheme in ("https", "http") and bool(url.hostname) and not any(map(str.isspace, text))


def _read_source(block: Block, key: str, kinds: Sequence[str]) -> str:
    """Return where a block's data is: an address, or the data itself."""
    source = block.get("source")
    key = f"{key}.source"
    if not is_object(source) or source.get("type") not in kinds:
        kind = source.get("type") if is_object(source) else None
        why = (
            "there is no file store here: send the file itself" if kind == "file" else f"must be of {', '.join(kinds)}"
        )
        raise invalid_field(key, why)
    if source["type"] == "url":
        url = require_text(source, "url", key)
        if not _is_address(url):
            raise invalid_field(f"{key}.url", "must be an address of https: or http:")
        return url
    data, media_type = require_text(source, "data", key), require_text(source, "media_type", key)
    if source["type"] == "text":
        return f"data:text/plain;base64,{base64.b64encode(data.encode()).decode()}"
    if block["type"] == "image" and media_type not in _INLINE_KINDS:
        raise invalid_field(f"{key}.media_type", f"must be one of {', '.join(_INLINE_KINDS)}")
    if not _MEDIA_TYPE.fullmatch(media_type):
        raise invalid_field(f"{key}.media_type", "is no media type")
    if not _BASE64.fullmatch(data):
        raise invalid_field(f"{key}.data", "must be base64")
    return f"data:{media_type};base64,{data}"


def count_marks(*values: object) -> int:
    """Return how many marks the parts of a request have."""
    return count_blocks(list(values))[1]


def count_blocks(content: object) -> tuple[int, int]:
    """Return how many blocks and marks a content has, with those inside; not all of them beyond MAX_BLOCKS."""
    blocks = marks = 0
    stack = [content]
    while stack and blocks <= MAX_BLOCKS:
        value = stack.pop()
        if is_list(value):
            stack.extend(value)
        elif is_object(value):
            blocks += 1
            marks += value.get("cache_control") is not None
            # What a tool is called with, and what describes it, may have fields of any name.
            stack.extend(inner for name, inner in value.items() if name in ("content", "source"))
    return blocks, marks
