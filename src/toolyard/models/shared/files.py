"""Files inside a user's message, identified by their bytes.

A provider refuses a whole request for one file that it cannot read, and would refuse every later turn as well.
"""

import base64
import binascii
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from toolyard.core.items import FilePart
from toolyard.core.media import PDF, is_pdf


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
        try:
            body = base64.b64decode(body, validate=True)
        except binascii.Error:
            body = b""
    return InlineFile(kind, body, part.name.strip())
