"""The events of one Responses reply → the events of one turn. It knows what they say, not how they travel.

A call counts once the provider has said that it is whole; one that the reply ended in is never run.
"""

from collections.abc import Callable

import msgspec

from toolyard.core.events import ArgumentsAppended, Finish, ModelDelta, ReasoningAppended, TextAppended, TurnEnded
from toolyard.core.items import Call, Item, ModelText, Reasoning, Seal, Usage
from toolyard.core.ports import Mint
from toolyard.models.arguments import Arguments
from toolyard.models.http.problems import REFUSED, WireFailure, error_type_in_stream, failure, words_in, words_of
from toolyard.models.http.reader import UNREADABLE, decoded
from toolyard.models.responses.events import (
    Event,
    OutputItem,
    Response,
    UsageCounts,
    decode_event,
    decode_response,
    decode_type,
)
from toolyard.models.responses.hosted_tools import HOSTED, citations_of, hosted
from toolyard.models.responses.request import Tools, sealed_reasoning
from toolyard.models.schema_dialects import without_forced_nulls
from toolyard.models.streamed_call import CallInProgress
from toolyard.models.tool_names import from_provider

_CUT_SHORT: dict[str, Finish] = {"max_output_tokens": "length", "content_filter": "refused"}


class ResponsesReply:
    """What the model has said so far in one turn, by the place of each piece in the reply's output."""

    __slots__ = (
        "_calls",
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

    def __init__(self, turn: int, provider: str, model: str, tools: Tools) -> None:
        """`tools` are those on offer; `model` is the name that was asked for."""
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
        """The calls whose arguments the provider has ended."""
        self._refused = False
        self._response: Response | None = None

    @property
    def complete(self) -> bool:
        return self._response is not None

    def read(self, payload: bytes, events: list[ModelDelta], *, cut: bool = False) -> bool:
        damaged = False
        try:
            event = decode_event(payload)
        except UNREADABLE:
            if cut or _is_none_of_ours(payload):
                return False
            event, damaged = decoded(payload, decode_event), True
        act = _ACTS.get(event.type)
        if act is not None:
            act(self, event, events)
            if damaged and event.output_index in self._calls:
                self._calls[event.output_index].damaged = True
        elif not event.type and (event.error or event.message):
            raise _said(event.error or event.message)
        return self._response is not None

    def read_whole(self, body: bytes, events: list[ModelDelta]) -> None:
        response = decoded(body, decode_response)
        if response.object != "response":
            raise failure(f"the answer is no response: {words_of(body)[0]}", "model_error")
        self.end(Event(response=response), events)

    def text(self, event: Event, events: list[ModelDelta]) -> None:
        text = event.delta
        if text:
            events.append(TextAppended(turn=self._turn, offset=self._text_bytes, text=text))
            self._texts.setdefault(event.output_index, []).append(text)
            self._text_bytes += len(text) if text.isascii() else len(text.encode())

    def refusal(self, event: Event, events: list[ModelDelta]) -> None:
        self._refused = True
        self.text(event, events)

    def thought(self, event: Event, events: list[ModelDelta]) -> None:
        text = event.delta
        if text:
            events.append(ReasoningAppended(turn=self._turn, offset=self._reasoning_bytes, text=text))
            self._thoughts.setdefault(event.output_index, []).append(text)
            self._reasoning_bytes += len(text) if text.isascii() else len(text.encode())

    def next_thought(self, event: Event, events: list[ModelDelta]) -> None:
        """A summary has parts, which are paragraphs."""
        if self._thoughts.get(event.output_index):
            self.thought(Event(output_index=event.output_index, delta="\n\n"), events)

    def more_arguments(self, event: Event, events: list[ModelDelta]) -> None:
        text = event.delta
        if text:
            call = self._call(event.output_index)
            events.append(
                ArgumentsAppended(
                    turn=self._turn, index=call.number, tool=call.name, offset=call.arguments_bytes, text=text
                )
            )
            call.fragments.append(text)
            call.arguments_bytes += len(text) if text.isascii() else len(text.encode())

    def all_arguments(self, event: Event, events: list[ModelDelta]) -> None:
        """The arguments once more, whole: they are what counts."""
        call = self._call(event.output_index)
        if not call.fragments:
            self.more_arguments(Event(output_index=event.output_index, delta=event.arguments), events)
        elif event.arguments is not None:
            call.fragments = [event.arguments]
        self._whole.add(event.output_index)

    def _call(self, index: int) -> CallInProgress:
        call = self._calls.get(index)
        if call is None:
            call = self._calls[index] = CallInProgress(len(self._calls))
        return call

    def begun(self, event: Event, events: list[ModelDelta]) -> None:
        item = event.item
        if item is not None:
            self._items[event.output_index] = item
            if item.type == "function_call":
                call = self._call(event.output_index)
                call.name = from_provider(item.name or "", self._tools.names)
                call.provider_id = item.call_id or ""

    def done(self, event: Event, events: list[ModelDelta]) -> None:
        """An item as it is in the end; what was not streamed of it is made up for."""
        item, index = event.item, event.output_index
        if item is None:
            return
        self.begun(event, events)
        self._done.add(index)
        if item.type == "function_call" and item.status != "incomplete":
            self.all_arguments(Event(output_index=index, arguments=item.arguments), events)
        elif item.type == "function_call":
            self._whole.discard(index)
        elif item.type == "message" and index not in self._texts:
            for part in item.content or ():
                self._refused = self._refused or bool(part.refusal)
                self.text(Event(output_index=index, delta=part.text or part.refusal), events)
        elif item.type == "reasoning" and index not in self._thoughts:
            told = "\n\n".join(part.text for part in item.summary or () if part.text)
            self.thought(Event(output_index=index, delta=told), events)

    def end(self, event: Event, events: list[ModelDelta]) -> None:
        response = event.response or Response()
        if response.status in ("failed", "cancelled"):
            raise _failed(response)
        for index, item in enumerate(response.output or ()):
            if index not in self._done:
                self.done(Event(output_index=index, item=item), events)
        self._response = response
        if not self._text_bytes and self._finish(response) == "refused":
            self.text(Event(output_index=len(response.output or ()), delta=REFUSED), events)

    def fail(self, event: Event, events: list[ModelDelta]) -> None:
        if event.response is not None:
            raise _failed(event.response)
        raise _said(event.error or {"message": event.message or "no reason was given", "code": event.code})

    def ended(self, mint: Mint) -> TurnEnded:
        """The whole turn, once the provider has said that it is over."""
        response, at = self._response or Response(), mint.now()
        items: list[Item] = []
        for index in sorted({*self._items, *self._texts, *self._thoughts} - self._calls.keys()):
            items += self._ended_item(index, self._items.get(index), mint, at)
        calls = [self._ended_call(index, call, mint, at) for index, call in sorted(self._calls.items())]
        finish = "calls" if calls else self._finish(response)
        return TurnEnded(
            items=(*items, *calls), finish=finish, usage=_usage(response.usage), model=response.model or ""
        )

    def _ended_item(self, index: int, item: OutputItem | None, mint: Mint, at: float) -> list[Item]:
        kind = item.type if item else "message" if index in self._texts else "reasoning"
        if item is not None and kind in HOSTED:
            return hosted(item, self._provider, mint, at)
        if kind == "reasoning":
            text = "".join(self._thoughts.get(index, ()))
            signature = sealed_reasoning(item, self._model) if item else ""
            if not text and not signature:
                return []
            thought = Reasoning(id=mint.id("reasoning"), at=at, text=text, provider=self._provider, signature=signature)
            return [thought]
        text = "".join(self._texts.get(index, ()))
        if not text:
            return []
        seal = Seal(provider=self._provider, data=item.phase) if item and item.phase else None
        citations = citations_of(item.content, text) if item and item.content else ()
        return [ModelText(id=mint.id("text"), at=at, text=text, citations=citations, seal=seal)]

    def _ended_call(self, index: int, call: CallInProgress, mint: Mint, at: float) -> Call:
        whole = index in self._whole
        arguments = call.read(cut_off=not whole)
        if not whole and not arguments.unreadable:
            arguments = Arguments({}, "the reply was cut off before the arguments were complete")
        schema = self._tools.strict.get(call.name)
        value = without_forced_nulls(arguments.value, schema) if schema else arguments.value
        return Call(
            id=mint.id("call"),
            at=at,
            tool=call.name,
            arguments=value,
            provider_id=call.provider_id,
            unreadable=arguments.unreadable,
        )

    def _finish(self, response: Response) -> Finish:
        if self._refused:
            return "refused"
        reason = response.incomplete_details.reason if response.incomplete_details else None
        return _CUT_SHORT.get(reason or "", "stop")


_ACTS: dict[str, Callable[[ResponsesReply, Event, list[ModelDelta]], None]] = {
    "response.output_text.delta": ResponsesReply.text,
    "response.refusal.delta": ResponsesReply.refusal,
    "response.reasoning_summary_text.delta": ResponsesReply.thought,
    "response.reasoning_text.delta": ResponsesReply.thought,
    "response.reasoning_summary_part.added": ResponsesReply.next_thought,
    "response.function_call_arguments.delta": ResponsesReply.more_arguments,
    "response.function_call_arguments.done": ResponsesReply.all_arguments,
    "response.output_item.added": ResponsesReply.begun,
    "response.output_item.done": ResponsesReply.done,
    "response.completed": ResponsesReply.end,
    "response.incomplete": ResponsesReply.end,
    "response.failed": ResponsesReply.fail,
    "error": ResponsesReply.fail,
}
"""What is done about an event; whatever else a provider sends is passed over."""


def _is_none_of_ours(payload: bytes) -> bool:
    """Whether it is an event that nothing is done about, whatever its shape, or the word that ends other streams."""
    try:
        return decode_type(payload).type not in _ACTS
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return payload.strip() == b"[DONE]"


def _failed(response: Response) -> WireFailure:
    error = response.error
    told = {"message": error.message, "code": error.code} if error else {"message": f"the reply is {response.status}"}
    return _said(told, **({"response_id": response.id} if response.id else {}))


def _said(error: object, **known: object) -> WireFailure:
    words, details = words_in(error)
    return failure(f"the provider reports an error: {words}", error_type_in_stream(details), **details, **known)


def _usage(counts: UsageCounts | None) -> Usage:
    if counts is None:
        return Usage()
    details = counts.input_tokens_details
    return Usage(
        input_tokens=int(counts.input_tokens or 0),
        output_tokens=int(counts.output_tokens or 0),
        cached_tokens=int((details.cached_tokens if details else None) or 0),
    )
