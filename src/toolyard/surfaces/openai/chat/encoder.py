"""Encodes a run as the chunks of a streamed chat completion. Pure."""

from collections.abc import Callable

import msgspec

from toolyard.core.conversation.cursor import Cursor
from toolyard.core.conversation.events import (
    ArgumentsAppended,
    Entry,
    Published,
    ReasoningAppended,
    RunEnded,
    RunQueued,
    TextAppended,
    TurnStarted,
)
from toolyard.core.conversation.run_view import RunView
from toolyard.core.errors import ToolyardError
from toolyard.engine.log.open_runs import is_at_rest
from toolyard.surfaces.http.errors import ModelFailed
from toolyard.surfaces.openai.chat.completion import (
    TURN_SEPARATOR,
    build_annotations,
    build_completion_id,
    build_tool_calls,
    build_usage,
    find_finish_reason,
    join_logprobs,
    join_texts,
)
from toolyard.surfaces.openai.errors import build_stream_error
from toolyard.surfaces.shared.call_ids import encode_call_id
from toolyard.surfaces.shared.runs.notices import RunNotices, get_first_notice
from toolyard.surfaces.shared.runs.stream_objects import build_objects
from toolyard.surfaces.shared.runs.streamed_arguments import StreamedCall, find_missing
from toolyard.surfaces.shared.whole_history.answers import (
    build_toolyard_answer,
    list_client_calls,
    wants_only_final_text,
)

DONE = b"data: [DONE]\n\n"
_TEXT_TAIL = b'},"logprobs":null,"finish_reason":null}]}\n\n'
_LOGPROBS_TAIL = b'},"logprobs":{"content":[%b],"refusal":null},"finish_reason":null}]}\n\n'
_EMPTY_CHOICE: dict[str, object] = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": None}


class CompletionEncoder:
    """Encodes one run as chunks, until it ends or waits.

    The texts of all turns are one text for the client. A text that has to fit a schema is sent once it is whole, since
    only then it is known to be the last one.
    """

    def __init__(
        self,
        view: RunView,
        log_end: int,
        *,
        model: str,
        created: int,
        describe_waiting: Callable[[RunView], str],
        show_tools: bool = False,
        include_usage: bool = False,
    ) -> None:
        self._view = view
        self._log_end = log_end
        self._describe_waiting = describe_waiting
        self._show_tools = show_tools
        self._include_usage = include_usage
        self.over = view.at_rest
        self._has_text = False
        """Whether any text was sent."""
        self._starts_text = True
        """Whether the next text is the first of its turn."""
        about = {
            "id": build_completion_id(view.run_id),
            "object": "chat.completion.chunk",
            "created": created,
            "model": model,
        }
        self._calls: dict[str, StreamedCall] = {}
        """The calls that the client was shown, by their ids."""
        self._head = msgspec.json.encode(about)[:-1]
        self._text_head = b'data: %b,"choices":[{"index":0,"delta":{"content":' % self._head

    def opening(self) -> bytes:
        return self._encode_delta({"role": "assistant", "content": ""})

    def item(self, published: Published, cursor: Cursor) -> bytes:
        view = self._view.apply(published)
        if not isinstance(published, Entry):
            return self._encode_fleeting(published) if view is not None else b""
        self.over = is_at_rest(self._view, published.seq, self._log_end)
        if view is None:
            return b""
        event = published.event
        if isinstance(event, RunQueued) and (notice := get_first_notice(view)) and not wants_only_final_text(view):
            return self._encode_text(notice)
        if isinstance(event, TurnStarted):
            self._starts_text = True
        elif isinstance(event, RunEnded) and event.message is not None and not wants_only_final_text(view):
            self._starts_text = True
            return self._encode_text(event.message.text)
        return self._encode_shown(published) if self._show_tools else b""

    def _encode_fleeting(self, event: Published) -> bytes:
        if isinstance(event, TextAppended):
            return b"" if wants_only_final_text(self._view) else self._encode_text(event.text, event.logprobs)
        if isinstance(event, ReasoningAppended):
            return self._encode_delta({"reasoning_content": event.text}) if event.text else b""
        if isinstance(event, ArgumentsAppended):
            return self._encode_arguments(event)
        return self._encode_shown(event) if self._show_tools else b""

    def _encode_text(self, text: str, logprobs: str = "") -> bytes:
        if self._starts_text:
            text = TURN_SEPARATOR + text if self._has_text else text
            self._starts_text, self._has_text = False, True
        tail = _LOGPROBS_TAIL % logprobs.encode() if logprobs else _TEXT_TAIL
        return b"%b%b%b" % (self._text_head, msgspec.json.encode(text), tail)

    def _encode_arguments(self, event: ArgumentsAppended) -> bytes:
        """Return a part of the arguments of a call that the client runs; nothing for a call of the server's."""
        if not self._view.is_client_tool(event.tool):
            return b""
        pieces: list[bytes] = []
        call = self._calls.get(event.call_id)
        if call is None:
            if event.offset:
                return b""  # the beginning is missing: the end brings the whole call
            call = self._calls[event.call_id] = StreamedCall(index=len(self._calls))
            call_id = encode_call_id(self._view.conversation, event.call_id)
            function = {"name": event.tool, "arguments": ""}
            pieces.append(self._encode_call({"id": call_id, "type": "function", "function": function}, call.index))
        if unsent := call.add(event):
            pieces.append(self._encode_call({"function": {"arguments": unsent}}, call.index))
        return b"".join(pieces)

    def _encode_last_calls(self) -> list[bytes]:
        """Return what the client was not shown yet of the calls that it is to run."""
        pieces: list[bytes] = []
        for view, call in zip(list_client_calls(self._view), build_tool_calls(self._view), strict=True):
            streamed = self._calls.get(view.call.id)
            if streamed is None:
                streamed = self._calls[view.call.id] = StreamedCall(index=len(self._calls))
                pieces.append(self._encode_call(msgspec.to_builtins(call), streamed.index))
            elif missing := find_missing(view.call, streamed.text):
                pieces.append(self._encode_call({"function": {"arguments": missing}}, streamed.index))
        return pieces

    def _encode_call(self, call: dict[str, object], index: int) -> bytes:
        return self._encode_delta({"tool_calls": [{"index": index, **call}]})

    def _encode_shown(self, published: Published) -> bytes:
        """Return what the server's tools do, as fields of deltas that other clients ignore."""
        all_objects = build_objects(published, self._view, RunNotices())
        objects = [item for item in all_objects if str(item["type"]).startswith("tool.")]
        deltas: list[dict[str, object]] = [{"toolyard": item} for item in objects]
        for delta, item in zip(deltas, objects, strict=True):
            if item.get("message"):
                delta["reasoning_content"] = f"{item['message']}\n"
        return b"".join(map(self._encode_delta, deltas))

    def closing(self) -> bytes:
        view = self._view
        if (problem := view.problem) is not None:
            return self.failure(ModelFailed(problem, view.run_id), view.correlation_id)
        pieces: list[bytes] = []
        waiting_text = self._describe_waiting(view)
        if wants_only_final_text(view) and not waiting_text and (text := join_texts(view)):
            pieces.append(self._encode_text(text, join_logprobs(view)))
        if calls := self._encode_last_calls():
            pieces += calls
        elif waiting_text and wants_only_final_text(view):
            # As content it would be parsed as the schema's JSON.
            pieces.append(self._encode_delta({"refusal": waiting_text}))
        elif waiting_text:
            self._starts_text = True
            pieces.append(self._encode_text(waiting_text))
        if annotations := build_annotations(view):
            pieces.append(self._encode_delta({"annotations": annotations}))
        choice = {**_EMPTY_CHOICE, "finish_reason": find_finish_reason(view)}
        pieces.append(self._encode_chunk({"choices": [choice], "toolyard": build_toolyard_answer(view)}))
        if self._include_usage:
            pieces.append(self._encode_chunk({"choices": [], "usage": build_usage(view.usage)}))
        return b"".join((*pieces, DONE))

    def failure(self, error: ToolyardError, correlation_id: str) -> bytes:
        return encode_failure(error, correlation_id)

    def _encode_delta(self, delta: dict[str, object]) -> bytes:
        return self._encode_chunk({"choices": [{**_EMPTY_CHOICE, "delta": delta}]})

    def _encode_chunk(self, fields: dict[str, object]) -> bytes:
        return b"data: %b,%b\n\n" % (self._head, msgspec.json.encode(fields)[1:])


def encode_failure(error: ToolyardError, correlation_id: str) -> bytes:
    """Return the last event of a stream that cannot go on."""
    return b"data: %b\n\n" % msgspec.json.encode(build_stream_error(error, correlation_id))
