"""Read the width and the height of a raster image from its first bytes, without decoding it.

A few kilobytes can describe an image that takes gigabytes once it is decoded, in the browser of everybody who sees it.
"""

import struct
from collections.abc import Callable, Mapping

Size = tuple[int, int]

_JPEG_WITHOUT_LENGTH = frozenset({0x01, 0xFF, *range(0xD0, 0xD9)})
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def read_image_size(body: bytes, media_type: str) -> Size | None:
    """Return the width and the height in pixels; None if the bytes are not an image of this type."""
    try:
        width, height = _READERS[media_type](body)
    except (struct.error, ValueError, IndexError):
        return None
    return (width, height) if width > 0 and height > 0 else None


def _read_png(body: bytes) -> Size:
    if body[12:16] != b"IHDR":
        raise ValueError("the first chunk is not the header")
    return struct.unpack_from(">II", body, 16)


def _read_gif(body: bytes) -> Size:
    return struct.unpack_from("<HH", body, 6)


def _read_jpeg(body: bytes) -> Size:
    position = 2
    while body[position] == 0xFF:
        marker = body[position + 1]
        if marker in _JPEG_FRAMES:
            height, width = struct.unpack_from(">HH", body, position + 5)
            return width, height
        if marker in _JPEG_WITHOUT_LENGTH:
            # A marker may be preceded by any number of fill bytes.
            position += 1 if marker == 0xFF else 2
        else:
            (length,) = struct.unpack_from(">H", body, position + 2)
            position += 2 + length
    raise ValueError("no frame before the data")


def _read_webp(body: bytes) -> Size:
    kind = body[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(body[24:27], "little"), 1 + int.from_bytes(body[27:30], "little")
    if kind == b"VP8L" and body[20] == 0x2F:
        (bits,) = struct.unpack_from("<I", body, 21)
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 " and body[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", body, 26)
        return width & 0x3FFF, height & 0x3FFF
    raise ValueError("an unknown chunk")


_READERS: Mapping[str, Callable[[bytes], Size]] = {
    "image/png": _read_png,
    "image/gif": _read_gif,
    "image/jpeg": _read_jpeg,
    "image/webp": _read_webp,
}
