"""Figures of runs over time, by tool and by model. Pure: runs in, figures out."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import ceil

from msgspec import Struct

from toolyard.engine.digest import CallDigest, RunDigest, TurnDigest

STEPS = 48
"""How many points a time is told in."""


class Point(Struct, kw_only=True):
    """What happened in one step of time, from `at` on."""

    at: float
    runs: int = 0
    failed: int = 0
    calls: int = 0
    call_errors: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


class ToolFigures(Struct, kw_only=True):
    """Calls of a tool; the times are of those that ran here."""

    tool: str
    calls: int
    errors: int
    p50_ms: float | None
    p95_ms: float | None


class ModelFigures(Struct, kw_only=True):
    model: str
    turns: int
    failed: int
    input_tokens: int
    output_tokens: int
    p50_ms: float | None
    p95_ms: float | None


class Overview(Struct, kw_only=True):
    since: float
    until: float
    step_s: float
    points: list[Point]
    tools: list[ToolFigures]
    models: list[ModelFigures]


def overview(runs: Iterable[RunDigest], since: float, until: float) -> Overview:
    """The runs that were queued in this time."""
    step_s = (until - since) / STEPS
    points = [Point(at=since + number * step_s) for number in range(STEPS)]
    calls: defaultdict[str, list[CallDigest]] = defaultdict(list)
    turns: defaultdict[str, list[TurnDigest]] = defaultdict(list)
    for run in runs:
        if not since <= run.queued_at < until:
            continue
        point = points[min(STEPS - 1, int((run.queued_at - since) / step_s))]
        _count(point, run)
        for call in run.calls:
            calls[call.tool].append(call)
        for turn in run.turns:
            turns[turn.model].append(turn)
    return Overview(
        since=since,
        until=until,
        step_s=step_s,
        points=points,
        tools=sorted((_tool(name, made) for name, made in calls.items()), key=lambda one: -one.calls),
        models=sorted((_model(name, made) for name, made in turns.items()), key=lambda one: -one.turns),
    )


def _count(point: Point, run: RunDigest) -> None:
    point.runs += 1
    point.failed += run.ending == "failed"
    point.calls += len(run.calls)
    point.call_errors += sum(_is_error(call) for call in run.calls)
    point.input_tokens += run.usage.input_tokens
    point.output_tokens += run.usage.output_tokens


def _tool(name: str, calls: Sequence[CallDigest]) -> ToolFigures:
    took = [call.took_ms for call in calls if call.took_ms is not None]
    return ToolFigures(
        tool=name,
        calls=len(calls),
        errors=sum(map(_is_error, calls)),
        p50_ms=percentile(took, 50),
        p95_ms=percentile(took, 95),
    )


def _model(name: str, turns: Sequence[TurnDigest]) -> ModelFigures:
    took = [turn.took_ms for turn in turns]
    return ModelFigures(
        model=name,
        turns=len(turns),
        failed=sum(turn.failed for turn in turns),
        input_tokens=sum(turn.usage.input_tokens for turn in turns),
        output_tokens=sum(turn.usage.output_tokens for turn in turns),
        p50_ms=percentile(took, 50),
        p95_ms=percentile(took, 95),
    )


def _is_error(call: CallDigest) -> bool:
    """What went wrong; a denial or a stop is somebody's will."""
    return call.outcome in ("error", "timeout", "unknown")


def percentile(values: Sequence[float], percent: int) -> float | None:
    """The smallest value that so many of a hundred do not exceed."""
    if not values:
        return None
    return sorted(values)[max(0, ceil(len(values) * percent / 100) - 1)]
