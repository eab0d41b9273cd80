"""`POST /files/text`: the text of a file that somebody chose, before it is sent with a message or kept in a preset."""

from typing import Annotated

from litestar import post
from litestar.exceptions import HTTPException
from litestar.params import QueryParameter
from msgspec import Struct

from toolyard.core.conversation.context.token_estimate import estimate_text_tokens
from toolyard.core.media import detect_image_type, is_pdf
from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.http.openapi import ERRORS
from toolyard.surfaces.http.request_context import HttpRequest

LARGEST_BYTES = 200 * 1024 * 1024
"""What the setting may allow at most."""
HTML_ENDINGS = (".html", ".htm")


class FileText(Struct, kw_only=True):
    text: str
    """Markdown for documents, else the file as it is. Whoever wrote it is unknown: it is not to be trusted."""
    tokens: int
    """The estimated tokens that it takes in every turn."""
    success: bool = True


@post("/files/text", status_code=200, responses=ERRORS, tags=["server"], request_max_body_size=LARGEST_BYTES)
async def read_text(
    request: HttpRequest, name: Annotated[str, QueryParameter(max_length=500, description="Its name")] = ""
) -> FileText:
    """Return the text of a file, which is the body: Word, Excel, PowerPoint, HTML, CSV or any text in UTF-8.

    Nothing is kept. Send the text as an attachment of a message, or as a file of a preset. Images and PDFs are sent
    with a message as they are.
    """
    body = await read_body(request)
    text = await request.backend.service.documents.read(body) if is_document(body, name) else decode_text(body)
    return FileText(text=text, tokens=estimate_text_tokens(text))


ROUTES = (read_text,)


async def read_body(request: HttpRequest) -> bytes:
    """Return the body. Raise an error with status 413 as soon as it is too large."""
    most, body = request.backend.max_file_bytes, bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise HTTPException(f"the file may have {most:,} bytes at most", status_code=413)
    if not body:
        raise invalid_field("body", "the file is empty")
    return bytes(body)


def is_document(body: bytes, name: str) -> bool:
    """Return whether a file has to be converted: an archive, which documents are, or a page."""
    return body.startswith(b"PK\x03\x04") or name.lower().endswith(HTML_ENDINGS)


def decode_text(body: bytes) -> str:
    if detect_image_type(body) or is_pdf(body):
        raise invalid_field("body", "images and PDFs are sent with a message as they are")
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise invalid_field("body", "is neither a document (Word, Excel, PowerPoint, HTML) nor a text in UTF-8")
    return text
