"""Reads the chunks of one Chat Completions reply into the events of one turn. Pure."""

from toolyard.core.conversation.events import (
    ArgumentsAppended,
    Finish,
    ModelDelta,
    ReasoningAppended,
    TextAppended,
    TurnEnded,
)
from toolyard.core.items import Call, Item, ModelText, Reasoning, Usage
from toolyard.core.json_types import is_list, is_object
from toolyard.core.ports import Clock
from toolyard.core.utf8 import utf8_size
from toolyard.models.chat.calls import StreamedCalls
from toolyard.models.chat.reasoning_details import Detail, encode_signature, parse_details
from toolyard.models.chat.wire_types import CallDelta, ChatChoice, ChatChunk, ChatUsage, decode_chunk
from toolyard.models.http.problems import (
    WireFailure,
    build_failure,
    classify_stream_error,
    parse_error,
    parse_error_body,
)
from toolyard.models.http.reader import DECODE_ERRORS, decode_payload
from toolyard.models.shared.json_values import encode_json

_CUT_SHORT = {"length": "length", "max_tokens": "length", "model_length": "length", "content_filter": "refused"}
_INTERRUPTED = ("error", "insufficient_system_resource", "aborted")


class ChatReply:
    """The reply of one turn, as far as it has arrived."""

    __slots__ = (
        "_calls",
        "_clock",
        "_counts",
        "_details",
        "_logprobs",
        "_provider",
        "_reasoning",
        "_reasoning_bytes",
        "_refused",
        "_requested_model",
        "_stop_sequence",
        "_text",
        "_text_bytes",
        "_turn",
        "finish_reason",
        "model",
    )

    def __init__(self, clock: Clock, turn: int, provider: str, requested_model: str = "") -> None:
        """`requested_model` is the name on the wire: signatures are kept with it (a reply may name another version)."""
        self._clock = clock
        self._turn = turn
        self._provider = provider
        self._requested_model = requested_model
        self._text: list[str] = []
        self._text_bytes = 0
        self._logprobs: list[str] = []
        self._reasoning: list[str] = []
        self._reasoning_bytes = 0
        self._details: list[Detail] = []
        self._calls = StreamedCalls(clock)
        self._counts: ChatUsage | None = None
        self._refused = False
        self._stop_sequence = ""
        self.finish_reason = ""
        self.model = ""

    @property
    def complete(self) -> bool:
        return bool(self.finish_reason)

    @property
    def hosted_call_began(self) -> bool:
        return False  # no provider tells of its own tools on this wire

    def read(self, payload: bytes, events: list[ModelDelta], *, cut: bool = False) -> bool:
        try:
            chunk = decode_chunk(payload)
        except DECODE_ERRORS:
            # Checked only here: `[DONE]` comes once, and every chunk would pay for the comparison.
            if payload.strip() == b"[DONE]":
                return True
            if not cut:
                self.add(decode_payload(payload, decode_chunk), events, damaged=True)
        else:
            self.add(chunk, events)
        return False

    def read_whole(self, body: bytes, events: list[ModelDelta]) -> None:
        chunk = decode_payload(body, decode_chunk)
        self.add(chunk, events)
        if not chunk.choices:
            raise build_failure(f"the response is not a chat completion: {parse_error_body(body)[0]}", "model_error")

    def add(self, chunk: ChatChunk, events: list[ModelDelta], *, damaged: bool = False) -> None:
        """Read a chunk and append its deltas to `events`."""
        if chunk.error or (chunk.message and not chunk.choices):
            raise _build_error(chunk)
        if chunk.usage is not None:
            self._counts = chunk.usage
        if chunk.model and not self.model:
            self.model = chunk.model
        for choice in chunk.choices or ():
            if not choice.index:
                self._add_choice(choice, events, damaged)

    def _add_choice(self, choice: ChatChoice, events: list[ModelDelta], damaged: bool) -> None:
        delta = choice.delta or choice.message
        if delta is not None:
            if thought := delta.reasoning_content or delta.reasoning:
                self._add_reasoning(thought, events)
            if delta.reasoning_details:
                self._details += parse_details(delta.reasoning_details)
            if delta.content:
                self._add_text(delta.content, events, choice.logprobs)
            if delta.refusal:
                self._refused = True
                self._add_text(delta.refusal, events)
            if delta.tool_calls:
                self._add_calls(delta.tool_calls, events, damaged)
        if choice.finish_reason and choice.finish_reason != "null":
            self.finish_reason = choice.finish_reason
            sequence = choice.stop_reason or choice.matched_stop
            self._stop_sequence = sequence if isinstance(sequence, str) else ""

    def _add_text(self, text: str, events: list[ModelDelta], logprobs: object = None) -> None:
        tokens = "" if logprobs is None else _encode_logprobs(logprobs)
        if tokens:
            self._logprobs.append(tokens)
        events.append(TextAppended(turn=self._turn, offset=self._text_bytes, text=text, logprobs=tokens))
        self._text.append(text)
        self._text_bytes += utf8_size(text)

    def _add_reasoning(self, text: str, events: list[ModelDelta]) -> None:
        events.append(ReasoningAppended(turn=self._turn, offset=self._reasoning_bytes, text=text))
        self._reasoning.append(text)
        self._reasoning_bytes += utf8_size(text)

    def _add_calls(self, deltas: list[CallDelta], events: list[ModelDelta], damaged: bool) -> None:
        for delta in deltas:
            call, text = self._calls.add(delta)
            if call is None:
                continue
            call.damaged = call.damaged or damaged
            if text:
                events.append(
                    ArgumentsAppended(
                        turn=self._turn,
                        call_id=call.id,
                        index=call.number,
                        tool=call.name,
                        offset=call.arguments_bytes,
                        text=text,
                    )
                )
                call.arguments_bytes += utf8_size(text)

    def build_turn(self) -> TurnEnded:
        """Return the whole turn, once the reply is complete."""
        if self.finish_reason in _INTERRUPTED:
            raise build_failure(f"the provider broke the reply off ({self.finish_reason})", "unavailable")
        clock, at = self._clock, self._clock.now()
        items: list[Item] = []
        signature = encode_signature(self._details, self._requested_model)
        if self._reasoning or signature:
            text = "".join(self._reasoning)
            reasoning = Reasoning(
                id=clock.new_id("reasoning"), at=at, text=text, provider=self._provider, signature=signature
            )
            items.append(reasoning)
        if self._text:
            text, logprobs = "".join(self._text), ",".join(self._logprobs)
            items.append(ModelText(id=clock.new_id("text"), at=at, text=text, logprobs=logprobs))
        calls = self._build_calls(at)
        finish = "calls" if calls else self._map_finish()
        return TurnEnded(
            items=(*items, *calls),
            finish=finish,
            usage=_build_usage(self._counts),
            model=self.model,
            stop_sequence=self._stop_sequence,
        )

    def _build_calls(self, at: float) -> list[Call]:
        cut_off = self.finish_reason in _CUT_SHORT
        parsed = [(call, call.parse_arguments(cut_off=cut_off)) for call in self._calls.all]
        return [
            Call(
                id=call.id,
                at=at,
                tool=call.name,
                arguments=arguments.value,
                provider_id=call.provider_id,
                unreadable=arguments.unreadable,
            )
            for call, arguments in parsed
        ]

    def _map_finish(self) -> Finish:
        if self._refused or _CUT_SHORT.get(self.finish_reason) == "refused":
            return "refused"
        return "length" if self.finish_reason in _CUT_SHORT else "stop"


def _encode_logprobs(logprobs: object) -> str:
    """Return the tokens of a chunk as `ModelText.logprobs` has them; empty if there are none."""
    content = logprobs.get("content") if is_object(logprobs) else None
    tokens = [token for token in content if is_object(token)] if is_list(content) else []
    return encode_json(tokens)[1:-1].decode()


def _build_error(chunk: ChatChunk) -> WireFailure:
    words, details = parse_error(chunk.error or chunk.message)
    return build_failure(f"the provider reports an error: {words}", classify_stream_error(details, words), **details)


def _build_usage(counts: ChatUsage | None) -> Usage:
    if counts is None:
        return Usage()
    details, written = counts.prompt_tokens_details, counts.completion_tokens_details
    cached = (details.cached_tokens if details else None) or counts.prompt_cache_hit_tokens
    written_to_cache = (details.cache_write_tokens or details.cache_creation_input_tokens) if details else None
    return Usage(
        input_tokens=int(counts.prompt_tokens or 0),
        output_tokens=int(counts.completion_tokens or 0),
        cached_tokens=int(cached or 0),
        cache_writes_5m=int(written_to_cache or 0),
        reasoning_tokens=int((written.reasoning_tokens if written else None) or 0),
    )
