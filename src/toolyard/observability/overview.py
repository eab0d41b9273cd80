"""Statistics of runs over time, by tool and by model. Percentiles are at most 5 % off. Pure."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from toolyard.core.store.figures import (
    ModelCounts,
    StepCounts,
    Times,
    ToolCounts,
    add_times,
    compute_percentiles,
    decode_step,
)

STEPS = 48
"""The number of points that a period is divided into."""

_EMPTY = StepCounts()


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


def build_overview(steps: Iterable[tuple[float, bytes]], since: float, until: float) -> Overview:
    """Return the statistics of a period from the encoded figures of its steps.

    A step counts in the point that it begins in. With many tools this takes milliseconds: call it in a thread.
    """
    step_s = (until - since) / STEPS
    starts = [since + number * step_s for number in range(STEPS)]
    by_point = [StepCounts() for _ in starts]
    for at, body in steps:
        number = min(STEPS - 1, max(0, int((at - since) / step_s)))
        if at >= until:
            continue
        step = decode_step(body)
        if by_point[number] == _EMPTY:
            by_point[number] = step
        else:
            by_point[number].add(step)
    call_times: list[Times] = [{} for _ in starts]
    turn_times: list[Times] = [{} for _ in starts]
    tools: dict[str, list[tuple[int, ToolCounts]]] = {}
    models: dict[str, list[tuple[int, ModelCounts]]] = {}
    for number, step in enumerate(by_point):
        for name, tool in step.tools.items():
            tools.setdefault(name, []).append((number, tool))
        for name, model in step.models.items():
            models.setdefault(name, []).append((number, model))
    tool_figures = [_build_tool_figures(name, parts, starts, call_times) for name, parts in tools.items()]
    model_figures = [_build_model_figures(name, parts, starts, turn_times) for name, parts in models.items()]
    return Overview(
        since=since,
        until=until,
        step_s=step_s,
        points=[_build_point(*parts) for parts in zip(starts, by_point, call_times, turn_times, strict=True)],
        tools=sorted(tool_figures, key=lambda figures: -figures.calls),
        models=sorted(model_figures, key=lambda figures: -figures.turns),
    )


def _build_point(at: float, step: StepCounts, call_times: Times, turn_times: Times) -> Point:
    call_p50, call_p95 = _compute_latency(call_times)
    turn_p50, turn_p95 = _compute_latency(turn_times)
    return Point(
        at=at,
        runs=step.runs,
        failed=step.failed,
        calls=sum(tool.calls for tool in step.tools.values()),
        call_errors=sum(tool.errors for tool in step.tools.values()),
        input_tokens=step.input_tokens,
        output_tokens=step.output_tokens,
        call_p50_ms=call_p50,
        call_p95_ms=call_p95,
        turn_p50_ms=turn_p50,
        turn_p95_ms=turn_p95,
    )


def _build_tool_figures(
    name: str, parts: Sequence[tuple[int, ToolCounts]], starts: Sequence[float], point_times: Sequence[Times]
) -> ToolFigures:
    total = ToolCounts()
    for _, tool in parts:
        total.add_counts(tool)
    times = _build_latencies([(number, tool.times) for number, tool in parts], starts, point_times, total.times)
    p50, p95 = _compute_latency(total.times)
    return ToolFigures(
        tool=name,
        calls=total.calls,
        errors=total.errors,
        last_at=total.last_at,
        last_error=total.last_error,
        last_error_at=total.last_error_at,
        p50_ms=p50,
        p95_ms=p95,
        times=times,
    )


def _build_model_figures(
    name: str, parts: Sequence[tuple[int, ModelCounts]], starts: Sequence[float], point_times: Sequence[Times]
) -> ModelFigures:
    total = ModelCounts()
    for _, model in parts:
        total.add_counts(model)
    times = _build_latencies([(number, model.times) for number, model in parts], starts, point_times, total.times)
    p50, p95 = _compute_latency(total.times)
    return ModelFigures(
        model=name,
        turns=total.turns,
        failed=total.failed,
        input_tokens=total.input_tokens,
        output_tokens=total.output_tokens,
        p50_ms=p50,
        p95_ms=p95,
        times=times,
    )


def _build_latencies(
    parts: Sequence[tuple[int, Times]], starts: Sequence[float], point_times: Sequence[Times], total: Times
) -> list[Latency]:
    """Return the latencies of each point, and add the durations to those of the points and to the total."""
    latencies = list[Latency]()
    for number, times in parts:
        if (percentiles := compute_percentiles(times, 50, 95)) is not None:
            latencies.append(Latency(at=starts[number], p50_ms=percentiles[0], p95_ms=percentiles[1]))
            add_times(point_times[number], times)
            add_times(total, times)
    return latencies


def _compute_latency(times: Times) -> tuple[float | None, float | None]:
    percentiles = compute_percentiles(times, 50, 95)
    return (percentiles[0], percentiles[1]) if percentiles else (None, None)
