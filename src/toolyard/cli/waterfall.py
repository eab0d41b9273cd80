"""Draw traces for a terminal: turns, calls and waits as bars over time. Readable at 80 columns and without colour.

A wait of hours between turns of seconds is drawn shorter, or the turns could not be seen; its figure stays exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from toolyard.core.items import Outcome, Usage
from toolyard.observability.trace import CallSpan, Compaction, Trace, TurnSpan, WaitSpan

TURN, WORK, ASKING, WAIT, OPEN = "█", "▓", "░", "┄", "›"
MIN_WIDTH, LABEL_WIDTH, FIGURES_WIDTH = 64, 20, 32
LEGEND = f"{TURN} model  {WORK} tool  {ASKING} with a person or the app  {WAIT} wait  {OPEN} goes on"
OUTCOME_COLOURS: dict[Outcome, str] = {
    "ok": "green",
    "error": "red",
    "timeout": "red",
    "unknown": "red",
    "denied": "yellow",
    "expired": "yellow",
    "cancelled": "bright_black",
}
ENDING_COLOURS = {"done": "green", "limit": "yellow", "cancelled": "bright_black", "failed": "red"}


@dataclass(frozen=True, slots=True)
class BarSegment:
    """A part of a bar: its start, its end, and the character it is drawn with. Without an end it still goes on."""

    start: float
    end: float | None
    mark: str


@dataclass(frozen=True, slots=True)
class Row:
    label: str
    segments: tuple[BarSegment, ...]
    duration_s: float | None
    text: str
    colour: str


class Axis:
    """A function from a time to its position between 0 and 1.

    A wait is cut to half of the time in which the run did not wait, if it was longer.
    """

    def __init__(self, trace: Trace) -> None:
        self._begin = trace.queued_at
        self.last = trace.last_at
        waits = [(wait.started_at, self.last if wait.ended_at is None else wait.ended_at) for wait in trace.waits]
        active = (self.last - self._begin) - sum(end - start for start, end in waits)
        self._cuts = [(start, end, end - start - active / 2) for start, end in waits if end - start > active / 2 > 0]
        self._length = self._compute_offset(self.last)

    @property
    def shortened(self) -> bool:
        return bool(self._cuts)

    def __call__(self, at: float) -> float:
        return self._compute_offset(at) / self._length if self._length > 0 else 0.0

    def _compute_offset(self, at: float) -> float:
        cut = sum(lost * min(1.0, max(0.0, (at - start) / (end - start))) for start, end, lost in self._cuts)
        return at - self._begin - cut


def draw(traces: Sequence[Trace], width: int = 80) -> Text:
    """Return the traces one below the other, each with its own axis. `str()` of the result has no colour."""
    parts = [_draw_trace(trace, max(MIN_WIDTH, width)) for trace in sorted(traces, key=lambda trace: trace.queued_at)]
    text = Text("\n\n").join([*parts, Text(LEGEND, style="bright_black")])
    text.no_wrap = True
    return text


def _draw_trace(trace: Trace, width: int) -> Text:
    axis, lines = Axis(trace), [*_build_head(trace, width), Text()]
    for row in build_rows(trace):
        bar = _draw_bar(row.segments, axis, width - LABEL_WIDTH - FIGURES_WIDTH - 2)
        took = _format_duration(row.duration_s) if row.duration_s is not None else "…"
        lines.append(
            Text.assemble(
                _fit_width(_clean(row.label), LABEL_WIDTH),
                " ",
                (bar, row.colour),
                " ",
                _fit_width(f"{took:>8} {_clean(row.text)}", FIGURES_WIDTH).rstrip(),
            )
        )
    if axis.shortened:
        lines.append(Text("(long waits are drawn shorter than they were)", style="bright_black"))
    return Text("\n").join(lines)


def _build_head(trace: Trace, width: int) -> list[Text]:
    ended = trace.ending or trace.status
    took = _format_duration((trace.ended_at or trace.last_at) - trace.queued_at)
    first = Text.assemble(("run ", "bold"), (_clean(trace.run_id), "bold"), " · ")
    first.append(ended, ENDING_COLOURS.get(ended, "cyan")).append(f" {'in' if trace.ended_at else 'for'} {took}")
    names = [_clean(name) for name in (trace.model, trace.user) if name]
    queued_at = datetime.fromtimestamp(trace.queued_at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    texts = [" · ".join([*names, queued_at, _format_tokens(trace.usage)]), f"trace {_clean(trace.correlation_id)}"]
    texts += [f"search {_clean(search)}" for search in dict.fromkeys(turn.search for turn in trace.turns) if search]
    if trace.detail:
        texts.append(_clean(trace.detail))
    lines = [first, *(Text(text, style="bright_black") for text in texts)]
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return lines


def build_rows(trace: Trace) -> list[Row]:
    """Return the rows by when they began: the time in the queue, then turns, each followed by its calls, and waits."""
    timed_rows: list[tuple[float, Row]] = []
    if trace.started_at is None or trace.started_at - trace.queued_at >= 0.001:
        in_line = BarSegment(trace.queued_at, trace.started_at, WAIT)
        timed_rows.append((trace.queued_at, Row("in line", (in_line,), _compute_duration(in_line), "", "bright_black")))
    timed_rows += [(turn.started_at, _build_turn_row(turn)) for turn in trace.turns]
    timed_rows += [(call.requested_at, _build_call_row(call)) for call in trace.calls]
    timed_rows += [(wait.started_at, _build_wait_row(wait)) for wait in trace.waits]
    timed_rows += [(compaction.started_at, _build_compaction_row(compaction)) for compaction in trace.compactions]
    return [row for _, row in sorted(timed_rows, key=lambda pair: pair[0])]


def _build_turn_row(turn: TurnSpan) -> Row:
    bar = BarSegment(turn.started_at, turn.ended_at, TURN)
    notes = [_format_tokens(turn.usage)] if turn.usage.total else []
    if turn.problem is not None:
        notes.append(turn.problem.error_type)
    elif turn.finish not in (None, "stop", "calls"):
        notes.append(turn.finish)
    if turn.restarted:
        notes.append(f"again ×{turn.restarted}")
    return Row(
        f"turn {turn.number}", (bar,), _compute_duration(bar), ", ".join(notes), "red" if turn.problem else "cyan"
    )


def _build_call_row(call: CallSpan) -> Row:
    started_at = call.ended_at if call.started_at is None else call.started_at
    parts: list[BarSegment] = []
    if call.asked_at is not None:
        parts.append(BarSegment(call.asked_at, call.decided_at or started_at, ASKING))
    if call.started_at is not None:
        parts.append(BarSegment(call.started_at, call.parked_at or call.ended_at, WORK))
    if call.parked_at is not None:
        parts.append(BarSegment(call.parked_at, call.answered_at or call.ended_at, ASKING))
    if call.answered_at is not None:
        parts.append(BarSegment(call.answered_at, call.ended_at, WORK))
    begin = call.requested_at
    if not parts and call.provider_ran_it and call.duration_ms:
        begin = call.requested_at - call.duration_ms / 1000  # the call had already run when the turn reported it
    entire = BarSegment(begin, call.ended_at, WORK)
    took_s = call.duration_ms / 1000 if call.duration_ms is not None else _compute_duration(entire)
    colour = OUTCOME_COLOURS[call.outcome] if call.outcome else "magenta"
    return Row(f"  {call.tool}", tuple(parts) or (entire,), took_s, _describe_call(call), colour)


def _describe_call(call: CallSpan) -> str:
    """Return the state of a call in a few words."""
    notes = [call.outcome or _describe_phase(call)]
    if call.error is not None and call.error.error_type != call.outcome:
        notes.append(call.error.error_type)
    if call.decided_by:
        notes.append(f"by {call.decided_by}")
    if reasons := [decision.reason for decision in call.decisions if decision.reason]:
        notes.append(f"({'; '.join(reasons)})")
    if call.attempts > 1:
        notes.append(f"×{call.attempts}")
    return " ".join(notes)


def _describe_phase(call: CallSpan) -> str:
    if call.parked_at is not None and call.answered_at is None:
        return "with the app" if call.parked_for == "client" else "asks a question"
    if call.started_at is not None:
        return "running"
    return "to be approved" if call.asked_at is not None and call.decided_at is None else "in line"


def _build_wait_row(wait: WaitSpan) -> Row:
    bar, count = BarSegment(wait.started_at, wait.ended_at, WAIT), len(wait.waiting_for)
    awaited = f"the budget {wait.budget}" if wait.budget else f"{count} call{'s' if count > 1 else ''}"
    return Row("  wait", (bar,), _compute_duration(bar), f"for {awaited}", "bright_black")


def _build_compaction_row(compaction: Compaction) -> Row:
    how = "summarised" if compaction.summarised else "results left out" if compaction.results_dropped else "left out"
    text = f"history {how}: {compaction.tokens_before:,} to {compaction.tokens_after:,} tokens"
    bar = BarSegment(compaction.started_at, compaction.at, TURN if compaction.summarised else WAIT)
    return Row("  room", (bar,), _compute_duration(bar), text, "bright_black")


def _compute_duration(segment: BarSegment) -> float | None:
    return None if segment.end is None else segment.end - segment.start


def _draw_bar(segments: Sequence[BarSegment], axis: Axis, width: int) -> str:
    """Return a bar of `width` cells. Each segment takes at least one; a segment without an end reaches to now."""
    cells = [" "] * width
    for segment in segments:
        end = axis.last if segment.end is None else segment.end
        first = min(width - 1, int(axis(segment.start) * width))
        last = max(first, min(width, round(axis(end) * width)) - 1)
        cells[first : last + 1] = segment.mark * (last + 1 - first)
        if segment.end is None:
            cells[last] = OPEN
    return "".join(cells)


def _format_tokens(usage: Usage) -> str:
    return f"{_format_count(usage.input_tokens)}→{_format_count(usage.output_tokens)} tok"


def _format_count(number: int) -> str:
    return str(number) if number < 10_000 else f"{number / 1000:.0f}k" if number < 1_000_000 else f"{number / 1e6:.1f}M"


def _format_duration(seconds: float) -> str:
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, remaining_s = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {remaining_s:02}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02}m" if hours < 48 else f"{hours // 24}d {hours % 24:02}h"


def _fit_width(text: str, width: int) -> str:
    return set_cell_size(text if cell_len(text) <= width else set_cell_size(text, width - 1) + "…", width)


def _clean(text: str) -> str:
    """Return a text on one line and without control characters: names may come from models and other callers."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)
