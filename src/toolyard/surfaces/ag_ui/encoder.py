"""Encodes a run as the events of an AG-UI stream. Pure.

Each request of a client is a run of its own for AG-UI: it ends when Toolyard's run waits, and the next request goes on
with it. Each turn of the model is a step, and one message of the assistant with its text and its calls.
"""

from collections.abc import Mapping, Sequence
from typing import assert_never

import msgspec
from msgspec import Struct

from toolyard.core.conversation.cursor import Cursor
from toolyard.core.conversation.events import (
    ArgumentsAppended,
    CallAnswered,
    CallApproved,
    CallDenied,
    CallEnded,
    CallJudged,
    CallParked,
    CallProgressed,
    CallsRequested,
    CallStarted,
    ConversationChanged,
    ConversationOpened,
    Durable,
    Entry,
    Fleeting,
    HistoryCompacted,
    HistoryRewound,
    MessageAdded,
    MessageRemoved,
    Published,
    ReasoningAppended,
    RunEnded,
    RunQueued,
    RunStarted,
    RunSuspended,
    StopRequested,
    TextAppended,
    TurnEnded,
    TurnFailed,
    TurnStarted,
)
from toolyard.core.conversation.run_view import CallView, RunView
from toolyard.core.errors import ToolyardError
from toolyard.core.items import Call, Problem, Reasoning, Result, Usage, result_id
from toolyard.core.utf8 import utf8_size
from toolyard.engine.log.open_runs import is_at_rest
from toolyard.surfaces.ag_ui.messages import build_message_id, build_reasoning_id
from toolyard.surfaces.http.errors import build_error_response
from toolyard.surfaces.http.model_failures import describe_failure
from toolyard.surfaces.shared.chat_messages import to_iso_time
from toolyard.surfaces.shared.runs.notices import NO_NOTICES, RunNotices
from toolyard.surfaces.shared.runs.streamed_arguments import StreamedCall, cut_sent, find_missing

APPROVAL_SCHEMA: Mapping[str, object] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {"type": "object", "description": "Arguments in place of the model's"},
        "reason": {"type": "string", "description": "Why the call was denied, for the model"},
    },
    "required": ["approved"],
}


def build_interrupts(view: RunView) -> list[dict[str, object]]:
    """Return an interrupt for each call that waits for a decision or an answer."""
    return [_build_interrupt(call) for call in view.open_calls if call.awaited in ("approval", "answer")]


def list_pending_calls(view: RunView) -> list[str]:
    """Return the ids of the calls that the client has to run."""
    return [call.call.id for call in view.open_calls if call.awaited == "client"]


def _build_interrupt(call: CallView) -> dict[str, object]:
    program = {"parent": call.parent, "line": call.line} if call.parent else {}
    about = {
        "id": call.call.id,
        "toolCallId": call.call.id,
        "expiresAt": to_iso_time(call.expires_at),
        "metadata": {"tool": call.call.tool, "arguments": call.arguments, "rule": call.rule, **program},
    }
    if call.awaited == "approval":
        message = f"{call.call.tool} waits for {call.awaited_approval}"
        return {**about, "reason": "tool_call", "message": message, "responseSchema": APPROVAL_SCHEMA}
    question = call.parked.question if call.parked else {}
    message, schema = question.get("message"), question.get("requestedSchema")
    return {
        **about,
        "reason": "input_required",
        "message": message if isinstance(message, str) else f"{call.call.tool} asks a question",
        **({"responseSchema": schema} if isinstance(schema, dict) else {}),
    }


PROTOCOL_VERSION = "1.0"


def encode_frame(kind: str, **fields: object) -> bytes:
    """Return the frame of an event."""
    return b"data: %b\n\n" % msgspec.json.encode({"type": kind, **fields})


def encode_head(kind: str, **fields: str) -> bytes:
    """Return the beginning of frames that differ in their `delta` only. `}` and two newlines come after the delta."""
    return b'data: %b,"delta":' % msgspec.json.encode({"type": kind, **fields})[:-1]


END = b"}\n\n"
"""The end of a frame that `encode_head` began."""
VOID_RESULT = msgspec.json.encode(
    Problem(error="the turn of this call has ended before the call was complete", error_type="cancelled")
).decode()
PROGRESS = "toolyard.progress"


class StreamRequest(Struct, frozen=True, kw_only=True):
    """How one client request shapes its stream."""

    thread_id: str
    run_id: str
    """The client's id of this exchange; Toolyard's run has its own."""
    is_current: bool
    """Whether the client names the version of the protocol. Earlier ones refuse fields that they do not know."""
    answered: frozenset[str] = frozenset()
    """The calls that the request has answered: the stream goes on at least until it has read the answers."""
    settled: frozenset[str] = frozenset()
    """The calls whose results the client has sent, now or before: the run waits for none of them."""
    delivered: frozenset[str] = frozenset()
    """Those of them whose results the stream need not repeat, since the client has them in its messages."""
    state: object = None
    """The state that the run began with, which the stream repeats; None if there was none."""
    snapshots: Sequence[Sequence[object]] = ()
    """The messages before those of the stream, if the client has others."""


class AgUiEncoder:
    """Encodes one run from some place on, until it ends or waits."""

    def __init__(
        self, view: RunView, exchange: StreamRequest, seq: int, log_end: int, notices: RunNotices = NO_NOTICES
    ) -> None:
        """Start from the view after entry `seq`. The log had `log_end` entries then: waits before may be over."""
        self._notices = notices
        self._view = view
        self._exchange = exchange
        self._log_end = log_end
        self._message_id = ""
        """The assistant's message of the turn."""
        self._step = ""
        self._text_head = b""
        """The beginning of the frames of the text that is open; empty if none is."""
        self._reasoning_head = b""
        self._reasoning_bytes = 0
        self._calls: dict[str, StreamedCall] = {}
        self._usage: dict[str, Usage] = {}
        self._unread_answers = set(exchange.answered)
        self.over = self._is_over(seq)

    def opening(self) -> bytes:
        exchange = self._exchange
        version = {"protocolVersion": PROTOCOL_VERSION} if exchange.is_current else {}
        frames = [encode_frame("RUN_STARTED", threadId=exchange.thread_id, runId=exchange.run_id, **version)]
        if exchange.state is not None:
            frames.append(encode_frame("STATE_SNAPSHOT", snapshot=exchange.state))
        frames += [encode_frame("MESSAGES_SNAPSHOT", messages=messages) for messages in exchange.snapshots]
        return b"".join(frames)

    def item(self, published: Published, cursor: Cursor) -> bytes:
        view = self._view.apply(published)
        if not isinstance(published, Entry):
            if view is None:
                return b""
            if self._text_head and isinstance(published, TextAppended):  # the hot path: bytes only, without a dict
                return b"%b%b%b" % (self._text_head, msgspec.json.encode(published.text), END)
            return b"".join(self._encode_fleeting(published))
        if isinstance(published.event, CallApproved | CallDenied | CallAnswered):
            self._unread_answers.discard(published.event.call_id)
        elif isinstance(published.event, CallEnded):
            self._unread_answers.discard(published.event.result.call_id)
        self.over = self._is_over(published.seq)
        return b"".join(self._encode_durable(published.event)) if view is not None else b""

    def closing(self) -> bytes:
        view = self._view
        frames = self._end_turn()
        if (problem := view.problem) is not None:
            error = {"message": problem.error, "code": describe_failure(problem).code}
            return b"".join((*frames, encode_frame("RUN_ERROR", **error, **self._build_usage())))
        if notice := self._notices.describe_budget_wait(view):
            frames += _encode_message(f"wait_{view.run_id}_{view.waits}", notice)
        ids = {"threadId": self._exchange.thread_id, "runId": self._exchange.run_id}
        return b"".join((*frames, encode_frame("RUN_FINISHED", **ids, **self._build_outcome(), **self._build_usage())))

    def failure(self, error: ToolyardError, correlation_id: str) -> bytes:
        return encode_failure(error, correlation_id)

    def _is_over(self, seq: int) -> bool:
        if not is_at_rest(self._view, seq, self._log_end):
            return False
        # Where another replica owns the conversation, the answers may be stored before this one knows of them.
        has_unread = bool(self._unread_answers) or any(
            call.awaited == "client" and call.call.id in self._exchange.settled for call in self._view.open_calls
        )
        return self._view.end is not None or not has_unread

    def _encode_fleeting(self, event: Fleeting) -> list[bytes]:
        match event:
            case TextAppended():
                frames = [*self._open_turn(), *self._close_reasoning(), *self._open_text()]
                return [*frames, self._text_head + msgspec.json.encode(event.text) + END]
            case ReasoningAppended():
                return self._encode_reasoning(event.text, event.offset)
            case ArgumentsAppended():
                return self._encode_arguments(event)
            case CallProgressed():
                report = {"progress": event.progress, "total": event.total, "message": event.message}
                value = {"toolCallId": event.call_id, **{key: entry for key, entry in report.items() if entry}}
                return [encode_frame("CUSTOM", name=PROGRESS, value=value)]
            case _:
                assert_never(event)

    def _encode_durable(self, event: Durable) -> list[bytes]:
        match event:
            case TurnStarted():
                return [*self._end_turn(), *self._open_turn()]
            case TurnEnded():
                return self._encode_turn_end(event)
            case TurnFailed():
                return self._end_turn()
            case CallEnded(result=result):
                is_child = bool(self._view.calls[result.call_id].parent)
                return [] if is_child or result.call_id in self._exchange.delivered else [_encode_result(result)]
            case RunEnded(message=message):
                return [] if message is None else [*self._end_turn(), *_encode_message(message.id, message.text)]
            case CallJudged() | CallStarted() | CallParked() | CallApproved() | CallDenied() | CallAnswered():
                return []  # the stream's end tells what the run waits for
            case RunQueued() | RunStarted() | StopRequested() | RunSuspended() | HistoryCompacted() | CallsRequested():
                return []  # the stream's end tells how the run ended
            case ConversationOpened() | ConversationChanged() | MessageAdded() | MessageRemoved() | HistoryRewound():
                return []
            case _:
                assert_never(event)

    def _open_turn(self) -> list[bytes]:
        """Return the frame that begins the step of the turn, unless it has begun."""
        if self._step or not self._view.turns:
            return []
        turn = self._view.turns[-1]
        self._message_id = build_message_id(self._view.run_id, turn.number, turn.starts)
        self._step = f"turn {turn.number}"
        return [encode_frame("STEP_STARTED", stepName=self._step)]

    def _end_turn(self) -> list[bytes]:
        """Return the frames that end everything that is open. Calls that are not complete then will never be."""
        frames = [*self._close_text(), *self._close_reasoning()]
        for call_id in self._calls:
            # Without a result the client would run a call of its own tools that the model never finished.
            frames += [
                encode_frame("TOOL_CALL_END", toolCallId=call_id),
                _encode_tool_message(result_id(call_id), call_id, VOID_RESULT),
            ]
        self._calls.clear()
        if self._step:
            frames.append(encode_frame("STEP_FINISHED", stepName=self._step))
        self._step, self._reasoning_bytes = "", 0
        return frames

    def _encode_turn_end(self, event: TurnEnded) -> list[bytes]:
        frames = self._open_turn()
        used = self._usage.get(event.model, Usage())
        self._usage[event.model] = used.plus(event.usage)
        if reasoning := "".join(item.text for item in event.items if isinstance(item, Reasoning)):
            # The reader fills gaps in the text by itself, but not in the reasoning.
            frames += self._encode_reasoning(reasoning, 0)
        for item in event.items:
            if isinstance(item, Call):
                frames += self._encode_call(item)
            elif isinstance(item, Result):
                frames.append(_encode_result(item))
        return [*frames, *self._end_turn()]

    def _open_text(self) -> list[bytes]:
        if self._text_head:
            return []
        self._text_head = encode_head("TEXT_MESSAGE_CONTENT", messageId=self._message_id)
        return [encode_frame("TEXT_MESSAGE_START", messageId=self._message_id, role="assistant")]

    def _close_text(self) -> list[bytes]:
        if not self._text_head:
            return []
        self._text_head = b""
        return [encode_frame("TEXT_MESSAGE_END", messageId=self._message_id)]

    def _encode_reasoning(self, text: str, offset: int) -> list[bytes]:
        """Return the part of the reasoning that was not sent yet. One after a gap is left to the turn's end."""
        unsent = cut_sent(text, offset, self._reasoning_bytes)
        if not unsent:
            return []
        self._reasoning_bytes += utf8_size(unsent)
        frames = [*self._open_turn(), *self._close_text()]
        if not self._reasoning_head:
            reasoning_id = build_reasoning_id(self._message_id)
            self._reasoning_head = encode_head("REASONING_MESSAGE_CONTENT", messageId=reasoning_id)
            frames += [
                encode_frame("REASONING_START", messageId=reasoning_id),
                encode_frame("REASONING_MESSAGE_START", messageId=reasoning_id, role="reasoning"),
            ]
        return [*frames, self._reasoning_head + msgspec.json.encode(unsent) + END]

    def _close_reasoning(self) -> list[bytes]:
        if not self._reasoning_head:
            return []
        self._reasoning_head = b""
        reasoning_id = build_reasoning_id(self._message_id)
        return [
            encode_frame("REASONING_MESSAGE_END", messageId=reasoning_id),
            encode_frame("REASONING_END", messageId=reasoning_id),
        ]

    def _encode_arguments(self, event: ArgumentsAppended) -> list[bytes]:
        call = self._calls.get(event.call_id)
        if call is None:
            if event.offset or not event.tool:
                return []  # the beginning is missing: the turn's end brings the whole call
            frames = self._open_call(event.call_id, event.tool)
            call = self._calls[event.call_id] = StreamedCall()
        else:
            frames = []
        if unsent := call.add(event):
            frames.append(encode_frame("TOOL_CALL_ARGS", toolCallId=event.call_id, delta=unsent))
        return frames

    def _open_call(self, call_id: str, tool: str) -> list[bytes]:
        opened = [*self._open_turn(), *self._close_text(), *self._close_reasoning()]
        parent = {"parentMessageId": self._message_id}
        return [*opened, encode_frame("TOOL_CALL_START", toolCallId=call_id, toolCallName=tool, **parent)]

    def _encode_call(self, call: Call) -> list[bytes]:
        """Return the rest of a call: all of it, or what was not streamed."""
        streamed = self._calls.pop(call.id, None)
        frames = self._open_call(call.id, call.tool) if streamed is None else []
        if missing := find_missing(call, streamed.text if streamed else ""):
            frames.append(encode_frame("TOOL_CALL_ARGS", toolCallId=call.id, delta=missing))
        return [*frames, encode_frame("TOOL_CALL_END", toolCallId=call.id)]

    def _build_outcome(self) -> dict[str, object]:
        view = self._view
        if view.end is None and (interrupts := build_interrupts(view)):
            return {"outcome": {"type": "interrupt", "interrupts": interrupts}}
        if not self._exchange.is_current:
            return {}
        if view.ending == "cancelled":
            return {"outcome": {"type": "cancelled"}}
        pending = list_pending_calls(view) if view.end is None else []
        return {"outcome": {"type": "success", **({"pendingToolCallIds": pending} if pending else {})}}

    def _build_usage(self) -> dict[str, object]:
        """Return the tokens of the turns of this exchange, for each model."""
        if not self._exchange.is_current:
            return {}
        entries = [
            {
                **({"model": model} if model else {}),
                "inputTokens": usage.input_tokens,
                "outputTokens": usage.output_tokens,
                "totalTokens": usage.total,
                "cachedInputTokens": usage.cached_tokens,
            }
            for model, usage in self._usage.items()
            if usage.total
        ]
        return {"usage": entries} if entries else {}


def encode_failure(error: Exception, correlation_id: str) -> bytes:
    """Return the last frame of a stream that cannot go on."""
    _, body, _ = build_error_response(error, correlation_id)
    about = {"correlationId": correlation_id, **({"details": body.details} if body.details else {})}
    return encode_frame("RUN_ERROR", message=body.error, code=body.error_type, metadata={"toolyard": about})


def _encode_message(message_id: str, text: str) -> list[bytes]:
    return [
        encode_frame("TEXT_MESSAGE_START", messageId=message_id, role="assistant"),
        encode_frame("TEXT_MESSAGE_CONTENT", messageId=message_id, delta=text),
        encode_frame("TEXT_MESSAGE_END", messageId=message_id),
    ]


def _encode_result(result: Result) -> bytes:
    return _encode_tool_message(result.id, result.call_id, result.content)


def _encode_tool_message(message_id: str, call_id: str, content: str) -> bytes:
    return encode_frame("TOOL_CALL_RESULT", messageId=message_id, toolCallId=call_id, content=content, role="tool")
