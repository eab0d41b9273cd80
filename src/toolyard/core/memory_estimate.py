"""How much memory items take, by estimate: texts are what counts, and their length is known without reading them."""

from collections.abc import Iterable
from typing import cast

from toolyard.core.items import Call, Item, ModelText, Part, Reasoning, Result, Seal, SystemText, TextPart, UserMessage

ITEM_BYTES = 500
"""What an item takes besides its texts."""
VALUE_BYTES = 80
"""What a value inside arguments takes besides its text."""


def bytes_of(items: Iterable[Item]) -> int:
    """Return what the items take."""
    return sum(map(_size, items))


def _size(item: Item) -> int:
    match item:
        case Result():
            return ITEM_BYTES + len(item.content) + _parts(item.parts) + _seal(item.seal)
        case Call():
            return ITEM_BYTES + _arguments(item.arguments) + _seal(item.seal)
        case ModelText():
            return ITEM_BYTES * (1 + len(item.citations)) + len(item.text) + _seal(item.seal)
        case Reasoning():
            return ITEM_BYTES + len(item.text) + len(item.signature)
        case SystemText():
            return ITEM_BYTES + len(item.text)
        case UserMessage():
            return ITEM_BYTES + _parts(item.parts)


def _parts(parts: tuple[Part, ...]) -> int:
    return sum(len(part.text) if isinstance(part, TextPart) else len(part.url) for part in parts)


def _seal(seal: Seal | None) -> int:
    return len(seal.data) if seal else 0


def _arguments(arguments: dict[str, object]) -> int:
    """Arguments may be nested deeper than Python may recurse, so this does not."""
    size, left = 0, list[object](arguments.values())
    while left:
        value = left.pop()
        size += VALUE_BYTES
        if isinstance(value, str):
            size += len(value)
        elif isinstance(value, dict):
            left += cast(dict[str, object], value).values()
        elif isinstance(value, list):
            left += cast(list[object], value)
    return size
