"""The media type of a file and the size of an image, from their first bytes. Nothing is decoded.

A few kilobytes can describe an image that takes gigabytes once it is decoded, so its size is read from its header.
"""

import re
import struct
from collections.abc import Callable, Mapping

Size = tuple[int, int]
"""The width and the height in pixels."""

PDF = "application/pdf"
_PDF_HEADER_BYTES = 1_024
"""How far into a file the signature of a PDF may stand."""
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""The markers of the JPEG segments that hold its size."""
_JPEG_MARKER = re.compile(rb"(?:\xff++[\x01\xd0-\xd8])*+\xff++(.)", re.DOTALL)
"""The marker of a segment, after markers without one; each may be preceded by any number of fill bytes."""
_MAX_JPEG_SEGMENTS = 1_000
"""The most segments before the frame: millions of empty ones would take seconds to read."""


def detect_image_type(body: bytes) -> str:
    """Return the media type of a raster image that models and browsers read; empty for anything else."""
    if body.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if body.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if body.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if body[:4] == b"RIFF" and body[8:12] == b"WEBP" else ""


def is_pdf(body: bytes) -> bool:
    return b"%PDF-" in body[:_PDF_HEADER_BYTES]


def read_image_size(body: bytes) -> Size | None:
    """Return the size of an image as its header states it; None if there is no header that can be read."""
    read = _READERS.get(detect_image_type(body))
    try:
        return read(body) if read else None
    except (struct.error, ValueError):
        return None


def _read_png(body: bytes) -> Size:
    if body[12:16] != b"IHDR":
        raise ValueError("the first chunk is not the header")
    return struct.unpack_from(">II", body, 16)


def _read_gif(body: bytes) -> Size:
    return struct.unpack_from("<HH", body, 6)


def _read_jpeg(body: bytes) -> Size:
    position = 2
    for _ in range(_MAX_JPEG_SEGMENTS):
        marker = _JPEG_MARKER.match(body, position)
        if marker is None:
            break
        position = marker.end()
        if marker[1][0] in _JPEG_FRAMES:
            height, width = struct.unpack_from(">HH", body, position + 3)
            return width, height
        (length,) = struct.unpack_from(">H", body, position)
        position += length
    raise ValueError("no frame before the data")


def _read_webp(body: bytes) -> Size:
    """Return the size by the first chunk. The extended and the lossless format store each side minus 1."""
    match body[12:16]:
        case b"VP8X":
            width, width_high, height, height_high = struct.unpack_from("<HBHB", body, 24)
            return 1 + (width | width_high << 16), 1 + (height | height_high << 16)
        case b"VP8L" if body[20:21] == b"\x2f":
            (bits,) = struct.unpack_from("<I", body, 21)
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 " if body[23:26] == b"\x9d\x01\x2a":
            width, height = struct.unpack_from("<HH", body, 26)
            return width & 0x3FFF, height & 0x3FFF
        case _:
            raise ValueError("an unknown chunk")


_READERS: Mapping[str, Callable[[bytes], Size]] = {
    "image/png": _read_png,
    "image/gif": _read_gif,
    "image/jpeg": _read_jpeg,
    "image/webp": _read_webp,
}
