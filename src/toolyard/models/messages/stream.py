"""Reads the events of one Messages reply into the events of one turn. Pure."""

import contextlib
from collections.abc import Sequence

import msgspec

from toolyard.core.conversation.events import (
    ArgumentsAppended,
    Finish,
    ModelDelta,
    ReasoningAppended,
    TextAppended,
    TurnEnded,
)
from toolyard.core.items import Call, Item, Usage
from toolyard.core.messages_blocks import CODE_EXECUTION_TOOLS, REDACTED_PREFIX
from toolyard.core.ports import Clock
from toolyard.core.utf8 import utf8_size
from toolyard.models.http.problems import (
    REFUSAL_TEXT,
    WireFailure,
    build_failure,
    classify_stream_error,
    parse_error,
    parse_error_body,
)
from toolyard.models.http.reader import DECODE_ERRORS, decode_payload
from toolyard.models.messages.blocks import MessagesItemBuilder, StreamedBlock
from toolyard.models.messages.wire_types import (
    MessagesBlock,
    MessagesDelta,
    MessagesEvent,
    MessageStart,
    MessagesUsage,
    RefusalDetails,
    decode_event,
    decode_whole,
)
from toolyard.models.shared.hosted_tools import count_hosted_calls

_FINISHES: dict[str, Finish] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
    "pause_turn": "paused",
}
_CUT_SHORT = ("max_tokens", "model_context_window_exceeded", "refusal")


class MessagesReply:
    """The reply of one turn, as far as it has arrived."""

    __slots__ = (
        "_all_blocks",
        "_blocks",
        "_calls",
        "_clock",
        "_counts",
        "_lengths",
        "_open_calls",
        "_provider",
        "_turn",
        "model",
        "stop_reason",
        "stop_sequence",
    )

    def __init__(self, clock: Clock, turn: int, provider: str, open_calls: Sequence[Call] = ()) -> None:
        """`open_calls` are the provider's own calls of the turn before, whose results come in this one."""
        self._clock = clock
        self._turn = turn
        self._provider = provider
        self._open_calls = open_calls
        self._all_blocks: list[StreamedBlock] = []
        self._blocks: dict[int, StreamedBlock] = {}
        """The blocks of a stream by their index."""
        self._calls = 0
        self._lengths = [0, 0]
        """The bytes of text and of reasoning so far."""
        self._counts = MessagesUsage()
        self.stop_reason = ""
        self.stop_sequence = ""
        self.model = ""

    @property
    def complete(self) -> bool:
        return bool(self.stop_reason)

    @property
    def hosted_call_began(self) -> bool:
        return any(streamed.block.type == "server_tool_use" for streamed in self._all_blocks)

    def read(self, payload: bytes, events: list[ModelDelta], *, cut: bool = False) -> bool:
        try:
            event = decode_event(payload)
        except DECODE_ERRORS:
            return False if cut else self._add(decode_payload(payload, decode_event), events, damaged=True)
        return self._add(event, events)

    def read_whole(self, body: bytes, events: list[ModelDelta]) -> None:
        message = decode_payload(body, decode_whole)
        if message.error or message.type == "error":
            raise _build_error(message.error or message.message)
        if message.content is None:
            raise build_failure(f"the response is not a message: {parse_error_body(body)[0]}", "model_error")
        self._begin(MessageStart(model=message.model, content=message.content, usage=message.usage), events)
        self.stop_sequence = message.stop_sequence or ""
        self._stop(message.stop_reason or "end_turn", None, events)

    def _add(self, event: MessagesEvent, events: list[ModelDelta], *, damaged: bool = False) -> bool:
        delta, block = event.delta, event.content_block
        match event.type:
            case "content_block_delta" if delta is not None:
                self._append(event.index, delta, events, damaged)
            case "content_block_start" if block is not None:
                self._blocks[event.index] = self._start(block, events, damaged=damaged)
                if block.type == "redacted_thinking":
                    self._append_signature(REDACTED_PREFIX + block.data, events)
            case "content_block_stop" if (streamed := self._blocks.get(event.index)) and streamed.signature:
                self._append_signature(streamed.signature, events)
            case "message_delta":
                self._update_usage(event.usage)
                if delta is not None and delta.stop_reason:
                    self.stop_sequence = delta.stop_sequence or ""
                    self._stop(delta.stop_reason, delta.stop_details, events)
            case "message_start" if isinstance(event.message, MessageStart):
                self._begin(event.message, events)
            case "message_stop":
                return self.complete
            case _ if event.type == "error" or event.error:
                raise _build_error(event.error or event.message, event.request_id)
            case _:
                pass  # a ping, or an event that is not known yet
        return False

    def _begin(self, message: MessageStart, events: list[ModelDelta]) -> None:
        self.model = self.model or message.model
        self._update_usage(message.usage)
        for block in message.content or ():
            self._start(block, events)

    def _start(self, block: MessagesBlock, events: list[ModelDelta], *, damaged: bool = False) -> StreamedBlock:
        streamed = StreamedBlock(block, damaged)
        self._all_blocks.append(streamed)
        if streamed.is_call:
            streamed.number, streamed.call_id = self._calls, self._clock.new_id("call")
            self._calls += 1
        if block.text:
            self._append_text(streamed, block.text, events)
        if block.thinking:
            self._append_reasoning(streamed, block.thinking, events)
        return streamed

    def _append(self, index: int, delta: MessagesDelta, events: list[ModelDelta], damaged: bool) -> None:
        streamed = self._blocks.get(index)
        if streamed is None:
            return
        streamed.damaged = streamed.damaged or damaged
        if delta.text:
            self._append_text(streamed, delta.text, events)
        elif delta.partial_json:
            self._append_arguments(streamed, delta.partial_json, events)
        elif delta.thinking:
            self._append_reasoning(streamed, delta.thinking, events)
        elif delta.signature:
            streamed.signature += delta.signature
        elif delta.citation is not None:
            streamed.citations.append(delta.citation)

    def _append_text(self, streamed: StreamedBlock, text: str, events: list[ModelDelta]) -> None:
        events.append(TextAppended(turn=self._turn, offset=self._lengths[0], text=text))
        streamed.fragments.append(text)
        self._lengths[0] += utf8_size(text)

    def _append_reasoning(self, streamed: StreamedBlock, text: str, events: list[ModelDelta]) -> None:
        events.append(ReasoningAppended(turn=self._turn, offset=self._lengths[1], text=text))
        streamed.fragments.append(text)
        self._lengths[1] += utf8_size(text)

    def _append_signature(self, signature: str, events: list[ModelDelta]) -> None:
        events.append(ReasoningAppended(turn=self._turn, offset=self._lengths[1], text="", signature=signature))

    def _append_arguments(self, streamed: StreamedBlock, text: str, events: list[ModelDelta]) -> None:
        tool = CODE_EXECUTION_TOOLS.get(streamed.name, streamed.name)
        events.append(
            ArgumentsAppended(
                turn=self._turn,
                call_id=streamed.call_id,
                index=streamed.number,
                tool=tool,
                offset=streamed.written,
                text=text,
            )
        )
        streamed.fragments.append(text)
        streamed.written += utf8_size(text)

    def _update_usage(self, counts: MessagesUsage | None) -> None:
        """Update the counts, which are cumulative: a later event replaces those that it names."""
        if counts is None:
            return
        totals = self._counts
        for name in MessagesUsage.__struct_fields__:
            if getattr(counts, name) is not None:
                setattr(totals, name, getattr(counts, name))

    def _stop(self, reason: str, details: object, events: list[ModelDelta]) -> None:
        self.stop_reason = reason
        if reason == "refusal" and not self._lengths[0]:
            streamed = StreamedBlock(MessagesBlock(type="text"))
            self._all_blocks.append(streamed)
            self._append_text(streamed, _find_explanation(details), events)

    def build_turn(self) -> TurnEnded:
        builder = MessagesItemBuilder(self._clock, self._provider, cut_off=self.stop_reason in _CUT_SHORT)
        items = builder.build_items(self._all_blocks, self._open_calls)
        finish = "calls" if any(map(_is_toolyard_call, items)) else _FINISHES.get(self.stop_reason, "stop")
        return TurnEnded(
            items=tuple(items),
            finish=finish,
            usage=_build_usage(self._counts, count_hosted_calls(items).get("code_execution", 0)),
            model=self.model,
            stop_sequence=self.stop_sequence,
        )


def _is_toolyard_call(item: Item) -> bool:
    return isinstance(item, Call) and not item.ran_at


def _find_explanation(details: object) -> str:
    with contextlib.suppress(msgspec.ValidationError):
        return msgspec.convert(details, RefusalDetails).explanation or REFUSAL_TEXT
    return REFUSAL_TEXT


def _build_error(error: object, request_id: str | None = None) -> WireFailure:
    words, details = parse_error(error)
    if request_id:
        details = {**details, "request_id": request_id}
    return build_failure(f"the provider reports an error: {words}", classify_stream_error(details, words), **details)


def _build_usage(counts: MessagesUsage, code_executions: int) -> Usage:
    """Return the usage. Anthropic counts input that it read from or wrote to its cache apart from the other input.

    Of its tools it counts the searches only.
    """
    cached, written = counts.cache_read_input_tokens or 0, counts.cache_creation_input_tokens or 0
    for_an_hour = (counts.cache_creation.ephemeral_1h_input_tokens if counts.cache_creation else None) or 0
    searches = (counts.server_tool_use.web_search_requests if counts.server_tool_use else None) or 0
    tool_uses = {"web_search": searches, "code_execution": code_executions}
    return Usage(
        input_tokens=(counts.input_tokens or 0) + written + cached,
        output_tokens=counts.output_tokens or 0,
        cached_tokens=cached,
        cache_writes_5m=max(0, written - for_an_hour),
        cache_writes_1h=for_an_hour,
        tool_uses={name: uses for name, uses in tool_uses.items() if uses},
    )
