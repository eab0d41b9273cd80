"""Log lines, one story per correlation id, told from the entries of the journal. Secrets are masked.

It does not know who reads the log; `configure_logging` is a convenience for programs, not used by the library.
"""

import logging
import re
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar

from toolyard.core.events import (
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
from toolyard.core.items import Call, Result
from toolyard.core.masking import MASK, mask_addresses

log = logging.getLogger("toolyard")
correlation: ContextVar[str] = ContextVar("toolyard_correlation_id", default="")
"""Bound while a tool runs, so that the tool's own log lines carry the id too."""

_SECRET_KEY = re.compile(r"pass(word|wd|phrase)|secret|token|api[-_]?key|authorization|credential|cookie", re.I)
_SECRET_TEXT = re.compile(
    r"(?i)\b(bearer\s+|sk-|pk-|ghp_|xox[a-z]-)[\w.\-]{8,}"
    r"|\b(pass(?:word|wd)|secret|token|api[-_]?key)(\s*[=:]\s*)\"?[^\s\",;&]{3,}"
)
DEEPEST = 20


def masked(value: object, depth: int = 0) -> object:
    """The value with everything that looks like a secret left out, and what lies too deep."""
    if depth > DEEPEST:
        return "…"
    if isinstance(value, str):
        text = mask_addresses(value)
        return _SECRET_TEXT.sub(lambda found: f"{found[1] or (found[2] + found[3])}{MASK}", text)
    if isinstance(value, Mapping):
        pairs: Mapping[object, object] = value  # pyright: ignore[reportUnknownVariableType]
        return {key: MASK if _SECRET_KEY.search(str(key)) else masked(one, depth + 1) for key, one in pairs.items()}
    if isinstance(value, list | tuple):
        several: list[object] = list(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return [masked(one, depth + 1) for one in several]
    return value


class Observers:
    """Tells each entry to several. One that fails is logged the first time; the commit and the others do not notice."""

    def __init__(self, *observers: Callable[[Entry], None]) -> None:
        self._observers = observers
        self._failed: list[Callable[[Entry], None]] = []

    def observe(self, entry: Entry) -> None:
        for observe in self._observers:
            try:
                observe(entry)
            except Exception:
                if observe not in self._failed:
                    self._failed.append(observe)
                    log.exception("an observer failed and may miss more; this is said once: %r", observe)


class Telemetry:
    """Tells what was committed, line by line."""

    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}

    def observe(self, entry: Entry) -> None:
        if not log.isEnabledFor(logging.INFO):
            return
        event = entry.event
        if isinstance(event, TurnEnded):
            over = {item.call_id for item in event.items if isinstance(item, Result)}
            self._calls.update((i.id, i) for i in event.items if isinstance(i, Call) and not (i.ran_at or i.id in over))
        self._line(entry)
        if isinstance(event, CallEnded):
            self._calls.pop(event.result.call_id, None)

    def _line(self, entry: Entry) -> None:
        match entry.event:
            case RunStarted(model=model):
                self._say(entry, "Starting run", model=model)
            case TurnStarted(offered=offered, number=number):
                self._say(entry, f"Registered {offered} tools for this request", turn=number)
            case TurnEnded(items=items) if any(isinstance(item, Call) for item in items):
                calls = sum(isinstance(item, Call) for item in items)
                self._say(entry, f"Model requested {calls} tool call(s)")
            case TurnFailed(problem=problem):
                self._say(entry, "Model turn failed", error_type=problem.error_type, error=problem.error)
            case HistoryCompacted(tokens_before=before, tokens_after=after, summarised=summarised):
                self._say(entry, "History compacted", tokens_before=before, tokens_after=after, summarised=summarised)
            case CallJudged() | CallStarted() | CallEnded() as event:
                self._call_line(entry, event)
            case RunSuspended(waiting_for=waiting_for):
                self._say(entry, "Run waiting", waiting_for=waiting_for)
            case RunEnded(ending=ending, detail=detail):
                self._say(entry, "Run ended", ending=ending, detail=detail)
            case _:
                pass

    def _call_line(self, entry: Entry, event: CallJudged | CallStarted | CallEnded) -> None:
        match event:
            case CallJudged():
                self._judged(entry, event)
            case CallStarted(call_id=call_id, attempt=attempt):
                self._say(entry, "Tool start", **self._about(call_id), attempt=attempt)
            case CallEnded():
                self._ended(entry, event)

    def _judged(self, entry: Entry, event: CallJudged) -> None:
        about, call = self._about(event.call_id), self._calls.get(event.call_id)
        said = "Executing tool" if event.verdict == "allow" else f"Tool verdict: {event.verdict}"
        self._say(entry, said, **about, rule=event.rule)
        if call is not None and event.verdict == "allow":
            self._say(entry, "Parsed tool arguments", **about, arguments=call.arguments)

    def _about(self, call_id: str) -> dict[str, object]:
        call = self._calls.get(call_id)
        return {"tool_name": call.tool if call else "", "call_id": call_id}

    def _ended(self, entry: Entry, event: CallEnded) -> None:
        result = event.result
        about: dict[str, object] = {"tool_name": result.tool, "call_id": result.call_id}
        self._say(entry, "Tool finished", **about, outcome=result.outcome, duration_ms=round(result.duration_ms, 1))
        if result.error is None:
            self._say(entry, "Tool execution successful", **about)
        else:
            error = result.error
            self._say(entry, "Tool execution error", **about, error_type=error.error_type, error=error.error)

    @staticmethod
    def _say(entry: Entry, said: str, **about: object) -> None:
        log.info(said, extra={"correlation_id": entry.correlation_id, "fields": masked({"run": entry.run, **about})})


class LineFormatter(logging.Formatter):
    """`[INFO ] correlation_id=… | tool_name=… | Tool start`, the same for a tool's own lines."""

    def format(self, record: logging.LogRecord) -> str:
        bound = getattr(record, "correlation_id", "") or correlation.get()
        fields: dict[str, object] = getattr(record, "fields", {})
        parts = [f"correlation_id={bound or '-'}", *(f"{key}={value}" for key, value in fields.items() if value)]
        line = f"[{record.levelname:<5}] {' | '.join([*parts, str(masked(record.getMessage()))])}"
        return f"{line}\n{masked(self.formatException(record.exc_info))}" if record.exc_info else line


def configure_logging(level: str = "INFO") -> None:
    """Write Toolyard's and the tools' log lines to standard error, each with its correlation id."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
