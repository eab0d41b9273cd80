"""The bytes of one Chat Completions reply → the events of one turn. Pure: it does not know sockets or deadlines."""

import contextlib

import msgspec

from toolyard.core.events import (
    ArgumentsAppended,
    Finish,
    ModelDelta,
    ReasoningAppended,
    TextAppended,
    TurnEnded,
    TurnFailed,
)
from toolyard.core.items import Call, Item, ModelText, Problem, Reasoning, Usage
from toolyard.core.ports import Mint
from toolyard.models._chat_calls import Calls
from toolyard.models._chat_chunks import CallDelta, Choice, Chunk, UsageCounts, decode_chunk
from toolyard.models._problems import WireFailure, error_type_in_stream, failure, words_in, words_of
from toolyard.models._sse import MAX_EVENT_BYTES, Events, TooLong
from toolyard.models._unicode import mended

MAX_REPLY_BYTES = 256 * 1024 * 1024
SHOWN_BYTES = 1_000
_NO_STREAM = (b"{", b"<")
_CUT_SHORT = {"length": "length", "max_tokens": "length", "model_length": "length", "content_filter": "refused"}
_INTERRUPTED = ("error", "insufficient_system_resource", "aborted")


class Reply:
    """What the model has said so far in one turn. It knows chunks, not bytes."""

    __slots__ = (
        "_calls",
        "_counts",
        "_provider",
        "_reasoning",
        "_reasoning_bytes",
        "_refused",
        "_text",
        "_text_bytes",
        "_turn",
        "finish_reason",
        "model",
    )

    def __init__(self, turn: int, provider: str) -> None:
        self._turn = turn
        self._provider = provider
        self._text: list[str] = []
        self._text_bytes = 0
        self._reasoning: list[str] = []
        self._reasoning_bytes = 0
        self._calls = Calls()
        self._counts: UsageCounts | None = None
        self._refused = False
        self.finish_reason = ""
        self.model = ""

    def add(self, chunk: Chunk, events: list[ModelDelta], *, damaged: bool = False) -> None:
        """Take a chunk in; the events that it makes are appended to `events`."""
        if chunk.error or (chunk.message and not chunk.choices):
            raise _said_by_provider(chunk)
        if chunk.usage is not None:
            self._counts = chunk.usage
        if chunk.model and not self.model:
            self.model = chunk.model
        for choice in chunk.choices or ():
            if not choice.index:
                self._add_choice(choice, events, damaged)

    def _add_choice(self, choice: Choice, events: list[ModelDelta], damaged: bool) -> None:
        delta = choice.delta or choice.message
        if delta is not None:
            if thought := delta.reasoning_content or delta.reasoning:
                self._add_reasoning(thought, events)
            if delta.content:
                self._add_text(delta.content, events)
            if delta.refusal:
                self._refused = True
                self._add_text(delta.refusal, events)
            if delta.tool_calls:
                self._add_calls(delta.tool_calls, events, damaged)
        if choice.finish_reason and choice.finish_reason != "null":
            self.finish_reason = choice.finish_reason

    def _add_text(self, text: str, events: list[ModelDelta]) -> None:
        events.append(TextAppended(turn=self._turn, offset=self._text_bytes, text=text))
        self._text.append(text)
        self._text_bytes += len(text) if text.isascii() else len(text.encode())

    def _add_reasoning(self, text: str, events: list[ModelDelta]) -> None:
        events.append(ReasoningAppended(turn=self._turn, offset=self._reasoning_bytes, text=text))
        self._reasoning.append(text)
        self._reasoning_bytes += len(text) if text.isascii() else len(text.encode())

    def _add_calls(self, deltas: list[CallDelta], events: list[ModelDelta], damaged: bool) -> None:
        for delta in deltas:
            call, text = self._calls.add(delta)
            if call is None:
                continue
            call.damaged = call.damaged or damaged
            if text:
                events.append(
                    ArgumentsAppended(
                        turn=self._turn, index=call.number, tool=call.name, offset=call.arguments_bytes, text=text
                    )
                )
                call.arguments_bytes += len(text) if text.isascii() else len(text.encode())

    def ended(self, mint: Mint) -> TurnEnded:
        """The whole turn, once the provider has said that it is over."""
        if self.finish_reason in _INTERRUPTED:
            raise failure(f"the provider broke the reply off ({self.finish_reason})", "unavailable")
        at = mint.now()
        items: list[Item] = []
        if self._reasoning:
            thought = "".join(self._reasoning)
            items.append(Reasoning(id=mint.id("reasoning"), at=at, text=thought, provider=self._provider))
        if self._text:
            items.append(ModelText(id=mint.id("text"), at=at, text="".join(self._text)))
        calls = self._ended_calls(mint, at)
        finish = "calls" if calls else self._finish()
        return TurnEnded(items=(*items, *calls), finish=finish, usage=_usage(self._counts), model=self.model)

    def _ended_calls(self, mint: Mint, at: float) -> list[Call]:
        cut_off = self.finish_reason in _CUT_SHORT
        read = [(call, call.read(cut_off=cut_off)) for call in self._calls.all]
        return [
            Call(
                id=mint.id("call"),
                at=at,
                tool=call.name,
                arguments=arguments.value,
                provider_id=call.provider_id,
                unreadable=arguments.unreadable,
            )
            for call, arguments in read
        ]

    def _finish(self) -> Finish:
        if self._refused or _CUT_SHORT.get(self.finish_reason) == "refused":
            return "refused"
        return "length" if self.finish_reason in _CUT_SHORT else "stop"


class ReplyReader:
    """Bytes in, events out, whatever packets they come in. Nothing is raised: the last event tells the failure."""

    __slots__ = ("_bytes", "_events", "_failure", "_head", "_heard", "_mint", "_reply", "_whole", "done")

    def __init__(self, turn: int, mint: Mint, provider: str) -> None:
        self._reply = Reply(turn, provider)
        self._mint = mint
        self._events: Events | None = None
        self._whole: list[bytes] = []
        """The body, as long as it may be one JSON object instead of a stream."""
        self._head = b""
        self._heard = False
        """An event came; if none did, the head of the body is all there is to tell."""
        self._failure: Problem | None = None
        self._bytes = 0
        self.done = False
        """Nothing more needs to be read."""

    @property
    def failed(self) -> bool:
        return self._failure is not None

    def feed(self, packet: bytes) -> list[ModelDelta]:
        """The deltas in the next bytes of the body."""
        events: list[ModelDelta] = []
        self._bytes += len(packet)
        try:
            if self._bytes > MAX_REPLY_BYTES:
                raise failure(f"the reply is longer than {MAX_REPLY_BYTES:,} bytes", "model_error")
            if self._events is None:
                packet = self._begin(packet)
            if self._events is not None:
                if not self._heard and len(self._head) < SHOWN_BYTES:
                    self._head += packet
                self._read(self._events.feed(packet), events)
        except WireFailure as error:
            self._fail(error.problem)
        except TooLong as error:
            self._fail(Problem(error=str(error), error_type="model_error"))
        return events

    def end(self, problem: Problem | None = None) -> list[ModelDelta | TurnEnded | TurnFailed]:
        """The last events. `problem` is what ended the reading, unless the body simply ended."""
        events: list[ModelDelta] = []
        try:
            if not self.done and problem is None:
                self._read_rest(events)
            if self._failure is not None:
                raise WireFailure(self._failure)
            if not self.done and not self._reply.finish_reason:
                raise WireFailure(problem or self._broken_off())
            return [*events, self._reply.ended(self._mint)]
        except WireFailure as error:
            return [*events, TurnFailed(problem=error.problem)]

    def _begin(self, packet: bytes) -> bytes:
        """Decide by the first byte what the body is: servers mislabel it, and some ignore that a stream was asked."""
        self._whole.append(packet)
        if self._bytes > MAX_EVENT_BYTES:
            raise failure(f"the reply is longer than {MAX_EVENT_BYTES:,} bytes and no stream", "model_error")
        if len(self._whole) > 1 and self._whole[0].lstrip().startswith(_NO_STREAM):
            return b""
        body = b"".join(self._whole)
        if not body.strip() or body.lstrip().startswith(_NO_STREAM):
            self._whole = [body]
            return b""
        self._whole = []
        self._events = Events()
        return body

    def _read_rest(self, events: list[ModelDelta]) -> None:
        if self._events is not None:
            for payload in self._events.end():
                self._read_last(payload, events)
        elif body := b"".join(self._whole).strip():
            if body.startswith(b"<"):
                raise failure(f"the answer is a page, not a reply: {_shown(body)}", "model_error")
            chunk = _decoded(body)
            self._reply.add(chunk, events)
            if not chunk.choices:
                raise failure(f"the answer is no chat completion: {words_of(body)[0]}", "model_error")
            self.done = True

    def _read_last(self, payload: bytes, events: list[ModelDelta]) -> None:
        """An event that the stream ended in: one that was cut through says nothing."""
        if payload.strip() == b"[DONE]":
            self.done = True
            return
        with contextlib.suppress(msgspec.DecodeError, UnicodeError, RecursionError):
            self._reply.add(decode_chunk(payload), events)

    def _read(self, payloads: list[bytes], events: list[ModelDelta]) -> None:
        for payload in payloads:
            self._heard = True
            try:
                chunk = decode_chunk(payload)
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                if payload.strip() == b"[DONE]":
                    self.done = True
                    return
                self._reply.add(_decoded(payload), events, damaged=True)
            else:
                self._reply.add(chunk, events)

    def _fail(self, problem: Problem) -> None:
        self._failure = problem
        self.done = True

    def _broken_off(self) -> Problem:
        if self._heard:
            said = "the stream broke off before the reply was complete"
        else:
            said = f"the answer holds no reply: {_shown(self._head)}" if self._head else "the answer is empty"
        return Problem(error=said, error_type="unavailable")


def _decoded(payload: bytes) -> Chunk:
    """The chunk in a payload, with broken characters mended if that is all that is wrong with it."""
    try:
        return decode_chunk(mended(payload))
    except msgspec.ValidationError as error:
        raise failure(
            f"the provider sent a chunk that cannot be read ({error}): {_shown(payload)}", "model_error"
        ) from None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise failure(f"the provider sent something that is not JSON: {_shown(payload)}", "model_error") from None


def _said_by_provider(chunk: Chunk) -> WireFailure:
    words, details = words_in(chunk.error or chunk.message)
    return failure(f"the provider reports an error: {words}", error_type_in_stream(details), **details)


def _usage(counts: UsageCounts | None) -> Usage:
    if counts is None:
        return Usage()
    details = counts.prompt_tokens_details
    cached = (details.cached_tokens if details else None) or counts.prompt_cache_hit_tokens
    return Usage(
        input_tokens=int(counts.prompt_tokens or 0),
        output_tokens=int(counts.completion_tokens or 0),
        cached_tokens=int(cached or 0),
    )


def _shown(body: bytes) -> str:
    return body[:SHOWN_BYTES].decode("utf-8", "replace")
