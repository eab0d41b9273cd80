"""Reads the events of one Responses reply into the events of one turn. Pure.

A call counts once the provider has marked it as complete; a call that the reply was cut off in never runs.
"""

from collections.abc import Callable, Iterable

import msgspec

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
from toolyard.models.http.problems import (
    REFUSAL_TEXT,
    WireFailure,
    build_failure,
    classify_stream_error,
    parse_error,
    parse_error_body,
)
from toolyard.models.http.reader import DECODE_ERRORS, decode_payload
from toolyard.models.responses.hosted_tools import HOSTED_CALL_TYPES, build_citations, build_hosted_call
from toolyard.models.responses.request import ResponsesTools, encode_reasoning
from toolyard.models.responses.wire_types import (
    OutputItem,
    Response,
    ResponsesEvent,
    ResponsesUsage,
    decode_event,
    decode_response,
    decode_type,
)
from toolyard.models.schema_dialects import remove_forced_nulls
from toolyard.models.shared.arguments import Arguments, CallInProgress
from toolyard.models.shared.hosted_tools import count_hosted_calls
from toolyard.models.shared.tool_names import from_provider_name

_CUT_SHORT: dict[str, Finish] = {"max_output_tokens": "length", "content_filter": "refused"}


class ResponsesReply:
    """The reply of one turn, as far as it has arrived, by the output index of each item."""

    __slots__ = (
        "_calls",
        "_clock",
        "_done",
        "_items",
        "_model",
        "_provider",
        "_reasoning_bytes",
        "_refused",
        "_response",
        "_text_bytes",
        "_texts",
        "_thoughts",
        "_tools",
        "_turn",
        "_whole",
    )

    def __init__(self, clock: Clock, turn: int, provider: str, model: str, tools: ResponsesTools) -> None:
        """`tools` are those on offer; `model` is the name on the wire."""
        self._clock = clock
        self._turn = turn
        self._provider = provider
        self._model = model
        self._tools = tools
        self._items: dict[int, OutputItem] = {}
        self._done: set[int] = set()
        self._texts: dict[int, list[str]] = {}
        self._text_bytes = 0
        self._thoughts: dict[int, list[str]] = {}
        self._reasoning_bytes = 0
        self._calls: dict[int, CallInProgress] = {}
        self._whole: set[int] = set()
        """The calls whose arguments the provider has marked as complete."""
        self._refused = False
        self._response: Response | None = None

    @property
    def complete(self) -> bool:
        return self._response is not None

    @property
    def hosted_call_began(self) -> bool:
        return any(item.type in HOSTED_CALL_TYPES for item in self._items.values())

    def read(self, payload: bytes, events: list[ModelDelta], *, cut: bool = False) -> bool:
        damaged = False
        try:
            event = decode_event(payload)
        except DECODE_ERRORS:
            if cut or _is_ignored(payload):
                return False
            event, damaged = decode_payload(payload, decode_event), True
        handle = _HANDLERS.get(event.type)
        if handle is not None:
            handle(self, event, events)
            if damaged and event.output_index in self._calls:
                self._calls[event.output_index].damaged = True
        elif not event.type and (event.error or event.message):
            raise _build_error(event.error or event.message)
        return self._response is not None

    def read_whole(self, body: bytes, events: list[ModelDelta]) -> None:
        response = decode_payload(body, decode_response)
        if response.object != "response":
            raise build_failure(f"the answer is not a response: {parse_error_body(body)[0]}", "model_error")
        self.end_response(ResponsesEvent(response=response), events)

    def add_text(self, event: ResponsesEvent, events: list[ModelDelta]) -> None:
        text = event.delta
        if text:
            events.append(TextAppended(turn=self._turn, offset=self._text_bytes, text=text))
            self._texts.setdefault(event.output_index, []).append(text)
            self._text_bytes += utf8_size(text)

    def add_refusal(self, event: ResponsesEvent, events: list[ModelDelta]) -> None:
        self._refused = True
        self.add_text(event, events)

    def add_reasoning(self, event: ResponsesEvent, events: list[ModelDelta]) -> None:
        text = event.delta
        if text:
            events.append(ReasoningAppended(turn=self._turn, offset=self._reasoning_bytes, text=text))
            self._thoughts.setdefault(event.output_index, []).append(text)
            self._reasoning_bytes += utf8_size(text)

    def start_reasoning_part(self, event: ResponsesEvent, events: list[ModelDelta]) -> None:
        """Begin the next part of a summary as a new paragraph."""
        if self._thoughts.get(event.output_index):
            self.add_reasoning(ResponsesEvent(output_index=event.output_index, delta="\n\n"), events)

    def add_arguments(self, event: ResponsesEvent, events: list[ModelDelta]) -> None:
        text = event.delta
        if text:
            call = self._get_call(event.output_index)
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
            call.fragments.append(text)
            call.arguments_bytes += utf8_size(text)

    def finish_arguments(self, event: ResponsesEvent, events: list[ModelDelta]) -> None:
        """Replace the streamed arguments by the complete ones, which are authoritative."""
        call = self._get_call(event.output_index)
        if not call.fragments:
            self.add_arguments(ResponsesEvent(output_index=event.output_index, delta=event.arguments), events)
        elif event.arguments is not None:
            call.fragments = [event.arguments]
        self._whole.add(event.output_index)

    def _get_call(self, index: int) -> CallInProgress:
        call = self._calls.get(index)
        if call is None:
            call = self._calls[index] = CallInProgress(len(self._calls), self._clock.new_id("call"))
        return call

    def start_item(self, event: ResponsesEvent, events: list[ModelDelta]) -> None:
        item = event.item
        if item is not None:
            self._items[event.output_index] = item
            if item.type == "function_call":
                call = self._get_call(event.output_index)
                call.name = from_provider_name(item.name or "", self._tools.names)
                call.provider_id = item.call_id or ""

    def finish_item(self, event: ResponsesEvent, events: list[ModelDelta]) -> None:
        """Read the final form of an item and emit what was not streamed of it."""
        item, index = event.item, event.output_index
        if item is None:
            return
        self.start_item(event, events)
        self._done.add(index)
        if item.type == "function_call" and item.status != "incomplete":
            self.finish_arguments(ResponsesEvent(output_index=index, arguments=item.arguments), events)
        elif item.type == "function_call":  # incomplete: the reply was cut off in its arguments
            self._whole.discard(index)
        elif item.type == "message" and index not in self._texts:
            for part in item.content or ():
                self._refused = self._refused or bool(part.refusal)
                self.add_text(ResponsesEvent(output_index=index, delta=part.text or part.refusal), events)
        elif item.type == "reasoning" and index not in self._thoughts:
            summary = "\n\n".join(part.text for part in item.summary or () if part.text)
            self.add_reasoning(ResponsesEvent(output_index=index, delta=summary), events)

    def end_response(self, event: ResponsesEvent, events: list[ModelDelta]) -> None:
        response = event.response or Response()
        if response.status in ("failed", "cancelled"):
            raise _build_response_error(response)
        for index, item in enumerate(response.output or ()):
            if index not in self._done:
                self.finish_item(ResponsesEvent(output_index=index, item=item), events)
        self._response = response
        if not self._text_bytes and self._map_finish(response) == "refused":
            self.add_text(ResponsesEvent(output_index=len(response.output or ()), delta=REFUSAL_TEXT), events)

    def fail(self, event: ResponsesEvent, events: list[ModelDelta]) -> None:
        if event.response is not None:
            raise _build_response_error(event.response)
        raise _build_error(event.error or {"message": event.message or "no reason was given", "code": event.code})

    def build_turn(self) -> TurnEnded:
        """Return the whole turn, once the reply is complete."""
        response, clock, at = self._response or Response(), self._clock, self._clock.now()
        items: list[Item] = []
        for index in sorted({*self._items, *self._texts, *self._thoughts} - self._calls.keys()):
            items += self._build_items(index, self._items.get(index), clock, at)
        calls = [self._build_call(index, call, at) for index, call in sorted(self._calls.items())]
        finish = "calls" if calls else self._map_finish(response)
        usage = _build_usage(response.usage, _count_charged_calls(items))
        return TurnEnded(items=(*items, *calls), finish=finish, usage=usage, model=response.model or "")

    def _build_items(self, index: int, item: OutputItem | None, clock: Clock, at: float) -> list[Item]:
        kind = item.type if item else "message" if index in self._texts else "reasoning"
        if item is not None and kind in HOSTED_CALL_TYPES:
            return build_hosted_call(item, self._provider, clock, at)
        if kind == "reasoning":
            text = "".join(self._thoughts.get(index, ()))
            signature = encode_reasoning(item, self._model) if item else ""
            if not text and not signature:
                return []
            thought = Reasoning(
                id=clock.new_id("reasoning"), at=at, text=text, provider=self._provider, signature=signature
            )
            return [thought]
        text = "".join(self._texts.get(index, ()))
        if not text:
            return []
        seal = Seal(provider=self._provider, data=item.phase) if item and item.phase else None
        citations = build_citations(item.content, text) if item and item.content else ()
        return [ModelText(id=clock.new_id("text"), at=at, text=text, citations=citations, seal=seal)]

    def _build_call(self, index: int, call: CallInProgress, at: float) -> Call:
        is_complete = index in self._whole
        arguments = call.parse_arguments(cut_off=not is_complete)
        if not is_complete and not arguments.unreadable:
            arguments = Arguments({}, "the reply was cut off before the arguments were complete")
        # In strict mode the model writes null for an optional property that it means to leave out.
        schema = self._tools.strict.get(call.name)
        value = remove_forced_nulls(arguments.value, schema) if schema else arguments.value
        return Call(
            id=call.id,
            at=at,
            tool=call.name,
            arguments=value,
            provider_id=call.provider_id,
            unreadable=arguments.unreadable,
        )

    def _map_finish(self, response: Response) -> Finish:
        if self._refused:
            return "refused"
        reason = response.incomplete_details.reason if response.incomplete_details else None
        return _CUT_SHORT.get(reason or "", "stop")


_HANDLERS: dict[str, Callable[[ResponsesReply, ResponsesEvent, list[ModelDelta]], None]] = {
    "response.output_text.delta": ResponsesReply.add_text,
    "response.refusal.delta": ResponsesReply.add_refusal,
    "response.reasoning_summary_text.delta": ResponsesReply.add_reasoning,
    "response.reasoning_text.delta": ResponsesReply.add_reasoning,
    "response.reasoning_summary_part.added": ResponsesReply.start_reasoning_part,
    "response.function_call_arguments.delta": ResponsesReply.add_arguments,
    "response.function_call_arguments.done": ResponsesReply.finish_arguments,
    "response.output_item.added": ResponsesReply.start_item,
    "response.output_item.done": ResponsesReply.finish_item,
    "response.completed": ResponsesReply.end_response,
    "response.incomplete": ResponsesReply.end_response,
    "response.failed": ResponsesReply.fail,
    "error": ResponsesReply.fail,
}
"""The handlers of events by type; other events are ignored."""


def _is_ignored(payload: bytes) -> bool:
    """Return whether an event that cannot be decoded has no handler anyway, or is the `[DONE]` of other APIs."""
    try:
        return decode_type(payload).type not in _HANDLERS
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return payload.strip() == b"[DONE]"


def _build_response_error(response: Response) -> WireFailure:
    error = response.error
    body = {"message": error.message, "code": error.code} if error else {"message": f"the reply is {response.status}"}
    return _build_error(body, **({"response_id": response.id} if response.id else {}))


def _build_error(error: object, **more_details: object) -> WireFailure:
    words, details = parse_error(error)
    return build_failure(
        f"the provider reports an error: {words}", classify_stream_error(details, words), **details, **more_details
    )


def _count_charged_calls(items: Iterable[Item]) -> dict[str, int]:
    """Return the uses of OpenAI's tools. Opening a page that a search has found is not charged as another search."""
    opened = ("open_page", "find_in_page", "find")
    return count_hosted_calls(
        item for item in items if not (isinstance(item, Call) and item.arguments.get("type") in opened)
    )


def _build_usage(counts: ResponsesUsage | None, tool_uses: dict[str, int]) -> Usage:
    if counts is None:
        return Usage(tool_uses=tool_uses)
    details, written = counts.input_tokens_details, counts.output_tokens_details
    return Usage(
        input_tokens=int(counts.input_tokens or 0),
        output_tokens=int(counts.output_tokens or 0),
        cached_tokens=int((details.cached_tokens if details else None) or 0),
        reasoning_tokens=int((written.reasoning_tokens if written else None) or 0),
        tool_uses=tool_uses,
    )
