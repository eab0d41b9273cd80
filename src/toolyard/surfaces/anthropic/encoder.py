"""Encodes a run as the events of a streamed message. Pure.

The blocks of a message follow one another: each begins, grows and ends before the next one. What is streamed of a turn
while it goes on is left out at its end, which brings the rest: the calls and results of the model's provider, and those
that ran on the server. After a call of the provider the text waits for the end of the turn, since the call's result
belongs before it and comes only then.
"""

from collections.abc import Callable

import msgspec

from toolyard.core.conversation.cursor import Cursor
from toolyard.core.conversation.events import (
    ArgumentsAppended,
    CallEnded,
    Durable,
    Entry,
    Published,
    ReasoningAppended,
    RunEnded,
    RunQueued,
    TextAppended,
    TurnEnded,
    TurnStarted,
)
from toolyard.core.conversation.run_view import RunView
from toolyard.core.errors import ToolyardError
from toolyard.core.items import Item, ModelText, Reasoning
from toolyard.core.messages_blocks import REDACTED_PREFIX
from toolyard.core.utf8 import utf8_size
from toolyard.engine.log.open_runs import is_at_rest
from toolyard.surfaces.anthropic.errors import build_stream_error
from toolyard.surfaces.anthropic.message import (
    Block,
    build_client_call,
    build_message_id,
    build_server_call,
    build_text_block,
    build_text_blocks,
    build_turn_blocks,
    build_usage,
    encode_arguments,
    find_stop_reason,
    find_stop_sequence,
)
from toolyard.surfaces.http.errors import ModelFailed
from toolyard.surfaces.shared.call_ids import encode_call_id
from toolyard.surfaces.shared.runs.notices import get_first_notice
from toolyard.surfaces.shared.runs.streamed_arguments import StreamedCall, cut_sent, find_missing
from toolyard.surfaces.shared.whole_history.answers import (
    build_toolyard_answer,
    list_client_calls,
    wants_only_final_text,
)

PING = b'event: ping\ndata: {"type":"ping"}\n\n'
_TEXT_HEAD = (
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"text_delta","text":'
)
_TEXT_TAIL = b"}}\n\n"
_EMPTY_FIELDS = {"text": ("text",), "thinking": ("thinking", "signature")}
"""The fields of a block that deltas fill."""


class MessageEncoder:
    """Encodes one run, until it ends or waits."""

    def __init__(
        self,
        view: RunView,
        log_end: int,
        *,
        model: str,
        provider: str,
        describe_waiting: Callable[[RunView], str],
        streams_mcp_input: bool = False,
    ) -> None:
        """`provider` is that of the model, if its API is this one: what it has signed is handed out.

        The input of an MCP tool's call comes with its beginning; if `streams_mcp_input` is set, as Anthropic sends it:
        in deltas, which clients that do not know such calls leave out.
        """
        self._view = view
        self._log_end = log_end
        self._model = model
        self._provider = provider
        self._describe_waiting = describe_waiting
        self._streamed_calls = ("tool_use", "server_tool_use", *(["mcp_tool_use"] if streams_mcp_input else []))
        self.over = view.at_rest
        self._count = 0
        """How many blocks have begun."""
        self._open = ""
        """The type of the text or thinking block that is open; empty if none is."""
        self._text_head = b""
        """What comes before the text of a delta; empty if no text block is open."""
        self._calls: dict[str, StreamedCall] = {}
        """The client's calls that have begun, by their ids."""
        self._begin_turn()

    def _begin_turn(self) -> None:
        self._is_held = False
        """Whether the rest of the turn is shown at its end."""
        self._text_chars = 0
        """How much of the turn's text was sent."""
        self._reasoning_bytes = 0
        self._thoughts = 0
        """How many thinking blocks of the turn were sent."""
        self._signatures: set[str] = set()

    def opening(self) -> bytes:
        message: Block = {
            "id": build_message_id(self._view.run_id),
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": list[object](),
            "stop_reason": None,
            "stop_sequence": None,
            "usage": build_usage(self._view.usage),
        }
        return _encode("message_start", message=message) + PING

    def item(self, published: Published, cursor: Cursor) -> bytes:
        if self._text_head and isinstance(published, TextAppended):  # the hot path: bytes only, without a dict
            self._text_chars += len(published.text)
            return b"%b%b%b" % (self._text_head, msgspec.json.encode(published.text), _TEXT_TAIL)
        view = self._view.apply(published)
        if not isinstance(published, Entry):
            # A turn that is in the log already is shown from there: its text comes first, but its thinking does not.
            return self._encode_fleeting(published) if view is not None and cursor.seq >= self._log_end else b""
        self.over = is_at_rest(self._view, published.seq, self._log_end)
        return self._encode_durable(published.event) if view is not None else b""

    def _encode_fleeting(self, event: Published) -> bytes:
        match event:
            case TextAppended(text=text):
                if self._is_held or wants_only_final_text(self._view):
                    return b""
                self._text_chars += len(text)
                begin = self._begin("text", {"type": "text", "text": ""})
                return b"%b%b%b%b" % (begin, self._text_head, msgspec.json.encode(text), _TEXT_TAIL)
            case ReasoningAppended():
                return b"" if self._is_held else self._encode_reasoning(event)
            case ArgumentsAppended():
                return self._encode_arguments(event)
            case _:
                return b""

    def _encode_durable(self, event: Durable) -> bytes:
        match event:
            case RunQueued() if (notice := get_first_notice(self._view)) and not wants_only_final_text(self._view):
                return self._encode_block(build_text_block(notice))
            case TurnStarted():
                closing = self._close_all()
                self._begin_turn()
                return closing
            case TurnEnded(items=items):
                return b"".join([self._encode_turn_item(item) for item in items]) + self._close()
            case CallEnded(result=result):
                call = self._view.calls[result.call_id]
                is_shown = not (call.parent or call.call.ran_at or self._view.is_client_tool(call.call.tool))
                return b"".join(map(self._encode_block, build_server_call(call))) if is_shown else b""
            case RunEnded(message=ModelText(text=text)) if not wants_only_final_text(self._view):
                return self._encode_block(build_text_block(text))
            case _:
                return b""

    def _encode_turn_item(self, item: Item) -> bytes:
        """Return an item of a turn that has ended, or what the client was not shown yet of it."""
        if isinstance(item, ModelText):
            return self._encode_turn_text(item)
        if isinstance(item, Reasoning):
            if self._thoughts:
                self._thoughts -= 1
                return b""
            if self._text_chars:
                return b""  # it belongs before the text, which was sent
        return b"".join(map(self._encode_block, build_turn_blocks([item], self._provider, self._view.calls)))

    def _encode_turn_text(self, item: ModelText) -> bytes:
        if wants_only_final_text(self._view):
            return b""
        blocks = build_text_blocks(item, self._provider)
        if self._text_chars < len(item.text):
            return b"".join(map(self._encode_block, blocks))
        self._text_chars -= len(item.text)
        if self._open != "text" or self._text_chars:
            return b""
        # It was streamed as one block, since only now it is known what was cited where.
        citations = [citation for block in blocks for citation in _list(block.get("citations"))]
        return b"".join(self._encode_delta("citations_delta", citation=citation) for citation in citations)

    def _encode_reasoning(self, event: ReasoningAppended) -> bytes:
        unsent, signature = cut_sent(event.text, event.offset, self._reasoning_bytes), event.signature
        self._reasoning_bytes += utf8_size(unsent)
        pieces: list[bytes] = []
        if unsent:
            if self._open != "thinking":
                pieces.append(self._begin("thinking", {"type": "thinking", "thinking": "", "signature": ""}))
            pieces.append(self._encode_delta("thinking_delta", thinking=unsent))
        if signature and self._provider and signature not in self._signatures:
            self._signatures.add(signature)
            pieces.append(self._encode_signature(signature))
        return b"".join(pieces)

    def _encode_signature(self, signature: str) -> bytes:
        if signature.startswith(REDACTED_PREFIX):
            self._thoughts += 1
            data = signature.removeprefix(REDACTED_PREFIX)
            return self._encode_block({"type": "redacted_thinking", "data": data})
        begin = b""
        if self._open != "thinking":  # the provider leaves the text out
            begin = self._begin("thinking", {"type": "thinking", "thinking": "", "signature": ""})
        return begin + self._encode_delta("signature_delta", signature=signature) + self._close()

    def _encode_arguments(self, event: ArgumentsAppended) -> bytes:
        """Return a part of the arguments of a call that the client runs; nothing for any other call."""
        if not self._view.is_client_tool(event.tool):
            self._is_held = True
            return self._close()
        pieces: list[bytes] = []
        call = self._calls.get(event.call_id)
        if call is None:
            if event.offset:
                return b""  # the beginning is missing: the end brings the whole call
            pieces.append(self._close_all(only_whole=True))
            call = self._calls[event.call_id] = StreamedCall(index=self._count)
            call_id = encode_call_id(self._view.conversation, event.call_id)
            pieces.append(self._start_block({"type": "tool_use", "id": call_id, "name": event.tool, "input": {}}))
        if unsent := call.add(event):
            pieces.append(_encode_json_delta(call.index, unsent))
        return b"".join(pieces)

    def _encode_last_calls(self) -> list[bytes]:
        """Return what the client was not shown yet of the calls that it is to run."""
        pieces: list[bytes] = []
        for call in list_client_calls(self._view):
            streamed = self._calls.get(call.call.id)
            if streamed is None:
                pieces.append(self._encode_block(build_client_call(self._view, call, call.call.arguments)))
            elif not streamed.has_ended and (missing := find_missing(call.call, streamed.text)):
                pieces.append(_encode_json_delta(streamed.index, missing))
        return [*pieces, self._close_all()]

    def closing(self) -> bytes:
        view = self._view
        if (problem := view.problem) is not None:
            return self.failure(ModelFailed(problem, view.run_id), view.correlation_id)
        waiting_text = self._describe_waiting(view)
        text = waiting_text
        if wants_only_final_text(view) and not waiting_text and not list_client_calls(view):
            text = view.text
        pieces = [*self._encode_last_calls()]
        if text:
            pieces.append(self._encode_block(build_text_block(text)))
        delta = {"stop_reason": find_stop_reason(view, waiting_text), "stop_sequence": find_stop_sequence(view)}
        usage, answer = build_usage(view.usage), build_toolyard_answer(view)
        pieces.append(_encode("message_delta", delta=delta, usage=usage, toolyard=answer))
        return b"".join((*pieces, _encode("message_stop")))

    def failure(self, error: ToolyardError, correlation_id: str) -> bytes:
        return encode_failure(error, correlation_id)

    def _begin(self, kind: str, block: Block) -> bytes:
        """Begin a block of text or thinking that grows."""
        closing = self._close_all(only_whole=True)
        started = self._start_block(block)
        self._open = kind
        self._text_head = _TEXT_HEAD % (self._count - 1) if kind == "text" else b""
        return closing + started

    def _start_block(self, block: Block) -> bytes:
        self._count += 1
        return _encode("content_block_start", index=self._count - 1, content_block=block)

    def _close(self) -> bytes:
        """End the block of text or thinking that is open."""
        if not self._open:
            return b""
        self._thoughts += self._open == "thinking"
        self._open, self._text_head = "", b""
        return _encode("content_block_stop", index=self._count - 1)

    def _close_all(self, *, only_whole: bool = False) -> bytes:
        """End all blocks that are open, or those whose call has all its arguments."""
        pieces = [self._close()]
        for call in self._calls.values():
            if not call.has_ended and (call.is_whole or not only_whole):
                call.has_ended = True
                pieces.append(_encode("content_block_stop", index=call.index))
        return b"".join(pieces)

    def _encode_delta(self, kind: str, **fields: object) -> bytes:
        """Return a delta of the block that began last."""
        return _encode("content_block_delta", index=self._count - 1, delta={"type": kind, **fields})

    def _encode_block(self, block: Block) -> bytes:
        """Return a whole block: its beginning, its content as deltas where the API has them, and its end."""
        closing = self._close_all(only_whole=True)
        empty = {name: "" for name in _EMPTY_FIELDS.get(str(block["type"]), ())}
        is_call = block["type"] in self._streamed_calls
        more: Block = {"input": {}} if is_call else {}
        shown = {name: value for name, value in block.items() if name != "citations"}
        pieces = [closing, self._start_block({**shown, **empty, **more})]
        for name in empty:
            if value := block.get(name):
                pieces.append(self._encode_delta(f"{name}_delta", **{name: value}))
        for citation in _list(block.get("citations")):
            pieces.append(self._encode_delta("citations_delta", citation=citation))
        if is_call:
            arguments: dict[str, object] = block["input"]  # pyright: ignore[reportAssignmentType]
            pieces.append(_encode_json_delta(self._count - 1, encode_arguments(arguments)))
        return b"".join((*pieces, _encode("content_block_stop", index=self._count - 1)))


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]


def encode_failure(error: ToolyardError, correlation_id: str) -> bytes:
    """Return the last event of a stream that cannot go on."""
    return b"event: error\ndata: %b\n\n" % msgspec.json.encode(build_stream_error(error, correlation_id))


def _encode_json_delta(index: int, text: str) -> bytes:
    delta = {"type": "input_json_delta", "partial_json": text}
    return _encode("content_block_delta", index=index, delta=delta)


def _encode(kind: str, **fields: object) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), msgspec.json.encode({"type": kind, **fields}))
