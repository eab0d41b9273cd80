"""Images and files that are sent with a chat message. Their bytes decide what they are, never their name.

A raster image becomes an image, a PDF a PDF, and anything that is UTF-8 text is plain text: also SVG and HTML, which a
browser would run as a page. Everything else is refused, because no model could read it.
"""

import base64
import binascii
import unicodedata
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from toolyard.core.conversation.state import State
from toolyard.core.items import FilePart, ImagePart, Part, TextPart, UserMessage
from toolyard.core.media import PDF, detect_image_type, is_pdf, read_image_size
from toolyard.surfaces.http.errors import invalid_field

MAX_ATTACHMENTS = 8
MAX_ATTACHED_BYTES = 5 * 1024 * 1024
"""Of all attachments of a message. In base64 they fit into the largest body that the server takes."""
MAX_PIXELS = 40_000_000
"""Of an image. Browsers take four bytes for each pixel, however well the image is compressed."""


class ChatAttachment(Struct, kw_only=True):
    """An image or a file."""

    data: str
    """The bytes in base64."""
    name: Annotated[str, Meta(max_length=200)] = ""


def parse_attachments(attachments: Sequence[ChatAttachment], earlier: Sequence[Part] = ()) -> list[Part]:
    """Return new attachments as parts of a message, which has the `earlier` ones already.

    Raise Invalid, with what to do, for one that cannot be sent.
    """
    if not attachments:
        return []
    if len(earlier) + len(attachments) > MAX_ATTACHMENTS:
        raise invalid_field("attachments", f"a message has at most {MAX_ATTACHMENTS}: send the others with another one")
    bodies = [_decode(attachment.data, index) for index, attachment in enumerate(attachments)]
    if sum(map(len, bodies)) + sum(map(_measure_part, earlier)) > MAX_ATTACHED_BYTES:
        most = MAX_ATTACHED_BYTES // 1024 // 1024
        raise invalid_field("attachments", f"together they have more than {most} MiB: send smaller ones")
    return [
        _build_part(body, attachment.name, index)
        for index, (body, attachment) in enumerate(zip(bodies, attachments, strict=True))
    ]


def find_attachments(state: State, message_id: str) -> list[Part]:
    """Return the images and files of a user's message, of the current messages or of a branch. Raise Invalid."""
    for history in (state.full_history, *(branch.history for branch in reversed(state.branches))):
        position = history.find(message_id)
        if position is not None and isinstance(message := history[position], UserMessage):
            return [part for part in message.parts if not isinstance(part, TextPart)]
    raise invalid_field("attachments_of", "there is no message of a user with this id in the conversation")


def clean_name(name: str) -> str:
    """Return the name of a file without its folders, and without characters that hide or reorder others."""
    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    # Controls (Cc), formatting such as right-to-left overrides (Cf), and line and paragraph separators (Zl, Zp).
    visible = "".join(" " if unicodedata.category(letter) in ("Cc", "Cf", "Zl", "Zp") else letter for letter in last)
    return " ".join(visible.split())


def _measure_part(part: Part) -> int:
    """Return about how many bytes a part holds inline: base64 has four letters for three of them."""
    return len(part.url) * 3 // 4 if not isinstance(part, TextPart) and part.url.startswith("data:") else 0


def _decode(data: str, index: int) -> bytes:
    try:
        body = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise invalid_field(f"attachments.{index}.data", "must be base64") from None
    if not body:
        raise invalid_field(f"attachments.{index}.data", "the file is empty")
    return body


def _build_part(body: bytes, name: str, index: int) -> Part:
    if kind := detect_image_type(body):
        _check_image(body, index)
        return ImagePart(url=_build_url(kind, body))
    shown_name = clean_name(name)
    if is_pdf(body):
        return FilePart(url=_build_url(PDF, body), name=shown_name)
    try:
        is_text = "\0" not in body.decode()
    except UnicodeDecodeError:
        is_text = False
    if not is_text:
        why = "is neither an image (PNG, JPEG, GIF, WebP) nor a PDF nor a text in UTF-8: convert it to one of them"
        raise invalid_field(f"attachments.{index}", why)
    return FilePart(url=_build_url("text/plain", body), name=shown_name)


def _check_image(body: bytes, index: int) -> None:
    size = read_image_size(body)
    if size is None or 0 in size:
        raise invalid_field(f"attachments.{index}", "begins like an image and is none, or it is damaged: save it again")
    if size[0] * size[1] > MAX_PIXELS:
        most = MAX_PIXELS // 1_000_000
        why = f"has {size[0]} × {size[1]} pixels, and {most} million are the most: make it smaller"
        raise invalid_field(f"attachments.{index}", why)


def _build_url(kind: str, body: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(body).decode()}"
