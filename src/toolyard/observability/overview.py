"""Statistics of runs over time, by tool and by model. Pure."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import ceil

from msgspec import Struct

from toolyard.core.results import UNKNOWN_TOOL
from toolyard.observability.digest import CallDigest, RunDigest, TurnDigest

STEPS = 48
"""The number of points that a period is divided into."""


class Point(Struct, frozen=True, kw_only=True):
    """The figures of one step of the period, from `at` on."""

    at: float
    runs: int
    failed: int
    calls: int
    call_errors: int
    input_tokens: int
    output_tokens: int
    call_p50_ms: float | None
    call_p95_ms: float | None
    turn_p50_ms: float | None
    turn_p95_ms: float | None


class Latency(Struct, frozen=True, kw_only=True):
    """Durations in one step of the period, from `at` on."""

    at: float
    p50_ms: float
    p95_ms: float


class ToolFigures(Struct, frozen=True, kw_only=True):
    """The calls of a tool. Durations are of calls that ran here."""

    tool: str
    calls: int
    errors: int
    p50_ms: float | None
    p95_ms: float | None
    times: list[Latency]
    """One for each step in which the tool ran."""
    last_at: float
    """When the tool was called last."""
    last_error: str
    last_error_at: float | None


class ModelFigures(Struct, frozen=True, kw_only=True):
    model: str
    turns: int
    failed: int
    input_tokens: int
    output_tokens: int
    p50_ms: float | None
    p95_ms: float | None
    times: list[Latency]
    """One for each step in which the model was asked."""


class Overview(Struct, frozen=True, kw_only=True):
    since: float
    until: float
    step_s: float
    points: list[Point]
    tools: list[ToolFigures]
    models: list[ModelFigures]


def build_overview(runs: Iterable[RunDigest], since: float, until: float) -> Overview:
    """Return the statistics of the runs that were queued in this period."""
    step_s = (until - since) / STEPS
    by_step: list[list[RunDigest]] = [[] for _ in range(STEPS)]
    for run in runs:
        if since <= run.queued_at < until:
            by_step[min(STEPS - 1, int((run.queued_at - since) / step_s))].append(run)
    starts = [since + number * step_s for number in range(STEPS)]
    calls: defaultdict[str, list[tuple[float, CallDigest]]] = defaultdict(list)
    turns: defaultdict[str, list[tuple[float, TurnDigest]]] = defaultdict(list)
    for at, run in ((at, run) for at, step in zip(starts, by_step, strict=True) for run in step):
        for call in run.calls:
            calls[UNKNOWN_TOOL if call.unknown else call.tool].append((at, call))
        for turn in run.turns:
            turns[turn.model].append((at, turn))
    return Overview(
        since=since,
        until=until,
        step_s=step_s,
        points=[_build_point(at, step) for at, step in zip(starts, by_step, strict=True)],
        tools=sorted(itertools.starmap(_build_tool_figures, calls.items()), key=lambda figures: -figures.calls),
        models=sorted(itertools.starmap(_build_model_figures, turns.items()), key=lambda figures: -figures.turns),
    )


def _build_point(at: float, runs: Sequence[RunDigest]) -> Point:
    calls = [call for run in runs for call in run.calls]
    call_times = [call.took_ms for call in calls if call.took_ms is not None]
    turn_times = [turn.took_ms for run in runs for turn in run.turns]
    return Point(
        at=at,
        runs=len(runs),
        failed=sum(run.ending == "failed" for run in runs),
        calls=len(calls),
        call_errors=sum(map(_is_error, calls)),
        input_tokens=sum(run.usage.input_tokens for run in runs),
        output_tokens=sum(run.usage.output_tokens for run in runs),
        call_p50_ms=percentile(call_times, 50),
        call_p95_ms=percentile(call_times, 95),
        turn_p50_ms=percentile(turn_times, 50),
        turn_p95_ms=percentile(turn_times, 95),
    )


def _build_tool_figures(name: str, calls_by_step: Sequence[tuple[float, CallDigest]]) -> ToolFigures:
    calls = [call for _, call in calls_by_step]
    took = [call.took_ms for call in calls if call.took_ms is not None]
    failed = [call for call in calls if _is_error(call)]
    last = max(failed, key=_get_time, default=None)
    return ToolFigures(
        tool=name,
        calls=len(calls),
        errors=len(failed),
        last_at=max(map(_get_time, calls)),
        last_error=last.error if last else "",
        last_error_at=last.at if last else None,
        p50_ms=percentile(took, 50),
        p95_ms=percentile(took, 95),
        times=_build_latencies((at, call.took_ms) for at, call in calls_by_step if call.took_ms is not None),
    )


def _build_model_figures(name: str, turns_by_step: Sequence[tuple[float, TurnDigest]]) -> ModelFigures:
    turns = [turn for _, turn in turns_by_step]
    took = [turn.took_ms for turn in turns]
    return ModelFigures(
        model=name,
        turns=len(turns),
        failed=sum(turn.failed for turn in turns),
        input_tokens=sum(turn.usage.input_tokens for turn in turns),
        output_tokens=sum(turn.usage.output_tokens for turn in turns),
        p50_ms=percentile(took, 50),
        p95_ms=percentile(took, 95),
        times=_build_latencies((at, turn.took_ms) for at, turn in turns_by_step),
    )


def _build_latencies(times: Iterable[tuple[float, float]]) -> list[Latency]:
    by_step: defaultdict[float, list[float]] = defaultdict(list)
    for at, took_ms in times:
        by_step[at].append(took_ms)
    return [
        Latency(at=at, p50_ms=_nearest_rank(took, 50), p95_ms=_nearest_rank(took, 95)) for at, took in by_step.items()
    ]


def _get_time(call: CallDigest) -> float:
    return call.at


def _is_error(call: CallDigest) -> bool:
    """Return whether a call went wrong. A denial or a stop is a person's decision, not an error."""
    return call.outcome in ("error", "timeout", "unknown")


def percentile(values: Sequence[float], percent: int) -> float | None:
    """Return the smallest value that `percent` of the values do not exceed; None without values."""
    return _nearest_rank(values, percent) if values else None


def _nearest_rank(values: Sequence[float], percent: int) -> float:
    return sorted(values)[max(0, ceil(len(values) * percent / 100) - 1)]
