"""What a stream of the server tells an application. One of a kind that is not known here is passed over."""

from typing import Literal

import msgspec
from msgspec import Struct

from toolyard.core.items import Citation, Problem


class _Object(Struct, frozen=True, kw_only=True, tag_field="type"):
    pass


class TextDelta(_Object, frozen=True, kw_only=True, tag="text.delta"):
    content: str


class TextCited(_Object, frozen=True, kw_only=True, tag="text.cited"):
    """Where the text of the turn that has just ended comes from; the places count its characters."""

    citations: list[Citation]


class ReasoningDelta(_Object, frozen=True, kw_only=True, tag="reasoning.delta"):
    content: str


class ToolStatus(_Object, frozen=True, kw_only=True, tag="tool.status"):
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


class ToolProgress(_Object, frozen=True, kw_only=True, tag="tool.progress"):
    name: str
    call_id: str
    progress: float
    total: float | None = None
    message: str = ""


class ClientCall(_Object, frozen=True, kw_only=True, tag="client.call"):
    """A call for the application; the client runs it by itself."""

    name: str
    call_id: str
    arguments: dict[str, object] = {}


class ApprovalRequired(_Object, frozen=True, kw_only=True, tag="approval.required"):
    name: str
    call_id: str
    arguments: dict[str, object] = {}
    reason: str = ""


class QuestionAsked(_Object, frozen=True, kw_only=True, tag="question.asked"):
    name: str
    call_id: str
    question: dict[str, object] = {}


class TurnRestarted(_Object, frozen=True, kw_only=True, tag="turn.restarted"):
    """The text of this turn so far is void: it comes again."""

    turn: int


class ModelError(_Object, frozen=True, kw_only=True, tag="error"):
    error: str
    error_type: str = ""


class Started(_Object, frozen=True, kw_only=True, tag="started", rename="camel"):
    conversation_id: str
    run_id: str


class HandedCall(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    arguments: dict[str, object]


class ToolCalls(_Object, frozen=True, kw_only=True, tag="tool_calls", rename="camel"):
    conversation_id: str
    run_id: str
    tool_calls: list[HandedCall]
    division: str = ""
    correlation_id: str = ""


class Waiting(_Object, frozen=True, kw_only=True, tag="waiting", rename="camel"):
    """The run waits for somebody else."""

    conversation_id: str
    run_id: str


class Said(Struct, frozen=True, kw_only=True):
    content: str | None = None


class Final(_Object, frozen=True, kw_only=True, tag="message", rename="camel"):
    """How a request ended: what the model said, and why it stopped.

    Where it failed, the text is a sentence for people and `error` says what went wrong.
    """

    conversation_id: str
    run_id: str
    message: Said
    stop_reason: str
    detail: str = ""
    correlation_id: str = ""
    overridden_tools: list[str] = []
    error: Problem | None = None

    @property
    def text(self) -> str:
        return self.message.content or ""


class Done(_Object, frozen=True, kw_only=True, tag="done"):
    ending: str


Event = (
    TextDelta | TextCited | ReasoningDelta | ToolStatus | ToolProgress | ClientCall | ApprovalRequired | QuestionAsked
    | TurnRestarted | ModelError | Final
)  # fmt: skip
Answer = ToolCalls | Waiting | Final
Told = Event | Answer | Started | Done
_told = msgspec.json.Decoder(Told)


class _Kind(Struct):
    type: str = ""


_KNOWN = frozenset(
    str(kind.__struct_config__.tag)
    for kind in (TextDelta, TextCited, ReasoningDelta, ToolStatus, ToolProgress, ClientCall, ApprovalRequired,
                 QuestionAsked, TurnRestarted, ModelError, Final, ToolCalls, Waiting, Started, Done)
)  # fmt: skip


def read(body: bytes) -> Told | None:
    """The object, or None for one that a newer server sends and this client does not know."""
    return _told.decode(body) if msgspec.json.decode(body, type=_Kind).type in _KNOWN else None
