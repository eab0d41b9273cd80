"""How many tokens items take, by estimate: what a provider counted is better, and corrects it. No tokenizer."""

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

ITEM = 4
"""What the frame around an item takes."""
IMAGE = 1200
"""What providers take for an image of ordinary size, and for a file that is named by its address."""


def tokens_in(text: str) -> int:
    """English takes about four letters a token; other scripts take more, and more bytes as well."""
    return len(text) // 4 if text.isascii() else len(text.encode(errors="replace")) // 3


def tokens_of(item: Item) -> int:
    """Return the estimate for one item."""
    match item:
        case (
            UserMessage(parts=(TextPart(text=text),)) | ModelText(text=text) | Result(content=text, parts=())
            | SystemText(text=text) | Reasoning(text=text)
        ):  # fmt: skip
            return ITEM + (len(text) // 4 if text.isascii() else tokens_in(text))
        case UserMessage():
            return ITEM + sum(map(_part, item.parts))
        case Result():
            return ITEM + tokens_in(item.content) + sum(map(_part, item.parts))
        case Call():
            return ITEM + tokens_in(item.tool) + tokens_in(repr(item.arguments))


def _part(part: Part) -> int:
    match part:
        case TextPart():
            return tokens_in(part.text)
        case ImagePart():
            return IMAGE
        case FilePart():
            return max(IMAGE, len(part.url) // 8)
