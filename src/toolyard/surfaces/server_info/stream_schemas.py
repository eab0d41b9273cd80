"""The events of all streams for the OpenAPI document. Loaded with the document: no request needs these types."""

from collections.abc import Mapping
from typing import Annotated, Literal, cast

import msgspec
from msgspec import Meta, Struct

from toolyard.core.items import ApprovalRecord, Citation, Outcome
from toolyard.core.tools.approval_terms import ApprovalTerms
from toolyard.core.tools.trust import UntrustedSource

Arguments = Annotated[dict[str, object], Meta(description="The arguments of the call")]
ExpiresAt = Annotated[float, Meta(description="When the call expires, in seconds since 1970")]


class StreamObject(Struct, kw_only=True, omit_defaults=True, tag_field="type"):
    correlation_id: str = ""
    """The trace that the event belongs to. Deltas and progress have none."""


class CallObject(StreamObject, kw_only=True):
    name: str
    """The name of the tool."""
    call_id: str
    parent: str = ""
    """The call of `run_code` whose program makes this one; only for a call of a program."""
    line: int = 0
    """The line of the program that makes the call."""


class TextDeltaEvent(StreamObject, tag="text.delta"):
    """A piece of the answer."""

    content: str
    notice: Literal["waiting", "failed"] | None = None
    """Set if the text is a sentence of the server, not of the model: what the run waits for, or that it failed."""


class TextCitedEvent(StreamObject, tag="text.cited"):
    """The sources of the text of the turn that has just ended; their positions count its characters."""

    citations: list[Citation]


class ReasoningDeltaEvent(StreamObject, tag="reasoning.delta"):
    """A piece of the model's reasoning."""

    content: str


class ToolStatusEvent(CallObject, tag="tool.status", kw_only=True):
    """A call began or ended. Each call has both, also one that was refused before it ran."""

    state: Literal["started", "finished"]
    arguments: dict[str, object] | None = None
    """With `started`."""
    decisions: list[ApprovalRecord] | None = None
    """With `started`, if people approved the call: who, and why."""
    ok: bool | None = None
    """With `finished`."""
    outcome: Outcome | None = None
    """With `finished`."""
    duration_ms: float | None = None
    """With `finished`."""
    error: str | None = None
    """With `finished`, if the call failed."""
    error_type: str | None = None
    ran: Literal["provider"] | None = None
    """With `finished`, if the model's provider ran the call itself."""


class ToolProgressEvent(CallObject, tag="tool.progress", kw_only=True):
    """A running call reports its progress."""

    progress: float
    total: float | None
    message: str


class ApprovalRequiredEvent(CallObject, tag="approval.required", kw_only=True):
    """A call waits for a person: `POST …/calls/{call_id}/approve` or `…/deny`."""

    arguments: Arguments
    reason: str
    """The rule that asks."""
    expires_at: ExpiresAt
    confirm: bool = False
    """Whether the user's next message may decide as well."""
    sources: list[UntrustedSource] | None = None
    """The untrusted content that the call comes after."""
    terms: ApprovalTerms | None = None
    """Who decides and how many, if it is not the owner alone."""


class ApprovalGivenEvent(CallObject, tag="approval.given", kw_only=True):
    """One of several people approved the call; more are needed."""

    by: str
    remaining: int
    reason: str = ""


class ClientCallEvent(CallObject, tag="client.call", kw_only=True):
    """The application has to run the call: `POST …/calls/{call_id}/result`."""

    arguments: Arguments
    expires_at: ExpiresAt


class QuestionAskedEvent(CallObject, tag="question.asked", kw_only=True):
    """An MCP server asks the user: `POST …/calls/{call_id}/answer`."""

    question: dict[str, object]
    """The message, and the JSON Schema of a form."""
    expires_at: ExpiresAt


class TurnRestartedEvent(StreamObject, tag="turn.restarted"):
    """The turn starts again: the text of it that was sent so far is to be discarded."""

    turn: int
    error: str = ""
    """Why the text does not fit the output schema; empty if the server was started again."""


class HistoryCompactedEvent(StreamObject, tag="history.compacted", kw_only=True):
    """The history was made shorter for the model."""

    summarised: bool
    tokens_before: int
    tokens_after: int


class HistoryRewoundEvent(StreamObject, tag="history.rewound"):
    """The conversation was rewound."""

    to: str
    """The id of its last message now; empty for the beginning."""


class ErrorEvent(StreamObject, tag="error"):
    """The run failed, or the stream cannot go on."""

    error: str
    error_type: str
    code: str = ""
    """Why the model's provider failed: `rate_limit_exceeded`, `server_error` and so on."""
    retry_after_s: int | None = None


class StreamUsage(Struct, kw_only=True):
    input_tokens: int
    output_tokens: int
    cached_tokens: int


class DoneEvent(StreamObject, tag="done", kw_only=True):
    """The run has ended, or waits. A stream that started a run ends with it."""

    ending: Literal["done", "limit", "cancelled", "failed", "waiting"]
    conversation_id: str
    run_id: str
    usage: StreamUsage
    detail: str = ""
    """Which limit was reached, or who stopped the run."""
    budget: str = ""
    """The budget that the run waits for, until its amount is raised."""


StreamEvent = (
    TextDeltaEvent
    | TextCitedEvent
    | ReasoningDeltaEvent
    | ToolStatusEvent
    | ToolProgressEvent
    | ApprovalRequiredEvent
    | ApprovalGivenEvent
    | ClientCallEvent
    | QuestionAskedEvent
    | TurnRestartedEvent
    | HistoryCompactedEvent
    | HistoryRewoundEvent
    | ErrorEvent
    | DoneEvent
)


class AppStreamStarted(Struct, kw_only=True, tag="started", rename="camel"):
    """The first event of an application's stream; its id is where to resume from."""

    conversation_id: str
    run_id: str


class CallStreamConnected(Struct, kw_only=True, tag="connected"):
    conversation_id: str
    timestamp: str


class CallStreamEvent(Struct, kw_only=True):
    """A call, or what came of it."""

    type: Literal["tool_call", "tool_response", "tool_error"]
    conversation_id: str
    timestamp: str
    data: dict[str, object]
    """`tool_call_id`, `tool_name` and `timestamp`; and `arguments` and `assistant_content`, `result`, or `error`."""


def _refer(*names: str) -> dict[str, object]:
    references: list[dict[str, object]] = [{"$ref": f"#/components/schemas/{name}"} for name in names]
    return references[0] if len(references) == 1 else {"anyOf": references}


def _describe_json(content: dict[str, object]) -> dict[str, object]:
    """Return the schema of an event whose `data` is JSON. OpenAPI 3.2 describes events in the same way."""
    return _describe_event({"type": "string", "contentMediaType": "application/json", "contentSchema": content})


def _describe_event(data: dict[str, object]) -> dict[str, object]:
    properties = {"id": {"type": "string"}, "data": data}
    return {"type": "object", "description": "One event", "properties": properties, "required": ["data"]}


def _describe_foreign(text: str, url: str) -> dict[str, object]:
    return {**_describe_event({"type": "string", "description": text}), "externalDocs": {"url": url}}


_CHAT = "https://platform.openai.com/docs/api-reference/chat-streaming"
_RESPONSES = _describe_foreign(
    "An event of OpenAI's Responses API", "https://platform.openai.com/docs/api-reference/responses-streaming"
)
_AI_SDK = _describe_foreign(
    "A part of the AI SDK's UI message stream, version 1; the last one is `[DONE]`",
    "https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol",
)
_ENTRY = {"type": "object", "description": "With `format=entries`: an entry of the log, or a fleeting event"}
_APP_STREAM = ("AppStreamStarted", "StreamEvent", "AppFinalAnswer", "AppToolCallsAnswer", "AppWaitingAnswer")
_STREAMS: Mapping[str, dict[str, object]] = {
    "/ai/respond": _describe_json(_refer("StreamEvent")),
    "/conversations/{conversation_id}/chat": _describe_json(_refer("StreamEvent")),
    "/conversations/{conversation_id}/events": _describe_json({"anyOf": [_refer("StreamEvent"), _ENTRY]}),
    "/sse/conversations/{conversation_id}": _describe_json(_refer("CallStreamConnected", "CallStreamEvent")),
    "/chat/v1/conversation": _describe_json(_refer(*_APP_STREAM)),
    "/v1/chat/completions": _describe_foreign("A `chat.completion.chunk` of OpenAI; the last one is `[DONE]`", _CHAT),
    "/v1/responses": _RESPONSES,
    "/v1/responses/{response_id}": _RESPONSES,
    "/v1/messages": _describe_foreign(
        "An event of Anthropic's Messages API", "https://docs.anthropic.com/en/api/messages-streaming"
    ),
    "/ai-sdk/chat": _AI_SDK,
    "/ai-sdk/chat/{thread_id}/stream": _AI_SDK,
    "/ag-ui": _describe_foreign("An event of AG-UI", "https://docs.ag-ui.com/concepts/events"),
}
"""The schema of an event, by path."""


def add_stream_schemas(document: dict[str, object]) -> None:
    """Add the types of events to an OpenAPI document, and name them at each response that is a stream."""
    (union, *_), schemas = msgspec.json.schema_components(
        (StreamEvent, AppStreamStarted, CallStreamConnected, CallStreamEvent),
        ref_template="#/components/schemas/{name}",
        schema_hook=lambda kind: {"description": "Any JSON value"},  # of the type `object`
    )
    components = cast(dict[str, dict[str, object]], document["components"])
    components["schemas"] = {**schemas, "StreamEvent": union, **components["schemas"]}
    for path, operations in cast(dict[str, dict[str, dict[str, object]]], document["paths"]).items():
        for operation in operations.values():
            for response in cast(dict[str, dict[str, object]], operation["responses"]).values():
                content = cast(dict[str, dict[str, object]], response.get("content", {}))
                if "text/event-stream" in content and path in _STREAMS:
                    content["text/event-stream"]["schema"] = _STREAMS[path]
