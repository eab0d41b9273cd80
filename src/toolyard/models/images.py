"""Images of a user or in a tool's result: which of them a model can be shown. It does not know any wire.

A provider refuses the whole request for one image that it cannot read, and would again in every later turn: what is not
surely an image, by its bytes and not by what it is called, is left to words that say what to do.
"""

import base64
import binascii
import re
from urllib.parse import unquote

from msgspec import Struct

from toolyard.core.items import FilePart, ImagePart, Part, Result
from toolyard.models.pixels import kind_of, longest_side

_SEES = re.compile(
    r"gpt-4o|gpt-4\.1|gpt-4-turbo|gpt-[5-9]|(?:^|[/:])o(?:1|3|4)(?!-mini)|(?:^|[/:])o4|claude|gemini|qwen[\w.-]*-vl|qvq"
)


class Bounds(Struct, frozen=True):
    """What a provider takes of one image."""

    characters: int = 20 * 1024 * 1024
    """In base64."""
    pixels: int = 0
    """On its longest side; 0 where nobody says so."""
    kinds: tuple[str, ...] = ("PNG", "JPEG", "GIF", "WebP")


USUAL = Bounds()


class Image(Struct, frozen=True):
    kind: str
    data: str

    @property
    def url(self) -> str:
        return f"data:{self.kind};base64,{self.data}"


def sees(model: str) -> bool:
    """Whether a model of this name surely looks at images."""
    return bool(_SEES.search(model.lower())) and "audio" not in model


def as_shown(part: Part) -> Part:
    """A file that comes along and is called an image is there to be looked at; an SVG is there to be read."""
    if not isinstance(part, FilePart) or part.url[:14].lower() == "data:image/svg":
        return part
    return ImagePart(url=part.url) if part.url[:11].lower() == "data:image/" else part


def address_of(url: str, bounds: Bounds = USUAL) -> tuple[str, str]:
    """Where a model finds an image, elsewhere or inline; else, second, in words why it cannot be shown."""
    if url[:5].lower() != "data:":
        return url, ""
    image = image_in(url, bounds)
    return (image.url, "") if isinstance(image, Image) else ("", image)


def image_in(url: str, bounds: Bounds = USUAL) -> Image | str:
    """The image at a `data:` address; in words why it cannot be shown, and what to do, if it cannot."""
    head, _, data = url.partition(",")
    data = unquote(data) if "%" in data else data
    if len(data) > bounds.characters:
        return _unshown(
            f"it has {len(data):,} characters in base64, and {bounds.characters:,} are taken", "a smaller one"
        )
    body = _body(data) if head.lower().endswith(";base64") else b""
    kind = kind_of(body)
    if kind not in (f"image/{one.lower()}" for one in bounds.kinds):
        return _unshown(f"it is no {', '.join(bounds.kinds[:-1])} or {bounds.kinds[-1]} in base64", "one that is")
    if bounds.pixels and (side := longest_side(body)) > bounds.pixels:
        return _unshown(f"it is {side:,} pixels long, and {bounds.pixels:,} are taken", "a smaller one")
    return Image(kind, data)


def images_of(result: Result | None, bounds: Bounds = USUAL) -> list[Image]:
    found = (image_in(part.url, bounds) for part in (result.parts if result else ()) if isinstance(part, ImagePart))
    return [image for image in found if isinstance(image, Image)]


def _unshown(why: str, what: str) -> str:
    return f"[an image that cannot be shown: {why}; ask for {what}]"


def _body(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return b""
