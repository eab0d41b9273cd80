"""Images of a user or in a tool's result: which of them a model can be shown. It does not know any wire.

A provider refuses the whole request for one image that it cannot read, and would again in every later turn: what is not
surely an image is left to words.
"""

import base64
import binascii
import re

from msgspec import Struct

from toolyard.core.items import ImagePart, Result

UNSHOWN = "[an image that cannot be shown]"
_BEGIN = {"image/png": b"\x89PNG\r\n", "image/jpeg": b"\xff\xd8\xff", "image/gif": b"GIF8", "image/webp": b"RIFF"}
_SEES = re.compile(
    r"gpt-4o|gpt-4\.1|gpt-4-turbo|gpt-[5-9]|(?:^|[/:])o(?:1|3|4)(?!-mini)|(?:^|[/:])o4|claude|gemini|qwen[\w.-]*-vl|qvq"
)


class Image(Struct, frozen=True):
    kind: str
    data: str

    @property
    def url(self) -> str:
        return f"data:{self.kind};base64,{self.data}"


def sees(model: str) -> bool:
    """Whether a model of this name surely looks at images."""
    return bool(_SEES.search(model.lower())) and "audio" not in model


def address_of(part: ImagePart) -> str:
    """Where a model finds the image: elsewhere, or inline if it surely is one. Empty if it cannot be shown."""
    if part.url[:5].lower() != "data:":
        return part.url
    image = _image(part.url)
    return image.url if image else ""


def images_of(result: Result | None) -> list[Image]:
    found = (_image(part.url) for part in (result.parts if result else ()) if isinstance(part, ImagePart))
    return [image for image in found if image is not None]


def _image(url: str) -> Image | None:
    head, _, data = url.partition(",")
    kind = head.removeprefix("data:").removesuffix(";base64").lower().replace("image/jpg", "image/jpeg")
    begin = _BEGIN.get(kind)
    if begin is None:
        return None
    try:
        body = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
    return Image(kind, data) if body.startswith(begin) else None
