"""Log lines about runs, made from stored entries: one for each run, tool call and model failure; steps at DEBUG."""

import logging
from collections.abc import Mapping, Sequence
from typing import TypeVar

from toolyard.core.conversation.events import (
    CallEnded,
    CallJudged,
    CallStarted,
    Entry,
    HistoryCompacted,
    RunEnded,
    RunQueued,
    RunStarted,
    RunSuspended,
    TurnEnded,
    TurnFailed,
    TurnStarted,
)
from toolyard.core.conversation.history import find_open_calls
from toolyard.core.items import Call, Result
from toolyard.observability.log_lines import MAX_VALUE_CHARS, log_line, redact
from toolyard.observability.telemetry import Handlers, bind

T = TypeVar("T")

RUNS = logging.getLogger("toolyard.runs")
TOOLS = logging.getLogger("toolyard.tools")
MODELS = logging.getLogger("toolyard.models")

MAX_OPEN_CALLS = 2048
MAX_OPEN_RUNS = 2048
"""Runs and calls that wait may never end in this process, so the oldest are dropped beyond this number."""
MAX_SMALL_VALUES = 16
_SMALL_TYPES = frozenset({int, float, bool, type(None)})
EXPECTED_ERRORS = frozenset({"cancelled", "denied_by_user"})
"""Error types of calls that a person ended on purpose."""


class RunLog:
    """An observer that logs stored entries. It remembers, within bounds, what a line needs from earlier entries."""

    def __init__(self) -> None:
        self._arguments: dict[str, object] = {}
        self._tools: dict[str, str] = {}
        self._models: dict[str, str] = {}
        self.handlers: Handlers = {
            **bind(RunQueued, self._remember_run),
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

    def _remember_run(self, _: Entry, event: RunQueued) -> None:
        self._remember_calls(find_open_calls(event.input))

    def _log_run_start(self, entry: Entry, event: RunStarted) -> None:
        _remember(self._models, entry.run, event.model, MAX_OPEN_RUNS)
        _log(RUNS, logging.DEBUG, entry, "Starting run", model=event.model)

    @staticmethod
    def _log_suspension(entry: Entry, event: RunSuspended) -> None:
        _log(RUNS, logging.DEBUG, entry, "Run waiting", waiting_for=event.waiting_for)

    def _log_run_end(self, entry: Entry, event: RunEnded) -> None:
        level = logging.INFO if event.ending in ("done", "cancelled") else logging.WARNING
        model = self._models.pop(event.run_id or entry.run, "")
        _log(RUNS, level, entry, "Run ended", ending=event.ending, model=model, detail=event.detail)

    @staticmethod
    def _log_turn_start(entry: Entry, event: TurnStarted) -> None:
        if RUNS.isEnabledFor(logging.DEBUG):
            _log(RUNS, logging.DEBUG, entry, f"Registered {event.offered} tools for this request", turn=event.number)

    def _log_turn_end(self, entry: Entry, event: TurnEnded) -> None:
        calls = [item for item in event.items if isinstance(item, Call)]
        if calls:
            if RUNS.isEnabledFor(logging.DEBUG):
                _log(RUNS, logging.DEBUG, entry, f"Model requested {len(calls)} tool call(s)")
            self._remember_calls(calls)
            for item in event.items:  # calls that the provider ran have their results in the same turn
                if isinstance(item, Result):
                    self._log_result(entry, item)
        if event.output_problem is not None:
            error = event.output_problem.error
            _log(MODELS, logging.WARNING, entry, "Model answer does not fit the schema", error=error)

    def _log_turn_failure(self, entry: Entry, event: TurnFailed) -> None:
        problem = event.problem
        _log(
            MODELS,
            logging.ERROR,
            entry,
            "Model turn failed",
            model=self._models.get(entry.run, ""),
            error_type=problem.error_type,
            error=problem.error,
            details=problem.details,
        )

    def _log_verdict(self, entry: Entry, event: CallJudged) -> None:
        if not RUNS.isEnabledFor(logging.DEBUG):
            return
        fields = {"tool_name": self._tools.get(event.call_id, ""), "call_id": event.call_id}
        if event.verdict == "allow":
            _log(RUNS, logging.DEBUG, entry, "Executing tool", **fields, rule=event.rule)
            arguments = self._arguments.get(event.call_id)
            _log(RUNS, logging.DEBUG, entry, "Parsed tool arguments", **fields, arguments=arguments)
        else:
            _log(RUNS, logging.DEBUG, entry, f"Tool verdict: {event.verdict}", **fields, rule=event.rule)

    def _log_call_start(self, entry: Entry, event: CallStarted) -> None:
        if RUNS.isEnabledFor(logging.DEBUG):
            fields = {"tool_name": self._tools.get(event.call_id, ""), "call_id": event.call_id}
            _log(RUNS, logging.DEBUG, entry, "Tool start", **fields, attempt=event.attempt)

    def _log_call_end(self, entry: Entry, event: CallEnded) -> None:
        self._log_result(entry, event.result)

    def _log_result(self, entry: Entry, result: Result) -> None:
        arguments, error = self._arguments.pop(result.call_id, None), result.error
        self._tools.pop(result.call_id, None)
        if error is None and not (TOOLS.isEnabledFor(logging.INFO) or RUNS.isEnabledFor(logging.DEBUG)):
            return
        fields: dict[str, object] = {"tool_name": result.tool, "call_id": result.call_id, "outcome": result.outcome}
        duration_ms = round(result.duration_ms, 1)
        if error is None:
            _log(TOOLS, logging.INFO, entry, "Tool finished", **fields, duration_ms=duration_ms)
            _log(RUNS, logging.DEBUG, entry, "Tool execution successful", **fields)
            return
        fields |= {"duration_ms": duration_ms, "error_type": error.error_type, "error": error.error}
        if error.error_type in EXPECTED_ERRORS:
            _log(TOOLS, logging.INFO, entry, "Tool finished", **fields)
            return
        fields |= {"details": error.details, "arguments": arguments}
        _log(TOOLS, logging.WARNING, entry, "Tool execution error", **fields)

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

    def _remember_calls(self, calls: Sequence[Call]) -> None:
        if calls and TOOLS.isEnabledFor(logging.WARNING):
            for call in calls:
                # Redacted here if they are not small: that bounds the memory of a call with 8 MB of arguments while it
                # waits, or for good if it ends elsewhere.
                arguments = call.arguments if _is_small(call.arguments) else redact(call.arguments)
                _remember(self._arguments, call.id, arguments, MAX_OPEN_CALLS)
                _remember(self._tools, call.id, call.tool, MAX_OPEN_CALLS)


def _is_small(arguments: Mapping[str, object]) -> bool:
    return len(arguments) <= MAX_SMALL_VALUES and all(
        type(value) in _SMALL_TYPES or (type(value) is str and len(value) <= MAX_VALUE_CHARS)
        for value in arguments.values()
    )


def _remember(table: dict[str, T], key: str, value: T, max_size: int) -> None:
    if len(table) >= max_size:
        del table[next(iter(table))]
    table[key] = value


def _log(logger: logging.Logger, level: int, entry: Entry, event: str, /, **fields: object) -> None:
    log_line(logger, level, entry.correlation_id, event, run=entry.run, **fields)
