"""The events of one Messages reply → the events of one turn. Pure: it does not know sockets or deadlines."""

import contextlib
from collections.abc import Sequence

import msgspec

from toolyard.core.events import ArgumentsAppended, Finish, ModelDelta, ReasoningAppended, TextAppended, TurnEnded
from toolyard.core.items import Call, Item, Usage
from toolyard.core.ports import Mint
from toolyard.models.http.problems import REFUSED, WireFailure, error_type_in_stream, failure, words_in, words_of
from toolyard.models.http.reader import UNREADABLE, decoded
from toolyard.models.messages.blocks import CODE_EXECUTION, Said, Stamp
from toolyard.models.messages.events import (
    Block,
    Delta,
    Event,
    Message,
    RefusalDetails,
    UsageCounts,
    decode_event,
    decode_whole,
)

_FINISHES: dict[str, Finish] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
    "pause_turn": "paused",
}
_CUT_SHORT = ("max_tokens", "model_context_window_exceeded", "refusal")


class MessagesReply:
    """What the model has said so far in one turn."""

    __slots__ = (
        "_blocks",
        "_calls",
        "_counts",
        "_lengths",
        "_open_calls",
        "_provider",
        "_said",
        "_turn",
        "model",
        "stop_reason",
    )

    def __init__(self, turn: int, provider: str, open_calls: Sequence[Call] = ()) -> None:
        """`open_calls` are those that the provider began in the turn before, whose results come in this one."""
        self._turn = turn
        self._provider = provider
        self._open_calls = open_calls
        self._said: list[Said] = []
        self._blocks: dict[int, Said] = {}
        self._calls = 0
        self._lengths = [0, 0]
        """The bytes of text and of reasoning so far."""
        self._counts = UsageCounts()
        self.stop_reason = ""
        self.model = ""

    @property
    def complete(self) -> bool:
        return bool(self.stop_reason)

    def read(self, payload: bytes, events: list[ModelDelta], *, cut: bool = False) -> bool:
        try:
            event = decode_event(payload)
        except UNREADABLE:
            return False if cut else self._add(decoded(payload, decode_event), events, damaged=True)
        return self._add(event, events)

    def read_whole(self, body: bytes, events: list[ModelDelta]) -> None:
        whole = decoded(body, decode_whole)
        if whole.error or whole.type == "error":
            raise _said_by_provider(whole.error or whole.message)
        if whole.content is None:
            raise failure(f"the answer is no message: {words_of(body)[0]}", "model_error")
        self._begin(Message(model=whole.model, content=whole.content, usage=whole.usage), events)
        self._stop(whole.stop_reason or "end_turn", None, events)

    def _add(self, event: Event, events: list[ModelDelta], *, damaged: bool = False) -> bool:
        delta, block = event.delta, event.content_block
        match event.type:
            case "content_block_delta" if delta is not None:
                self._append(event.index, delta, events, damaged)
            case "content_block_start" if block is not None:
                self._blocks[event.index] = self._start(block, events, damaged=damaged)
            case "message_delta":
                self._count(event.usage)
                if delta is not None and delta.stop_reason:
                    self._stop(delta.stop_reason, delta.stop_details, events)
            case "message_start" if isinstance(event.message, Message):
                self._begin(event.message, events)
            case "message_stop":
                return self.complete
            case _ if event.type == "error" or event.error:
                raise _said_by_provider(event.error or event.message, event.request_id)
            case _:
                pass  # a ping, or something new
        return False

    def _begin(self, message: Message, events: list[ModelDelta]) -> None:
        self.model = self.model or message.model
        self._count(message.usage)
        for block in message.content or ():
            self._start(block, events)

    def _start(self, block: Block, events: list[ModelDelta], *, damaged: bool = False) -> Said:
        said = Said(block, damaged)
        self._said.append(said)
        if said.is_call:
            said.number = self._calls
            self._calls += 1
        if block.text:
            self._text(said, block.text, events)
        if block.thinking:
            self._thought(said, block.thinking, events)
        return said

    def _append(self, index: int, delta: Delta, events: list[ModelDelta], damaged: bool) -> None:
        said = self._blocks.get(index)
        if said is None:
            return
        said.damaged = said.damaged or damaged
        if delta.text:
            self._text(said, delta.text, events)
        elif delta.partial_json:
            self._arguments(said, delta.partial_json, events)
        elif delta.thinking:
            self._thought(said, delta.thinking, events)
        elif delta.signature:
            said.signature += delta.signature
        elif delta.citation is not None:
            said.citations.append(delta.citation)

    def _text(self, said: Said, text: str, events: list[ModelDelta]) -> None:
        events.append(TextAppended(turn=self._turn, offset=self._lengths[0], text=text))
        said.fragments.append(text)
        self._lengths[0] += _bytes(text)

    def _thought(self, said: Said, text: str, events: list[ModelDelta]) -> None:
        events.append(ReasoningAppended(turn=self._turn, offset=self._lengths[1], text=text))
        said.fragments.append(text)
        self._lengths[1] += _bytes(text)

    def _arguments(self, said: Said, text: str, events: list[ModelDelta]) -> None:
        tool = CODE_EXECUTION.get(said.name, said.name)
        events.append(ArgumentsAppended(turn=self._turn, index=said.number, tool=tool, offset=said.written, text=text))
        said.fragments.append(text)
        said.written += _bytes(text)

    def _count(self, counts: UsageCounts | None) -> None:
        """Counts are cumulative: what is said last holds."""
        if counts is None:
            return
        known = self._counts
        for name in UsageCounts.__struct_fields__:
            if getattr(counts, name) is not None:
                setattr(known, name, getattr(counts, name))

    def _stop(self, reason: str, details: object, events: list[ModelDelta]) -> None:
        self.stop_reason = reason
        if reason == "refusal" and not self._lengths[0]:
            said = Said(Block(type="text"))
            self._said.append(said)
            self._text(said, _explanation(details), events)

    def ended(self, mint: Mint) -> TurnEnded:
        stamp = Stamp(mint, self._provider, cut_off=self.stop_reason in _CUT_SHORT)
        items = stamp.items(self._said, self._open_calls)
        finish = "calls" if any(map(_is_ours, items)) else _FINISHES.get(self.stop_reason, "stop")
        return TurnEnded(items=tuple(items), finish=finish, usage=_usage(self._counts), model=self.model)


def _is_ours(item: Item) -> bool:
    return isinstance(item, Call) and not item.ran_at


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _explanation(details: object) -> str:
    with contextlib.suppress(msgspec.ValidationError):
        return msgspec.convert(details, RefusalDetails).explanation or REFUSED
    return REFUSED


def _said_by_provider(error: object, request_id: str | None = None) -> WireFailure:
    words, details = words_in(error)
    if request_id:
        details = {**details, "request_id": request_id}
    return failure(f"the provider reports an error: {words}", error_type_in_stream(details), **details)


def _usage(counts: UsageCounts) -> Usage:
    """The provider counts what it read from its cache, or wrote to it, apart from the other input."""
    cached = counts.cache_read_input_tokens or 0
    read = (counts.input_tokens or 0) + (counts.cache_creation_input_tokens or 0) + cached
    return Usage(input_tokens=read, output_tokens=counts.output_tokens or 0, cached_tokens=cached)
