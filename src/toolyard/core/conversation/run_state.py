"""The open parts of a conversation: the current run, its turn, its calls, and the queued runs. Data only."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from toolyard.core.conversation.events import CallAnswered, CallApproved, CallParked, Finish, RunQueued
from toolyard.core.conversation.settings import Settings
from toolyard.core.items import ApprovalRecord, Call, Problem, Result, Usage
from toolyard.core.settings.limits import Limits
from toolyard.core.tool_identity import ToolIdentity
from toolyard.core.tools.approval_terms import ApprovalTerms
from toolyard.core.tools.trust import UntrustedSource, join_sources

MAX_OUTPUT_REPAIRS = 1
"""How often a model is asked again because its answer does not fit the output schema."""
Phase = Literal["requested", "asking", "allowed", "running", "nested", "parked", "closed"]


class ChildCall(Struct, frozen=True, gc=False, kw_only=True):
    """A call of a program that has ended."""

    call: Call
    seen: int
    attempt: int
    edited: dict[str, object] | None = None
    """The arguments that the approver put in place of the program's."""
    result: Result


class ProgramState(Struct, frozen=True, gc=False, kw_only=True):
    """The calls that a program has asked for. Those that have not ended are among the open calls."""

    requested: int = 0
    seen: int = 0
    """How many results the program had been given when it last began to wait."""
    ended: tuple[ChildCall, ...] = ()
    """The calls that have ended, in that order."""

    def list_started(self, is_harmless: Callable[[ChildCall], bool] = lambda _: False) -> list[dict[str, object]]:
        """Return tool, arguments and outcome of each ended call that had started, but for harmless ones."""
        return [
            {
                "tool": child.call.tool,
                "arguments": child.call.arguments if child.edited is None else child.edited,
                "outcome": child.result.outcome,
            }
            for child in self.ended
            if child.attempt and not is_harmless(child)
        ]


class CallState(Struct, frozen=True, gc=False, kw_only=True):
    """A call of the last turn, until all calls of the turn have closed; or an open call of a program."""

    call: Call
    parent: str = ""
    """The call that runs the program which asked for this one; empty for a call of the model."""
    seen: int = 0
    """How many results the program had been given when it asked for this call."""
    line: int = 0
    """The line of the program that makes this call."""
    program: ProgramState | None = None
    """Set once a call that runs a program waits for other calls."""
    phase: Phase = "requested"
    exclusive: bool = False
    expires_at: float = 0.0
    sources: tuple[UntrustedSource, ...] = ()
    """The untrusted content before the call, for its approvers."""
    rule: str = ""
    """The rule of the last verdict."""
    terms: ApprovalTerms | None = None
    """Who may decide about it, and how many of them."""
    tool: ToolIdentity | None = None
    """The tool that a person was asked about; None in logs of earlier versions."""
    approvals: tuple[CallApproved, ...] = ()
    """The approvals so far of a call that needs several, or that was asked about again."""
    decisions: tuple[ApprovalRecord, ...] = ()
    """All decisions on the call, also those on other terms before it was asked about again."""
    epoch: int = 0
    attempt: int = 0
    owners: int = 0
    """How many owners have started the call: all but the last one died."""
    approved: CallApproved | None = None
    parked: CallParked | None = None
    answer: CallAnswered | None = None
    stopping: bool = False
    result: Result | None = None

    @property
    def arguments(self) -> dict[str, object]:
        """Return the arguments to run the call with: the model's, or those that the approver edited."""
        edited = self.approved.arguments if self.approved else None
        return self.call.arguments if edited is None else edited

    @property
    def has_news(self) -> bool:
        """Return whether a program has results that the log does not say it was given: it runs, or has to be run."""
        return self.phase == "nested" and self.program is not None and len(self.program.ended) > self.program.seen

    @property
    def program_sources(self) -> str:
        """Return the untrusted sources of a program and of the results of its calls."""
        ended = self.program.ended if self.program is not None else ()
        return join_sources(self.call.untrusted, *(child.result.untrusted for child in ended))


class TurnState(Struct, frozen=True, gc=False, kw_only=True):
    """A model request in flight."""

    number: int
    epoch: int
    owners: int = 1


class QueuedRun(Struct, frozen=True, kw_only=True):
    """A run that has not started yet."""

    id: str
    correlation_id: str
    request: RunQueued


class RunState(Struct, frozen=True, gc=False, kw_only=True):
    """The current run of a conversation."""

    id: str
    correlation_id: str
    request: RunQueued
    model: str
    limits: Limits
    window: int = 0
    language: str = ""
    started_at: float
    direct: bool = False
    """Whether the run started with calls instead of a message: it ends when they close, without a model."""
    tool_turns: int = 0
    called_client: bool = False
    """Whether a tool that came with the request was called."""
    usage: Usage = Usage()
    finish: Finish | None = None
    failure: Problem | None = None
    stopped_by: str | None = None
    stop_detail: str = ""
    settings: Settings
    """The conversation's settings when the run started: a change applies from the next run on."""
    pauses: int = 0
    output_problem: Problem | None = None
    """Why the last answer does not fit the output schema."""
    rejected_outputs: int = 0
    """How many answers did not fit the output schema."""
    suspended_at: float | None = None
    awaited_budget: str = ""
    """The budget that a suspended run waits for; empty if it waits for calls."""
    waited_s: float = 0.0
    idle_owners: int = 0
    """How many owners in a row took the run over and got no further: all but the last one died."""

    @property
    def needs_repair(self) -> bool:
        """Return whether the model is to be asked again, because its last answer does not fit the output schema."""
        return self.output_problem is not None and self.rejected_outputs <= MAX_OUTPUT_REPAIRS

    @property
    def must_call_client(self) -> bool:
        """Return whether a tool that came with the request is still to be called: those of the server do not count."""
        return self.request.tool_choice == "required" and bool(self.request.app_tools) and not self.called_client

    def find_deadline(self, now: float) -> float:
        """Return when the run is out of time: its waits do not count, nor does the one that it is in."""
        deadline = self.started_at + self.waited_s + self.limits.run_seconds
        return deadline if self.suspended_at is None else deadline + now - self.suspended_at
