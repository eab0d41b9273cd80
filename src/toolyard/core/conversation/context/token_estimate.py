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
    tokens = ITEM_TOKENS
    if type(item) is Call:
        return tokens + estimate_text_tokens(item.tool) + estimate_text_tokens(repr(item.arguments))
    if type(item) is UserMessage:
        part = item.parts[0] if len(item.parts) == 1 else None
        if type(part) is not TextPart:
            return tokens + sum(map(_estimate_part, item.parts))
        text = part.text
    elif type(item) is Result:
        text = item.content
        if item.parts:
            tokens += sum(map(_estimate_part, item.parts))
    else:
        text = item.text
    return tokens + (len(text) // 4 if text.isascii() else estimate_text_tokens(text))


def _estimate_part(part: Part) -> int:
    match part:
        case TextPart():
            return estimate_text_tokens(part.text)
        case ImagePart():
            return IMAGE_TOKENS
        case FilePart():
            return max(IMAGE_TOKENS, len(part.url) // 8)
