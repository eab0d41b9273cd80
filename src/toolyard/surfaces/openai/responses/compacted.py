"""The compacted form of a history: one item, whose content is the model's summary. Pure.

The content is only encoded, so that clients take it as it is. It is not secret, and it proves nothing: a summary that
comes back is read as a text of the user.
"""

import base64
import binascii
from typing import Annotated, Literal

from msgspec import Meta, Struct

from toolyard.surfaces.openai.responses.output import OutputItem
from toolyard.surfaces.openai.responses.response import ResponseUsage
from toolyard.surfaces.request_body import LenientBody

MAX_ITEMS = 20_000
_PREFIX = "toolyard-summary-1."


class CompactBody(LenientBody, kw_only=True):
    """A request to compact `input` after an earlier response, if any."""

    model: Annotated[str, Meta(min_length=1, max_length=500)]
    input: str | Annotated[list[dict[str, object]], Meta(max_length=MAX_ITEMS)] = ""
    instructions: Annotated[str, Meta(max_length=100_000)] | None = None
    previous_response_id: Annotated[str, Meta(max_length=200)] | None = None


class CompactedResponse(Struct, kw_only=True):
    """Items that stand for a whole history, to be sent as the beginning of the next input."""

    id: str
    created_at: int
    output: list[OutputItem]
    usage: ResponseUsage
    object: Literal["response.compaction"] = "response.compaction"


def build_compaction(item_id: str, summary: str) -> OutputItem:
    return {"id": item_id, "type": "compaction", "encrypted_content": encode_summary(summary)}


def encode_summary(summary: str) -> str:
    return _PREFIX + base64.urlsafe_b64encode(summary.encode()).decode()


def decode_summary(content: object) -> str:
    """Return the summary of an item of ours; empty for that of another server, which only it can read."""
    if not isinstance(content, str) or not content.startswith(_PREFIX):
        return ""
    try:
        return base64.b64decode(content.removeprefix(_PREFIX), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return ""
