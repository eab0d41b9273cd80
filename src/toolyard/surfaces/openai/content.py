"""Read the content of messages: texts, images and files. Pure."""

import re

from toolyard.core.items import FilePart, ImagePart, Part, TextPart
from toolyard.core.json_types import is_list, is_object
from toolyard.surfaces.http.errors import invalid_field

IMAGE_URL = re.compile(r"https?://\S+|data:image/[\w.+-]+;base64,[A-Za-z0-9+/=\s]+")
FILE_URL = re.compile(r"https?://\S+|data:[\w.+/-]+;base64,[A-Za-z0-9+/=\s]+")
_TEXT_TYPES = ("text", "input_text", "output_text", "refusal")
_IMAGE_TYPES = ("image_url", "input_image")
_FILE_TYPES = ("file", "input_file")


def read_text(content: object, param: str) -> str:
    """Return the text of a content that must be one. Raise Invalid for anything else."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    parts = read_parts(content, param)
    if not all(isinstance(part, TextPart) for part in parts):
        raise invalid_field(param, "may hold only text; images and files belong to messages of the user")
    return "".join(part.text for part in parts if isinstance(part, TextPart))


def read_parts(content: object, param: str) -> tuple[Part, ...]:
    """Return the parts of a content. Raise Invalid for a part that cannot be sent to a model."""
    if isinstance(content, str):
        return (TextPart(text=content),)
    if not is_list(content):
        raise invalid_field(param, "must be a text or a list of parts")
    return tuple(_read_part(part, f"{param}.{index}") for index, part in enumerate(content))


def _read_part(part: object, param: str) -> Part:
    fields = part if is_object(part) else {}
    kind = fields.get("type")
    if kind in _TEXT_TYPES:
        text = fields.get("refusal" if kind == "refusal" else "text")
        if not isinstance(text, str):
            raise invalid_field(param, "has no text")
        return TextPart(text=text)
    if kind in _IMAGE_TYPES:
        return ImagePart(url=_read_image(fields.get("image_url"), param))
    if kind in _FILE_TYPES:
        inner = fields.get("file")
        return _read_file(inner if is_object(inner) else fields, param)
    if kind == "input_audio":
        raise invalid_field(param, "audio cannot be sent here: send its text, or a file that the model can read")
    raise invalid_field(param, "must be a part with the type text, image_url or file")


def _read_image(image: object, param: str) -> str:
    url = image.get("url") if is_object(image) else image
    if not isinstance(url, str) or not IMAGE_URL.fullmatch(url):
        raise invalid_field(param, "an image needs an address of https: or data:image/…;base64,")
    return url


def _read_file(fields: dict[str, object], param: str) -> FilePart:
    url = fields.get("file_data") or fields.get("file_url")
    if fields.get("file_id"):
        raise invalid_field(param, "there is no file store here: send the file as file_data")
    if not isinstance(url, str) or not FILE_URL.fullmatch(url):
        raise invalid_field(param, "a file needs file_data as data:…;base64,")
    name = fields.get("filename")
    return FilePart(url=url, name=name if isinstance(name, str) else "")
