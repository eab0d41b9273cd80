"""Log lines about runs, made from stored entries: one for each run, tool call and model failure; steps at DEBUG."""

import logging
from collections.abc import Iterable
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
from toolyard.core.items import Call, Item, Result
from toolyard.observability.log_lines import log_line, redact

T = TypeVar("T")

RUNS = logging.getLogger("toolyard.runs")
TOOLS = logging.getLogger("toolyard.tools")
MODELS = logging.getLogger("toolyard.models")

MAX_OPEN_CALLS = 2048
MAX_OPEN_RUNS = 2048
"""Runs and calls that wait may never end in this process, so the oldest are dropped beyond this number."""
EXPECTED_ERRORS = frozenset({"cancelled", "denied_by_user"})
"""Error types of calls that a person ended on purpose."""


class RunLog:
    """An observer that logs stored entries. It remembers, within bounds, what a line needs from earlier entries."""

    def __init__(self) -> None:
        self._arguments: dict[str, object] = {}
        self._tools: dict[str, str] = {}
        self._models: dict[str, str] = {}

    def observe(self, entry: Entry) -> None:
        match entry.event:
            case RunQueued() | RunStarted() | RunSuspended() | RunEnded() as event:
                self._log_run(entry, event)
            case TurnStarted() | TurnEnded() | TurnFailed() as event:
                self._log_turn(entry, event)
            case CallJudged() | CallStarted() | CallEnded() as event:
                self._log_call(entry, event)
            case HistoryCompacted() as event:
                self._log_compaction(entry, event)
            case _:
                pass

    def _log_run(self, entry: Entry, event: RunQueued | RunStarted | RunSuspended | RunEnded) -> None:
        match event:
            case RunQueued(input=items):
                self._remember_calls(find_open_calls(items))
            case RunStarted(model=model):
                _remember(self._models, entry.run, model, MAX_OPEN_RUNS)
                _log(RUNS, logging.DEBUG, entry, "Starting run", model=model)
            case RunSuspended(waiting_for=waiting_for):
                _log(RUNS, logging.DEBUG, entry, "Run waiting", waiting_for=waiting_for)
            case RunEnded(ending=ending, detail=detail, run_id=run_id):
                level = logging.INFO if ending in ("done", "cancelled") else logging.WARNING
                model = self._models.pop(run_id or entry.run, "")
                _log(RUNS, level, entry, "Run ended", ending=ending, model=model, detail=detail)

    def _log_turn(self, entry: Entry, event: TurnStarted | TurnEnded | TurnFailed) -> None:
        match event:
            case TurnStarted(offered=offered, number=number):
                if RUNS.isEnabledFor(logging.DEBUG):
                    _log(RUNS, logging.DEBUG, entry, f"Registered {offered} tools for this request", turn=number)
            case TurnEnded(items=items, output_problem=problem):
                self._log_requested_calls(entry, items)
                if problem is not None:
                    _log(MODELS, logging.WARNING, entry, "Model answer does not fit the schema", error=problem.error)
            case TurnFailed(problem=problem):
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

    def _log_requested_calls(self, entry: Entry, items: tuple[Item, ...]) -> None:
        calls = [item for item in items if isinstance(item, Call)]
        if not calls:
            return
        _log(RUNS, logging.DEBUG, entry, f"Model requested {len(calls)} tool call(s)")
        self._remember_calls(calls)
        for item in items:  # calls that the provider ran have their results in the same turn
            if isinstance(item, Result):
                self._log_result(entry, item)

    def _log_call(self, entry: Entry, event: CallJudged | CallStarted | CallEnded) -> None:
        if isinstance(event, CallEnded):
            self._log_result(entry, event.result)
            return
        if not RUNS.isEnabledFor(logging.DEBUG):
            return
        fields = {"tool_name": self._tools.get(event.call_id, ""), "call_id": event.call_id}
        match event:
            case CallStarted(attempt=attempt):
                _log(RUNS, logging.DEBUG, entry, "Tool start", **fields, attempt=attempt)
            case CallJudged(verdict="allow", rule=rule):
                _log(RUNS, logging.DEBUG, entry, "Executing tool", **fields, rule=rule)
                arguments = self._arguments.get(event.call_id)
                _log(RUNS, logging.DEBUG, entry, "Parsed tool arguments", **fields, arguments=arguments)
            case CallJudged(verdict=verdict, rule=rule):
                _log(RUNS, logging.DEBUG, entry, f"Tool verdict: {verdict}", **fields, rule=rule)

    def _log_result(self, entry: Entry, result: Result) -> None:
        arguments, error = self._arguments.pop(result.call_id, None), result.error
        self._tools.pop(result.call_id, None)
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

    def _remember_calls(self, items: Iterable[Item]) -> None:
        if not TOOLS.isEnabledFor(logging.WARNING):
            return
        for item in items:
            if isinstance(item, Call):
                # Redacted here, not when it is logged: that bounds the memory of a call with 8 MB of arguments while it
                # waits for an approval.
                _remember(self._arguments, item.id, redact(item.arguments), MAX_OPEN_CALLS)
                _remember(self._tools, item.id, item.tool, MAX_OPEN_CALLS)


def _remember(table: dict[str, T], key: str, value: T, max_size: int) -> None:
    if len(table) >= max_size:
        del table[next(iter(table))]
    table[key] = value


def _log(logger: logging.Logger, level: int, entry: Entry, event: str, /, **fields: object) -> None:
    log_line(logger, level, entry.correlation_id, event, run=entry.run, **fields)
