"""Programs: calls that have a parent. What the fold makes of them, and what `plan` does next."""

import pytest
from msgspec.structs import replace

from core.story import OWNER, Story, model_text, ok_result, tool_call
from toolyard.core.conversation.commands import Start, Stop
from toolyard.core.conversation.decide import decide
from toolyard.core.conversation.events import (
    CallsRequested,
    CallStarted,
    RunRequest,
    RunSuspended,
    StopRequested,
)
from toolyard.core.conversation.plan import Judge, Recover, Rest, Resume, RunCalls, StopWork, Suspend, Wait, plan
from toolyard.core.conversation.run_state import CallState
from toolyard.core.conversation.run_view import RunView
from toolyard.core.errors import Refused
from toolyard.core.items import Result
from toolyard.core.settings.limits import Limits


def _run_program(*tools: str, limits: Limits | None = None) -> Story:
    """A program that waits for calls of these tools."""
    story = Story().open().begin("r1", limits=limits).turn(tool_call("c1", "program"))
    return story.allow("c1").start("c1").nest("c1", *tools)


def _ids(calls: list[CallState]) -> list[str]:
    return [call.call.id for call in calls]


def test_the_results_of_a_program_are_kept_in_the_order_in_which_they_came_and_never_join_the_history() -> None:
    story = _run_program("plain", "plain").allow("c1.0", "c1.1").start("c1.0", "c1.1")
    story.close(ok_result("c1.1")).close(ok_result("c1.0"))
    program = story.state.calls["c1"].program
    assert program is not None
    assert [child.call.id for child in program.ended] == ["c1.1", "c1.0"]
    assert list(story.state.calls) == ["c1"]
    story.close(ok_result("c1", "program"))
    assert story.state.calls == {}
    assert [item.id for item in story.state.history] == ["r1.in", "c1", "c1.result"]


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (CallsRequested(parent="c1", seen=1, calls=(tool_call("c1.1"),)), "results to come"),
        (CallsRequested(parent="c1", seen=0, calls=(tool_call("c1.0"),)), "out of order"),
        (CallsRequested(parent="c1", seen=0, calls=(tool_call("c1.2"),)), "out of order"),
        (CallsRequested(parent="c1.0", seen=0, calls=(tool_call("c1.0.0"),)), "cannot be a program"),
        (CallsRequested(parent="c1", seen=0, calls=(tool_call("c1.1"),), lines=(1, 2)), "one line"),
        (CallsRequested(parent="nowhere", seen=0, calls=(tool_call("nowhere.0"),)), "closed or unknown"),
    ],
)
def test_a_program_cannot_ask_for(event: CallsRequested, reason: str) -> None:
    story = _run_program().allow("c1.0").start("c1.0")
    with pytest.raises(Refused, match=reason):
        story.add(event)


def test_a_program_cannot_wait_for_nothing() -> None:
    story = _run_program().allow("c1.0").start("c1.0").close(ok_result("c1.0"))
    with pytest.raises(Refused, match="wait for nothing"):
        story.add(CallsRequested(parent="c1", seen=1))


def test_a_program_that_waits_takes_no_place_of_a_running_call() -> None:
    story = _run_program("plain", "plain", limits=Limits(parallel_calls=1))
    step = plan(story.state, 1, 0.0)
    assert isinstance(step, Judge)
    step = plan(story.allow("c1.0", "c1.1").state, 1, 0.0)
    assert isinstance(step, RunCalls)
    assert _ids(step.calls) == ["c1.0"]


def test_results_for_a_program_are_waited_for_by_its_owner_and_taken_up_by_another_one() -> None:
    story = _run_program().allow("c1.0").start("c1.0")
    assert isinstance(plan(story.state, 2, 0.0), Recover)
    story.close(ok_result("c1.0"))
    assert isinstance(plan(story.state, 1, 0.0), Wait)
    step = plan(story.state, 2, 0.0)
    assert isinstance(step, Resume)
    assert _ids(step.calls) == ["c1"]
    story.add(CallStarted(call_id="c1", epoch=2, attempt=2))
    assert story.state.calls["c1"].phase == "nested"
    assert isinstance(plan(story.state, 2, 0.0), Wait)


def test_a_run_is_suspended_while_a_program_waits_for_people_and_nobody_keeps_the_program() -> None:
    story = _run_program("ask", "plain").hold("c1.0").allow("c1.1").start("c1.1")
    story.close(ok_result("c1.1"))
    assert isinstance(plan(story.state, 1, 0.0), Wait)  # the program goes on with the result
    story.add(CallsRequested(parent="c1", seen=1))
    assert plan(story.state, 1, 0.0) == Suspend(("c1.0",), 100.0)
    story.add(RunSuspended(waiting_for=("c1.0",), wake_at=100.0))
    assert plan(story.state, 1, 0.0) == Rest()
    assert story.state.may_rest_without_owner
    story.close(ok_result("c1.0", "ask"))
    assert isinstance(plan(story.state, 1, 0.0), Resume)


def test_a_stopped_program_takes_its_calls_first_and_a_stopped_call_only_itself() -> None:
    for stopped, ids in (("c1", ["c1.0", "c1.1", "c1"]), ("", ["c1.0", "c1.1", "c1"]), ("c1.1", ["c1.1"])):
        story = _run_program("plain", "plain").allow("c1.0").start("c1.0")
        story.add(*decide(story.state, Stop(by=OWNER, call_id=stopped), 0.0))
        step = plan(story.state, 1, 0.0)
        assert isinstance(step, StopWork)
        assert _ids(step.calls) == ids


def test_a_client_that_goes_on_is_told_which_calls_of_a_program_have_run() -> None:
    page = replace(ok_result("c1.1"), untrusted="the tool plain")
    story = _run_program("ask", "plain").hold("c1.0").allow("c1.1").start("c1.1").close(page)
    story.add(CallsRequested(parent="c1", seen=1), RunSuspended(waiting_for=("c1.0",), wake_at=100.0))
    events = decide(story.state, Stop(by=OWNER, run_id="r1", went_on=True), 1.0)
    story.add(*events, at=1.0)
    result = story.state.history[-1]
    assert isinstance(result, Result)
    assert result.outcome == "cancelled"
    assert result.untrusted == "the tool plain"
    assert result.error is not None
    assert result.error.details["calls"] == [{"tool": "plain", "arguments": {"of": "c1.1"}, "outcome": "ok"}]


def test_the_view_of_a_run_shows_the_calls_of_a_program_beside_it() -> None:
    story = _run_program("ask").hold("c1.0")
    story.add(CallsRequested(parent="c1", seen=0, calls=(tool_call("c1.1"),), lines=(7,), printed="found 3\n"))
    view = RunView(run_id="r1")
    for entry in story.log:
        view.apply(entry)
    assert [(call.call.id, call.parent, call.line, call.phase) for call in view.open_calls] == [
        ("c1", "", 0, "nested"),
        ("c1.0", "c1", 0, "asking"),
        ("c1.1", "c1", 7, "requested"),
    ]
    assert view.calls["c1"].printed == "found 3\n"
    for call_id in ("c1.0", "c1.1", "c1"):
        story.close(ok_result(call_id))
        view.apply(story.log[-1])
    assert [item.id for item in view.list_items()] == ["c1", "c1.result"]


def test_a_replaced_run_of_a_client_closes_the_calls_of_a_program_before_it() -> None:
    story = _run_program("ask").hold("c1.0")
    story.add(RunSuspended(waiting_for=("c1.0",), wake_at=100.0))
    start = Start(by=OWNER, run_id="r2", input=(model_text("x"),), run=RunRequest())
    story.add(*decide(story.state, replace(start, interrupt=True), 1.0), run="r2")
    assert story.state.run is not None
    assert story.state.run.stopped_by == "owner"
    step = plan(story.state, 1, 1.0)
    assert isinstance(step, StopWork)
    assert _ids(step.calls) == ["c1.0", "c1"]


def test_a_stop_is_not_undone_by_a_later_request_of_the_program() -> None:
    story = _run_program()
    story.add(StopRequested(by="owner", call_id="c1"), CallsRequested(parent="c1", seen=0, calls=(tool_call("c1.1"),)))
    step = plan(story.state, 1, 0.0)
    assert isinstance(step, StopWork)
    assert _ids(step.calls) == ["c1.0", "c1.1", "c1"]
