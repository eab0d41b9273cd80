"""Reads the chunks of one generateContent reply into the events of one turn. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import Raw, ValidationError
from msgspec.structs import replace

from toolyard.core.conversation.events import (
    ArgumentsAppended,
    Finish,
    ModelDelta,
    ReasoningAppended,
    TextAppended,
    TurnEnded,
)
from toolyard.core.items import Call, Item, ModelText, Reasoning, Seal, Usage
from toolyard.core.ports import Clock
from toolyard.core.utf8 import utf8_size
from toolyard.models.gemini.hosted_tools import build_citations, build_hosted_call, build_search_call
from toolyard.models.gemini.wire_types import (
    NO_RAW,
    Candidate,
    GeminiChunk,
    GeminiFunctionCall,
    GeminiPart,
    Grounding,
    decode_chunk,
    decode_usage,
)
from toolyard.models.http.problems import (
    REFUSAL_TEXT,
    build_failure,
    classify_stream_error,
    parse_error,
    parse_error_body,
)
from toolyard.models.http.reader import DECODE_ERRORS, decode_payload
from toolyard.models.shared.arguments import Arguments, read_arguments
from toolyard.models.shared.hosted_tools import count_hosted_calls
from toolyard.models.shared.json_values import encode_json
from toolyard.models.shared.tool_names import GEMINI_ALPHABET, from_provider_name

_CHARGED_BY_QUERY = re.compile(r"gemini-(?:[3-9]|\d\d)")
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
_INTERRUPTED = {"UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE"}
_MALFORMED = "MALFORMED_FUNCTION_CALL"


@dataclass(slots=True)
class _TextRun:
    """Consecutive pieces of text, or of thoughts."""

    thought: bool
    pieces: list[str] = field(default_factory=list[str])
    signature: str = ""


@dataclass(slots=True)
class _HostedRun:
    """A call that Google ran itself, and its result."""

    call_part: GeminiPart
    result_part: GeminiPart | None = None


@dataclass(slots=True)
class _ToolRequest:
    """A call for Toolyard to run. It arrives whole, in one part."""

    id: str
    tool: str
    provider_id: str
    arguments: Arguments
    signature: str


class GeminiReply:
    """The reply of one turn, as far as it has arrived."""

    __slots__ = (
        "_calls",
        "_clock",
        "_counts",
        "_grounding",
        "_names",
        "_open_run",
        "_order",
        "_provider",
        "_reasoning_bytes",
        "_sealed_by",
        "_text_bytes",
        "_turn",
        "finish_message",
        "finish_reason",
        "model",
    )

    def __init__(self, clock: Clock, turn: int, provider: str, sealed_by: str, names: list[str]) -> None:
        """`names` are the tools on offer; `sealed_by` is the provider and model that signatures go back to."""
        self._clock = clock
        self._turn = turn
        self._provider = provider
        self._sealed_by = sealed_by
        self._names = names
        self._order: list[_TextRun | _HostedRun] = []
        self._open_run: _TextRun | None = None
        """The last run of `_order`, if further text may join it."""
        self._calls: list[_ToolRequest] = []
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

    @property
    def hosted_call_began(self) -> bool:
        return any(isinstance(run, _HostedRun) for run in self._order)

    def read(self, payload: bytes, events: list[ModelDelta], *, cut: bool = False) -> bool:
        try:
            chunk = decode_chunk(payload)
        except DECODE_ERRORS:
            if not cut and payload.strip() != b"[DONE]":
                self.add(decode_payload(payload, decode_chunk), events, damaged=True)
        else:
            self.add(chunk, events)
        return False

    def read_whole(self, body: bytes, events: list[ModelDelta]) -> None:
        chunk = decode_payload(body, decode_chunk)
        self.add(chunk, events)
        if not chunk.candidates:
            raise build_failure(f"the response is not generated content: {parse_error_body(body)[0]}", "model_error")

    def add(self, chunk: GeminiChunk, events: list[ModelDelta], *, damaged: bool = False) -> None:
        """Read a chunk and append its deltas to `events`."""
        if chunk.error:
            words, details = parse_error(chunk.error)
            raise build_failure(
                f"the provider reports an error: {words}", classify_stream_error(details, words), **details
            )
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
                    self._add_hosted_part(part)
        if candidate.grounding_metadata is not None:
            self._grounding = candidate.grounding_metadata
        if candidate.finish_reason:
            self.finish_reason = candidate.finish_reason
            self.finish_message = candidate.finish_message or ""
            if self.finish_reason in _REFUSED and not self._text_bytes and not self._calls:
                self._add_refusal(self.finish_reason, self.finish_message, events)

    def _add_refusal(self, reason: str, message: str | None, events: list[ModelDelta]) -> None:
        """Add a text that says why the provider refused, so that a reply without a word is still an answer."""
        self._add_text(f"{REFUSAL_TEXT} ({reason}: {message})" if message else f"{REFUSAL_TEXT} ({reason})", events)

    def _add_text(
        self, text: str, events: list[ModelDelta], thought: bool = False, signature: str | None = None
    ) -> None:
        run = self._open_run
        if run is None or run.thought is not thought:
            run = self._open_run = _TextRun(thought)
            self._order.append(run)
        # A signature may arrive after the text that it signs, in a part with an empty text.
        if signature:
            run.signature = signature
        if not text:
            return
        run.pieces.append(text)
        size = utf8_size(text)
        if thought:
            events.append(ReasoningAppended(turn=self._turn, offset=self._reasoning_bytes, text=text))
            self._reasoning_bytes += size
        else:
            events.append(TextAppended(turn=self._turn, offset=self._text_bytes, text=text))
            self._text_bytes += size

    def _add_call(self, call: GeminiFunctionCall, signature: str, events: list[ModelDelta], damaged: bool) -> None:
        tool = from_provider_name(call.name or "", self._names, GEMINI_ALPHABET)
        text = encode_json(call.args or {}).decode()
        call_id = self._clock.new_id("call")
        events.append(
            ArgumentsAppended(turn=self._turn, call_id=call_id, index=len(self._calls), tool=tool, offset=0, text=text)
        )
        arguments = read_arguments([text], damaged=damaged)
        if call.will_continue:
            arguments = Arguments({}, "the arguments were cut off")
        self._calls.append(_ToolRequest(call_id, tool, call.id or "", arguments, signature))

    def _add_hosted_part(self, part: GeminiPart) -> None:
        if part.executable_code is not None or part.tool_call is not None:
            self._order.append(_HostedRun(part))
            self._open_run = None
        elif part.code_execution_result is not None or part.tool_response is not None:
            unanswered = [run for run in self._order if isinstance(run, _HostedRun) and run.result_part is None]
            if unanswered:
                _find_matching_run(part, unanswered).result_part = part

    def build_turn(self) -> TurnEnded:
        """Return the whole turn, once the reply is complete."""
        if self.finish_reason in _INTERRUPTED:
            reason = f"the provider broke the reply off ({self.finish_reason})"
            message = f"{reason}: {self.finish_message}" if self.finish_message else reason
            raise build_failure(message, "model_error", finish_reason=self.finish_reason)
        clock, at = self._clock, self._clock.now()
        items = self._build_items(clock, at)
        # Google drops a call that it cannot parse. An unreadable call in its place lets the model see what was wrong.
        if self.finish_reason == _MALFORMED:
            why = f"the provider could not read the call that the model wrote: {self.finish_message}"
            self._calls.append(_ToolRequest(clock.new_id("call"), "", "", Arguments({}, why[:300]), ""))
        calls = [self._build_call(request, at) for request in self._calls]
        finish = "calls" if calls else self._map_finish()
        usage = _build_usage(self._counts, self._count_uses(items))
        return TurnEnded(items=(*items, *calls), finish=finish, usage=usage, model=self.model)

    def _count_uses(self, items: Sequence[Item]) -> dict[str, int]:
        """Return the uses of Google's tools that it charges for: searches.

        A request that searches is charged once up to Gemini 2.5, and each of its queries from Gemini 3 on.
        """
        searches = count_hosted_calls(items).get("web_search", 0)
        if searches and _CHARGED_BY_QUERY.search(self.model):
            queries = len(self._grounding.web_search_queries or ()) if self._grounding else 0
            return {"web_search": max(searches, queries)}
        return {"web_search": 1} if searches else {}

    def _build_items(self, clock: Clock, at: float) -> list[Item]:
        items: list[Item] = []
        for run in self._order:
            if isinstance(run, _HostedRun):
                items += build_hosted_call(run.call_part, run.result_part, self._provider, self._sealed_by, clock, at)
            elif text := "".join(run.pieces):
                items.append(self._build_text(run, text, clock, at))
        grounding = self._grounding
        if grounding is None:
            return items
        items = [
            replace(item, citations=build_citations(item, grounding)) if isinstance(item, ModelText) else item
            for item in items
        ]
        if any(isinstance(item, Call) and item.tool == "web_search" for item in items):
            return items
        first = next((n for n, item in enumerate(items) if not isinstance(item, Reasoning)), len(items))
        return [*items[:first], *build_search_call(grounding, self._provider, clock, at), *items[first:]]

    def _build_text(self, run: _TextRun, text: str, clock: Clock, at: float) -> Item:
        if run.thought:
            return Reasoning(id=clock.new_id("reasoning"), at=at, text=text, provider=self._provider)
        return ModelText(id=clock.new_id("text"), at=at, text=text, seal=self._build_seal(run.signature))

    def _build_call(self, request: _ToolRequest, at: float) -> Call:
        return Call(
            id=request.id,
            at=at,
            tool=request.tool,
            arguments=request.arguments.value,
            provider_id=request.provider_id,
            unreadable=request.arguments.unreadable,
            seal=self._build_seal(request.signature),
        )

    def _build_seal(self, signature: str) -> Seal | None:
        return Seal(provider=self._sealed_by, data=signature) if signature else None

    def _map_finish(self) -> Finish:
        if self.finish_reason in _REFUSED:
            return "refused"
        return "length" if self.finish_reason == "MAX_TOKENS" else "stop"


def _find_matching_run(part: GeminiPart, unanswered: list[_HostedRun]) -> _HostedRun:
    """Return the call that a result part belongs to: by id where there is one, else the last without a result."""
    result = part.tool_response or part.code_execution_result
    result_id = result.id if result else None
    for run in unanswered:
        call = run.call_part.tool_call or run.call_part.executable_code
        if result_id and call and call.id == result_id:
            return run
    return unanswered[-1]


def _build_usage(encoded: Raw, tool_uses: dict[str, int]) -> Usage:
    try:
        counts = decode_usage(encoded) if encoded else None
    except ValidationError:
        counts = None
    if counts is None:
        return Usage(tool_uses=tool_uses)
    return Usage(
        input_tokens=int((counts.prompt_token_count or 0) + (counts.tool_use_prompt_token_count or 0)),
        output_tokens=int((counts.candidates_token_count or 0) + (counts.thoughts_token_count or 0)),
        cached_tokens=int(counts.cached_content_token_count or 0),
        reasoning_tokens=int(counts.thoughts_token_count or 0),
        tool_uses=tool_uses,
    )
