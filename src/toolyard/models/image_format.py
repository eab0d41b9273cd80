"""What an image is and how long its sides are, by its bytes. It draws nothing."""

from typing import Literal

_SIGNATURES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}
_JPEG_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""The segments of a JPEG that say how large it is."""


def detect_image_type(body: bytes) -> str:
    """Its type; empty for what is none of those that models look at."""
    if body.startswith(b"RIFF") and body[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for begin, kind in _SIGNATURES.items() if body.startswith(begin)), "")


def measure_longest_side(body: bytes) -> int:
    """In pixels; 0 where it does not say so in a way that is known here."""
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
    """Of two numbers side by side."""
    half = len(sides) // 2
    return max(int.from_bytes(sides[:half], order), int.from_bytes(sides[half:], order))


def _measure_webp(body: bytes) -> int:
    """By its first chunk: that of many, of a lossy or of a lossless one. The first and the last count from 0."""
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
    """The two sides as a JPEG has them: its segments are gone through, each of which says how long it is."""
    at = 2
    while at + 9 <= len(body) and body[at] == 0xFF:
        if body[at + 1] in _JPEG_FRAMES:
            return body[at + 5 : at + 9]
        at += 2 + int.from_bytes(body[at + 2 : at + 4], "big")
    return b""
