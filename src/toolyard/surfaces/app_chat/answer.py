"""Find the answer to an application's request: calls that the application has to run, or the final message.

The current run of the conversation may be an earlier one that still waits; its calls are then handed out first.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from toolyard.core.conversation.events import Entry, Published
from toolyard.core.conversation.run_view import CallView, OpenRuns, RunView
from toolyard.core.items import Problem
from toolyard.surfaces.http.model_failures import describe_failure
from toolyard.surfaces.shared.call_ids import encode_call_id
from toolyard.surfaces.shared.runs.answer import WaitingCall, build_waiting_call
from toolyard.surfaces.shared.runs.notices import RunNotices, join_notice

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
    """The model's text before the calls, and a sentence of the server that says what the run waits for."""
    budget: str = ""
    """The budget that the run waits for, until its amount is raised."""
    type: Literal["waiting"] = "waiting"


class AppFinalAnswer(_AnswerBase, kw_only=True, rename="camel"):
    """The end of the run. `kept` says whether the conversation can be continued by its id.

    If the run failed, the message is a sentence for people and `error` says what went wrong.
    """

    message: AnswerMessage
    stop_reason: StopReason
    usage: dict[str, int]
    detail: str = ""
    is_stored: bool = field(default=True, name="kept")
    error: Problem | None = None
    type: Literal["message"] = "message"


AppAnswer = AppToolCallsAnswer | AppWaitingAnswer | AppFinalAnswer


class AnswerBuilder:
    """Follows the run of one request until there is something to answer: then it is `over`."""

    def __init__(
        self,
        conversation: str,
        run_id: str,
        runs: OpenRuns,
        notices: RunNotices,
        *,
        seen_seq: int = 0,
        end_seq: int = 0,
        is_stored: bool = True,
    ) -> None:
        """Start from the runs after entry `seen_seq`. The log had `end_seq` entries when the request came.

        Until they are all read there is no answer: a wait that is read again may be over by now.
        """
        self.run_id = run_id
        self.overridden: list[str] = []
        self._conversation = conversation
        self._runs = runs
        self._seen_seq = seen_seq
        self._end_seq = end_seq
        self._is_stored = is_stored
        self.notices = notices
        self._delivered: frozenset[str] = frozenset()
        self.over = self._has_answer()

    @property
    def current_run(self) -> RunView | None:
        """The run that the answer is about: this request's, or an earlier one that it waits for."""
        run = self._runs.find(self.run_id)
        return run if run is not None and run.status == "ended" else self._runs.front or run

    def expect_results(self, call_ids: Iterable[str]) -> None:
        """Find no answer before the entries of these results, which were just delivered, are read."""
        self._delivered = frozenset(call_ids)
        self.over = self._has_answer()

    def apply(self, item: Published) -> RunView | None:
        """Update from an item, and return the view of this request's run if the item belongs to it."""
        view = self._runs.apply(item)
        if isinstance(item, Entry):
            self._seen_seq = item.seq
            self.over = self._has_answer()
        return view if view is not None and view.run_id == self.run_id else None

    def _has_answer(self) -> bool:
        run = self._runs.find(self.run_id)
        # A run that is not found is one whose start was just submitted: what the command stops or withdraws in front of
        # it is read first.
        if run is None or run.status == "ended":
            return run is not None
        front = self._runs.front
        if front is None or self._seen_seq < self._end_seq:
            return False
        if any(call.call.id in self._delivered for call in front.open_calls):
            return False
        return (front.status == "waiting" and front.stop is None) or bool(_list_handed_calls(front))

    def build_answer(self) -> AppAnswer:
        """Return the answer for the application as of now."""
        front = self.current_run or RunView(run_id=self.run_id)
        if front.status == "ended":
            return self._build_final(front)
        others = [
            build_waiting_call(call)
            for call in front.open_calls
            if front.stop is None and call.awaited in ("approval", "answer")
        ]
        calls = [
            PendingAppCall(
                id=encode_call_id(self._conversation, call.call.id), name=call.call.tool, arguments=call.call.arguments
            )
            for call in _list_handed_calls(front)
        ]
        if calls:
            return AppToolCallsAnswer(
                conversation_id=self._conversation,
                run_id=front.run_id,
                correlation_id=front.correlation_id,
                tool_calls=calls,
                division=front.request.caller.division if front.request else "",
                waiting=others,
                overridden_tools=self.overridden,
            )
        content = join_notice(front.text, self.notices.describe_waiting(front))
        return AppWaitingAnswer(
            conversation_id=self._conversation,
            run_id=front.run_id,
            correlation_id=front.correlation_id,
            waiting=others,
            message=AnswerMessage(content=content) if content else None,
            budget=front.awaited_budget,
            overridden_tools=self.overridden,
        )

    def _build_final(self, run: RunView) -> AppFinalAnswer:
        assert run.ending is not None
        reason = _STOP_REASONS.get(run.detail, "limit") if run.ending == "limit" else run.ending
        return AppFinalAnswer(
            conversation_id=self._conversation,
            run_id=run.run_id,
            correlation_id=run.correlation_id,
            message=AnswerMessage(content=self.notices.describe_failure(run) or run.text or None),
            stop_reason=reason,
            error=_describe_problem(run.problem) if run.problem else None,
            detail=run.detail,
            usage={"inputTokens": run.usage.input_tokens, "outputTokens": run.usage.output_tokens},
            # A run that has waited had to be found again: its conversation is kept even if it was to be temporary.
            is_stored=self._is_stored or run.waits > 0 or any(call.parked for call in run.calls.values()),
            overridden_tools=self.overridden,
        )


def _describe_problem(problem: Problem) -> Problem:
    """Return the problem with what an application needs: the details of a provider's answer are for operators."""
    return replace(problem, details=describe_failure(problem).details)


def _list_handed_calls(run: RunView) -> list[CallView]:
    """Return the calls that the application has to run, or none until all of the turn are ready to be handed out."""
    if run.stop is not None or run.request is None:
        return []
    names = {tool.name for tool in run.request.app_tools}
    app_calls = [call for call in run.open_calls if call.call.tool in names]
    if any(call.awaited is None for call in app_calls):
        return []
    return [call for call in run.open_calls if call.awaited == "client"]
