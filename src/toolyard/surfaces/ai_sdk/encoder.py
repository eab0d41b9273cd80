"""Encodes a run as a UI message stream: frames of JSON, each with the type of one part of a message.

A run is one message, whose id is the run's; a turn is a step of it. A client that resumes gets all frames of the run
again. Those of a turn that has ended are built from its entry, so that they make the same parts as the deltas did.

A continuation, which follows what the client has answered, starts inside the message: its frames add to it.
"""

from typing import assert_never

import msgspec

from toolyard.core.conversation.cursor import Cursor
from toolyard.core.conversation.events import (
    ArgumentsAppended,
    CallAnswered,
    CallApproved,
    CallDenied,
    CallEnded,
    CallEvent,
    CallJudged,
    CallParked,
    CallProgressed,
    CallsRequested,
    CallStarted,
    ConversationChanged,
    ConversationOpened,
    Durable,
    Entry,
    Finish,
    Fleeting,
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
    TurnEvent,
    TurnFailed,
    TurnStarted,
    is_call_event,
    is_turn_event,
)
from toolyard.core.conversation.run_view import RunView
from toolyard.core.errors import ToolyardError
from toolyard.core.items import Call, Item, ModelText, Reasoning, Result
from toolyard.engine.log.open_runs import is_at_rest
from toolyard.engine.log.readers import Reader
from toolyard.surfaces.ai_sdk.frames import (
    Frame,
    build_approval_request,
    build_approval_response,
    build_dropped_call,
    build_files,
    build_input,
    build_output,
    build_progress,
    build_question,
    build_sources,
    build_usage,
)
from toolyard.surfaces.http.errors import build_error_response
from toolyard.surfaces.shared.runs.notices import NO_NOTICES, RunNotices


class WholeTurnReader:
    """Leaves out the text of a turn that arrives all at once, as the entry that follows holds it as well."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def read_batch(self, timeout_s: float | None = None) -> list[tuple[Published, Cursor]]:
        # A reader hands out both in one batch.
        batch = await self._reader.read_batch(timeout_s)
        return [pair for index, pair in enumerate(batch) if not _is_whole_text(batch, index)]

    def detach(self) -> None:
        self._reader.detach()


def _is_whole_text(batch: list[tuple[Published, Cursor]], index: int) -> bool:
    text = batch[index][0]
    if not isinstance(text, TextAppended) or text.offset or index + 1 == len(batch):
        return False
    following = batch[index + 1][0]
    return isinstance(following, Entry) and isinstance(following.event, TurnEnded)


DONE = b"data: [DONE]\n\n"
_FINISH_REASONS: dict[Finish, str] = {"length": "length", "refused": "content-filter"}
_TEXT_TAIL = b"}\n\n"


class UiMessageEncoder:
    """Encodes one run, until it ends or waits."""

    def __init__(
        self,
        view: RunView,
        log_end: int,
        answered: frozenset[str] = frozenset(),
        notices: RunNotices = NO_NOTICES,
    ) -> None:
        """Start from the view. The log had `log_end` entries when it was opened: waits before that may be over.

        `answered` are the calls that the client has just answered: it knows of these answers.
        """
        self._view = view
        self._log_end = log_end
        self._answered = answered
        self._notices = notices
        self.over = view.end is not None
        self._is_step_open = False
        self._is_step_reused = False
        """Whether the open step has no parts of a turn: the next attempt at the turn begins without another step."""
        self._sources: set[str] = set()
        """The addresses of the sources that were sent."""
        for turn in view.turns:  # a continuation: the client has those of earlier turns
            build_sources(turn.items, self._sources)
        self._begin_turn(0)

    def opening(self) -> bytes:
        return _encode({"type": "start", "messageId": self._view.run_id})

    def item(self, published: Published, cursor: Cursor) -> bytes:
        view = self._view.apply(published)
        if not isinstance(published, Entry):
            return self._encode_fleeting(published) if view is not None else b""
        self.over = is_at_rest(self._view, published.seq, self._log_end)
        return b"".join(self._encode_durable(published.event)) if view is not None else b""

    def closing(self) -> bytes:
        view, pieces = self._view, self._end_step()
        if notice := self._notices.describe_budget_wait(view):
            pieces += self._encode_last_text(notice)
        if (problem := view.problem) is not None:
            pieces.append(_encode({"type": "error", "errorText": problem.error}))
        elif view.ending == "cancelled":
            pieces.append(_encode({"type": "abort", "reason": view.detail}))
        else:
            pieces.append(_encode({"type": "finish", "finishReason": _find_finish_reason(view)}))
        return b"".join((*pieces, DONE))

    def failure(self, error: ToolyardError, correlation_id: str) -> bytes:
        return encode_failure(error, correlation_id)

    def _begin_turn(self, number: int) -> None:
        self._turn = number
        self._parts = 0
        """How many parts of text and reasoning were started."""
        self._open_part: tuple[str, str] | None = None
        """The kind and the id of the part that is being written."""
        self._text_head = b""
        """The beginning of each delta of the open part if it is a text, else empty."""
        self._text_bytes = 0
        self._reasoning_bytes = 0
        self._argument_bytes: dict[str, int] = {}
        """How much of each call's arguments was sent, for the calls whose part was started."""

    def _encode_fleeting(self, event: Fleeting) -> bytes:
        match event:
            case TextAppended(text=text):
                return self._encode_text(text)
            case ReasoningAppended(text=text, offset=offset):
                # After a gap, or a second time: a reader that falls behind gets the turn in progress again whole.
                return self._encode_reasoning(text) if text and offset == self._reasoning_bytes else b""
            case ArgumentsAppended():
                return self._encode_arguments(event)
            case CallProgressed():
                return _encode(build_progress(event, self._view))
            case _:
                assert_never(event)

    def _encode_text(self, text: str) -> bytes:
        self._text_bytes += len(text) if text.isascii() else len(text.encode())
        if self._text_head:  # the hot path: bytes only, without a dict
            return b"%b%b%b" % (self._text_head, msgspec.json.encode(text), _TEXT_TAIL)
        start, part_id = self._continue_part("text")
        self._text_head = b'data: {"type":"text-delta","id":"%b","delta":' % part_id.encode()
        return b"%b%b%b%b" % (start, self._text_head, msgspec.json.encode(text), _TEXT_TAIL)

    def _encode_reasoning(self, text: str) -> bytes:
        self._reasoning_bytes += len(text.encode())
        start, part_id = self._continue_part("reasoning")
        return start + _encode({"type": "reasoning-delta", "id": part_id, "delta": text})

    def _continue_part(self, kind: str) -> tuple[bytes, str]:
        """Return what is to be sent before a delta of this kind, and the id of its part."""
        if self._open_part is not None and self._open_part[0] == kind:
            return b"", self._open_part[1]
        end = self._end_part()
        self._parts += 1
        self._open_part = kind, f"{kind}-{self._turn}-{self._parts}"
        return end + _encode({"type": f"{kind}-start", "id": self._open_part[1]}), self._open_part[1]

    def _end_part(self) -> bytes:
        if self._open_part is None:
            return b""
        (kind, part_id), self._open_part, self._text_head = self._open_part, None, b""
        return _encode({"type": f"{kind}-end", "id": part_id})

    def _encode_arguments(self, event: ArgumentsAppended) -> bytes:
        if not event.tool or event.offset != self._argument_bytes.get(event.call_id, 0):
            return b""  # the whole arguments come with the turn's end
        start = b"" if event.call_id in self._argument_bytes else self._start_input(event.call_id, event.tool)
        self._argument_bytes[event.call_id] = event.offset + len(event.text.encode())
        if not event.text:
            return start
        return start + _encode({"type": "tool-input-delta", "toolCallId": event.call_id, "inputTextDelta": event.text})

    def _start_input(self, call_id: str, tool: str) -> bytes:
        ran_here = {} if self._is_client_tool(tool) else {"providerExecuted": True}
        return _encode({"type": "tool-input-start", "toolCallId": call_id, "toolName": tool, **ran_here})

    def _is_client_tool(self, tool: str) -> bool:
        request = self._view.request
        return request is not None and any(app_tool.name == tool for app_tool in request.app_tools)

    def _encode_durable(self, event: Durable) -> list[bytes]:
        if is_call_event(event):
            return self._encode_call_event(event)
        if is_turn_event(event):
            return self._encode_turn(event)
        match event:
            case RunEnded():
                return self._encode_run_end(event)
            case RunQueued():
                return self._encode_direct_calls()
            case RunStarted() | StopRequested() | RunSuspended() | HistoryCompacted() | CallsRequested():
                return []  # what ends the stream is said in `closing`
            case ConversationOpened() | ConversationChanged() | MessageAdded() | MessageRemoved() | HistoryRewound():
                return []
            case _:
                assert_never(event)

    def _encode_direct_calls(self) -> list[bytes]:
        """Return the calls that a run begins with, if it runs tools without a model."""
        calls = [build_input(call.call, call.arguments, is_client=False) for call in self._view.calls.values()]
        return [*self._start_step(), *map(_encode, calls)] if calls else []

    def _encode_turn(self, event: TurnEvent) -> list[bytes]:
        match event:
            case TurnStarted(number=number):
                pieces = self._start_step(is_again=self._view.turns[-1].restarted)
                self._begin_turn(number)
                return pieces
            case TurnEnded(items=items):
                pieces = [*self._encode_items(items), self._end_part()]
                pieces += map(_encode, build_sources(items, self._sources))
                for item in items:
                    if isinstance(item, Result):  # the provider ran the call itself
                        pieces += map(_encode, (*build_output(item, is_client=False), *build_files(item)))
                # A text that does not fit the request's schema is written once more.
                return [*pieces, *self._drop_turn()] if self._view.needs_repair else pieces
            case TurnFailed():
                # The log has nothing of what was sent, and the turn may be tried again.
                return self._drop_turn()
            case _:
                assert_never(event)

    def _start_step(self, *, is_again: bool = False) -> list[bytes]:
        """Return the beginning of a turn. One that begins again drops what was sent of it."""
        if is_again and self._is_step_open:
            return [_encode({"type": "reset-step"})]
        if self._is_step_reused:
            self._is_step_reused = False
            return []
        pieces = self._end_step()
        self._is_step_open = True
        return [*pieces, _encode({"type": "start-step"})]

    def _drop_turn(self) -> list[bytes]:
        has_parts = bool(self._parts or self._argument_bytes)
        self._is_step_reused = True
        return [_encode({"type": "reset-step"})] if has_parts else []

    def _end_step(self) -> list[bytes]:
        was_open, self._is_step_open = self._is_step_open, False
        return [_encode({"type": "finish-step"})] if was_open else []

    def _encode_items(self, items: tuple[Item, ...]) -> list[bytes]:
        """Return what was not sent of a turn's items: all of them if the turn was missed."""
        pieces: list[bytes] = []
        sent_text, sent_reasoning = self._text_bytes, self._reasoning_bytes
        # Most wires do not stream the calls that the provider runs itself: they come after the text, live as well.
        answered = {item.call_id for item in items if isinstance(item, Result)}
        for item in sorted(items, key=lambda item: item.id in answered):
            match item:
                case ModelText():
                    unsent, sent_text = _drop_bytes(item.text, sent_text)
                    pieces += [self._encode_text(unsent)] if unsent else []
                case Reasoning():
                    unsent, sent_reasoning = _drop_bytes(item.text, sent_reasoning)
                    pieces += [self._encode_reasoning(unsent)] if unsent else []
                case Call():
                    pieces += self._encode_call(item)
                case _:
                    pass
        ended = {item.id for item in items if isinstance(item, Call)}
        dropped = [call_id for call_id in self._argument_bytes if call_id not in ended]
        return [*pieces, *map(_encode, map(build_dropped_call, dropped))]

    def _encode_call(self, call: Call) -> list[bytes]:
        is_client = self._is_client_tool(call.tool)
        if not is_client or call.unreadable:
            return [_encode(build_input(call, call.arguments, is_client=is_client))]
        # The client runs the tool as soon as its input is available. Before that the call has to be allowed, so that
        # only the part is made here.
        if call.id in self._argument_bytes:
            return []
        arguments = msgspec.json.encode(call.arguments).decode()
        delta = _encode({"type": "tool-input-delta", "toolCallId": call.id, "inputTextDelta": arguments})
        return [self._start_input(call.id, call.tool), delta]

    def _encode_call_event(self, event: CallEvent) -> list[bytes]:
        call = self._view.calls[event.result.call_id if isinstance(event, CallEnded) else event.call_id]
        if not call.parent:
            return [*map(_encode, self._build_call_frames(event))]
        # A message shows a call of a program only if it waits for a person, from then on.
        if call.awaited is not None and isinstance(event, CallJudged | CallParked):
            # In another step than the program: clients send the decisions once the last step has no other open call.
            others = (other for other in self._view.calls.values() if other is not call)
            pieces = [] if any(other.awaited is not None for other in others) else self._start_step()
            frame = build_input(call.call, call.arguments, is_client=False)
            return [*pieces, *map(_encode, [frame, *self._build_call_frames(event)])]
        was_shown = bool(call.expires_at or call.decisions or call.parked)
        return [*map(_encode, self._build_call_frames(event))] if was_shown else []

    def _build_call_frames(self, event: CallEvent) -> list[Frame]:
        view = self._view
        match event:
            case CallEnded(result=result):
                is_client = self._is_client_tool(result.tool)
                if is_client and result.call_id in self._answered:
                    return []
                return [*build_output(result, is_client=is_client), *build_files(result)]
            case CallJudged(verdict="ask", call_id=call_id, rule=rule):
                return [build_approval_request(call_id, rule)]
            case CallApproved():
                return self._build_approved(event)
            case CallDenied(call_id=call_id, reason=reason):
                return self._build_response(call_id, approved=False, reason=reason)
            case CallParked(call_id=call_id, kind="client"):
                call = view.calls[call_id]
                return [build_input(call.call, call.arguments, is_client=True)]
            case CallParked(call_id=call_id) | CallAnswered(call_id=call_id):
                return [build_question(view.calls[call_id], view.conversation)]
            case CallJudged() | CallStarted():
                return []
            case _:
                assert_never(event)

    def _build_approved(self, event: CallApproved) -> list[Frame]:
        if event.remaining:
            return []  # the approval request stays open
        call = self._view.calls[event.call_id].call
        response = self._build_response(event.call_id, approved=True, reason=event.reason)
        if event.arguments is None or self._is_client_tool(call.tool):
            return response
        return [*response, build_input(call, event.arguments, is_client=False)]

    def _build_response(self, call_id: str, *, approved: bool, reason: str = "") -> list[Frame]:
        return [] if call_id in self._answered else [build_approval_response(call_id, approved=approved, reason=reason)]

    def _encode_run_end(self, event: RunEnded) -> list[bytes]:
        pieces: list[bytes] = []
        if event.message is not None:
            pieces += self._encode_last_text(event.message.text)
        elif event.ending == "cancelled":
            # A last step without calls. Clients send a message whose last step has the results of all its calls by
            # themselves, and would do so again and again.
            pieces += self._start_step()
        return [*pieces, _encode(build_usage(self._view.usage))]

    def _encode_last_text(self, text: str) -> list[bytes]:
        """Return a text that is not part of a turn as a step of its own."""
        step = self._start_step()
        self._begin_turn(len(self._view.turns) + 1)
        return [*step, self._encode_text(text), self._end_part()]


def _drop_bytes(text: str, sent: int) -> tuple[str, int]:
    """Return what is left of a text of which so many bytes, with those of the texts before it, were sent."""
    if not sent:
        return text, 0
    encoded = text.encode()
    return encoded[sent:].decode(errors="ignore"), max(0, sent - len(encoded))


def _find_finish_reason(view: RunView) -> str:
    if view.status == "waiting":
        return "other" if view.awaited_budget else "tool-calls"
    finish = view.last_reply.finish if view.last_reply else None
    return _FINISH_REASONS.get(finish or "stop") or ("other" if view.ending == "limit" else "stop")


def _encode(frame: Frame) -> bytes:
    return b"data: %b\n\n" % msgspec.json.encode(frame)


def encode_failure(error: ToolyardError, correlation_id: str) -> bytes:
    """Return the last frames of a stream that cannot go on, or that cannot begin."""
    _, body, _ = build_error_response(error, correlation_id)
    return _encode({"type": "error", "errorText": body.error}) + DONE
