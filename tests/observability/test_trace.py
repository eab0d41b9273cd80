"""A run's log as a trace: every turn, call and wait with its times, open or closed."""

from msgspec.structs import replace

from core.story import Story, model_text, ok_result, tool_call
from support import collect_events, open_yard, read_entries, wait_for_event
from toolyard import tool
from toolyard.core.conversation.events import (
    CallAnswered,
    CallApproved,
    CallDenied,
    CallEnded,
    CallParked,
    CallStarted,
    ConversationChanged,
    HistoryCompacted,
    RunEnded,
    RunStarted,
    RunSuspended,
    StopRequested,
    TurnEnded,
    TurnFailed,
    TurnStarted,
)
from toolyard.core.conversation.settings import Settings
from toolyard.core.failed_results import build_cancelled_result, build_user_denied_result
from toolyard.core.items import Item, Problem, Usage
from toolyard.core.settings.limits import Limits
from toolyard.core.settings.prices import Cost
from toolyard.observability.trace import CallSpan, Trace, TurnSpan, WaitSpan, build_trace
from toolyard.testing import call, say


def begin(story: Story, run: str, *items: Item, at: float = 0.0) -> Story:
    story.queue(run, *items).add(RunStarted(model="m", limits=Limits()), at=at, run=run)
    return story


def begin_story(run: str, *items: Item, at: float = 0.0) -> Story:
    return begin(Story().open(), run, *items, at=at)


def get_trace(story: Story, run: str = "r1") -> Trace:
    trace = build_trace(story.log, run)
    assert trace is not None
    return trace


def get_only_call(story: Story) -> CallSpan:
    (span,) = get_trace(story).calls
    return span


def test_a_run_that_nobody_asked_for_has_no_trace() -> None:
    assert build_trace(begin_story("r1").log, "r2") is None
    assert build_trace([], "r1") is None


def test_a_run_in_line_is_queued_and_has_neither_start_nor_end() -> None:
    trace = get_trace(Story().open().queue("r1"))
    assert (trace.status, trace.started_at, trace.ended_at, trace.ending) == ("queued", None, None, None)
    assert (trace.user, trace.conversation, trace.correlation_id) == ("owner", "k", "trace")


def test_a_turn_in_flight_has_no_end() -> None:
    trace = get_trace(begin_story("r1", at=1.0).ask(at=2.0))
    assert trace.turns == (TurnSpan(number=1, started_at=2.0),)
    assert (trace.status, trace.model, trace.started_at, trace.last_at) == ("running", "m", 1.0, 2.0)


def test_a_turn_that_began_again_keeps_its_first_start_and_says_how_often() -> None:
    story = begin_story("r1").ask(epoch=1, at=1.0).ask(epoch=2, at=5.0)
    story.add(TurnEnded(items=(model_text("i1"),), finish="stop", usage=Usage(input_tokens=7), model="m-2026"), at=6.0)
    (turn,) = get_trace(story).turns
    assert turn == TurnSpan(
        number=1,
        started_at=1.0,
        ended_at=6.0,
        model="m-2026",
        finish="stop",
        usage=Usage(input_tokens=7),
        restarted=1,
    )


def test_a_turn_that_began_again_says_where_its_searches_go_now() -> None:
    story = begin_story("r1")
    story.add(TurnStarted(number=1, epoch=1, search="at the provider"), at=1.0)
    story.add(TurnStarted(number=1, epoch=2, search="here"), at=5.0)
    (turn,) = get_trace(story).turns
    assert (turn.search, turn.restarted) == ("here", 1)


def test_a_turn_that_failed_carries_its_problem_and_ends_the_run_as_failed() -> None:
    problem = Problem(error="no", error_type="model_error")
    story = begin_story("r1").ask(at=1.0)
    story.add(TurnFailed(problem=problem), at=3.0)
    story.add(RunEnded(ending="failed", detail="model_error: no"), at=3.0)
    trace = get_trace(story)
    assert [(turn.ended_at, turn.finish, turn.problem) for turn in trace.turns] == [(3.0, None, problem)]
    assert (trace.status, trace.ending, trace.detail, trace.ended_at) == ("ended", "failed", "model_error: no", 3.0)


def test_tokens_add_up_over_the_turns_of_one_run_only() -> None:
    story = Story().open()
    for run in ("r1", "r2"):
        begin(story, run).turn(tool_call(f"{run}.a"), usage=Usage(input_tokens=10, output_tokens=2, cached_tokens=4))
        story.allow(f"{run}.a").start(f"{run}.a")
        story.add(CallEnded(result=ok_result(f"{run}.a")))
        story.turn(model_text(f"{run}.out"), usage=Usage(input_tokens=14, output_tokens=3))
        story.add(RunEnded(ending="done"))
    trace = get_trace(story, "r2")
    assert trace.usage == Usage(input_tokens=24, output_tokens=5, cached_tokens=4)
    assert [turn.number for turn in trace.turns] == [3, 4]
    assert [span.id for span in trace.calls] == ["r2.a"]


def test_turns_summaries_and_calls_carry_the_costs_that_were_recorded() -> None:
    costs = [Cost(micros=micros) for micros in (5, 70, 300, 9, 40)]
    story = begin_story("r1").ask()
    story.add(TurnEnded(items=(tool_call("a"),), finish="calls", cost=costs[0]))
    story.allow("a").start("a")
    story.add(CallEnded(result=ok_result("a"), cost=costs[1]))
    story.add(HistoryCompacted(through="a", cost=costs[2]), run="r1")
    story.ask()
    story.add(TurnFailed(problem=Problem(error="no", error_type="model_error"), cost=costs[3]))
    story.add(RunEnded(ending="failed", cost=costs[4]))
    trace = get_trace(story)
    assert [turn.cost for turn in trace.turns] == [costs[0], costs[3]]
    assert [call.cost for call in trace.calls] == [costs[1]]
    assert [compaction.cost for compaction in trace.compactions] == [costs[2]]
    assert trace.cost == costs[4]
    unknown = get_trace(begin_story("r1").turn(model_text("b")))
    assert [turn.cost for turn in unknown.turns] == [None]


def test_a_call_that_started_at_once_shows_the_rule_that_allowed_it() -> None:
    story = begin_story("r1").turn(tool_call("a"), at=1.0)
    story.add(CallStarted(call_id="a", epoch=1, rule="default"), at=2.0)
    span = get_only_call(story)
    assert (span.verdict, span.rule, span.judged_at, span.started_at) == ("allow", "default", 2.0, 2.0)


def test_an_approval_shows_who_decided_when_and_the_wait_it_cost() -> None:
    story = begin_story("r1").turn(tool_call("a"), at=1.0)
    story.hold("a").add(RunSuspended(waiting_for=("a",), wake_at=100.0), at=2.0)
    assert get_trace(story).status == "waiting"
    assert get_trace(story).waits == (WaitSpan(started_at=2.0, waiting_for=("a",)),)
    story.add(CallApproved(call_id="a", by="boss", arguments={"of": "b"}), at=9.0)
    story.start("a")
    trace, span = get_trace(story), get_only_call(story)
    assert trace.status == "running"
    assert trace.waits == (WaitSpan(started_at=2.0, ended_at=9.0, waiting_for=("a",)),)
    assert (span.verdict, span.rule, span.asked_at) == ("ask", "test", 0.0)
    assert (span.decided_at, span.decided_by, span.edited) == (9.0, "boss", {"of": "b"})
    assert (span.turn, span.requested_at, span.attempts, span.ended_at) == (1, 1.0, 1, None)


def test_a_denial_shows_who_denied() -> None:
    story = begin_story("r1").turn(tool_call("a")).hold("a")
    denied = build_user_denied_result(tool_call("a"), "no", 4.0)
    story.add(CallDenied(call_id="a", by="boss", reason="no"), CallEnded(result=denied), at=4.0)
    span = get_only_call(story)
    assert (span.decided_by, span.outcome, span.started_at, span.duration_ms) == ("boss", "denied", None, None)


def test_a_change_of_settings_does_not_end_a_wait_but_a_stop_does() -> None:
    story = begin_story("r1").turn(tool_call("a")).hold("a")
    story.add(RunSuspended(waiting_for=("a",), wake_at=100.0), at=2.0)
    story.add(ConversationChanged(settings=Settings(title="t")), at=3.0)
    assert get_trace(story).waits[0].ended_at is None
    story.add(StopRequested(by="owner"), at=4.0)
    assert get_trace(story).waits[0].ended_at == 4.0
    story.add(CallEnded(result=build_cancelled_result(tool_call("a"), 4.0, may_have_run=False)), at=4.0)
    story.add(RunEnded(ending="cancelled"), at=4.0)
    assert get_trace(story).ending == "cancelled"


def test_a_parked_call_shows_for_whom_and_its_answer_and_both_starts() -> None:
    story = begin_story("r1").turn(tool_call("a")).allow("a").start("a")
    story.add(CallParked(call_id="a", kind="question", expires_at=50.0), at=5.0)
    story.add(CallAnswered(call_id="a", by="owner", reply="accepted"), at=8.0)
    story.start("a")
    story.add(CallEnded(result=ok_result("a")), at=9.0)
    span = get_only_call(story)
    assert (span.parked_at, span.parked_for, span.answered_at, span.answered_by) == (5.0, "question", 8.0, "owner")
    assert (span.started_at, span.attempts, span.ended_at, span.duration_ms) == (0.0, 2, 9.0, 9000.0)


def test_a_call_that_the_provider_ran_is_there_and_ended_with_its_turn() -> None:
    trace = get_trace(begin_story("r1").turn(tool_call("a"), ok_result("a"), model_text("i1"), at=3.0))
    assert [(span.provider_ran_it, span.ended_at, span.outcome) for span in trace.calls] == [(True, 3.0, "ok")]


def test_a_call_that_the_provider_paused_ends_with_the_turn_that_brings_its_result() -> None:
    story = begin_story("r1").turn(replace(tool_call("a"), ran_at="acme"), finish="paused", at=3.0)
    assert [(span.provider_ran_it, span.ended_at) for span in get_trace(story).calls] == [(True, None)]
    story.turn(replace(ok_result("a"), ran_at="acme"), model_text("i1"), at=5.0)
    assert [(span.provider_ran_it, span.ended_at, span.outcome) for span in get_trace(story).calls] == [
        (True, 5.0, "ok")
    ]


def test_calls_of_a_history_that_came_along_are_none_of_this_run() -> None:
    assert get_trace(begin_story("r1", tool_call("old"), ok_result("old"))).calls == ()


def test_a_direct_call_belongs_to_no_turn() -> None:
    span = get_only_call(begin_story("r1", tool_call("a"), at=2.0))
    assert (span.turn, span.requested_at, span.verdict) == (0, 2.0, None)


@tool(approval="ask")
def order(item: str) -> str:
    """Order it."""
    return item


async def test_a_real_run_is_traced_from_its_own_log() -> None:
    async with open_yard([call("order", item="milk"), say("done")], [order]) as yard:
        run = yard.run("order milk", correlation_id="abc-123")
        suspended, _ = await wait_for_event(run, RunSuspended)
        await yard.approve(run.conversation, suspended.waiting_for[0])
        await collect_events(run)
        trace = build_trace(await read_entries(yard, run.conversation), run.id)
    assert trace is not None
    (span,) = trace.calls
    assert trace.started_at is not None and trace.ended_at is not None and span.ended_at is not None
    assert (trace.correlation_id, trace.status, trace.ending) == ("abc-123", "ended", "done")
    assert [turn.finish for turn in trace.turns] == ["calls", "stop"]
    assert (span.tool, span.outcome, span.decided_by, span.attempts) == ("order", "ok", "local", 1)
    assert len(trace.waits) == 1
    times = [trace.queued_at, trace.started_at, span.requested_at, trace.waits[0].started_at, span.ended_at]
    assert times == sorted(times)
