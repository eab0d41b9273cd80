"""Encodes a run as the events of a streamed response. Pure.

Every event has a number that holds its place (`ids.StreamPlace`), so that a stream can start again after any of them.
"""

from collections.abc import Callable, Mapping
from typing import assert_never

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.conversation.cursor import Cursor
from toolyard.core.conversation.events import (
    ArgumentsAppended,
    CallAnswered,
    CallApproved,
    CallDenied,
    CallEnded,
    CallJudged,
    CallParked,
    CallsRequested,
    CallStarted,
    ConversationChanged,
    ConversationOpened,
    Entry,
    HistoryCompacted,
    HistoryRewound,
    MessageAdded,
    MessageRemoved,
    Published,
    ReasoningAppended,
    RunEnded,
    RunQueued,
    RunStarted,
    RunSuspended,
    StopRequested,
    TextAppended,
    TurnEnded,
    TurnFailed,
    TurnStarted,
)
from toolyard.core.conversation.run_view import CallView, RunView, TurnView, merge_citations
from toolyard.core.errors import ToolyardError
from toolyard.core.utf8 import utf8_size
from toolyard.engine.log.open_runs import is_at_rest
from toolyard.surfaces.http.errors import ModelFailed
from toolyard.surfaces.openai.errors import OpenAIErrorFields, build_stream_error
from toolyard.surfaces.openai.responses.approvals import list_approval_requests
from toolyard.surfaces.openai.responses.ids import (
    MAX_STREAMED_BYTES,
    MAX_STREAMED_CALLS,
    EventNumbers,
    StreamPlace,
    build_item_id,
    place_arguments,
    place_call_end,
    place_message,
    place_reasoning,
    place_text,
)
from toolyard.surfaces.openai.responses.output import (
    OutputItem,
    build_call,
    build_message,
    build_reasoning,
    build_refusal,
    build_summary_part,
    build_text_part,
    build_waiting_message,
    has_schema,
    is_client_call,
    join_text,
    list_first_notices,
    list_turn_output,
    precedes_calls,
    refuses_schema,
    shows_text,
    turn_id,
    wants_summary,
)
from toolyard.surfaces.openai.responses.response import ResponseObject, build_problem, find_status
from toolyard.surfaces.openai.responses.tool_kinds import CALL_KINDS, FUNCTION, KINDS, build_call_item, find_wire_tool
from toolyard.surfaces.shared.call_ids import encode_call_id
from toolyard.surfaces.shared.runs.notices import get_first_notice
from toolyard.surfaces.shared.runs.streamed_arguments import StreamedCall, find_missing

NO_ITEMS: list[object] = []
CALL_PARTS = 4
"""The events of a function that the client runs: its beginning, its arguments, their end, and its own."""
NO_REASONING: Mapping[int, str] = {}
_FINAL_EVENTS: Mapping[str, str] = {
    "completed": "response.completed",
    "incomplete": "response.incomplete",
    "failed": "response.failed",
    "cancelled": "response.completed",
}


class _OpenItem(Struct):
    """An item whose text is being streamed."""

    index: int
    id: str
    text: str = ""
    """The text so far, of reasoning only."""
    size: int = 0
    """The bytes of the text so far."""
    follows_reasoning: bool = False
    """Whether the item before a message is the reasoning of its turn."""


class ResponseEncoder:
    """Encodes one run as events, until it ends or waits."""

    def __init__(
        self,
        view: RunView,
        log_end: int,
        *,
        start: Cursor,
        build: Callable[[RunView, str], ResponseObject],
        describe_waiting: Callable[[RunView], str],
        approval_label: str = "",
        reasonings: Mapping[int, str] = NO_REASONING,
        numbers: EventNumbers | None = None,
        after: StreamPlace | None = None,
        after_number: int = -1,
    ) -> None:
        """Start from the view as it was at `start`, with the `numbers` of the entries before it.

        Events up to the place `after`, which has the number `after_number`, are left out. With `approval_label`,
        approvals are items of the server with that label. `reasonings` is the reasoning of turns that have ended, by
        their numbers.
        """
        self._view = view
        self._log_end = log_end
        self._build = build
        self._describe_waiting = describe_waiting
        self._approval_label = approval_label
        self._after_number = after_number
        self._numbers = numbers or EventNumbers()
        self._place = StreamPlace(start.seq, start.seen, 0)
        self.over = view.at_rest
        self._next_index = len(list_first_notices(view)) + sum(len(list_turn_output(view, turn)) for turn in view.turns)
        self._indexes: dict[str, int] = {}
        """The indexes of calls, by their ids."""
        for turn in view.turns:
            self._number_calls(turn, self._count_before(turn))
        self._reasoning: _OpenItem | None = None
        self._message: _OpenItem | None = None
        self._reasonings = reasonings
        self._seen_reasoning = after.reasoning_bytes if after else 0
        self._streamed: dict[str, StreamedCall] = {}
        """The calls of the turn in progress whose arguments are streamed, by their ids."""
        self._seen_call = after.streamed_call if after else (-1, 0)
        self._unfinished: _OpenItem | None = None
        """The item that the client saw begin before `start`. It ends without more if its turn starts again."""
        if after is not None and after.open_item and view.turns:
            self._restore_item(after, view.turns[-1])

    def _restore_item(self, after: StreamPlace, turn: TurnView) -> None:
        index, named_by = self._next_index, turn_id(self._view, turn)
        if after.open_item == "reasoning":
            self._unfinished = _OpenItem(index, build_item_id("rs", named_by))
            return
        opened = _OpenItem(index + after.follows_reasoning, build_item_id("msg", named_by))
        opened.follows_reasoning = after.follows_reasoning
        if after.seen:
            opened.size = after.seen
            self._message, self._next_index = opened, opened.index + 1
        else:  # the turn is read again from its beginning, and with it the beginning of the message
            self._unfinished = opened

    def _count_before(self, turn: TurnView) -> int:
        """Return the index of the first call of a turn that has ended."""
        earlier = [other for other in self._view.turns if other.number < turn.number]
        before = len(list_first_notices(self._view))
        before += sum(len(list_turn_output(self._view, other)) for other in earlier)
        calls = len(self._view.list_turn_calls(turn.number))
        return before + len(list_turn_output(self._view, turn)) - calls

    def _number_calls(self, turn: TurnView, first: int) -> None:
        calls = self._view.list_turn_calls(turn.number)
        self._indexes |= {call.call.id: first + offset for offset, call in enumerate(calls)}

    def opening(self) -> bytes:
        response = self._build(self._view, "")
        response.status, response.output = "in_progress", []
        kinds = ("response.created", "response.in_progress")
        return b"".join(self._encode_at(number, kind, {"response": response}) for number, kind in enumerate(kinds))

    def item(self, published: Published, cursor: Cursor) -> bytes:
        view = self._view.apply(published)
        if not isinstance(published, Entry):
            return self._encode_fleeting(published, cursor) if view is not None else b""
        missed = b""
        if view is not None and isinstance(published.event, TurnEnded):
            missed = self._encode_missed_reasoning() + self._encode_missed_calls(view.turns[-1])
        if view is not None and self._numbers.add(published):
            self._place = StreamPlace(published.seq, 0, 0)
        self.over = is_at_rest(self._view, published.seq, self._log_end)
        return missed + self._encode_entry(published) if view is not None else b""

    def _encode_fleeting(self, event: Published, cursor: Cursor) -> bytes:
        turn = self._view.turns[-1] if self._view.turns else None
        if turn is None:
            return b""
        if isinstance(event, ArgumentsAppended):
            return self._encode_arguments(event)
        if self._streamed:
            return b""  # numbers rise: what the model writes after a call comes with the turn's end
        if isinstance(event, TextAppended) and not has_schema(self._view):
            missed = self._encode_missed_reasoning()
            if self._message is None:
                # The item begins before its text: a client that has seen only its beginning has seen none of the text.
                self._place = place_message(self._place.seq, reasoning_parts=self._count_closing_parts())
            return missed + self._begin_message(turn) + self._encode_text(event.text, cursor)
        if isinstance(event, ReasoningAppended) and event.text and self._message is None:
            return self._encode_reasoning(event.text, turn)
        return b""

    def _encode_entry(self, entry: Entry) -> bytes:
        view, event = self._view, entry.event
        match event:
            case TurnStarted():
                return self._abandon_items() if view.turns[-1].restarted else b""
            case TurnEnded():
                return self._encode_turn_end(view.turns[-1])
            case CallStarted(call_id=call_id):
                call = view.calls[call_id]
                return b"" if call.parent or call.phase == "nested" else self._encode_call_start(call)
            case CallEnded(result=result):
                call = view.calls[result.call_id]
                return b"" if call.parent or is_client_call(view, call) else self._encode_call_end(call)
            case RunEnded(message=message):
                return b"" if message is None else self._encode_whole_message(message.id, message.text)
            case TurnFailed() | CallJudged() | CallParked() | CallApproved() | CallDenied() | CallAnswered():
                return b""  # the stream's end tells what the run waits for
            case RunQueued() if list_first_notices(view):
                return self._encode_whole_message(f"note_{view.run_id}", get_first_notice(view))
            case RunQueued() | RunStarted() | StopRequested() | RunSuspended() | HistoryCompacted() | CallsRequested():
                return b""  # the stream's end tells how the run ended
            case ConversationOpened() | ConversationChanged() | MessageAdded() | MessageRemoved() | HistoryRewound():
                return b""
            case _:
                assert_never(event)

    def _abandon_items(self) -> bytes:
        """Close the partial items of a turn that starts again: the final output has only the new ones."""
        pieces = [
            self._encode("response.output_item.done", {"output_index": item.index, "item": body})
            for item, body in (
                (self._message, self._message and {**build_message("", "", (), "incomplete"), "id": self._message.id}),
                (self._reasoning, self._reasoning and {**build_reasoning("", ""), "id": self._reasoning.id}),
                (self._unfinished, self._unfinished and _build_unfinished(self._unfinished)),
            )
            if item is not None
        ]
        if self._unfinished is not None:
            self._next_index = self._unfinished.index + 1
        self._message = self._reasoning = self._unfinished = None
        self._seen_reasoning = 0
        self._streamed, self._seen_call = {}, (-1, 0)
        return b"".join(pieces)

    def _encode_missed_reasoning(self) -> bytes:
        """Return the reasoning of a turn that has ended, if it was not read while the turn went on."""
        turn = self._view.turns[-1]
        text = self._reasonings.get(turn.number, "")
        if self._message is not None or self._reasoning is not None or not text:
            return b""
        return self._encode_reasoning(text, turn)

    def _encode_reasoning(self, text: str, turn: TurnView) -> bytes:
        pieces: list[bytes] = []
        if self._reasoning is None:
            self._reasoning, self._unfinished = self._open_item("rs", turn), None
            item = build_reasoning(turn_id(self._view, turn), "")
            self._place = place_reasoning(self._place.seq, 0)
            pieces.append(self._encode_added(self._reasoning.index, item))
            if wants_summary(self._view):
                part = {"part": build_summary_part("")}
                pieces.append(self._encode_summary("response.reasoning_summary_part.added", self._reasoning, part))
        seen = max(0, self._seen_reasoning - self._reasoning.size)
        self._reasoning.text += text
        self._reasoning.size += len(text.encode())
        self._place = place_reasoning(self._place.seq, self._reasoning.size)
        text = text.encode()[seen:].decode(errors="ignore")
        delta = {"delta": text}
        if wants_summary(self._view):
            pieces.append(self._encode_summary("response.reasoning_summary_text.delta", self._reasoning, delta))
        else:
            pieces.append(self._encode_content("response.reasoning_text.delta", self._reasoning, delta))
        return b"".join(pieces)

    def _count_closing_parts(self) -> int:
        """Return how many events end the reasoning that is open."""
        return 0 if self._reasoning is None else 3 if wants_summary(self._view) else 2

    def _encode_missed_calls(self, turn: TurnView) -> bytes:
        """Return the arguments that were not read while the turn went on, where a reader at that time got them."""
        calls = self._view.list_turn_calls(turn.number)
        pieces: list[bytes] = []
        for index, call in enumerate(calls):
            if call.call.id not in self._streamed:
                text = msgspec.json.encode(call.arguments).decode()
                event = ArgumentsAppended(
                    turn=turn.number, call_id=call.call.id, index=index, tool=call.call.tool, offset=0, text=text
                )
                pieces.append(self._encode_arguments(event, is_whole=True))
        return b"".join(pieces)

    def _encode_arguments(self, event: ArgumentsAppended, *, is_whole: bool = False) -> bytes:
        """Return a part of the arguments of a function that the client runs; nothing for any other call."""
        view, number = self._view, len(self._streamed)
        call = self._streamed.get(event.call_id)
        wire = find_wire_tool(view, event.tool)
        if not view.is_client_tool(event.tool) or wire.type != FUNCTION:
            return b""
        seq, pieces = self._place.seq, list[bytes]()
        if call is None:
            if event.offset or number == MAX_STREAMED_CALLS:
                return b""  # the turn's end brings the whole call
            pieces += [self._encode_streamed_end(*streamed) for streamed in self._streamed.items()]
            call = self._streamed[event.call_id] = StreamedCall(
                index=self._next_index + event.index, number=number, tool=event.tool
            )
            call_id = encode_call_id(view.conversation, event.call_id)
            item = build_call_item(wire, event.call_id, call_id, {}, view.conversation)
            self._place = place_arguments(seq, call.number)
            pieces.append(self._encode_added(call.index, {**item, "arguments": "", "status": "in_progress"}))
        is_seen_call = self._seen_call[0] == call.number
        seen = max(0, self._seen_call[1] - call.sent_bytes) if is_seen_call else 0
        if is_seen_call and is_whole:
            call.add(event)  # the model may have written it otherwise: the client gets no more of it than the whole
        elif call.sent_bytes + utf8_size(event.text) <= MAX_STREAMED_BYTES and (unsent := call.add(event)):
            self._place = place_arguments(seq, call.number, call.sent_bytes)
            delta = {"delta": unsent.encode()[seen:].decode(errors="ignore")}
            opened = _OpenItem(call.index, build_item_id(KINDS[FUNCTION].id_prefix, event.call_id, view.conversation))
            pieces.append(self._encode_part("response.function_call_arguments.delta", opened, delta))
        return b"".join(pieces)

    def _encode_streamed_end(self, call_id: str, call: StreamedCall) -> bytes:
        """Return the end of a call whose arguments are whole: some clients keep one call open at a time."""
        if call.has_ended or not call.is_whole:
            return b""
        call.has_ended = True
        self._place = place_call_end(self._place.seq, call.number)
        view, wire = self._view, find_wire_tool(self._view, call.tool)
        item = build_call_item(wire, call_id, encode_call_id(view.conversation, call_id), {}, view.conversation)
        item["arguments"] = call.text
        done = {"arguments": call.text, "name": item["name"]}
        opened = _OpenItem(call.index, str(item["id"]))
        ended = self._encode_part("response.function_call_arguments.done", opened, done)
        return ended + self._encode_item_done(call.index, item)

    def _begin_message(self, turn: TurnView) -> bytes:
        """Return the beginning of the turn's message, unless it has begun."""
        if self._message is not None:
            return b""
        follows_reasoning, closed = self._reasoning is not None, self._close_reasoning(turn)
        self._message, self._unfinished = self._open_item("msg", turn), None
        self._message.follows_reasoning = follows_reasoning
        item = {**build_message(turn_id(self._view, turn), "", (), "in_progress"), "content": NO_ITEMS}
        added = self._encode_added(self._message.index, item)
        part = {"part": build_text_part("")}
        return closed + added + self._encode_content("response.content_part.added", self._message, part)

    def _encode_text(self, text: str, cursor: Cursor | None = None) -> bytes:
        """Return a delta of the message that has begun, at the place after it."""
        assert self._message is not None
        if cursor is not None:
            self._place = place_text(self._place.seq, cursor.seen, follows_reasoning=self._message.follows_reasoning)
        self._message.size += utf8_size(text)
        delta = {"delta": text, "logprobs": NO_ITEMS}
        return self._encode_content("response.output_text.delta", self._message, delta)

    def _open_item(self, prefix: str, turn: TurnView) -> _OpenItem:
        opened = _OpenItem(self._next_index, build_item_id(prefix, turn_id(self._view, turn)))
        self._next_index += 1
        return opened

    def _close_reasoning(self, turn: TurnView) -> bytes:
        if self._reasoning is None:
            return b""
        opened, self._reasoning, self._seen_reasoning = self._reasoning, None, 0
        item = build_reasoning(turn_id(self._view, turn), opened.text, as_summary=wants_summary(self._view))
        if wants_summary(self._view):
            part = {"part": build_summary_part(opened.text)}
            done = self._encode_summary("response.reasoning_summary_text.done", opened, {"text": opened.text})
            done += self._encode_summary("response.reasoning_summary_part.done", opened, part)
        else:
            done = self._encode_content("response.reasoning_text.done", opened, {"text": opened.text})
        return done + self._encode_item_done(opened.index, item)

    def _encode_turn_end(self, turn: TurnView) -> bytes:
        pieces: list[bytes] = []
        calls = self._view.list_turn_calls(turn.number)
        first_call = self._next_index
        if not precedes_calls(turn):
            self._next_index += len(calls)  # the text comes after the calls
        text = join_text(turn) if shows_text(self._view, turn) else ""
        if text and refuses_schema(self._view, turn):
            refusal = build_refusal(turn_id(self._view, turn), text)
            pieces += [self._close_reasoning(turn), self._encode_refusal(refusal, text)]
        elif self._message is None and text:  # a text that was held back, or that this reader has not seen
            pieces.append(self._begin_message(turn) + self._encode_text(text))
        elif self._message is not None and (held_back := text.encode()[self._message.size :]):
            pieces.append(self._encode_text(held_back.decode(errors="ignore")))
        else:
            self._skip_number()
        pieces.append(self._close_reasoning(turn))
        if self._message is not None:
            pieces.append(self._close_message(self._message, turn, text))
            self._message = None
        if precedes_calls(turn):
            first_call = self._next_index
            self._next_index += len(calls)
        self._number_calls(turn, first_call)
        pieces += [self._encode_call_added(call) for call in calls]
        self._streamed, self._seen_call = {}, (-1, 0)
        pieces += [self._encode_call_end(call) for call in calls if call.result is not None]  # the provider ran them
        return b"".join(pieces)

    def _close_message(self, opened: _OpenItem, turn: TurnView, text: str) -> bytes:
        citations = merge_citations(turn.texts)
        item = {**build_message("", text, citations), "id": opened.id}
        part = build_text_part(text, citations)
        return b"".join(
            (
                self._encode_content("response.output_text.done", opened, {"text": text, "logprobs": NO_ITEMS}),
                self._encode_content("response.content_part.done", opened, {"part": part}),
                self._encode("response.output_item.done", {"output_index": opened.index, "item": item}),
            )
        )

    def _encode_whole_message(self, item_id: str, text: str) -> bytes:
        opened = _OpenItem(self._next_index, build_item_id("msg", item_id))
        self._next_index += 1
        item = build_message(item_id, text, ())
        return b"".join(
            (
                self._encode_added(opened.index, {**item, "status": "in_progress", "content": NO_ITEMS}),
                self._encode_content("response.content_part.added", opened, {"part": build_text_part("")}),
                self._encode_content("response.output_text.delta", opened, {"delta": text, "logprobs": NO_ITEMS}),
                self._encode_content("response.output_text.done", opened, {"text": text, "logprobs": NO_ITEMS}),
                self._encode_content("response.content_part.done", opened, {"part": build_text_part(text)}),
                self._encode("response.output_item.done", {"output_index": opened.index, "item": item}),
            )
        )

    def _encode_refusal(self, item: OutputItem, text: str) -> bytes:
        """Return a refusal: a client with a schema parses every other text as its JSON."""
        opened = _OpenItem(self._next_index, str(item["id"]))
        self._next_index += 1
        empty, whole = ({"part": {"type": "refusal", "refusal": content}} for content in ("", text))
        return b"".join(
            (
                self._encode_added(opened.index, {**item, "status": "in_progress", "content": NO_ITEMS}),
                self._encode_content("response.content_part.added", opened, empty),
                self._encode_content("response.refusal.delta", opened, {"delta": text}),
                self._encode_content("response.refusal.done", opened, {"refusal": text}),
                self._encode_content("response.content_part.done", opened, whole),
                self._encode_item_done(opened.index, item),
            )
        )

    def _encode_call_added(self, call: CallView) -> bytes:
        """Return the beginning of a call; of one that its client runs all of it that was not streamed."""
        index, item = self._indexes[call.call.id], build_call(self._view, call)
        streamed = self._streamed.get(call.call.id)
        kind = CALL_KINDS[str(item["type"])] if is_client_call(self._view, call) else None
        field, event = (kind.streamed_field, kind.event) if kind else ("arguments", "response.mcp_call_arguments")
        started: OutputItem = {**item, "status": "in_progress"}
        if field:
            started[field] = ""  # clients append the deltas to it
        if streamed is not None and streamed.has_ended:
            return b"".join(self._skip_number() for _ in range(CALL_PARTS))
        pieces = [self._skip_number() if streamed else self._encode_added(index, started)]
        if field:
            opened = _OpenItem(index, str(item["id"]))
            names = {"name": item["name"]} if kind and kind.type == FUNCTION else {}
            missing = find_missing(call.call, streamed.text) if streamed else item[field]
            delta = self._encode_part(f"{event}.delta", opened, {"delta": missing}) if missing else self._skip_number()
            pieces.append(delta)
            pieces.append(self._encode_part(f"{event}.done", opened, {field: item[field], **names}))
        if kind:
            pieces.append(self._encode_item_done(index, item))
        return b"".join(pieces)

    def _encode_call_start(self, call: CallView) -> bytes:
        if is_client_call(self._view, call) or call.attempt > 1:
            return b""
        return self._encode_mcp("response.mcp_call.in_progress", call)

    def _encode_call_end(self, call: CallView) -> bytes:
        item = build_call(self._view, call)
        kind = "response.mcp_call.completed" if item["status"] == "completed" else "response.mcp_call.failed"
        return self._encode_mcp(kind, call) + self._encode_item_done(self._indexes[call.call.id], item)

    def _encode_mcp(self, kind: str, call: CallView) -> bytes:
        opened = _OpenItem(self._indexes[call.call.id], build_item_id("mcp", call.call.id, self._view.conversation))
        return self._encode_part(kind, opened, {})

    def closing(self) -> bytes:
        view = self._view
        pieces: list[bytes] = []
        for item in list_approval_requests(view, self._approval_label) if self._approval_label else ():
            pieces += [self._encode_added(self._next_index, item), self._encode_item_done(self._next_index, item)]
            self._next_index += 1
        waiting_text = self._describe_waiting(view)
        if waiting_text and has_schema(view):
            pieces.append(self._encode_refusal(build_waiting_message(view, waiting_text), waiting_text))
        elif waiting_text:
            pieces.append(self._encode_whole_message(f"wait_{view.run_id}", waiting_text))
        if (problem := view.problem) is not None:
            # As OpenAI does: its clients raise for this event, and take a failed response for an answer.
            error = build_stream_error(ModelFailed(problem, view.run_id), view.correlation_id).error
            error = replace(error, code=build_problem(problem).code)
            pieces.append(self._encode("error", build_error_event(error)))
        final = _FINAL_EVENTS.get(find_status(view), "response.completed")
        pieces.append(self._encode(final, {"response": self._build(view, waiting_text)}))
        return b"".join(pieces)

    def failure(self, error: ToolyardError, correlation_id: str) -> bytes:
        return encode_failure(error, correlation_id, self._numbers.number(self._place))

    def _encode_added(self, index: int, item: OutputItem) -> bytes:
        return self._encode("response.output_item.added", {"output_index": index, "item": item})

    def _encode_item_done(self, index: int, item: OutputItem) -> bytes:
        return self._encode("response.output_item.done", {"output_index": index, "item": item})

    def _encode_content(self, kind: str, item: _OpenItem, fields: Mapping[str, object]) -> bytes:
        return self._encode_part(kind, item, {"content_index": 0, **fields})

    def _encode_summary(self, kind: str, item: _OpenItem, fields: Mapping[str, object]) -> bytes:
        return self._encode_part(kind, item, {"summary_index": 0, **fields})

    def _encode_part(self, kind: str, item: _OpenItem, fields: Mapping[str, object]) -> bytes:
        return self._encode(kind, {"item_id": item.id, "output_index": item.index, **fields})

    def _encode(self, kind: str, fields: Mapping[str, object]) -> bytes:
        """Return an event under the next number; nothing if the client has seen it."""
        number = self._numbers.number(self._place)
        self._place = StreamPlace(self._place.seq, self._place.seen, self._place.part + 1)
        return self._encode_at(number, kind, fields)

    def _skip_number(self) -> bytes:
        """Leave out an event that others of the same entry are numbered after, and return nothing."""
        self._place = StreamPlace(self._place.seq, self._place.seen, self._place.part + 1)
        return b""

    def _encode_at(self, number: int, kind: str, fields: Mapping[str, object]) -> bytes:
        return _encode_event(number, kind, fields) if number > self._after_number else b""


def _build_unfinished(opened: _OpenItem) -> OutputItem:
    is_reasoning = opened.id.startswith("rs_")
    item = build_reasoning("", "") if is_reasoning else build_message("", "", (), "incomplete")
    return {**item, "id": opened.id}


def _encode_event(number: int, kind: str, fields: Mapping[str, object]) -> bytes:
    body = msgspec.json.encode({"type": kind, "sequence_number": number, **fields})
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), body)


def encode_whole(response: ResponseObject) -> bytes:
    """Return the stream of a response without output."""
    kinds = ("response.created", "response.completed")
    return b"".join(_encode_event(number, kind, {"response": response}) for number, kind in enumerate(kinds))


def encode_failure(error: ToolyardError, correlation_id: str, number: int = 0) -> bytes:
    """Return the last event of a stream that cannot go on."""
    fields = build_stream_error(error, correlation_id).error
    return _encode_event(number, "error", build_error_event(fields))


def build_error_event(fields: OpenAIErrorFields) -> dict[str, object]:
    """Return the fields of an error event: as OpenAI documents them, and in the object in which it sends them."""
    return {"code": fields.code, "message": fields.message, "param": fields.param, "error": fields}
