"""What the Messages API streams, as far as it is used. Lenient: what is not known is left out, never a failure.

The same shapes read an event of a stream and a whole message.
"""

import msgspec
from msgspec import Struct


class Delta(Struct, gc=False):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    citation: dict[str, object] | None = None
    stop_reason: str | None = None
    stop_details: object = None


class Block(Struct, gc=False):
    """A piece of what the model says, as it begins; in a whole message, all of it."""

    type: str = ""
    id: str = ""
    name: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    data: str = ""
    input: object = None
    citations: list[dict[str, object]] | None = None
    caller: object = None
    tool_use_id: str = ""
    content: object = None


class UsageCounts(Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None


class Message(Struct, gc=False):
    model: str = ""
    content: list[Block] | None = None
    usage: UsageCounts | None = None


class Event(Struct, gc=False):
    type: str = ""
    index: int = 0
    delta: Delta | None = None
    content_block: Block | None = None
    message: Message | str | None = None
    """A text only in an error that is not wrapped in `error`."""
    usage: UsageCounts | None = None
    error: object = None
    request_id: str | None = None


class WholeMessage(Struct, gc=False):
    type: str = ""
    model: str = ""
    content: list[Block] | None = None
    stop_reason: str | None = None
    usage: UsageCounts | None = None
    error: object = None
    message: str | None = None


class CitationFound(Struct, gc=False):
    url: str | None = None
    source: str | None = None
    title: str | None = None
    document_title: str | None = None
    cited_text: str | None = None


class RefusalDetails(Struct, gc=False):
    explanation: str | None = None


decode_event = msgspec.json.Decoder(Event).decode
decode_whole = msgspec.json.Decoder(WholeMessage).decode
