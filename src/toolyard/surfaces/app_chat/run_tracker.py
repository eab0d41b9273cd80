"""Track the run of an application's request: which calls the application has to run, or what the final message is.

The current run of the conversation may be an earlier one that still waits; its calls are then handed out first.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct

from toolyard.core.events import (
    CallAnswered,
    CallApproved,
    CallEnded,
    CallJudged,
    CallParked,
    Entry,
    HistoryCompacted,
    RunEnded,
    RunQueued,
    RunStarted,
    RunSuspended,
    StopRequested,
    TurnEnded,
)
from toolyard.core.items import Call, ModelText, Problem, Usage
from toolyard.core.state import State
from toolyard.core.texts import NO_TEXTS, CustomTexts, get_text
from toolyard.engine.readers import Published
from toolyard.surfaces.app_chat.call_ids import encode_call_id
from toolyard.surfaces.run_answer import Awaited, WaitingCall

StopReason = Literal["done", "max_tool_turns", "max_session_turns", "limit", "cancelled", "failed"]
_STOP_REASONS: Mapping[str, StopReason] = {
    "turns_per_request": "max_tool_turns",
    "turns_per_conversation": "max_session_turns",
}


class PendingAppCall(Struct, kw_only=True):
    """A call for the application to run. Send its result with the same id."""

    id: str
    name: str
    arguments: dict[str, object]


class AnswerMessage(Struct, kw_only=True):
    content: str | None
    role: Literal["assistant"] = "assistant"


class _AnswerBase(Struct, kw_only=True, rename="camel"):
    conversation_id: str
    run_id: str
    correlation_id: str
    overridden_tools: list[str] = []
    """Tools of the application that are not offered to the model, because the server has tools of the same names."""


class AppToolCallsAnswer(_AnswerBase, kw_only=True, rename="camel"):
    """Run each of these calls and post the results; `waiting` lists calls that wait for somebody else."""

    tool_calls: list[PendingAppCall]
    division: str = ""
    """The division of the request that started the run."""
    waiting: list[WaitingCall] = []
    type: Literal["tool_calls"] = "tool_calls"


class AppWaitingAnswer(_AnswerBase, kw_only=True, rename="camel"):
    """The run goes on or waits for somebody else. Post the conversationId alone to ask how it went on."""

    waiting: list[WaitingCall]
    message: AnswerMessage | None = None
    """The model's text before the calls, such as the question that goes with a proposal."""
    type: Literal["waiting"] = "waiting"


class AppFinalAnswer(_AnswerBase, kw_only=True, rename="camel"):
    """The end of the run. `kept` says whether the conversation can be continued by its id.

    If the run failed, the message is a sentence for people and `error` says what went wrong.
    """

    message: AnswerMessage
    stop_reason: StopReason
    usage: dict[str, int]
    detail: str = ""
    kept: bool = True
    error: Problem | None = None
    type: Literal["message"] = "message"


AppAnswer = AppToolCallsAnswer | AppWaitingAnswer | AppFinalAnswer


class RunTracker:
    """Tracks one request from the state in which it arrived. It is `over` once there is something to answer."""

    def __init__(
        self, conversation: str, run_id: str, state: State, last_known_seq: int = 0, texts: CustomTexts = NO_TEXTS
    ) -> None:
        self.run_id = run_id
        self._conversation = conversation
        self.last_known_seq = last_known_seq
        self._texts = texts
        self._languages: dict[str, str] = {}
        self._requests = {queued.id: queued.request for queued in state.queue}
        self.kept = not state.settings.ephemeral
        self._ended: RunEnded | None = None
        self._reset("", "")
        if state.run is not None:
            self._requests[state.run.id] = state.run.request
            self._languages[state.run.id] = state.run.language
            self._load_state(state)

    def _reset(self, run_id: str, correlation_id: str) -> None:
        self.front_run_id = run_id
        self.correlation_id = correlation_id
        self._calls: dict[str, Call] = {}
        self._expected: set[str] = set()
        """Calls of the application's tools that are not parked yet; the calls of a turn are handed out together."""
        self._parked: dict[str, Awaited] = {}
        self._suspended = False
        self._text: str | None = None
        self._usage = Usage()

    def _load_state(self, state: State) -> None:
        run = state.run
        assert run is not None
        self._reset(run.id, run.correlation_id)
        self._usage = run.usage
        self._suspended = run.suspended_at is not None and run.stopped_by is None
        self._add_requested_calls(call.call for call in state.calls.values() if call.phase != "closed")
        for call in state.calls.values():
            if call.phase == "asking":
                self._mark_waiting(call.call.id, "approval")
            elif call.phase == "parked" and call.parked is not None:
                self._mark_waiting(call.call.id, "client" if call.parked.kind == "client" else "answer")
        if run.stopped_by is not None:
            self.mark_stopped()

    @property
    def handed_calls(self) -> list[Call]:
        """The calls that the application has to run, or none until all of the turn are ready to be handed out."""
        app_calls = [call for call in self._calls.values() if self._parked.get(call.id) == "client"]
        return [] if self._expected else app_calls

    @property
    def over(self) -> bool:
        """Whether the run has ended, waits for somebody, or has calls for the application."""
        return self._ended is not None or self._suspended or bool(self.handed_calls)

    def mark_delivered(self, call_ids: Iterable[str]) -> None:
        """Close calls whose results were just delivered, without waiting for their entries."""
        self._suspended = False
        for call_id in call_ids:
            self._close_call(call_id)

    def mark_stopped(self) -> None:
        """Forget what the current run waits for: it is being stopped, and nobody has to act on it any more."""
        self._parked, self._suspended = {}, False

    def track(self, item: Published) -> bool:
        """Update from an item, and return whether it belongs to this request's run."""
        if not isinstance(item, Entry):  # fleeting events have no run id: they are the current run's
            return self.front_run_id == self.run_id
        if item.seq > self.last_known_seq:  # else its effects are in the state that the tracker began with
            self._add(item)
        return item.run == self.run_id

    def _add(self, entry: Entry) -> None:
        match entry.event:
            case RunQueued():
                self._requests[entry.run] = entry.event
            case RunStarted(language=language):
                request = self._requests.get(entry.run)
                self._languages[entry.run] = language or (request.caller.locale if request else "")
                self._reset(entry.run, entry.correlation_id)
            case TurnEnded(items=items, usage=usage):
                self._usage = self._usage.plus(usage)
                self._text = "".join(item.text for item in items if isinstance(item, ModelText)) or None
                self._add_requested_calls(item for item in items if isinstance(item, Call))
            case HistoryCompacted(usage=usage):
                self._usage = self._usage.plus(usage)
            case RunSuspended():
                # A run that waits must be found again, so its conversation is kept even if it was to be temporary.
                self._suspended = self.kept = True
            case StopRequested(call_id=""):
                self.mark_stopped()
            case RunEnded() if entry.run == self.run_id:
                self._ended, self.correlation_id = entry.event, entry.correlation_id
            case RunEnded() if entry.run == self.front_run_id:
                self._reset("", "")
            case _:
                self._add_call_event(entry)

    def _add_call_event(self, entry: Entry) -> None:
        match entry.event:
            case CallJudged(verdict="ask", call_id=call_id):
                self._mark_waiting(call_id, "approval")
            case CallParked(call_id=call_id, kind=kind):
                self.kept = True
                self._mark_waiting(call_id, "client" if kind == "client" else "answer")
            case CallApproved(call_id=call_id) | CallAnswered(call_id=call_id):
                self._suspended = False
                self._parked.pop(call_id, None)
                self._add_requested_calls([self._calls[call_id]] if call_id in self._calls else [])
            case CallEnded(result=result):
                self._suspended = False
                self._close_call(result.call_id)
            case _:
                pass

    def _add_requested_calls(self, calls: Iterable[Call]) -> None:
        request = self._requests.get(self.front_run_id)
        names = {tool.name for tool in request.app_tools} if request else set[str]()
        for call in calls:
            self._calls[call.id] = call
            if call.tool in names:
                self._expected.add(call.id)

    def _mark_waiting(self, call_id: str, awaited: Awaited) -> None:
        self._expected.discard(call_id)
        self._parked[call_id] = awaited

    def _close_call(self, call_id: str) -> None:
        self._expected.discard(call_id)
        self._parked.pop(call_id, None)
        self._calls.pop(call_id, None)

    def build_answer(self, overridden: list[str]) -> AppAnswer:
        """Return the answer for the application as of now."""
        if self._ended is not None:
            return self._build_final(self._ended, overridden)
        others = [
            WaitingCall(call_id=call.id, name=call.tool, arguments=call.arguments, awaited=awaited)
            for call in self._calls.values()
            if (awaited := self._parked.get(call.id, "client")) != "client"
        ]
        conversation, run_id = self._conversation, self.front_run_id or self.run_id
        calls = [
            PendingAppCall(id=encode_call_id(conversation, call.id), name=call.tool, arguments=call.arguments)
            for call in self.handed_calls
        ]
        if calls:
            request = self._requests.get(run_id)
            return AppToolCallsAnswer(
                conversation_id=conversation,
                run_id=run_id,
                correlation_id=self.correlation_id,
                tool_calls=calls,
                division=request.caller.division if request else "",
                waiting=others,
                overridden_tools=overridden,
            )
        return AppWaitingAnswer(
            conversation_id=conversation,
            run_id=run_id,
            correlation_id=self.correlation_id,
            waiting=others,
            message=AnswerMessage(content=self._text) if self._text else None,
            overridden_tools=overridden,
        )

    def _build_final(self, event: RunEnded, overridden: list[str]) -> AppFinalAnswer:
        reason = _STOP_REASONS.get(event.detail, "limit") if event.ending == "limit" else event.ending
        return AppFinalAnswer(
            conversation_id=self._conversation,
            run_id=self.run_id,
            correlation_id=self.correlation_id,
            message=AnswerMessage(content=self._get_final_text(event)),
            stop_reason=reason,
            error=event.problem,
            detail=event.detail,
            usage={"inputTokens": self._usage.input_tokens, "outputTokens": self._usage.output_tokens},
            kept=self.kept,
            overridden_tools=overridden,
        )

    def _get_final_text(self, event: RunEnded) -> str | None:
        if event.ending == "failed":
            return get_text("failed", self._languages.get(self.run_id, ""), self._texts)
        return event.message.text if event.message else self._text
