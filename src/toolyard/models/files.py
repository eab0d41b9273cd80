"""Files that come along with a user's message: what is in them, by their bytes. It does not know any wire.

A provider refuses the whole request for one file that it cannot read, and would again in every later turn.
"""

import base64
import binascii
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from toolyard.core.items import FilePart

PDF = "application/pdf"
_PDF_SIGNATURE = b"%PDF-"
_PDF_HEADER_BYTES = 1_024
"""Bytes in which a PDF must say that it is one."""


class InlineFile(Struct, frozen=True):
    """What a `data:` address holds; no bytes if they cannot be read."""

    kind: str
    body: bytes
    name: str

    @property
    def is_pdf(self) -> bool:
        return _PDF_SIGNATURE in self.body[:_PDF_HEADER_BYTES]

    @property
    def data(self) -> str:
        return base64.b64encode(self.body).decode()

    @property
    def url(self) -> str:
        return f"data:{PDF if self.is_pdf else self.kind};base64,{self.data}"

    @property
    def text(self) -> str | None:
        """What it says, if it is a text that says something."""
        try:
            text = self.body.decode()
        except UnicodeDecodeError:
            return None
        return None if not text or text.isspace() or "\0" in text else text

    @property
    def prompt_text(self) -> str:
        """In words: what it says, or that it cannot be read."""
        if self.text is not None:
            return f"[file {self.name or 'without a name'}]\n{self.text}"
        return f"[file {self.name or 'without a name'}: {self.kind}, which cannot be read here; ask for its text]"


def parse_inline_file(part: FilePart) -> InlineFile | None:
    """None for a file that is elsewhere."""
    if part.url[:5].lower() != "data:":
        return None
    head, _, data = part.url[5:].partition(",")
    kind = head.partition(";")[0].strip().lower() or "text/plain"
    body = unquote_to_bytes(data)
    if head.lower().endswith(";base64"):
        try:
            body = base64.b64decode(body, validate=True)
        except binascii.Error:
            body = b""
    return InlineFile(kind, body, part.name.strip())
