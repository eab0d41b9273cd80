"""The parts of the Responses API's events that Toolyard reads. Any field may be missing or null."""

import msgspec
from msgspec import Struct


class Annotation(Struct, gc=False):
    type: str | None = None
    start_index: int | None = None
    end_index: int | None = None
    index: int | None = None
    url: str | None = None
    title: str | None = None
    filename: str | None = None


class ContentPart(Struct, gc=False):
    type: str | None = None
    text: str | None = None
    refusal: str | None = None
    annotations: list[Annotation] | None = None


class SummaryPart(Struct, gc=False):
    text: str | None = None


class OutputItem(Struct, gc=False):
    """A message, reasoning, a function call, or a call that the provider ran itself."""

    type: str | None = None
    id: str | None = None
    status: str | None = None
    content: list[ContentPart] | None = None
    phase: str | None = None
    summary: list[SummaryPart] | None = None
    encrypted_content: str | None = None
    name: str | None = None
    call_id: str | None = None
    arguments: str | None = None
    action: dict[str, object] | None = None
    """The action of a web search."""
    code: str | None = None
    container_id: str | None = None
    outputs: list[dict[str, object]] | None = None
    queries: list[str] | None = None
    results: list[dict[str, object]] | None = None


class ResponsesError(Struct, gc=False):
    code: str | None = None
    message: str | None = None


class IncompleteDetails(Struct, gc=False):
    reason: str | None = None


class InputDetails(Struct, gc=False):
    cached_tokens: float | None = None


class OutputDetails(Struct, gc=False):
    reasoning_tokens: float | None = None


class ResponsesUsage(Struct, gc=False):
    input_tokens: float | None = None
    output_tokens: float | None = None
    output_tokens_details: OutputDetails | None = None
    input_tokens_details: InputDetails | None = None


class Response(Struct, gc=False):
    object: str | None = None
    id: str | None = None
    model: str | None = None
    status: str | None = None
    error: ResponsesError | None = None
    incomplete_details: IncompleteDetails | None = None
    usage: ResponsesUsage | None = None
    output: list[OutputItem] | None = None


class ResponsesEvent(Struct, gc=False):
    type: str = ""
    output_index: int = 0
    summary_index: int = 0
    delta: str | None = None
    arguments: str | None = None
    item: OutputItem | None = None
    response: Response | None = None
    error: object = None
    code: str | None = None
    message: str | None = None


class EventType(Struct, gc=False):
    type: str = ""


decode_event = msgspec.json.Decoder(ResponsesEvent).decode
decode_type = msgspec.json.Decoder(EventType).decode
decode_response = msgspec.json.Decoder(Response).decode
