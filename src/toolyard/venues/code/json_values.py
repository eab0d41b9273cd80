"""Checks that what leaves a program is plain JSON: the sandbox would silently turn NaN and bytes into other values."""

import asyncio
import math
import re
from collections.abc import Iterable, Sequence
from typing import cast

import msgspec

MAX_DEPTH = 100
MAX_INT = 2**63 - 1
MAX_INLINE_BYTES = 16_384
"""The size up to which a value is encoded at once, in a few milliseconds."""


_OBJECT_TEXT = re.compile(r"<(function '.*' at 0x[0-9a-f]+|class '.*'|module '.*'|coroutine object .*|\w+ object)>")
"""The text by which the sandbox hands out what it cannot: a function, a class, a module, a call without await."""


class NotJson(Exception):
    """A value that JSON does not have, with the place where it is."""


class TooLarge(Exception):
    """A value that takes more bytes as JSON than it may."""


def encode_plain(value: object, max_bytes: int) -> bytes:
    """Return a value as JSON. Raises NotJson for anything but dicts with text keys, lists, texts, numbers and None.

    Raises TooLarge as soon as the value is known to take more than `max_bytes`. A few lists that contain one another
    many times are small in the sandbox and endless as JSON: encoding them whole would stop the server.
    """
    _Check(max_bytes).check(value)
    encoded = msgspec.json.encode(value)
    if len(encoded) > max_bytes:
        raise TooLarge
    return encoded


async def encode_plain_value(value: object, max_bytes: int) -> bytes:
    """Encode a value as `encode_plain` does, a large one in a thread: other conversations go on meanwhile."""
    try:
        return encode_plain(value, min(max_bytes, MAX_INLINE_BYTES))
    except TooLarge:
        if max_bytes <= MAX_INLINE_BYTES:
            raise
    return await asyncio.to_thread(encode_plain, value, max_bytes)


class _Check:
    """Walks through a value and counts the bytes that it takes at least."""

    def __init__(self, max_bytes: int) -> None:
        self._bytes_left = max_bytes
        self._path: list[object] = []
        """The keys and positions that lead to the value in hand. Put into words only if there is a problem."""

    def check(self, value: object) -> None:
        match value:
            case None | bool():
                return
            case str():
                self._check_text(value)
            case int():
                if not -MAX_INT <= value <= MAX_INT:
                    raise NotJson(f"{self._place} is a number of more than 64 bits: send it as a text")
            case float():
                if not math.isfinite(value):
                    raise NotJson(f"{self._place} is {value}, which JSON does not have")
            case list() | tuple():
                items = cast("Sequence[object]", value)
                self._check_items(enumerate(items), len(items))
            case dict():
                members = cast("dict[object, object]", value)
                for key in members:
                    self._check_key(key)
                self._check_items(members.items(), len(members))
            case _:
                raise NotJson(f"{self._place} is of type {type(value).__name__}, which JSON does not have")

    def _check_items(self, items: Iterable[tuple[object, object]], length: int) -> None:
        self._count(2 * length)  # before any of them is looked at
        path = self._path
        if len(path) >= MAX_DEPTH:
            raise NotJson(f"{self._place[:80]} is nested more than {MAX_DEPTH} levels deep")
        path.append(None)
        for key, item in items:
            path[-1] = key
            self.check(item)
        path.pop()

    def _count(self, size: int) -> None:
        self._bytes_left -= size
        if self._bytes_left < 0:
            raise TooLarge

    def _check_key(self, key: object) -> None:
        if not isinstance(key, str):
            raise NotJson(f"a key of {self._place} is of type {type(key).__name__}, not a text")
        self._check_text(key)

    def _check_text(self, text: str) -> None:
        self._count(len(text))
        if text.startswith("<") and _OBJECT_TEXT.fullmatch(text):
            raise NotJson(f"{self._place} is {text[:80]}, which JSON does not have")
        if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
            raise NotJson(f"{self._place} is a text with half of a character")

    @property
    def _place(self) -> str:
        parts = (key[:40] if isinstance(key, str) else key for key in self._path)
        return "value" + "".join(f"[{part!r}]" for part in parts)
