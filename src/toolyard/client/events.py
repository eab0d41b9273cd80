"""The objects of the server's stream to an application. Objects of an unknown type are skipped."""

from typing import Literal

import msgspec
from msgspec import Struct

from toolyard.core.items import Citation, Problem


class _TypedObject(Struct, frozen=True, kw_only=True, tag_field="type"):
    pass


class TextDelta(_TypedObject, frozen=True, kw_only=True, tag="text.delta"):
    content: str


class TextCited(_TypedObject, frozen=True, kw_only=True, tag="text.cited"):
    """The sources of the text of the turn that has just ended; their positions count its characters."""

    citations: list[Citation]


class ReasoningDelta(_TypedObject, frozen=True, kw_only=True, tag="reasoning.delta"):
    content: str


class ToolStatus(_TypedObject, frozen=True, kw_only=True, tag="tool.status"):
    """A call began or ended, wherever it runs."""

    name: str
    state: Literal["started", "finished"]
    call_id: str
    arguments: dict[str, object] = {}
    ok: bool | None = None
    outcome: str = ""
    error: str = ""
    error_type: str = ""
    duration_ms: float = 0.0


class ToolProgress(_TypedObject, frozen=True, kw_only=True, tag="tool.progress"):
    name: str
    call_id: str
    progress: float
    total: float | None = None
    message: str = ""


class ClientCall(_TypedObject, frozen=True, kw_only=True, tag="client.call"):
    """A call of one of the application's tools; `AppClient` runs it without help."""

    name: str
    call_id: str
    arguments: dict[str, object] = {}


class ApprovalRequired(_TypedObject, frozen=True, kw_only=True, tag="approval.required"):
    name: str
    call_id: str
    arguments: dict[str, object] = {}
    reason: str = ""


class QuestionAsked(_TypedObject, frozen=True, kw_only=True, tag="question.asked"):
    name: str
    call_id: str
    question: dict[str, object] = {}


class TurnRestarted(_TypedObject, frozen=True, kw_only=True, tag="turn.restarted"):
    """The turn starts again: its text so far is to be discarded."""

    turn: int
    error: str = ""
    """Why the text does not fit the output schema; empty if the server was started again."""


class ModelError(_TypedObject, frozen=True, kw_only=True, tag="error"):
    error: str
    error_type: str = ""


class StreamStarted(_TypedObject, frozen=True, kw_only=True, tag="started", rename="camel"):
    conversation_id: str
    run_id: str


class PendingToolCall(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    arguments: dict[str, object]


class PendingToolCalls(_TypedObject, frozen=True, kw_only=True, tag="tool_calls", rename="camel"):
    conversation_id: str
    run_id: str
    tool_calls: list[PendingToolCall]
    division: str = ""
    correlation_id: str = ""


class RunBlocked(_TypedObject, frozen=True, kw_only=True, tag="waiting", rename="camel"):
    """The run waits for an approval, an answer, or another client."""

    conversation_id: str
    run_id: str


class FinalMessage(Struct, frozen=True, kw_only=True):
    content: str | None = None


class Final(_TypedObject, frozen=True, kw_only=True, tag="message", rename="camel"):
    """The end of a request: the model's message, and why it stopped.

    If the request failed, the text is a sentence for users and `error` has the reason.
    """

    conversation_id: str
    run_id: str
    message: FinalMessage
    stop_reason: str
    detail: str = ""
    correlation_id: str = ""
    overridden_tools: list[str] = []
    error: Problem | None = None

    @property
    def text(self) -> str:
        return self.message.content or ""


class StreamDone(_TypedObject, frozen=True, kw_only=True, tag="done"):
    ending: str


Event = (
    TextDelta | TextCited | ReasoningDelta | ToolStatus | ToolProgress | ClientCall | ApprovalRequired | QuestionAsked
    | TurnRestarted | ModelError | Final
)  # fmt: skip
ResponseEnd = PendingToolCalls | RunBlocked | Final
StreamObject = Event | ResponseEnd | StreamStarted | StreamDone
_decoder = msgspec.json.Decoder(StreamObject)


class _Marks(Struct):
    """The fields that tell whether a client has a use for an object."""

    type: str = ""
    notice: str = ""
    """Set on a sentence of the server in place of what `AppClient` has an event of its own for."""


_KNOWN_TYPES = frozenset(
    str(kind.__struct_config__.tag)
    for kind in (TextDelta, TextCited, ReasoningDelta, ToolStatus, ToolProgress, ClientCall, ApprovalRequired,
                 QuestionAsked, TurnRestarted, ModelError, Final, PendingToolCalls, RunBlocked, StreamStarted,
                 StreamDone)
)  # fmt: skip


def parse_object(body: bytes) -> StreamObject | None:
    """Return the object; None for a notice, and if its type is unknown to this client, as of a newer server."""
    marks = msgspec.json.decode(body, type=_Marks)
    return _decoder.decode(body) if marks.type in _KNOWN_TYPES and not marks.notice else None
