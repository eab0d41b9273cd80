"""Figures of runs: what is counted where, and which value a percentile is."""

import pytest
from msgspec.structs import replace

from toolyard.core.items import Outcome, Usage
from toolyard.observability.digest import CallDigest, RunDigest, TurnDigest
from toolyard.observability.overview import STEPS, build_overview, percentile


def build_run(at: float, *took_ms: float, ending: str = "done") -> RunDigest:
    return RunDigest(
        run_id=f"run_{at}",
        conversation="c",
        title="",
        correlation_id="t",
        user="ann",
        status="ended",
        model="m",
        queued_at=at,
        took_ms=1.0,
        ending=ending,  # pyright: ignore[reportArgumentType]
        detail="",
        usage=Usage(input_tokens=3, output_tokens=1),
        turns=tuple(
            TurnDigest(at=at, model="m", took_ms=duration, failed=False, usage=Usage()) for duration in took_ms
        ),
        calls=tuple(CallDigest(at=at, tool="t", outcome="ok", took_ms=duration) for duration in took_ms),
    )


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [([], 50, None), ([7], 50, 7), ([1, 2, 3, 4], 50, 2), ([4, 1, 3, 2], 95, 4), (range(1, 101), 95, 95)],
)
def test_a_percentile_is_a_value_that_was_measured(values: list[float], percent: int, expected: float | None) -> None:
    assert percentile(list(values), percent) == expected


def test_a_run_counts_in_the_step_in_which_it_was_queued() -> None:
    overview = build_overview(
        [build_run(0.0), build_run(1.0, 5.0), build_run(47.9), build_run(48.0), build_run(-0.1)], 0.0, 48.0
    )
    assert [point.runs for point in overview.points] == [1, 1, *[0] * (STEPS - 3), 1]
    assert (overview.points[1].call_p50_ms, overview.points[0].call_p50_ms) == (5.0, None)
    assert overview.points[1].input_tokens == 3


def test_tools_and_models_come_in_the_order_of_their_use() -> None:
    overview = build_overview([build_run(0.0, 1.0, 2.0, 30.0, ending="failed")], 0.0, 48.0)
    assert [(tool.tool, tool.calls, tool.p50_ms, tool.p95_ms) for tool in overview.tools] == [("t", 3, 2.0, 30.0)]
    assert overview.models[0].turns == 3 and overview.points[0].failed == 1


def test_a_tool_tells_when_it_was_called_last_and_what_went_wrong_last() -> None:
    def build_run_with_call(at: float, outcome: Outcome, error: str = "") -> RunDigest:
        return replace(build_run(at), calls=(CallDigest(at=at, tool="t", outcome=outcome, took_ms=1.0, error=error),))

    newest_first = [
        build_run_with_call(5.0, "denied", "no"),
        build_run_with_call(3.0, "timeout", "late"),
        build_run_with_call(2.0, "error", "early"),
    ]
    (tool,) = build_overview(newest_first, 0.0, 48.0).tools
    assert (tool.calls, tool.errors, tool.last_at) == (3, 2, 5.0)
    assert (tool.last_error, tool.last_error_at) == ("late", 3.0)
    (fine,) = build_overview([build_run_with_call(1.0, "ok")], 0.0, 48.0).tools
    assert (fine.last_error, fine.last_error_at) == ("", None)


def test_each_tool_and_each_model_has_its_times_step_by_step() -> None:
    overview = build_overview([build_run(0.5, 1.0, 2.0, 30.0), build_run(40.0, 7.0), build_run(45.0)], 0.0, 48.0)
    for figures in (overview.tools[0], overview.models[0]):
        assert [(time.at, time.p50_ms, time.p95_ms) for time in figures.times] == [(0.0, 2.0, 30.0), (40.0, 7.0, 7.0)]
