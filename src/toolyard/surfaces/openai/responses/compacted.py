"""The compacted form of a history: one item, whose content is the model's summary. Pure.

The content is only encoded, so that clients take it as it is. It is not secret, and it proves nothing: a summary that
comes back is read as a text of the user, or of the untrusted sources of what it sums up.
"""

import base64
import binascii
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from toolyard.surfaces.http.request_body import LenientBody
from toolyard.surfaces.openai.responses.output import OutputItem
from toolyard.surfaces.openai.responses.response import ResponseUsage

MAX_ITEMS = 20_000
_PREFIX = "toolyard-summary-2."


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


class HistorySummary(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model's summary of a history, as a compaction item carries it."""

    text: str
    untrusted: str = ""
    """The untrusted sources of what it sums up; empty if there are none."""


def build_compaction(item_id: str, summary: HistorySummary) -> OutputItem:
    content = _PREFIX + base64.urlsafe_b64encode(msgspec.json.encode(summary)).decode()
    return {"id": item_id, "type": "compaction", "encrypted_content": content}


def decode_summary(content: object) -> HistorySummary | None:
    """Return the summary of an item of ours; None for that of another server, which only it can read."""
    if not isinstance(content, str) or not content.startswith(_PREFIX):
        return None
    try:
        decoded = base64.b64decode(content.removeprefix(_PREFIX), altchars=b"-_", validate=True)
        return msgspec.json.decode(decoded, type=HistorySummary)
    except (binascii.Error, msgspec.MsgspecError, ValueError):
        return None
