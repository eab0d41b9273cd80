"""Estimates the tokens of items without a tokenizer. The provider's own counts correct the estimate."""

from toolyard.core.items import (
    Call,
    FilePart,
    ImagePart,
    Item,
    Part,
    Result,
    TextPart,
    UserMessage,
)

ITEM_TOKENS = 4
"""Tokens of the structure around an item."""
IMAGE_TOKENS = 1200
"""Tokens of an image of ordinary size, and of a file that is named by its address."""


def estimate_text_tokens(text: str) -> int:
    """Return the estimate for a text: four letters a token for ASCII, three bytes a token for other scripts."""
    return len(text) // 4 if text.isascii() else len(text.encode(errors="replace")) // 3


def estimate_tokens(item: Item) -> int:
    """Return the estimate for one item."""
    if type(item) is UserMessage:
        return ITEM_TOKENS + _estimate_parts(item.parts)
    if type(item) is Result:
        tokens = ITEM_TOKENS + estimate_text_tokens(item.content)
        return tokens + _estimate_parts(item.parts) if item.parts else tokens
    if type(item) is Call:
        return ITEM_TOKENS + estimate_text_tokens(item.tool) + estimate_text_tokens(repr(item.arguments))
    return ITEM_TOKENS + estimate_text_tokens(item.text)


def _estimate_parts(parts: tuple[Part, ...]) -> int:
    if len(parts) == 1 and type(part := parts[0]) is TextPart:
        return estimate_text_tokens(part.text)
    return sum(map(_estimate_part, parts))


def _estimate_part(part: Part) -> int:
    match part:
        case TextPart():
            return estimate_text_tokens(part.text)
        case ImagePart():
            return IMAGE_TOKENS
        case FilePart():
            return max(IMAGE_TOKENS, len(part.url) // 8)
