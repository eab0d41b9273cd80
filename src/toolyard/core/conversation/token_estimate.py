"""Estimates the tokens of items without a tokenizer. The provider's own counts correct the estimate."""

from toolyard.core.items import (
    Call,
    FilePart,
    ImagePart,
    Item,
    ModelText,
    Part,
    Reasoning,
    Result,
    SystemText,
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
    match item:
        case (
            UserMessage(parts=(TextPart(text=text),)) | ModelText(text=text) | Result(content=text, parts=())
            | SystemText(text=text) | Reasoning(text=text)
        ):  # fmt: skip
            return ITEM_TOKENS + (len(text) // 4 if text.isascii() else estimate_text_tokens(text))
        case UserMessage():
            return ITEM_TOKENS + sum(map(_estimate_part, item.parts))
        case Result():
            return ITEM_TOKENS + estimate_text_tokens(item.content) + sum(map(_estimate_part, item.parts))
        case Call():
            return ITEM_TOKENS + estimate_text_tokens(item.tool) + estimate_text_tokens(repr(item.arguments))


def _estimate_part(part: Part) -> int:
    match part:
        case TextPart():
            return estimate_text_tokens(part.text)
        case ImagePart():
            return IMAGE_TOKENS
        case FilePart():
            return max(IMAGE_TOKENS, len(part.url) // 8)
