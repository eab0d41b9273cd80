"""A trace as it looks in a terminal, line by line, without colour."""

import pytest
from rich.cells import cell_len

from toolyard.cli.waterfall import LEGEND, draw
from toolyard.core.items import Outcome, Problem, Usage
from toolyard.observability.trace import CallSpan, Trace, TurnSpan, WaitSpan

T = 1_800_000_000.0


def make_trace(**more: object) -> Trace:
    defaults: dict[str, object] = {
        "run_id": "run_1",
        "conversation": "conversation_1",
        "correlation_id": "abc-123",
        "user": "ann",
        "status": "running",
        "queued_at": T,
        "started_at": T,
        "last_at": T + 4.0,
        "model": "openai:gpt-4o-mini",
        "ending": None,
        "detail": "",
        "usage": Usage(),
    }
    return Trace(**{**defaults, **more})  # pyright: ignore[reportArgumentType]


def make_turn(
    number: int, start: float, end: float | None, tokens: tuple[int, int] = (0, 0), **more: object
) -> TurnSpan:
    usage = Usage(input_tokens=tokens[0], output_tokens=tokens[1])
    ended_at = None if end is None else T + end
    return TurnSpan(number=number, started_at=T + start, ended_at=ended_at, usage=usage, **more)  # pyright: ignore[reportArgumentType]


def make_call(tool: str, requested: float, **more: object) -> CallSpan:
    times = {key: T + at if isinstance(at, float) and key.endswith("_at") else at for key, at in more.items()}
    return CallSpan(id=tool, tool=tool, arguments={}, requested_at=T + requested, turn=1, **times)  # pyright: ignore[reportArgumentType]


DONE = make_trace(
    status="ended",
    ending="done",
    started_at=T + 0.4,
    ended_at=T + 7203.2,
    last_at=T + 7203.2,
    usage=Usage(input_tokens=12_345, output_tokens=80),
    turns=(
        make_turn(1, 0.4, 1.2, (512, 24), finish="calls"),
        make_turn(2, 7202.0, 7203.2, (640, 56), finish="stop", restarted=1),
    ),
    calls=(
        make_call("search_materials", 1.2, started_at=1.2, ended_at=1.5, outcome="ok", duration_ms=300.0, attempts=3),
        make_call(
            "order",
            1.2,
            asked_at=1.2,
            decided_at=7201.5,
            decided_by="boss",
            started_at=7201.5,
            ended_at=7202.0,
            outcome="error",
            error=Problem(error="no", error_type="not_found"),
            duration_ms=500.0,
        ),
        make_call("show_cart", 1.2, started_at=1.2, parked_at=1.2, ended_at=3.0, outcome="ok", duration_ms=1800.0),
    ),
    waits=(
        WaitSpan(started_at=T + 1.5, ended_at=T + 3.0, waiting_for=("order", "show_cart")),
        WaitSpan(started_at=T + 3.0, ended_at=T + 7201.5, waiting_for=("order",)),
    ),
)

GOLDEN = """\
run run_1 · done in 2h 00m
openai:gpt-4o-mini · ann · 2027-01-15 08:00:00 UTC · 12k→80 tok
trace abc-123

in line              ┄┄                           400 ms
turn 1                ████                        800 ms 512→24 tok
  search_materials       ▓▓                       300 ms ok ×3
  order                  ░░░░░░░░░░░░░░▓▓▓        500 ms error not_found by boss
  show_cart              ░░░░░░░░                  1.8 s ok
  wait                     ┄┄┄┄┄┄                  1.5 s for 2 calls
  wait                           ┄┄┄┄┄┄┄          1h 59m for 1 call
turn 2                                    █████    1.2 s 640→56 tok, again ×1
(long waits are drawn shorter than they were)

█ model  ▓ tool  ░ with a person or the app  ┄ wait  › goes on"""


def draw_lines(*traces: Trace, width: int = 80) -> list[str]:
    return str(draw(traces, width)).split("\n")


def test_a_run_with_an_approval_is_readable_at_80_columns_without_colour() -> None:
    assert [line.rstrip() for line in draw_lines(DONE)] == GOLDEN.split("\n")


@pytest.mark.parametrize("width", [64, 80, 133])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    wide = make_trace(
        run_id="run_" + "x" * 200,
        detail="d" * 300,
        calls=(make_call("订购面粉和牛奶" * 9, 0.0, outcome="denied", ended_at=1.0, decided_by="b" * 90),),
    )
    assert max(map(cell_len, draw_lines(DONE, wide, width=width))) <= width


def test_what_is_open_reaches_to_now_and_says_so() -> None:
    open_run = make_trace(
        turns=(make_turn(1, 0.0, 1.0, (9, 9), finish="calls"),),
        calls=(make_call("a", 1.0, started_at=1.0, attempts=1), make_call("b", 1.0, asked_at=1.0), make_call("c", 1.0)),
    )
    assert [line.rstrip() for line in draw_lines(open_run)[4:8]] == [
        "turn 1               ██████                        1.0 s 9→9 tok",
        "  a                        ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓›        … running",
        "  b                        ░░░░░░░░░░░░░░░░░░░›        … to be approved",
        "  c                        ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓›        … in line",
    ]
    assert draw_lines(open_run)[0] == "run run_1 · running for 4.0 s"


def test_a_run_that_failed_says_why() -> None:
    problem = Problem(error="no", error_type="model_error")
    failed = make_trace(
        status="ended",
        ending="failed",
        detail="model_error: no",
        ended_at=T + 4.0,
        turns=(make_turn(1, 0, 4, problem=problem),),
    )
    assert draw_lines(failed)[0] == "run run_1 · failed in 4.0 s"
    assert draw_lines(failed)[3] == "model_error: no"
    assert draw_lines(failed)[5].endswith("4.0 s model_error")


def test_a_run_in_which_no_time_passed_is_drawn_all_the_same() -> None:
    instant = make_trace(last_at=T, ended_at=T, status="ended", ending="done", turns=(make_turn(1, 0.0, 0.0),))
    assert draw_lines(instant)[4].split() == ["turn", "1", "█", "0", "ms"]


def test_a_run_that_only_waits_is_drawn() -> None:
    waiting = make_trace(queued_at=T, last_at=T + 5.0, waits=(WaitSpan(started_at=T, waiting_for=("a",)),))
    assert draw_lines(waiting)[4].rstrip().endswith("›        … for 1 call")


def test_a_tool_that_the_provider_ran_is_drawn_inside_its_turn() -> None:
    native = make_call("web_search", 2.0, ended_at=2.0, outcome="ok", duration_ms=1000.0, provider_ran_it=True)
    drawn = draw_lines(make_trace(turns=(make_turn(1, 0.0, 2.0, finish="stop"),), calls=(native,)))
    assert drawn[5].index("▓") - drawn[4].index("█") == 6


def test_runs_of_one_trace_stand_below_each_other_oldest_first_with_one_legend() -> None:
    later = make_trace(run_id="run_2", queued_at=T + 1)
    drawn = draw_lines(later, make_trace())
    assert [line for line in drawn if line.startswith("run ")] == [
        "run run_1 · running for 4.0 s",
        "run run_2 · running for 3.0 s",
    ]
    assert drawn.count(LEGEND) == 1


def test_what_a_model_called_a_tool_cannot_drive_the_terminal() -> None:
    drawn = str(draw([make_trace(calls=(make_call("\x1b[2J\x07\nx", 0.0),))]))
    assert not set(drawn) & {"\x1b", "\x07"}
    assert "�[2J��x" in drawn


@pytest.mark.parametrize(
    ("outcome", "style"), [("ok", "green"), ("error", "red"), ("denied", "yellow"), ("cancelled", "bright_black")]
)
def test_outcomes_have_colours(outcome: Outcome, style: str) -> None:
    drawn = draw([make_trace(calls=(make_call("a", 0.0, started_at=0.0, ended_at=1.0, outcome=outcome),))])
    assert style in [str(span.style) for span in drawn.spans]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.0004, "0 ms"), (0.9994, "999 ms"), (0.9996, "1.0 s"), (59.94, "59.9 s"), (59.96, "1m 00s"), (3599.9, "1h 00m"),
     (172_800.0, "2d 00h")],
)  # fmt: skip
def test_times_are_told_in_units_that_fit(seconds: float, expected: str) -> None:
    assert draw_lines(make_trace(last_at=T + seconds))[0] == f"run run_1 · running for {expected}"
