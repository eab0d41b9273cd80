"""What is next, at each place where two answers would be thinkable."""

import pytest
from msgspec.structs import replace

from core.story import OWNER, Story, model_text, ok_result, tool_call, user
from toolyard.core.conversation.events import (
    CallAnswered,
    CallEnded,
    CallParked,
    ConversationChanged,
    ParkedKind,
    RunEnded,
    RunQueued,
    RunStarted,
    RunSuspended,
    StopRequested,
    TurnEnded,
    TurnFailed,
)
from toolyard.core.conversation.plan import (
    MAX_TURN_OWNERS,
    AskModel,
    BeginRun,
    End,
    Expire,
    GiveUpCalls,
    GiveUpTurn,
    Judge,
    Recover,
    Rest,
    RunCalls,
    Step,
    StopWork,
    Suspend,
    Wait,
    plan,
)
from toolyard.core.conversation.run_state import CallState
from toolyard.core.items import Problem, Usage
from toolyard.core.settings.limits import Limits


def _plan_step(story: Story, epoch: int = 1, now: float = 0.0) -> Step:
    return plan(story.state, epoch, now)


def _run() -> Story:
    return Story().open().begin("r1")


def _ids(calls: list[CallState]) -> list[str]:
    return [call.call.id for call in calls]


def _everything_at_once() -> Story:
    """A call of a dead owner, an expired one, a requested one, an allowed one, and a parked one."""
    story = _run().turn(*(tool_call(name) for name in ("lost", "late", "new", "ready", "held")))
    story.allow("lost", "ready").hold("late", expires_at=10.0).hold("held", expires_at=99.0)
    return story.start("lost", epoch=1)


def test_a_conversation_without_a_run_rests_or_begins_the_first_in_line() -> None:
    assert _plan_step(Story()) == Rest()
    story = Story().open().queue("first").queue("second")
    step = _plan_step(story)
    assert isinstance(step, BeginRun)
    assert step.queued.id == "first"


def test_stop_comes_before_everything_else() -> None:
    story = _everything_at_once()
    story.add(StopRequested(by="owner"))
    step = _plan_step(story, epoch=2, now=20.0)
    assert isinstance(step, StopWork)
    assert _ids(step.calls) == ["lost", "late", "new", "ready", "held"]


def test_then_recover_then_expire_then_judge_then_run_then_wait() -> None:
    story = _everything_at_once()
    step = _plan_step(story, epoch=2, now=20.0)
    assert isinstance(step, Recover)
    assert _ids(step.calls) == ["lost"]
    story.start("lost", epoch=2)
    step = _plan_step(story, epoch=2, now=20.0)
    assert isinstance(step, Expire)
    assert _ids(step.calls) == ["late"]
    story.add(CallEnded(result=ok_result("late")))
    step = _plan_step(story, epoch=2, now=20.0)
    assert isinstance(step, Judge)
    assert _ids(step.calls) == ["new"]
    story.hold("new", expires_at=77.0)
    step = _plan_step(story, epoch=2, now=20.0)
    assert isinstance(step, RunCalls)
    assert _ids(step.calls) == ["ready"]
    story.start("ready", epoch=2)
    assert _plan_step(story, epoch=2, now=20.0) == Wait(77.0)


def test_a_run_is_suspended_only_when_nothing_of_it_runs_and_then_rests() -> None:
    story = _run().turn(tool_call("a"), tool_call("b")).hold("a", expires_at=50.0).allow("b").start("b")
    assert isinstance(_plan_step(story), Wait)
    story.add(CallEnded(result=ok_result("b")))
    assert _plan_step(story) == Suspend(("a",), 50.0)
    story.add(RunSuspended(waiting_for=("a",), wake_at=50.0))
    assert _plan_step(story) == Rest()
    assert story.state.wake_at == 50.0
    assert isinstance(_plan_step(story, now=50.0), Expire)


def test_a_wait_is_over_at_its_very_moment() -> None:
    story = _run().turn(tool_call("a")).hold("a", expires_at=50.0)
    assert not isinstance(_plan_step(story, now=49.999), Expire)
    assert isinstance(_plan_step(story, now=50.0), Expire)


def _client_waits(ends_on_expiry: bool, kind: ParkedKind = "client") -> Story:
    """A run with a call that is parked, one that asks for approval, and one that runs."""
    story = Story().open()
    story.add(RunQueued(caller=OWNER, input=(user("in"),), ends_on_expiry=ends_on_expiry), run="r1")
    story.add(RunStarted(model="m", limits=Limits()))
    story.turn(tool_call("app"), tool_call("ask"), tool_call("work")).allow("app", "work").hold("ask", expires_at=40.0)
    story.start("app", "work")
    story.add(CallParked(call_id="app", kind=kind, expires_at=50.0))
    return story


def test_a_run_ends_with_an_expired_call_of_its_client_only_if_it_was_started_so() -> None:
    step = _plan_step(_client_waits(ends_on_expiry=True), now=50.0)
    assert isinstance(step, Expire) and step.ends_run and _ids(step.calls) == ["app", "ask"]
    for story, now in (
        (_client_waits(ends_on_expiry=False), 50.0),
        (_client_waits(ends_on_expiry=True, kind="question"), 50.0),
        (_client_waits(ends_on_expiry=True), 40.0),  # only the approval has expired
    ):
        step = _plan_step(story, now=now)
        assert isinstance(step, Expire) and not step.ends_run


def test_a_stopped_call_is_stopped_alone() -> None:
    story = _run().turn(tool_call("a"), tool_call("b")).allow("a", "b").start("a", "b")
    story.add(StopRequested(by="owner", call_id="a"))
    step = _plan_step(story)
    assert isinstance(step, StopWork)
    assert _ids(step.calls) == ["a"]


def test_a_stopped_run_ends_cancelled_once_its_work_is_gone() -> None:
    story = _run().ask()
    story.add(StopRequested(by="owner"))
    assert _plan_step(story) == StopWork([])
    story.add(TurnFailed(problem=Problem(error="gone", error_type="model_error")))
    assert _plan_step(story) == End("cancelled", "stopped by owner")


def test_a_failed_turn_ends_the_run_as_failed() -> None:
    story = _run().ask()
    story.add(TurnFailed(problem=Problem(error="no credit", error_type="model_error")))
    assert _plan_step(story) == End("failed", "model_error: no credit")


def test_a_text_ends_the_run_and_a_turn_without_a_word_fails_it() -> None:
    assert _plan_step(_run().turn(model_text("t"))) == End("done")
    assert _plan_step(_run().turn(model_text("t"), finish="refused")) == End("done", "refused")
    assert _plan_step(_run().turn(model_text("t"), finish="length")) == End("limit", "length")
    silent = _plan_step(_run().turn(finish="stop"))
    assert isinstance(silent, End)
    assert silent.ending == "failed"
    assert "empty_answer" in silent.detail


def test_a_text_that_does_not_fit_the_output_schema_is_asked_for_once_more() -> None:
    problem = Problem(error="not JSON", error_type="output_invalid")
    story = _run().ask()
    story.add(TurnEnded(items=(model_text("t1"),), finish="stop", output_problem=problem))
    assert _plan_step(story) == AskModel()
    story.ask().add(TurnEnded(items=(model_text("t2"),), finish="stop", output_problem=problem))
    assert _plan_step(story) == End("failed", "output_invalid: not JSON")


def test_a_paused_turn_asks_again() -> None:
    assert _plan_step(_run().turn(model_text("t"), finish="paused")) == AskModel()


def test_calls_that_somebody_made_directly_end_the_run_when_they_close() -> None:
    story = Story().open().begin("r1", tool_call("a"))
    assert isinstance(_plan_step(story), Judge)
    story.allow("a").start("a").add(CallEnded(result=ok_result("a")))
    assert _plan_step(story) == End("done")


def _after_tool_turns(count: int, limits: Limits, run: str = "r1", story: Story | None = None) -> Story:
    story = (story or Story().open()).begin(run, limits=limits)
    for number in range(count):
        call_id = f"{run}.{number}"
        story.turn(tool_call(call_id)).add(CallEnded(result=ok_result(call_id)))
    return story


def test_after_the_fiftieth_tool_turn_of_a_request_no_model_request_is_made() -> None:
    assert _plan_step(_after_tool_turns(49, Limits())) == AskModel()
    assert _plan_step(_after_tool_turns(50, Limits())) == End("limit", "turns_per_request")


def test_an_answer_in_the_turn_after_the_last_tool_turn_but_one_is_still_an_answer() -> None:
    assert _plan_step(_after_tool_turns(49, Limits()).turn(model_text("t"))) == End("done")


def test_after_the_two_hundredth_tool_turn_of_a_conversation_no_model_request_is_made() -> None:
    story = Story().open()
    for number in range(4):
        story = _after_tool_turns(49, Limits(), f"r{number}", story)
        story.add(RunEnded(ending="done"))
    assert story.state.tool_turns == 196
    assert _plan_step(_after_tool_turns(3, Limits(), "r4", story)) == AskModel()
    story.turn(tool_call("last")).add(CallEnded(result=ok_result("last")))
    assert _plan_step(story) == End("limit", "turns_per_conversation")


def test_tokens_are_counted_over_the_turns_of_a_run_and_zero_means_no_bound() -> None:
    for tokens, step in ((0, AskModel()), (101, AskModel()), (100, End("limit", "run_tokens"))):
        story = Story().open().begin("r1", limits=Limits(run_tokens=tokens))
        for name in ("a", "b"):
            story.turn(tool_call(name), usage=Usage(input_tokens=40, output_tokens=10)).add(
                CallEnded(result=ok_result(name))
            )
        assert _plan_step(story) == step


def test_run_seconds_end_a_run_at_their_very_moment_and_stop_its_work_first() -> None:
    story = Story().open().begin("r1", limits=Limits(run_seconds=10.0), at=100.0).ask(at=100.0)
    assert _plan_step(story, now=109.0) == Wait(110.0)
    assert _plan_step(story, now=110.0) == StopWork([])
    story.add(TurnFailed(problem=Problem(error="stopped", error_type="cancelled")))
    assert _plan_step(story, now=110.0) == End("limit", "run_seconds")


def test_run_seconds_leave_waits_out() -> None:
    story = Story().open().begin("r1", limits=Limits(run_seconds=10.0), at=100.0)
    story.turn(tool_call("a"), at=104.0).hold("a", expires_at=9_999.0)
    story.add(RunSuspended(waiting_for=("a",), wake_at=9_999.0), at=104.0)
    assert _plan_step(story, now=5_000.0) == Rest()
    story.add(CallEnded(result=ok_result("a")), at=5_000.0)
    run = story.state.run
    assert run is not None
    assert run.find_deadline(5_003.0) == pytest.approx(5_006.0)
    assert _plan_step(story, now=5_005.9) == AskModel()
    assert _plan_step(story, now=5_006.0) == End("limit", "run_seconds")


def _allow_calls(*names: str, exclusive: str = "", parallel: int = 16) -> Story:
    story = Story().open().begin("r1", limits=Limits(parallel_calls=parallel)).turn(*map(tool_call, names))
    for name in names:
        story.allow(name, exclusive=name in exclusive)
    return story


def _start_calls(story: Story) -> list[str]:
    step = _plan_step(story)
    assert isinstance(step, RunCalls)
    story.start(*_ids(step.calls))
    return _ids(step.calls)


def test_calls_run_together_up_to_the_bound_and_in_the_model_s_order() -> None:
    story = _allow_calls("a", "b", "c", "d", "e", parallel=2)
    assert _start_calls(story) == ["a", "b"]
    assert isinstance(_plan_step(story), Wait)
    story.add(CallEnded(result=ok_result("b")))
    assert _start_calls(story) == ["c"]


def test_a_bound_below_one_still_lets_one_call_run() -> None:
    story = _allow_calls("a", "b", parallel=0)
    assert _start_calls(story) == ["a"]
    assert isinstance(_plan_step(story), Wait)


def test_an_exclusive_call_runs_alone_and_keeps_its_place() -> None:
    story = _allow_calls("a", "b", "x", "c", "d", exclusive="x")
    assert _start_calls(story) == ["a", "b"]
    story.add(CallEnded(result=ok_result("a")))
    assert isinstance(_plan_step(story), Wait)
    story.add(CallEnded(result=ok_result("b")))
    assert _start_calls(story) == ["x"]
    assert isinstance(_plan_step(story), Wait)
    story.add(CallEnded(result=ok_result("x")))
    assert _start_calls(story) == ["c", "d"]


def test_an_exclusive_call_does_not_wait_for_a_sibling_that_waits_for_a_person() -> None:
    story = Story().open().begin("r1").turn(tool_call("held"), tool_call("x")).hold("held").allow("x", exclusive=True)
    assert _start_calls(story) == ["x"]


def test_a_turn_that_too_many_owners_died_in_is_given_up() -> None:
    story = _run()
    for epoch in range(1, MAX_TURN_OWNERS):
        story.ask(epoch=epoch)
        assert _plan_step(story, epoch=epoch + 1) == AskModel()
    story.ask(epoch=MAX_TURN_OWNERS)
    assert isinstance(_plan_step(story, epoch=MAX_TURN_OWNERS), Wait)
    assert _plan_step(story, epoch=MAX_TURN_OWNERS + 1) == GiveUpTurn(MAX_TURN_OWNERS)


def _take_over(story: Story) -> None:
    """Record that the next owner takes over, as the loop does before it touches a call."""
    story.epoch += 1
    story.add(ConversationChanged(settings=story.state.settings))


@pytest.mark.parametrize("phase", ["requested", "allowed", "running"])
def test_calls_that_too_many_owners_got_no_further_with_are_given_up(phase: str) -> None:
    story = _run().turn(tool_call("a"), tool_call("held")).hold("held")
    if phase != "requested":
        story.allow("a")
    if phase == "running":
        story.start("a", epoch=1)
    for _ in range(MAX_TURN_OWNERS - 1):
        _take_over(story)
        assert not isinstance(_plan_step(story, epoch=story.epoch), GiveUpCalls)
    _take_over(story)
    step = _plan_step(story, epoch=story.epoch)
    assert isinstance(step, GiveUpCalls) and (_ids(step.calls), step.owners) == (["a"], MAX_TURN_OWNERS)


def test_an_owner_that_gets_further_is_not_counted() -> None:
    story = _run().turn(tool_call("a"), tool_call("b"))
    for _ in range(MAX_TURN_OWNERS - 1):
        _take_over(story)
    story.allow("a")
    _take_over(story)
    assert isinstance(_plan_step(story, epoch=story.epoch), Judge)


def test_the_owners_of_a_call_are_counted_and_its_retries_are_not() -> None:
    story = _allow_calls("a")
    story.start("a", epoch=1).start("a", epoch=1).start("a", epoch=2).start("a", epoch=5)
    call = story.state.calls["a"]
    assert (call.owners, call.attempt) == (3, 4)


def test_an_owner_that_parked_a_call_did_not_die() -> None:
    story = _allow_calls("a")
    for epoch in (1, 2, 3, 4):
        story.start("a", epoch=epoch)
        story.add(CallParked(call_id="a", kind="question", expires_at=99.0, resume_token=f"token {epoch}"))
        story.add(CallAnswered(call_id="a", by="owner", reply="accepted"))
    call = story.start("a", epoch=5).state.calls["a"]
    assert call.owners == 1


def test_an_owner_that_takes_over_an_answered_call_still_has_its_token() -> None:
    story = _allow_calls("a").start("a")
    story.add(CallParked(call_id="a", kind="question", expires_at=99.0, resume_token="token"))
    story.add(CallAnswered(call_id="a", by="owner", reply="accepted", content={"size": 3}))
    step = _plan_step(story.start("a", epoch=1), epoch=2)
    assert isinstance(step, Recover)
    parked, answer = step.calls[0].parked, step.calls[0].answer
    assert parked is not None
    assert answer is not None
    assert (parked.resume_token, answer.content) == ("token", {"size": 3})


def test_a_run_that_is_open_or_in_line_must_be_looked_at_at_once_and_a_resting_one_never() -> None:
    assert Story().open().state.wake_at is None
    assert Story().open().queue("r1").state.wake_at == 0.0
    assert _run().state.wake_at == 0.0
    done = Story().open().begin("r1", user("u")).turn(model_text("t"))
    done.add(RunEnded(ending="done"))
    assert done.state.wake_at is None


def test_a_call_that_the_provider_runs_never_opens_and_its_result_is_no_reason_to_ask_again() -> None:
    call, result = replace(tool_call("p"), ran_at="acme"), replace(ok_result("p"), ran_at="acme")
    story = _run().turn(call, finish="paused")
    assert story.state.calls == {}
    assert _plan_step(story) == AskModel()
    story.turn(result, finish="stop")
    assert _plan_step(story) == End("failed", "empty_answer: the model ended its turn without a word")
