"""The size of texts as they are sent and stored."""


def utf8_size(text: str) -> int:
    """Return the number of bytes of the text in UTF-8. ASCII, the most frequent case, is not encoded for it."""
    return len(text) if text.isascii() else len(text.encode())
