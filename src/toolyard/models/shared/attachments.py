"""Images and files of a user or in a tool's result, checked before they are sent to a model.

A provider refuses a whole request for one that it cannot read, and would refuse every later turn as well. So the bytes,
not the declared type, decide what something is; if it is not what it should be, a text says what to do.
"""

import base64
import binascii
import re
from urllib.parse import unquote, unquote_to_bytes

from msgspec import Struct

from toolyard.core.items import FilePart, ImagePart, Part, Result
from toolyard.core.media import PDF, detect_image_type, is_pdf, read_image_size

_SUPPORTS_IMAGES = re.compile(
    r"gpt-4o|gpt-4\.1|gpt-4-turbo|gpt-[5-9]|(?:^|[/:])o(?:1|3|4)(?!-mini)|(?:^|[/:])o4|claude|gemini|qwen[\w.-]*-vl|qvq"
)


class ImageLimits(Struct, frozen=True):
    """The limits of a provider for one image."""

    max_characters: int = 20 * 1024 * 1024
    """The longest base64 text."""
    max_pixels: int = 0
    """The longest side; 0 if there is no limit."""
    formats: tuple[str, ...] = ("PNG", "JPEG", "GIF", "WebP")


DEFAULT_LIMITS = ImageLimits()


class Image(Struct, frozen=True):
    kind: str
    data: str

    @property
    def url(self) -> str:
        return f"data:{self.kind};base64,{self.data}"


def supports_images(model: str) -> bool:
    """Return whether a model of this name is known to accept images."""
    return bool(_SUPPORTS_IMAGES.search(model.lower())) and "audio" not in model


def convert_image_file(part: Part) -> Part:
    """Return an inline file with an image type as an image part; an SVG stays a file, since it is sent as text."""
    if not isinstance(part, FilePart) or part.url[:14].lower() == "data:image/svg":
        return part
    return ImagePart(url=part.url) if part.url[:11].lower() == "data:image/" else part


def resolve_image_url(url: str, limits: ImageLimits = DEFAULT_LIMITS) -> tuple[str, str]:
    """Return the URL of an image, or second a text that says why it cannot be shown."""
    if url[:5].lower() != "data:":
        return url, ""
    image = parse_image(url, limits)
    return (image.url, "") if isinstance(image, Image) else ("", image)


def parse_image(url: str, limits: ImageLimits = DEFAULT_LIMITS) -> Image | str:
    """Return the image in a `data:` URL, or a text that says why it cannot be shown and what to do."""
    head, _, data = url.partition(",")
    data = unquote(data) if "%" in data else data
    if len(data) > limits.max_characters:
        return _explain_rejection(
            f"it has {len(data):,} characters in base64, and {limits.max_characters:,} are taken", "a smaller one"
        )
    body = _decode_base64(data) if head.lower().endswith(";base64") else b""
    kind = detect_image_type(body)
    if kind not in (f"image/{name.lower()}" for name in limits.formats):
        return _explain_rejection(
            f"it is no {', '.join(limits.formats[:-1])} or {limits.formats[-1]} in base64", "one that is"
        )
    if limits.max_pixels and (side := max(read_image_size(body) or (0, 0))) > limits.max_pixels:
        return _explain_rejection(f"it is {side:,} pixels long, and {limits.max_pixels:,} are taken", "a smaller one")
    return Image(kind, data)


def list_images(result: Result | None, limits: ImageLimits = DEFAULT_LIMITS) -> list[Image]:
    if result is None or not result.parts:
        return []
    images = (parse_image(part.url, limits) for part in result.parts if isinstance(part, ImagePart))
    return [image for image in images if isinstance(image, Image)]


def _explain_rejection(why: str, instead: str) -> str:
    return f"[an image that cannot be shown: {why}; ask for {instead}]"


class InlineFile(Struct, frozen=True):
    """The content of a `data:` URL; `body` is empty if it cannot be decoded."""

    kind: str
    body: bytes
    name: str

    @property
    def is_pdf(self) -> bool:
        return is_pdf(self.body)

    @property
    def data(self) -> str:
        return base64.b64encode(self.body).decode()

    @property
    def url(self) -> str:
        return f"data:{PDF if self.is_pdf else self.kind};base64,{self.data}"

    @property
    def text(self) -> str | None:
        """The file as text; None if it is not UTF-8, blank or binary."""
        try:
            text = self.body.decode()
        except UnicodeDecodeError:
            return None
        return None if not text or text.isspace() or "\0" in text else text

    @property
    def prompt_text(self) -> str:
        """A text for the prompt: the content of a text file, or that the file cannot be read."""
        if self.text is not None:
            return f"[file {self.name or 'without a name'}]\n{self.text}"
        return f"[file {self.name or 'without a name'}: {self.kind}, which cannot be read here; ask for its text]"


def parse_inline_file(part: FilePart) -> InlineFile | None:
    """Return the file in a `data:` URL; None for any other address."""
    if part.url[:5].lower() != "data:":
        return None
    head, _, data = part.url[5:].partition(",")
    kind = head.partition(";")[0].strip().lower() or "text/plain"
    body = unquote_to_bytes(data)
    if head.lower().endswith(";base64"):
        body = _decode_base64(body)
    return InlineFile(kind, body, part.name.strip())


def _decode_base64(data: str | bytes) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return b""
