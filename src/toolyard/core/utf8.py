"""Texts as they are sent and stored, in UTF-8: their size, where they may be cut, and what cannot be encoded."""


def utf8_size(text: str) -> int:
    """Return the number of bytes of the text in UTF-8. ASCII, the most frequent case, is not encoded for it."""
    return len(text) if text.isascii() else len(text.encode())


def replace_surrogates(text: str) -> str:
    """Return the text without lone surrogates, which cannot be encoded and which file names may contain."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def find_char_boundary(body: bytes, at: int) -> int:
    """Return the last index up to `at` that is not inside a UTF-8 character."""
    while 0 < at < len(body) and body[at] & 0b1100_0000 == 0b1000_0000:
        at -= 1
    return at
