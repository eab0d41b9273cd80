"""The parts of the Messages API's events that Toolyard reads. Unknown fields are ignored, missing ones have defaults.

The same shapes read an event of a stream and a whole message.
"""

import msgspec
from msgspec import Struct


class MessagesDelta(Struct, gc=False):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    citation: dict[str, object] | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: object = None


class MessagesBlock(Struct, gc=False):
    """The start of a content block in a stream; in a whole message, all of it."""

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


class CacheWrites(Struct, gc=False):
    """The tokens that were written to the cache, by how long they stay."""

    ephemeral_5m_input_tokens: int | None = None
    ephemeral_1h_input_tokens: int | None = None


class ServerToolUses(Struct, gc=False):
    """The uses of Anthropic's own tools that are charged by use."""

    web_search_requests: int | None = None


class MessagesUsage(Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation: CacheWrites | None = None
    server_tool_use: ServerToolUses | None = None


class MessageStart(Struct, gc=False):
    model: str = ""
    content: list[MessagesBlock] | None = None
    usage: MessagesUsage | None = None


class MessagesEvent(Struct, gc=False):
    type: str = ""
    index: int = 0
    delta: MessagesDelta | None = None
    content_block: MessagesBlock | None = None
    message: MessageStart | str | None = None
    """A string only in an error that is not wrapped in `error`."""
    usage: MessagesUsage | None = None
    error: object = None
    request_id: str | None = None


class WholeMessage(Struct, gc=False):
    type: str = ""
    model: str = ""
    content: list[MessagesBlock] | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: MessagesUsage | None = None
    error: object = None
    message: str | None = None


class MessagesCitation(Struct, gc=False):
    url: str | None = None
    source: str | None = None
    title: str | None = None
    document_title: str | None = None
    cited_text: str | None = None


class RefusalDetails(Struct, gc=False):
    explanation: str | None = None


decode_event = msgspec.json.Decoder(MessagesEvent).decode
decode_whole = msgspec.json.Decoder(WholeMessage).decode
