"""Log lines about runs, made from stored entries: one for each run, tool call and model failure; steps at DEBUG."""

import logging
from collections.abc import Callable

from toolyard.core.conversation.events import (
    CallEnded,
    CallJudged,
    CallStarted,
    Entry,
    HistoryCompacted,
    RunEnded,
    RunStarted,
    RunSuspended,
    TurnEnded,
    TurnFailed,
    TurnStarted,
)
from toolyard.core.conversation.state import State
from toolyard.core.items import Call, Result
from toolyard.core.model_failures import BUDGET_EXCEEDED
from toolyard.observability.log_lines import log_line
from toolyard.observability.telemetry import Handlers, bind

RUNS = logging.getLogger("toolyard.runs")
TOOLS = logging.getLogger("toolyard.tools")
MODELS = logging.getLogger("toolyard.models")

MAX_OPEN_RUNS = 2048
"""Runs that wait may never end in this process, so the oldest are dropped beyond this number."""
EXPECTED_ERRORS = frozenset({"cancelled", "denied_by_user"})
"""Error types of calls that a person ended on purpose."""


class RunLog:
    """An observer that logs stored entries."""

    def __init__(self, find_state: Callable[[str], State | None]) -> None:
        """`find_state` returns the state of a conversation that this process drives."""
        self._find_state = find_state
        self._models: dict[str, str] = {}
        self.handlers: Handlers = {
            **bind(RunStarted, self._log_run_start),
            **bind(RunSuspended, self._log_suspension),
            **bind(RunEnded, self._log_run_end),
            **bind(TurnStarted, self._log_turn_start),
            **bind(TurnEnded, self._log_turn_end),
            **bind(TurnFailed, self._log_turn_failure),
            **bind(CallJudged, self._log_verdict),
            **bind(CallStarted, self._log_call_start),
            **bind(CallEnded, self._log_call_end),
            **bind(HistoryCompacted, self._log_compaction),
        }

    def _log_run_start(self, entry: Entry, event: RunStarted) -> None:
        if len(self._models) >= MAX_OPEN_RUNS:
            del self._models[next(iter(self._models))]
        self._models[entry.run] = event.model
        _log(RUNS, logging.DEBUG, entry, "Starting run", model=event.model)

    @staticmethod
    def _log_suspension(entry: Entry, event: RunSuspended) -> None:
        _log(RUNS, logging.DEBUG, entry, "Run waiting", waiting_for=event.waiting_for, budget=event.budget)

    def _log_run_end(self, entry: Entry, event: RunEnded) -> None:
        level = logging.INFO if event.ending in ("done", "cancelled") else logging.WARNING
        model = self._models.pop(event.run_id or entry.run, "")
        _log(RUNS, level, entry, "Run ended", ending=event.ending, model=model, detail=event.detail)

    @staticmethod
    def _log_turn_start(entry: Entry, event: TurnStarted) -> None:
        if RUNS.isEnabledFor(logging.DEBUG):
            _log(RUNS, logging.DEBUG, entry, f"Registered {event.offered} tools for this request", turn=event.number)

    def _log_turn_end(self, entry: Entry, event: TurnEnded) -> None:
        if event.finish == "calls" and RUNS.isEnabledFor(logging.DEBUG):
            calls = sum(isinstance(item, Call) for item in event.items)
            _log(RUNS, logging.DEBUG, entry, f"Model requested {calls} tool call(s)")
        for item in event.items:  # calls that the provider ran have their results in the same turn
            if isinstance(item, Result):
                self._log_result(entry, item)
        if event.output_problem is not None:
            error = event.output_problem.error
            _log(MODELS, logging.WARNING, entry, "Model answer does not fit the schema", error=error)

    def _log_turn_failure(self, entry: Entry, event: TurnFailed) -> None:
        problem = event.problem
        is_refusal = problem.error_type == BUDGET_EXCEEDED  # by the operator's own rule: nothing was sent
        _log(
            MODELS,
            logging.INFO if is_refusal else logging.ERROR,
            entry,
            "Model turn refused" if is_refusal else "Model turn failed",
            model=self._models.get(entry.run, ""),
            error_type=problem.error_type,
            error=problem.error,
            details=problem.details,
        )

    def _log_verdict(self, entry: Entry, event: CallJudged) -> None:
        if not RUNS.isEnabledFor(logging.DEBUG):
            return
        if event.verdict == "allow":
            self._log_allowed(entry, event.call_id, event.rule)
        else:
            fields = self._name_call(self._find_call(entry, event.call_id), event.call_id)
            _log(RUNS, logging.DEBUG, entry, f"Tool verdict: {event.verdict}", **fields, rule=event.rule)

    def _log_allowed(self, entry: Entry, call_id: str, rule: str) -> None:
        call = self._find_call(entry, call_id)
        fields = self._name_call(call, call_id)
        _log(RUNS, logging.DEBUG, entry, "Executing tool", **fields, rule=rule)
        arguments = call.arguments if call else None
        _log(RUNS, logging.DEBUG, entry, "Parsed tool arguments", **fields, arguments=arguments)

    def _log_call_start(self, entry: Entry, event: CallStarted) -> None:
        if not RUNS.isEnabledFor(logging.DEBUG):
            return
        if event.rule is not None:
            self._log_allowed(entry, event.call_id, event.rule)
        fields = self._name_call(self._find_call(entry, event.call_id), event.call_id)
        _log(RUNS, logging.DEBUG, entry, "Tool start", **fields, attempt=event.attempt)

    @staticmethod
    def _name_call(call: Call | None, call_id: str) -> dict[str, object]:
        return {"tool_name": call.tool if call else "", "call_id": call_id}

    def _log_call_end(self, entry: Entry, event: CallEnded) -> None:
        self._log_result(entry, event.result)

    def _log_result(self, entry: Entry, result: Result) -> None:
        error = result.error
        if error is None:
            self._log_success(entry, result)
            return
        fields: dict[str, object] = {"tool_name": result.tool, "call_id": result.call_id, "outcome": result.outcome}
        fields |= {"duration_ms": round(result.duration_ms, 1), "error_type": error.error_type, "error": error.error}
        if error.error_type in EXPECTED_ERRORS:
            _log(TOOLS, logging.INFO, entry, "Tool finished", **fields)
            return
        call = self._find_call(entry, result.call_id)
        fields |= {"details": error.details, "arguments": call.arguments if call else None}
        _log(TOOLS, logging.WARNING, entry, "Tool execution error", **fields)

    @staticmethod
    def _log_success(entry: Entry, result: Result) -> None:
        # By `log_line`, as most lines are of this kind: `_log` would copy the fields once more.
        if TOOLS.isEnabledFor(logging.INFO):
            log_line(
                TOOLS,
                logging.INFO,
                entry.correlation_id,
                "Tool finished",
                run=entry.run,
                tool_name=result.tool,
                call_id=result.call_id,
                outcome=result.outcome,
                duration_ms=round(result.duration_ms, 1),
            )
        if RUNS.isEnabledFor(logging.DEBUG):
            fields = {"tool_name": result.tool, "call_id": result.call_id, "outcome": result.outcome}
            _log(RUNS, logging.DEBUG, entry, "Tool execution successful", **fields)

    @staticmethod
    def _log_compaction(entry: Entry, event: HistoryCompacted) -> None:
        problem = event.problem
        _log(
            RUNS,
            logging.WARNING if problem else logging.DEBUG,
            entry,
            "History compacted",
            tokens_before=event.tokens_before,
            tokens_after=event.tokens_after,
            summarised=event.summarised,
            error_type=problem and problem.error_type,
            error=problem and problem.error,
        )

    def _find_call(self, entry: Entry, call_id: str) -> Call | None:
        """Return a call of an entry's conversation. Only lines about failures, and those at DEBUG, look for it."""
        state = self._find_state(entry.conversation)
        if state is None:
            return None
        if (open_call := state.calls.get(call_id)) is not None:
            return open_call.call
        programs = [call.program for call in state.calls.values() if call.program is not None]
        for child in (child for program in programs for child in program.ended):
            if child.call.id == call_id:
                return child.call
        at = state.history.find(call_id)
        item = state.history[at] if at is not None else None
        return item if isinstance(item, Call) else None


def _log(logger: logging.Logger, level: int, entry: Entry, event: str, /, **fields: object) -> None:
    log_line(logger, level, entry.correlation_id, event, run=entry.run, **fields)
