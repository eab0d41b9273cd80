"""The fold and `decide` accept exactly what the table says, and refuse the rest."""

import itertools
from collections.abc import Callable
from typing import get_args

import pytest
from msgspec.structs import replace

from core.story import OWNER, Story, model_text, ok_result, tool_call, user
from core.table import COMMANDS, FACTS, PHASES, SITUATIONS, STANDINGS
from toolyard.core.caller import Caller
from toolyard.core.conversation.commands import (
    AddMessage,
    Answer,
    Approve,
    Change,
    Deliver,
    Deny,
    Fork,
    Open,
    RemoveMessage,
    Rewind,
    Start,
    StateCommand,
    Stop,
)
from toolyard.core.conversation.decide import decide
from toolyard.core.conversation.events import (
    CallAnswered,
    CallApproved,
    CallDenied,
    CallEnded,
    CallEvent,
    CallJudged,
    CallParked,
    CallsRequested,
    CallStarted,
    ConversationChanged,
    ConversationOpened,
    Durable,
    HistoryCompacted,
    HistoryRewound,
    MessageAdded,
    MessageRemoved,
    Origin,
    Remember,
    RunEnded,
    RunQueued,
    RunStarted,
    RunSuspended,
    StopRequested,
    TurnEnded,
    TurnFailed,
    TurnStarted,
    event_name,
)
from toolyard.core.conversation.run_state import Phase
from toolyard.core.conversation.settings import Settings, SettingsChange
from toolyard.core.conversation.state import State
from toolyard.core.errors import Refused
from toolyard.core.items import Problem
from toolyard.core.settings.limits import Limits
from toolyard.core.tools.definition import Tool

NOW = 50.0


def _build_resting() -> Story:
    story = Story().open().begin("r0", user("r0.in")).turn(model_text("r0.out"))
    story.add(RunEnded(ending="done"))
    return story


def _build_between_turns() -> Story:
    return _build_resting().begin("r1")


def _build_calls_open() -> Story:
    return _build_between_turns().turn(tool_call("c1"), tool_call("c2"))


def _build_waiting(expires_at: float = 100.0) -> Story:
    return _build_calls_open().hold("c1", expires_at).allow("c2").start("c2")


def _build_suspended() -> Story:
    story = _build_waiting()
    story.add(CallEnded(result=ok_result("c2")))
    story.add(RunSuspended(waiting_for=("c1",), wake_at=100.0))
    return story


def _build_full_queue() -> Story:
    story = _build_between_turns()
    for number in range(16):
        story.queue(f"q{number}")
    return story


def _build_in_phase(phase: Phase) -> Story:
    story = _build_calls_open()
    if phase == "requested":
        return story
    if phase == "asking":
        return story.hold("c1")
    story.allow("c1")
    if phase == "allowed":
        return story
    story.start("c1")
    if phase == "nested":
        story.nest("c1").close(ok_result("c1.0"))
    if phase == "parked":
        story.add(CallParked(call_id="c1", kind="client", expires_at=100.0))
    if phase == "closed":
        story.add(CallEnded(result=ok_result("c1")))
    return story


def _build_questioned() -> Story:
    story = _build_in_phase("running")
    story.add(CallParked(call_id="c1", kind="question", expires_at=100.0))
    return story


def _build_stopped() -> Story:
    story = _build_waiting()
    story.add(StopRequested(by="owner"))
    return story


BUILDER_BY_SITUATION: dict[str, Callable[[], Story]] = {
    "unopened": Story,
    "resting": _build_resting,
    "queued": lambda: _build_resting().queue("r1"),
    "between turns": _build_between_turns,
    "in a turn": lambda: _build_between_turns().ask(),
    "calls open": _build_calls_open,
    "calls waiting": _build_waiting,
    "suspended": _build_suspended,
    "line full": _build_full_queue,
    "asking": lambda: _build_in_phase("asking"),
    "asking, expired": lambda: _build_waiting(expires_at=NOW),
    "allowed": lambda: _build_in_phase("allowed"),
    "running": lambda: _build_in_phase("running"),
    "nested": lambda: _build_in_phase("nested"),
    "parked for the app": lambda: _build_in_phase("parked"),
    "parked with a question": _build_questioned,
    "closed": lambda: _build_in_phase("closed"),
    "stopped": _build_stopped,
}


def _call_event(name: str, state: State) -> CallEvent:
    attempt = state.calls["c1"].attempt + 1
    events: dict[str, CallEvent] = {
        "call.judged allow": CallJudged(call_id="c1", verdict="allow", rule="test"),
        "call.judged ask": CallJudged(call_id="c1", verdict="ask", rule="test", expires_at=100.0),
        "call.judged deny": CallJudged(call_id="c1", verdict="deny", rule="test"),
        "call.approved": CallApproved(call_id="c1", by="owner"),
        "call.denied": CallDenied(call_id="c1", by="owner"),
        "call.started": CallStarted(call_id="c1", epoch=1, attempt=attempt),
        "call.started with a rule": CallStarted(call_id="c1", epoch=1, attempt=attempt, rule="test"),
        "call.parked": CallParked(call_id="c1", kind="client", expires_at=100.0),
        "call.answered": CallAnswered(call_id="c1", by="owner", reply="accepted"),
        "call.ended": CallEnded(result=ok_result("c1")),
    }
    return events[name]


CALL_EVENTS = (
    "call.judged allow",
    "call.judged ask",
    "call.judged deny",
    "call.approved",
    "call.denied",
    "call.started",
    "call.started with a rule",
    "call.parked",
    "call.answered",
    "call.ended",
)


def _fact(name: str, state: State) -> Durable:
    facts: dict[str, Durable] = {
        "conversation.opened": ConversationOpened(owner=OWNER, settings=Settings()),
        "conversation.changed": ConversationChanged(settings=Settings(model="other")),
        "message.added": MessageAdded(item=user("new")),
        "message.removed": MessageRemoved(ids=frozenset({"r0.out"})),
        "history.rewound": HistoryRewound(to="r0.in", by="owner"),
        "history.compacted": HistoryCompacted(through="r0.out", items=(user("summary"),)),
        "run.queued": RunQueued(caller=OWNER, input=(user("later"),)),
        "run.started": RunStarted(model="m", limits=Limits()),
        "turn.started": TurnStarted(number=state.turns + (state.turn is None), epoch=2),
        "turn.ended": TurnEnded(items=(model_text("t"),), finish="stop"),
        "turn.failed": TurnFailed(problem=Problem(error="no", error_type="model_error")),
        "stop.requested": StopRequested(by="owner"),
        "run.suspended": RunSuspended(waiting_for=(), wake_at=100.0),
        "run.ended": RunEnded(ending="done"),
        "calls.requested": CallsRequested(parent="c2", seen=0, calls=(tool_call("c2.0"),)),
    }
    return facts[name]


STRANGER = Caller(user="stranger")
APPROVER = Caller(user="boss", roles=frozenset({"approver"}))
COMMAND_BY_NAME: dict[str, StateCommand] = {
    "Start": Start(by=OWNER, run_id="new", input=(user("new.in"),)),
    "Start, interrupting": Start(by=OWNER, run_id="new", input=(user("new.in"),), interrupt=True),
    "Start of the same run": Start(by=OWNER, run_id="r1", input=(user("new.in"),)),
    "AddMessage": AddMessage(by=OWNER, items=(user("added"),)),
    "AddMessage of a call": AddMessage(by=OWNER, items=(tool_call("added"),)),
    "AddMessage of a result": AddMessage(by=OWNER, items=(ok_result("nowhere"),)),
    "RemoveMessage": RemoveMessage(by=OWNER, ids=frozenset({"r0.out"})),
    "RemoveMessage that is not there": RemoveMessage(by=OWNER, ids=frozenset({"r0.out", "nowhere"})),
    "Rewind": Rewind(by=OWNER, to="r0.in"),
    "Rewind to an item that is not there": Rewind(by=OWNER, to="nowhere"),
    "Rewind by a stranger": Rewind(by=STRANGER, to="r0.in"),
    "Fork": Fork(by=OWNER, origin=Origin(conversation="another"), items=(user("copied"),)),
    "Start without a message": Start(by=OWNER, run_id="new", input=()),
    "Open": Open(by=OWNER),
    "Change": Change(by=OWNER, change=SettingsChange(model="other")),
    "Approve": Approve(by=OWNER, call_id="c1", arguments={"of": "another"}),
    "Approve by an approver": Approve(by=APPROVER, call_id="c1"),
    "Approve by a stranger": Approve(by=STRANGER, call_id="c1"),
    "Deny": Deny(by=OWNER, call_id="c1", reason="not now"),
    "Deny by a stranger": Deny(by=STRANGER, call_id="c1"),
    "Deliver": Deliver(by=OWNER, results=(ok_result("c1"),)),
    "Deliver for another tool": Deliver(by=OWNER, results=(ok_result("c1", tool="other"),)),
    "Deliver by a stranger": Deliver(by=STRANGER, results=(ok_result("c1"),)),
    "Answer": Answer(by=OWNER, call_id="c1", content={"size": 3}),
    "Answer by a stranger": Answer(by=STRANGER, call_id="c1"),
    "Stop": Stop(by=OWNER),
    "Stop of a call": Stop(by=OWNER, call_id="c1"),
}
RUN_OF = {"Start": "new", "Start, interrupting": "new", "Start of the same run": "r1"}


@pytest.mark.parametrize(("phase", "name"), list(itertools.product(PHASES, CALL_EVENTS)))
def test_a_call_leaves_its_phase_only_as_the_table_says(phase: Phase, name: str) -> None:
    story = _build_in_phase(phase)
    event = _call_event(name, story.state)
    if name not in PHASES[phase]:
        with pytest.raises(Refused):
            story.add(event)
        return
    assert story.add(event).calls["c1"].phase == PHASES[phase][name]


@pytest.mark.parametrize(("standing", "name"), list(itertools.product(STANDINGS, FACTS)))
def test_the_fold_accepts_a_fact_only_where_the_table_says(standing: str, name: str) -> None:
    story = BUILDER_BY_SITUATION[standing]()
    fact = _fact(name, story.state)
    if standing in FACTS[name]:
        story.add(fact)
        return
    with pytest.raises(Refused):
        story.add(fact)


@pytest.mark.parametrize(("situation", "name"), list(itertools.product(SITUATIONS, COMMANDS)))
def test_a_command_is_accepted_only_where_the_table_says(situation: str, name: str) -> None:
    story = BUILDER_BY_SITUATION[situation]()
    if situation not in COMMANDS[name]:
        with pytest.raises(Refused):
            decide(story.state, COMMAND_BY_NAME[name], NOW)
        return
    story.add(*decide(story.state, COMMAND_BY_NAME[name], NOW), at=NOW, run=RUN_OF.get(name, ""))


def test_the_table_names_every_command_and_every_event_there_is() -> None:
    command_names = {name.split()[0].rstrip(",") for name in COMMANDS}
    assert command_names == {kind.__name__ for kind in get_args(StateCommand)}
    assert {name.split()[0] for name in CALL_EVENTS} | set(FACTS) == {
        str(kind.__struct_config__.tag) for kind in get_args(Durable)
    }
    assert set(PHASES) == set(get_args(Phase))
    assert set(BUILDER_BY_SITUATION) == set(SITUATIONS)


def test_the_situations_are_what_they_are_called() -> None:
    for phase in PHASES:
        assert _build_in_phase(phase).state.calls["c1"].phase == phase
    run = _build_suspended().state.run
    assert run is not None
    assert run.suspended_at is not None
    assert len(_build_full_queue().state.queue) == 16


def test_an_attempt_out_of_order_is_refused() -> None:
    for attempt in (0, 2):
        with pytest.raises(Refused, match="out of order"):
            _build_in_phase("allowed").add(CallStarted(call_id="c1", epoch=1, attempt=attempt))


def test_a_turn_out_of_order_is_refused() -> None:
    story = _build_between_turns()
    for number in (story.state.turns, story.state.turns + 2):
        with pytest.raises(Refused, match="out of order"):
            story.add(TurnStarted(number=number, epoch=1))


def test_a_refused_append_leaves_nothing_behind() -> None:
    story = _build_in_phase("running")
    before, entries = story.state, len(story.log)
    with pytest.raises(Refused):
        story.add(CallEnded(result=ok_result("c1")), CallEnded(result=ok_result("c1")))
    assert (story.state, len(story.log)) == (before, entries)


def test_the_first_in_line_does_not_count_as_waiting_when_nothing_runs() -> None:
    story = _build_resting()
    for number in range(17):
        story.add(
            *decide(story.state, Start(by=OWNER, run_id=f"q{number}", input=(user(f"q{number}.in"),)), NOW),
            run=f"q{number}",
        )
    with pytest.raises(Refused, match="16 requests wait"):
        decide(story.state, COMMAND_BY_NAME["Start"], NOW)


def test_an_interrupting_start_stops_the_run_in_front_and_joins_the_line() -> None:
    events = decide(_build_between_turns().state, COMMAND_BY_NAME["Start, interrupting"], NOW)
    assert [event_name(event) for event in events] == ["stop.requested", "run.queued"]
    events = decide(_build_resting().state, COMMAND_BY_NAME["Start, interrupting"], NOW)
    assert [event_name(event) for event in events] == ["run.queued"]


def test_a_second_stop_changes_nothing() -> None:
    assert decide(_build_stopped().state, Stop(by=OWNER), NOW) == ()


def test_the_first_start_opens_the_conversation_with_its_settings() -> None:
    start = Start(by=OWNER, run_id="r1", input=(user("u"),), settings=Settings(system_prompt="Be brief."))
    opened = decide(State(), start, NOW)[0]
    assert opened == ConversationOpened(owner=OWNER, settings=Settings(system_prompt="Be brief."))


def test_a_denial_tells_the_model_who_said_no_and_why() -> None:
    _, ended = decide(_build_in_phase("asking").state, COMMAND_BY_NAME["Deny"], NOW)
    assert isinstance(ended, CallEnded)
    assert ended.result.outcome == "denied"
    assert ended.result.error == Problem(error="the user declined: not now", error_type="denied_by_user")


def test_an_approval_with_edits_runs_with_the_edited_arguments() -> None:
    story = _build_in_phase("asking")
    edited = story.add(*decide(story.state, COMMAND_BY_NAME["Approve"], NOW)).calls["c1"]
    assert edited.arguments == {"of": "another"}
    story = _build_in_phase("asking")
    plain = story.add(*decide(story.state, COMMAND_BY_NAME["Approve by an approver"], NOW)).calls["c1"]
    assert plain.arguments == {"of": "c1"}


def test_an_approver_of_another_tenant_may_not_decide() -> None:
    elsewhere = Approve(by=replace(APPROVER, tenant="elsewhere"), call_id="c1")
    with pytest.raises(Refused, match="may not decide"):
        decide(_build_in_phase("asking").state, elsewhere, NOW)


def test_an_approval_is_remembered_for_the_tool_or_for_the_conversation() -> None:
    covered: dict[Remember, list[str]] = {"no": [], "tool": ["plain"], "conversation": ["plain", "another"]}
    for remember, names in covered.items():
        story = _build_in_phase("asking")
        state = story.add(CallApproved(call_id="c1", by="owner", remember=remember))
        tools = [Tool(name=name) for name in ("plain", "another")]
        assert [tool.name for tool in tools if any(approved.covers(tool) for approved in state.remembered)] == names


def test_a_call_is_removed_together_with_its_result() -> None:
    story = _build_in_phase("closed")
    story.add(CallEnded(result=ok_result("c2")))
    story.turn(model_text("end")).add(RunEnded(ending="done"))
    both = {"c1", "c1.result", "c2", "c2.result"}
    for ids, gone in (({"c1"}, {"c1", "c1.result"}), ({"c2.result"}, {"c2", "c2.result"}), ({"c1", "c2"}, both)):
        removed = decide(story.state, RemoveMessage(by=OWNER, ids=frozenset(ids)), NOW)
        assert removed == (MessageRemoved(ids=frozenset(gone)),)


def test_nothing_is_removed_unless_all_of_it_is_there() -> None:
    for ids in ({"r0.out", "nowhere"}, set[str]()):
        with pytest.raises(Refused, match="there is no message"):
            decide(_build_resting().state, RemoveMessage(by=OWNER, ids=frozenset(ids)), NOW)


def test_results_join_the_history_in_the_order_of_the_calls() -> None:
    story = _build_in_phase("requested")
    story.add(CallEnded(result=ok_result("c2")))
    assert story.state.history[-1].id == "c2"
    story.add(CallEnded(result=ok_result("c1")))
    assert [item.id for item in story.state.history][-2:] == ["c1.result", "c2.result"]


def test_calls_that_the_provider_answered_itself_never_open() -> None:
    story = _build_between_turns().turn(
        tool_call("p1", "web_search"), ok_result("p1", "web_search"), model_text("t"), finish="paused"
    )
    assert story.state.calls == {}
    assert story.state.tool_turns == 0


def test_a_request_that_brings_its_history_opens_only_the_calls_that_have_no_result() -> None:
    story = Story().open().begin("r1", user("u1"), tool_call("old"), ok_result("old"), model_text("t"), user("u2"))
    assert story.state.calls == {}
    direct = Story().open().begin("r1", tool_call("old"), ok_result("old"), tool_call("new"))
    assert list(direct.state.calls) == ["new"]
