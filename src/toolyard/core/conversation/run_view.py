"""A run as its readers see it: the fold of its entries. Pure.

Every answer about a run and every stream of it is encoded from this view. A reader yields the entries of all runs of a
conversation: a `RunView` takes those of its own run, `OpenRuns` holds a view of each run that has not ended. Fleeting
events change no view: `apply` only tells whose they are, and the reader has their text.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import Literal, assert_never

from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.conversation.events import (
    CallAnswered,
    CallApproved,
    CallDenied,
    CallEnded,
    CallEvent,
    CallJudged,
    CallParked,
    CallsRequested,
    CallStarted,
    ConversationChanged,
    ConversationOpened,
    Ending,
    Entry,
    Finish,
    HistoryCompacted,
    HistoryRewound,
    MessageAdded,
    MessageRemoved,
    Published,
    RunEnded,
    RunEvent,
    RunQueued,
    RunStarted,
    RunSuspended,
    StopRequested,
    TurnEnded,
    TurnEvent,
    TurnFailed,
    TurnStarted,
    is_call_event,
    is_turn_event,
)
from toolyard.core.conversation.history import find_open_calls
from toolyard.core.conversation.run_state import MAX_OUTPUT_REPAIRS, Phase
from toolyard.core.items import ApprovalRecord, Call, Citation, Item, ModelText, Problem, Result, Usage
from toolyard.core.model_failures import HOSTED_CALL, RETRYABLE_ERROR_TYPES
from toolyard.core.tools.approval_terms import ApprovalTerms
from toolyard.core.tools.trust import UntrustedSource

RunStatus = Literal["queued", "running", "waiting", "ended"]
Awaited = Literal["approval", "client", "answer"]


class TurnView(Struct, kw_only=True):
    """A model request and its reply, which is there once the turn has ended."""

    number: int
    starts: int = 1
    """How often the turn started: all but the last owner died."""
    items: tuple[Item, ...] = ()
    finish: Finish | None = None
    problem: Problem | None = None
    """Why the turn failed."""
    output_problem: Problem | None = None
    """Why the text does not fit the request's output schema."""
    usage: Usage = Usage()
    model: str = ""
    stop_sequence: str = ""
    """The text of the request's `stop` that the answer ended before, if the provider tells it."""

    @property
    def restarted(self) -> bool:
        """Return whether readers have to drop what they got of the turn before: its first owner died."""
        return self.starts > 1

    @property
    def texts(self) -> list[ModelText]:
        return [item for item in self.items if isinstance(item, ModelText)]


class CallView(Struct, kw_only=True):
    """A call of the run, from its request to its result."""

    call: Call
    parent: str = ""
    """The call that runs the program which asked for this one; empty for a call of the model."""
    line: int = 0
    """The line of the program that makes this call."""
    printed: str = ""
    """What the program that this call runs had printed when it last began to wait."""
    turn: int = 0
    """The turn that requested the call; 0 for a call of the run's input."""
    asker: Caller | None = None
    """Who started the run; None in a view that began in the middle of it."""
    phase: Phase = "requested"
    rule: str = ""
    """The policy rule of the verdict."""
    expires_at: float = 0.0
    sources: tuple[UntrustedSource, ...] = ()
    """The untrusted content before a call that waits for an approval."""
    terms: ApprovalTerms | None = None
    """Who may decide the call, and how many of them."""
    edited: dict[str, object] | None = None
    """The arguments in place of the model's, if the approver changed them."""
    attempt: int = 0
    """The number of the last attempt; 0 if the call never started."""
    parked: CallParked | None = None
    """Why the call waited last for its result, or with which question."""
    decisions: tuple[ApprovalRecord, ...] = ()
    """Who approved or denied the call, and why."""
    result: Result | None = None

    @property
    def arguments(self) -> dict[str, object]:
        """Return the arguments that the call runs with: the model's, or those of the approver."""
        return self.call.arguments if self.edited is None else self.edited

    @property
    def awaited(self) -> Awaited | None:
        """Return what the call waits for now: an approval, the application's result, or an answer to its question."""
        if self.phase == "asking":
            return "approval"
        if self.phase != "parked" or self.parked is None:
            return None
        return "client" if self.parked.kind == "client" else "answer"

    @property
    def needs_others(self) -> bool:
        """Return whether the call waits for the approval of others: the caller who asked may not decide."""
        if self.phase != "asking" or self.terms is None:
            return False
        if self.asker is None:
            return self.terms.other
        return bool(self.terms.find_refusal(self.asker, self.asker, self.asker))

    @property
    def awaited_approval(self) -> str:
        """Return whose approval the call waits for, in words, as in `an approval` or `the approval of the role x`."""
        if self.terms is None:
            return "an approval"
        return f"the approval of {self.terms.describe_approvers()}"

    def apply(self, event: CallEvent) -> None:
        match event:  # frequent events first
            case CallStarted():
                self.phase = "nested" if self.phase == "nested" else "running"
                self.attempt = event.attempt
                self.rule = event.rule or self.rule
            case CallEnded():
                self.phase, result = "closed", event.result
                self.result = replace(result, decisions=self.decisions) if self.decisions else result
            case CallJudged():
                self.rule, self.expires_at = event.rule, event.expires_at
                self.terms, self.sources = event.terms, event.sources
                if event.verdict != "deny":  # the end of a denied call follows
                    self.phase = "allowed" if event.verdict == "allow" else "asking"
            case CallApproved():
                self.edited = event.arguments
                self.decisions += (ApprovalRecord(by=event.by, approved=True, reason=event.reason),)
                if not event.remaining:
                    self.phase = "allowed"
            case CallAnswered():
                self.phase = "allowed"
            case CallParked():
                self.phase, self.parked, self.expires_at = "parked", event, event.expires_at
            case CallDenied():  # the end of the call follows
                self.decisions += (ApprovalRecord(by=event.by, approved=False, reason=event.reason),)
            case _:
                assert_never(event)


class RunView(Struct, kw_only=True):
    """One run. `apply` takes what a reader of its conversation yields."""

    run_id: str
    conversation: str = ""
    correlation_id: str = ""
    """The correlation id of the request, or of the command that ended the run."""
    request: RunQueued | None = None
    status: RunStatus = "queued"
    language: str = ""
    """The language of the server's own messages."""
    turns: list[TurnView] = []
    calls: dict[str, CallView] = {}
    """All calls, open and closed, in the order of their requests."""
    waiting_for: tuple[str, ...] = ()
    """The calls that a suspended run waits for."""
    awaited_budget: str = ""
    """The budget that a suspended run waits for, until its amount is raised."""
    waits: int = 0
    """How often the run was suspended."""
    stop: StopRequested | None = None
    """Set once the whole run is to stop: nobody has to act on its calls any more."""
    usage: Usage = Usage()
    model_calls: int = 0
    """How many requests were made to models, including those for a summary."""
    end: RunEnded | None = None

    def is_client_tool(self, name: str) -> bool:
        """Return whether a tool came with the request, so that its client runs it."""
        return self.request is not None and any(tool.name == name for tool in self.request.app_tools)

    @property
    def at_rest(self) -> bool:
        """Return whether the run has ended or waits for somebody."""
        return self.status in ("waiting", "ended")

    @property
    def is_active(self) -> bool:
        """Return whether the run has started and not ended. Fleeting events of the conversation are then its own.

        They carry no run id, but the runs of a conversation follow one another.
        """
        return self.status == "running" or self.status == "waiting"

    @property
    def ending(self) -> Ending | None:
        return self.end.ending if self.end else None

    @property
    def detail(self) -> str:
        return self.end.detail if self.end else ""

    @property
    def problem(self) -> Problem | None:
        """Return why the run failed, with the details of the turn that failed: the end of a run has only the text."""
        problem = self.end.problem if self.end else None
        failed = self.turns[-1].problem if self.turns else None
        if problem is None or failed is None or failed.error_type != problem.error_type:
            return problem
        return replace(problem, details=failed.details)

    @property
    def may_run_again(self) -> bool:
        """Return whether the run failed for a reason that passes, and before any call started, a provider's own too."""
        problem = self.problem
        if problem is None or problem.error_type not in RETRYABLE_ERROR_TYPES or problem.details.get(HOSTED_CALL):
            return False
        return not any(call.attempt or call.call.ran_at or call.parked for call in self.calls.values())

    @property
    def last_reply(self) -> TurnView | None:
        """Return the last turn that has ended with a reply."""
        return next((turn for turn in reversed(self.turns) if turn.finish is not None), None)

    @property
    def needs_repair(self) -> bool:
        """Return whether the model is asked again, because its last answer does not fit the output schema."""
        rejected = [turn for turn in self.turns if turn.output_problem is not None]
        return bool(rejected) and rejected[-1] is self.last_reply and len(rejected) <= MAX_OUTPUT_REPAIRS

    @property
    def texts(self) -> list[ModelText]:
        """Return the answer: the message at the run's end, else the texts of the last reply."""
        if self.end is not None and self.end.message is not None:
            return [self.end.message]
        return self.last_reply.texts if self.last_reply else []

    @property
    def text(self) -> str:
        return "".join(text.text for text in self.texts)

    @property
    def citations(self) -> tuple[Citation, ...]:
        return merge_citations(self.texts)

    @property
    def open_calls(self) -> list[CallView]:
        """Return the calls that have no result yet. Only the last turn has any; a provider's call is never open."""
        latest = self.turns[-1].number if self.turns else 0
        calls = list(takewhile(lambda call: call.turn == latest, reversed(self.calls.values())))
        return [call for call in reversed(calls) if call.phase != "closed" and not call.call.ran_at]

    def list_turn_calls(self, turn: int) -> list[CallView]:
        """Return the calls that the model made in a turn, without those of programs."""
        return [call for call in self.calls.values() if call.turn == turn and not call.parent]

    def list_items(self) -> list[Item]:
        """Return the items that the run has added to the history, the results after the turn of their calls."""
        results: dict[int, list[Item]] = {}
        for call in self.calls.values():
            if call.result is not None and not call.result.ran_at and not call.parent:
                results.setdefault(call.turn, []).append(call.result)
        items = results.get(0, [])
        for turn in self.turns:
            items += [*turn.items, *results.get(turn.number, ())]
        return [*items, self.end.message] if self.end and self.end.message else items

    def apply(self, item: Published) -> "RunView | None":
        """Update from an entry and return this view, or return None if the item belongs to another run."""
        if isinstance(item, Entry):
            if item.run != self.run_id:
                return None
            self._apply_entry(item)
            return self
        return self if self.is_active else None

    def _apply_entry(self, entry: Entry) -> None:
        event = entry.event
        if is_call_event(event):
            if self.status == "waiting":
                self._resume()
            if isinstance(event, CallEnded):
                self._close_call(event)
            elif (call := self.calls.get(event.call_id)) is not None:
                call.apply(event)
            return
        if is_turn_event(event):
            self._apply_turn_event(event)
            return
        match event:
            case CallsRequested():
                self._add_children(event)
            case RunQueued() | RunStarted() | StopRequested() | RunSuspended() | RunEnded():
                self._apply_run_event(event, entry)
            case HistoryCompacted():
                self.usage = self.usage.plus(event.usage)
                self.model_calls += event.summarised or event.problem is not None
            case ConversationOpened() | ConversationChanged() | MessageAdded() | MessageRemoved() | HistoryRewound():
                pass  # the conversation's, not the run's
            case _:
                assert_never(event)

    def _resume(self) -> None:
        self.status, self.waiting_for, self.awaited_budget = "running", (), ""

    def _close_call(self, event: CallEnded) -> None:
        result = event.result
        if result.call_id not in self.calls:  # a provider may send a result without the call
            call = Call(id=result.call_id, at=result.at, tool=result.tool, arguments={}, ran_at=result.ran_at)
            self._add_call(call)
        self.calls[result.call_id].apply(event)

    def _add_children(self, event: CallsRequested) -> None:
        if (program := self.calls.get(event.parent)) is not None:
            program.phase = "nested"
            program.printed += event.printed
        for number, call in enumerate(event.calls):
            self._add_call(call, event.parent, event.lines[number] if event.lines else 0)

    def _add_call(self, call: Call, parent: str = "", line: int = 0) -> None:
        self.calls[call.id] = CallView(
            call=call,
            parent=parent,
            line=line,
            turn=self.turns[-1].number if self.turns else 0,
            asker=self.request.caller if self.request else None,
        )

    def _apply_turn_event(self, event: TurnEvent) -> None:
        if isinstance(event, TurnStarted):
            if self.status == "waiting":
                self._resume()
            self._start_turn(event.number)
            return
        if not self.turns:  # the view began in the middle of the run
            self._start_turn(0)
        turn = self.turns[-1]
        self.model_calls += 1
        match event:
            case TurnEnded():
                turn.items, turn.finish, turn.usage, turn.model = event.items, event.finish, event.usage, event.model
                turn.output_problem, turn.stop_sequence = event.output_problem, event.stop_sequence
                self.usage = self.usage.plus(event.usage)
                for item in event.items:
                    if isinstance(item, Call):
                        self._add_call(item)
                    elif isinstance(item, Result):
                        self._close_call(CallEnded(result=item))
            case TurnFailed():
                turn.problem = event.problem
            case _:
                assert_never(event)

    def _start_turn(self, number: int) -> None:
        if self.turns and self.turns[-1].number == number:
            # A second start under the same number means that the owner of the first one died: its text is void.
            self.turns[-1].starts += 1
        else:
            self.turns.append(TurnView(number=number))

    def _apply_run_event(self, event: RunEvent, entry: Entry) -> None:
        self.conversation = entry.conversation
        match event:
            case RunQueued():
                self.request, self.correlation_id = event, entry.correlation_id
                for call in find_open_calls(event.input):
                    self._add_call(call)
            case RunStarted():
                self.status, self.correlation_id = "running", entry.correlation_id
                self.language = event.language or (self.request.caller.locale if self.request else "")
            case StopRequested():
                if self.status == "waiting":
                    self._resume()
                self.stop = self.stop if event.call_id else event
            case RunSuspended():
                self.status, self.waiting_for, self.awaited_budget = "waiting", event.waiting_for, event.budget
                self.waits += 1
            case RunEnded():
                self.status, self.waiting_for, self.awaited_budget, self.end = "ended", (), "", event
                self.correlation_id = entry.correlation_id
            case _:
                assert_never(event)


class OpenRuns(Struct, kw_only=True):
    """A view of each run of a conversation that has not ended, and of the run that ended last."""

    views: dict[str, RunView] = {}
    front: RunView | None = None
    """The run that has started and not ended yet."""
    last: RunView | None = None
    """The run that ended last."""

    def apply(self, item: Published) -> RunView | None:
        """Update from an entry and return the view of the item's run, or None if there is none.

        A run is in view from its RunQueued on: no view lacks the beginning of its run.
        """
        if not isinstance(item, Entry):
            return self.front
        if isinstance(item.event, RunQueued):
            self.views[item.run] = RunView(run_id=item.run)
        view = self.views.get(item.run)
        if view is None:
            return None
        view.apply(item)
        if isinstance(item.event, RunStarted):
            self.front = view
        elif view.status == "ended":
            del self.views[item.run]
            self.last, self.front = view, None if self.front is view else self.front
        return view

    def find(self, run_id: str) -> RunView | None:
        """Return the view of an open run, or of the run that ended last."""
        if self.last is not None and self.last.run_id == run_id:
            return self.last
        return self.views.get(run_id)


def merge_citations(texts: Sequence[ModelText]) -> tuple[Citation, ...]:
    """Return the citations of the texts, with offsets into the joined text."""
    merged: list[Citation] = []
    offset = 0
    for text in texts:
        merged += [replace(cited, start=cited.start + offset, end=cited.end + offset) for cited in text.citations]
        offset += len(text.text)
    return tuple(merged)
