"""Detects the type and the size of an image from its first bytes, without decoding it."""

from typing import Literal

_SIGNATURES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}
_JPEG_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""The markers of the JPEG segments that hold its size."""


def detect_image_type(body: bytes) -> str:
    """Return the media type; empty for a format that no model accepts."""
    if body.startswith(b"RIFF") and body[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for begin, kind in _SIGNATURES.items() if body.startswith(begin)), "")


def measure_longest_side(body: bytes) -> int:
    """Return the longest side in pixels; 0 if the size cannot be read."""
    match detect_image_type(body):
        case "image/png":
            return _max_side(body[16:24], "big")
        case "image/gif":
            return _max_side(body[6:10], "little")
        case "image/jpeg":
            return _max_side(_find_jpeg_sides(body), "big")
        case "image/webp":
            return _measure_webp(body)
        case _:
            return 0


def _max_side(sides: bytes, order: Literal["big", "little"]) -> int:
    """Return the larger of two adjacent numbers of equal width."""
    half = len(sides) // 2
    return max(int.from_bytes(sides[:half], order), int.from_bytes(sides[half:], order))


def _measure_webp(body: bytes) -> int:
    """Return the longest side by the first chunk. The extended and the lossless format store each side minus 1."""
    match body[12:16]:
        case b"VP8X" if len(body) >= 30:
            return _max_side(body[24:30], "little") + 1
        case b"VP8 " if body[23:26] == b"\x9d\x01\x2a":
            return max(int.from_bytes(body[at : at + 2], "little") & 0x3FFF for at in (26, 28))
        case b"VP8L" if len(body) >= 25 and body[20] == 0x2F:
            sides = int.from_bytes(body[21:25], "little")
            return max(sides & 0x3FFF, sides >> 14 & 0x3FFF) + 1
        case _:
            return 0


def _find_jpeg_sides(body: bytes) -> bytes:
    """Return the bytes of the two sides. Each segment holds its own length, which leads to the next one."""
    at = 2
    while at + 9 <= len(body) and body[at] == 0xFF:
        if body[at + 1] in _JPEG_FRAMES:
            return body[at + 5 : at + 9]
        at += 2 + int.from_bytes(body[at + 2 : at + 4], "big")
    return b""
