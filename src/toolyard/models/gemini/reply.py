"""The chunks of one generateContent reply → the events of one turn. It knows what they say, not how they travel."""

from dataclasses import dataclass, field

from msgspec import Raw, ValidationError
from msgspec.structs import replace

from toolyard.core.events import ArgumentsAppended, Finish, ModelDelta, ReasoningAppended, TextAppended, TurnEnded
from toolyard.core.items import Call, Item, ModelText, Reasoning, Seal, Usage
from toolyard.core.ports import Mint
from toolyard.models.arguments import Arguments, read_arguments
from toolyard.models.gemini.chunks import (
    NO_RAW,
    Candidate,
    Chunk,
    FunctionCall,
    Grounding,
    Part,
    decode_chunk,
    decode_usage,
)
from toolyard.models.gemini.hosted_tools import cited, ran, searched
from toolyard.models.http.problems import REFUSED, error_type_in_stream, failure, words_in, words_of
from toolyard.models.http.reader import UNREADABLE, decoded
from toolyard.models.tool_names import GEMINI, from_provider
from toolyard.models.unicode import encoded

_REFUSED = {
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
}
_BROKEN_OFF = {"UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE"}
_MALFORMED = "MALFORMED_FUNCTION_CALL"


@dataclass(slots=True)
class _Said:
    """Text, or thoughts, that came in a row."""

    thought: bool
    pieces: list[str] = field(default_factory=list[str])
    signature: str = ""


@dataclass(slots=True)
class _Ran:
    """What Google ran itself."""

    asked: Part
    answered: Part | None = None


@dataclass(slots=True)
class _Asked:
    """A call that is ours to run. It comes whole, in one piece."""

    tool: str
    provider_id: str
    arguments: Arguments
    signature: str


class GeminiReply:
    """What the model has said so far in one turn."""

    __slots__ = (
        "_calls",
        "_counts",
        "_grounding",
        "_names",
        "_order",
        "_provider",
        "_reasoning_bytes",
        "_saying",
        "_sealed_by",
        "_text_bytes",
        "_turn",
        "finish_message",
        "finish_reason",
        "model",
    )

    def __init__(self, turn: int, provider: str, sealed_by: str, names: list[str]) -> None:
        """`names` are the tools on offer; `sealed_by` is who can read what must be sent back."""
        self._turn = turn
        self._provider = provider
        self._sealed_by = sealed_by
        self._names = names
        self._order: list[_Said | _Ran] = []
        self._saying: _Said | None = None
        """The last of them, if it can go on."""
        self._calls: list[_Asked] = []
        self._text_bytes = 0
        self._reasoning_bytes = 0
        self._counts = NO_RAW
        self._grounding: Grounding | None = None
        self.finish_reason = ""
        self.finish_message = ""
        self.model = ""

    @property
    def complete(self) -> bool:
        return bool(self.finish_reason)

    def read(self, payload: bytes, events: list[ModelDelta], *, cut: bool = False) -> bool:
        try:
            chunk = decode_chunk(payload)
        except UNREADABLE:
            if not cut and payload.strip() != b"[DONE]":
                self.add(decoded(payload, decode_chunk), events, damaged=True)
        else:
            self.add(chunk, events)
        return False

    def read_whole(self, body: bytes, events: list[ModelDelta]) -> None:
        chunk = decoded(body, decode_chunk)
        self.add(chunk, events)
        if not chunk.candidates:
            raise failure(f"the answer is no generated content: {words_of(body)[0]}", "model_error")

    def add(self, chunk: Chunk, events: list[ModelDelta], *, damaged: bool = False) -> None:
        """Take a chunk in; the events that it makes are appended to `events`."""
        if chunk.error:
            words, details = words_in(chunk.error)
            raise failure(f"the provider reports an error: {words}", error_type_in_stream(details), **details)
        self._counts = chunk.usage_metadata or self._counts
        if not self.model:
            self.model = chunk.model_version or ""
        for candidate in chunk.candidates or ():
            if not candidate.index:
                self._add_candidate(candidate, events, damaged)
        feedback = chunk.prompt_feedback
        if feedback is not None and feedback.block_reason:
            self.finish_reason = "SAFETY"
            self._add_refusal(feedback.block_reason, feedback.block_reason_message, events)

    def _add_candidate(self, candidate: Candidate, events: list[ModelDelta], damaged: bool) -> None:
        if candidate.content is not None:
            for part in candidate.content.parts or ():
                if part.text is not None:
                    self._add_text(part.text, events, bool(part.thought), part.thought_signature)
                elif part.function_call is not None:
                    self._add_call(part.function_call, part.thought_signature or "", events, damaged)
                else:
                    self._add_ran(part)
        if candidate.grounding_metadata is not None:
            self._grounding = candidate.grounding_metadata
        if candidate.finish_reason:
            self.finish_reason = candidate.finish_reason
            self.finish_message = candidate.finish_message or ""
            if self.finish_reason in _REFUSED and not self._text_bytes and not self._calls:
                self._add_refusal(self.finish_reason, self.finish_message, events)

    def _add_refusal(self, reason: str, message: str | None, events: list[ModelDelta]) -> None:
        """What was stopped before its first word is still an answer: one that says why there is none."""
        self._add_text(f"{REFUSED} ({reason}: {message})" if message else f"{REFUSED} ({reason})", events)

    def _add_text(
        self, text: str, events: list[ModelDelta], thought: bool = False, signature: str | None = None
    ) -> None:
        said = self._saying
        if said is None or said.thought is not thought:
            said = self._saying = _Said(thought)
            self._order.append(said)
        if signature:
            said.signature = signature
        if not text:
            return
        said.pieces.append(text)
        size = len(text) if text.isascii() else len(text.encode())
        if thought:
            events.append(ReasoningAppended(turn=self._turn, offset=self._reasoning_bytes, text=text))
            self._reasoning_bytes += size
        else:
            events.append(TextAppended(turn=self._turn, offset=self._text_bytes, text=text))
            self._text_bytes += size

    def _add_call(self, call: FunctionCall, signature: str, events: list[ModelDelta], damaged: bool) -> None:
        tool = from_provider(call.name or "", self._names, GEMINI)
        text = encoded(call.args or {}).decode()
        events.append(ArgumentsAppended(turn=self._turn, index=len(self._calls), tool=tool, offset=0, text=text))
        arguments = read_arguments([text], damaged=damaged)
        if call.will_continue:
            arguments = Arguments({}, "the arguments were cut off")
        self._calls.append(_Asked(tool, call.id or "", arguments, signature))

    def _add_ran(self, part: Part) -> None:
        if part.executable_code is not None or part.tool_call is not None:
            self._order.append(_Ran(part))
            self._saying = None
        elif part.code_execution_result is not None or part.tool_response is not None:
            waiting = [one for one in self._order if isinstance(one, _Ran) and one.answered is None]
            if waiting:
                _fitting(part, waiting).answered = part

    def ended(self, mint: Mint) -> TurnEnded:
        """The whole turn, once the provider has said that it is over."""
        if self.finish_reason in _BROKEN_OFF:
            said = f"the provider broke the reply off ({self.finish_reason})"
            words = f"{said}: {self.finish_message}" if self.finish_message else said
            raise failure(words, "model_error", finish_reason=self.finish_reason)
        at = mint.now()
        items = self._items(mint, at)
        if self.finish_reason == _MALFORMED:
            why = f"the provider could not read the call that the model wrote: {self.finish_message}"
            self._calls.append(_Asked("", "", Arguments({}, why[:300]), ""))
        calls = [self._ended_call(one, mint, at) for one in self._calls]
        finish = "calls" if calls else self._finish()
        return TurnEnded(items=(*items, *calls), finish=finish, usage=_usage(self._counts), model=self.model)

    def _items(self, mint: Mint, at: float) -> list[Item]:
        items: list[Item] = []
        for one in self._order:
            if isinstance(one, _Ran):
                items += ran(one.asked, one.answered, self._provider, self._sealed_by, mint, at)
            elif text := "".join(one.pieces):
                items.append(self._ended_text(one, text, mint, at))
        grounding = self._grounding
        if grounding is None:
            return items
        items = [
            replace(item, citations=cited(item, grounding)) if isinstance(item, ModelText) else item for item in items
        ]
        if any(isinstance(item, Call) and item.tool == "web_search" for item in items):
            return items
        first = next((n for n, item in enumerate(items) if not isinstance(item, Reasoning)), len(items))
        return [*items[:first], *searched(grounding, self._provider, mint, at), *items[first:]]

    def _ended_text(self, said: _Said, text: str, mint: Mint, at: float) -> Item:
        if said.thought:
            return Reasoning(id=mint.id("reasoning"), at=at, text=text, provider=self._provider)
        return ModelText(id=mint.id("text"), at=at, text=text, seal=self._seal(said.signature))

    def _ended_call(self, asked: _Asked, mint: Mint, at: float) -> Call:
        return Call(
            id=mint.id("call"),
            at=at,
            tool=asked.tool,
            arguments=asked.arguments.value,
            provider_id=asked.provider_id,
            unreadable=asked.arguments.unreadable,
            seal=self._seal(asked.signature),
        )

    def _seal(self, signature: str) -> Seal | None:
        return Seal(provider=self._sealed_by, data=signature) if signature else None

    def _finish(self) -> Finish:
        if self.finish_reason in _REFUSED:
            return "refused"
        return "length" if self.finish_reason == "MAX_TOKENS" else "stop"


def _fitting(part: Part, waiting: list[_Ran]) -> _Ran:
    """What a result is the result of: by id where there is one, else the last that has none."""
    told = part.tool_response or part.code_execution_result
    wanted = told.id if told else None
    for one in waiting:
        asked = one.asked.tool_call or one.asked.executable_code
        if wanted and asked and asked.id == wanted:
            return one
    return waiting[-1]


def _usage(written: Raw) -> Usage:
    try:
        counts = decode_usage(written) if written else None
    except ValidationError:
        counts = None
    if counts is None:
        return Usage()
    return Usage(
        input_tokens=int((counts.prompt_token_count or 0) + (counts.tool_use_prompt_token_count or 0)),
        output_tokens=int((counts.candidates_token_count or 0) + (counts.thoughts_token_count or 0)),
        cached_tokens=int(counts.cached_content_token_count or 0),
    )
