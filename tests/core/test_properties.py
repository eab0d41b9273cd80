"""Any sequence of commands, crashes and happenings leaves a log that reads the same again and a history that a strict
provider accepts, with exactly one result for each call. Each broken rule below turns the property red."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, assert_never, get_args

import pytest
from hypothesis import Phase as Stage
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from msgspec.structs import replace

from core.log_checker import PROGRAM, SAFE_TO_REPEAT, Broken, require
from core.owner import APPROVAL_S, TOOLS, Owner, Rules
from core.story import OWNER, model_text, ok_result, tool_call, user
from toolyard.core import failed_results
from toolyard.core.conversation.commands import (
    AddMessage,
    Answer,
    Approve,
    Change,
    Deliver,
    Deny,
    RemoveMessage,
    Start,
    StateCommand,
    Stop,
)
from toolyard.core.conversation.events import (
    CallEnded,
    CallParked,
    CallStarted,
    Entry,
    RunRequest,
    TurnEnded,
    TurnFailed,
)
from toolyard.core.conversation.history import History
from toolyard.core.conversation.plan import Resume, Step, StopWork, Wait, plan
from toolyard.core.conversation.run_state import Phase
from toolyard.core.conversation.settings import SettingsChange
from toolyard.core.conversation.state import State, apply
from toolyard.core.errors import Refused
from toolyard.core.items import Item, Problem, SystemText, Usage
from toolyard.core.settings.limits import Limits

CommandName = Literal[
    "start", "bring", "direct", "interrupt", "approve", "edit", "remember", "deny", "deliver", "answer",
    "stop", "stop call", "change", "add", "remove",
]  # fmt: skip
Turn = Literal["text", "calls", "silent", "rejected", "length", "refused", "paused", "failed"]
REJECTED = Problem(error="not JSON", error_type="output_invalid")
CallEnd = Literal["ok", "error", "retry", "twice", "early"]


@dataclass(frozen=True)
class GiveCommand:
    name: CommandName
    pick: int
    """Which of the calls or messages it is about."""


@dataclass(frozen=True)
class FinishTurn:
    kind: Turn
    tools: tuple[str, ...]


@dataclass(frozen=True)
class FinishCall:
    kind: CallEnd
    pick: int


@dataclass(frozen=True)
class PassTime:
    seconds: float


@dataclass(frozen=True)
class Crash:
    pass


@dataclass(frozen=True)
class MoveOn:
    """Whatever is waited for comes: a reply with calls, a result, an approval, a delivery, an answer, a request."""

    tools: tuple[str, ...]
    pick: int


Happening = MoveOn | GiveCommand | FinishTurn | FinishCall | PassTime | Crash
Script = list[tuple[Happening, int]]
"""What happens, and how many steps the owner gets afterwards."""

_picks = st.integers(0, 7)
_calls = st.lists(st.sampled_from(TOOLS), min_size=1, max_size=4).map(tuple)
_moved_on = st.builds(MoveOn, _calls, _picks)
_decisions: list[CommandName] = ["approve", "edit", "remember", "deny", "deliver", "answer"]
_happenings: st.SearchStrategy[Happening] = st.one_of(
    *(_moved_on,) * 5,
    st.builds(FinishTurn, st.sampled_from(get_args(Turn)), _calls),
    st.builds(FinishCall, st.sampled_from(get_args(CallEnd)), _picks),
    st.builds(GiveCommand, st.sampled_from(_decisions), _picks),
    st.builds(GiveCommand, st.sampled_from(get_args(CommandName)), _picks),
    st.builds(PassTime, st.sampled_from([1.0, 20.0, APPROVAL_S])),
    st.just(Crash()),
)
scripts: st.SearchStrategy[Script] = st.lists(
    st.tuples(_happenings, st.sampled_from([100, 100, 100, 0, 1, 2])), min_size=8, max_size=30
)
LIMITS = (
    None,
    None,
    Limits(parallel_calls=1),
    Limits(parallel_calls=2, turns_per_request=2),
    Limits(turns_per_conversation=3, run_seconds=100.0),
    Limits(run_tokens=30, parallel_calls=0),
)


class Play:
    """A script played against an owner, and what it needs to make up: fresh ids."""

    def __init__(self, rules: Rules) -> None:
        self.owner = Owner(rules)
        self._id_count = 0

    def act(self, happening: Happening) -> None:
        match happening:
            case MoveOn():
                self.act(self._due(happening))
            case GiveCommand():
                self.owner.submit(self._command(happening))
            case FinishTurn():
                self._finish_turn(happening)
            case FinishCall():
                self._finish_call(happening)
            case PassTime():
                self.owner.now += happening.seconds
            case Crash():
                self.owner.crash()
            case _:
                assert_never(happening)

    def _due(self, move: MoveOn) -> Happening:
        if self.owner.asking:
            return FinishTurn("calls", move.tools)
        if self.owner.busy:
            return FinishCall("ok", move.pick)
        if self.owner.state.calls_in("asking"):
            return GiveCommand("approve", move.pick)
        if parked := [call.parked for call in self.owner.state.calls_in("parked") if call.parked]:
            return GiveCommand("deliver" if parked[0].kind == "client" else "answer", 1)
        return GiveCommand("start", move.pick)

    def _id(self, prefix: str) -> str:
        self._id_count += 1
        return f"{prefix}{self._id_count}"

    def _command(self, given_command: GiveCommand) -> StateCommand:
        pick = given_command.pick
        call_id = self._target(given_command.name, pick)
        tool = self.owner.log_checker.tools.get(call_id, "plain")
        item_id = _pick([*(item.id for item in self.owner.state.full_history), "nowhere"], pick)
        make: dict[CommandName, Callable[[], StateCommand]] = {
            "start": lambda: self._start(pick, user(self._id("u"))),
            "bring": lambda: self._start(pick, user(self._id("u")), *self._provider_call(), user(self._id("u"))),
            "direct": lambda: self._start(pick, tool_call(self._id("c"), TOOLS[pick % len(TOOLS)])),
            "interrupt": lambda: replace(self._start(pick, user(self._id("u"))), interrupt=True),
            "approve": lambda: Approve(by=OWNER, call_id=call_id),
            "edit": lambda: Approve(by=OWNER, call_id=call_id, arguments={"edited": pick}),
            "remember": lambda: Approve(by=OWNER, call_id=call_id, remember="tool"),
            "deny": lambda: Deny(by=OWNER, call_id=call_id, reason="no"),
            "deliver": lambda: Deliver(by=OWNER, results=(ok_result(call_id, tool),)),
            "answer": lambda: Answer(by=OWNER, call_id=call_id, content={"n": pick}),
            "stop": lambda: Stop(by=OWNER),
            "stop call": lambda: Stop(by=OWNER, call_id=call_id),
            "change": lambda: Change(by=OWNER, change=SettingsChange(tools=frozenset({"plain"}))),
            "add": lambda: AddMessage(by=OWNER, items=(user(self._id("u")),)),
            "remove": lambda: RemoveMessage(by=OWNER, ids=frozenset({item_id})),
        }
        return make[given_command.name]()

    def _target(self, name: CommandName, pick: int) -> str:
        """Mostly a call that the command fits; now and then any other, or none."""
        phases: tuple[Phase, ...] = ("requested", "asking", "allowed", "running", "nested", "parked")
        if name in ("deliver", "answer"):
            phases = ("parked",)
        elif name in _decisions:
            phases = ("asking",)
        fitting = [call.call.id for call in self.owner.state.calls_in(*phases)]
        return _pick(fitting if fitting and pick else [*self.owner.log_checker.tools, "nowhere"], pick)

    def _start(self, pick: int, *items: Item) -> Start:
        return Start(
            by=OWNER,
            run_id=self._id("r"),
            input=items,
            run=RunRequest(limits=LIMITS[pick % len(LIMITS)], ends_on_expiry=pick % 2 == 1),
        )

    def _provider_call(self) -> tuple[Item, ...]:
        call_id = self._id("p")
        return tool_call(call_id, "web_search"), ok_result(call_id, "web_search")

    def _finish_turn(self, over: FinishTurn) -> None:
        if not self.owner.asking:
            return
        text = model_text(self._id("t"))
        calls = tuple(tool_call(self._id("c"), tool) for tool in over.tools)
        note = SystemText(id=self._id("n"), at=0.0, text="answer once more")
        used = Usage(input_tokens=8, output_tokens=2)
        ends: dict[Turn, Callable[[], TurnEnded | TurnFailed]] = {
            "text": lambda: TurnEnded(items=(text,), finish="stop", usage=used),
            "calls": lambda: TurnEnded(items=(text, *calls), finish="calls", usage=used),
            "silent": lambda: TurnEnded(items=(), finish="stop", usage=used),
            "rejected": lambda: TurnEnded(items=(text, note), finish="stop", usage=used, output_problem=REJECTED),
            "length": lambda: TurnEnded(items=(text,), finish="length", usage=used),
            "refused": lambda: TurnEnded(items=(text,), finish="refused", usage=used),
            "paused": lambda: TurnEnded(items=(*self._provider_call(), text), finish="paused", usage=used),
            "failed": lambda: TurnFailed(problem=Problem(error="no", error_type="model_error")),
        }
        self.owner.end_turn(ends[over.kind]())

    def _finish_call(self, over: FinishCall) -> None:
        if over.kind == "twice":
            call_id = _pick([*sorted(self.owner.log_checker.ended_calls), "nowhere"], over.pick)
            return self.owner.try_again(
                CallEnded(result=ok_result(call_id, self.owner.log_checker.tools.get(call_id, "plain")))
            )
        if over.kind == "early":
            programs = [call.parent for call in self.owner.state.calls.values() if call.parent]
            call_id = _pick([*programs, "nowhere"], over.pick)
            return self.owner.try_again(CallEnded(result=ok_result(call_id, PROGRAM)))
        if not self.owner.busy:
            return None
        call_id = _pick(self.owner.busy, over.pick)
        state = self.owner.state.calls[call_id]
        until = self.owner.now + APPROVAL_S
        match state.call.tool:
            case tool if tool == PROGRAM and over.kind == "error":
                self.owner.fail_program(call_id)
            case tool if tool == PROGRAM:
                self.owner.continue_program(call_id)
            case "app":
                parked = CallParked(call_id=call_id, kind="client", expires_at=until)
                self.owner.end_call(parked, call_id=call_id)
            case "form" if state.answer is None:
                parked = CallParked(call_id=call_id, kind="question", expires_at=until, resume_token="t")
                self.owner.end_call(parked, call_id=call_id)
            case tool if tool == SAFE_TO_REPEAT and over.kind == "retry":
                self.owner.emit(CallStarted(call_id=call_id, epoch=self.owner.epoch, attempt=state.attempt + 1))
            case _ if over.kind == "error":
                wrong = Problem(error="it broke", error_type="execution_error")
                result = failed_results.build_failed_result(state.call, "error", wrong, self.owner.now)
                self.owner.end_call(CallEnded(result=result), call_id=call_id)
            case tool:
                self.owner.end_call(CallEnded(result=ok_result(call_id, tool)), call_id=call_id)
        return None

    def wind_down(self, how: Literal["stop", "patience"]) -> None:
        """Nothing new comes. Every run that is open or in line must end: at a stop at once, else in its own time."""
        for _ in range(400):
            self.owner.drive()
            self.owner.check()
            state = self.owner.state
            if state.run is None:
                return require(not state.queue, "a run in line was never begun")
            if how == "stop":
                self.owner.submit(Stop(by=OWNER))
                self.owner.crash()
                self.owner.drive()
                require(state.run.id in self.owner.log_checker.ended_runs, "a run did not end although it was stopped")
            elif self.owner.asking:
                self.act(FinishTurn("text", ()))
            elif self.owner.busy:
                self.act(FinishCall("ok", 0))
            else:
                self.owner.now = state.wake_at or self.owner.now
        raise Broken("a run never ends")


def _pick(among: list[str], pick: int) -> str:
    return among[pick % len(among)]


def play(script: Script, how: Literal["stop", "patience"], rules: Rules = Rules()) -> list[Entry]:  # noqa: B008
    """Play the script to its end, and return the log."""
    play = Play(rules)
    play.owner.submit(Start(by=OWNER, run_id="r0", input=(user("u0"),)))
    play.owner.drive()
    for happening, steps in script:
        play.act(happening)
        play.owner.drive(steps)
        play.owner.check()
    play.wind_down(how)
    require(play.owner.state.calls == {}, "a call is open and nothing runs")
    return play.owner.log_checker.read_back


@effort(max_examples=250, deadline=None)
@given(scripts, st.sampled_from(["stop", "patience"]))
def test_any_sequence_of_commands_and_crashes_leaves_one_result_for_each_call(
    script: Script, how: Literal["stop", "patience"]
) -> None:
    play(script, how)


def _accepts_a_second_result(state: State, entry: Entry) -> State:
    try:
        return apply(state, entry)
    except Refused:
        if isinstance(entry.event, CallEnded):
            return state
        raise


def _loses_a_result(state: State, entry: Entry) -> State:
    after = apply(state, entry)
    lost = isinstance(entry.event, CallEnded) and len(state.calls) > 1 and not after.calls
    return replace(after, history=History(after.history[:-1])) if lost else after


def _depends_on_hidden_state() -> Callable[[State, Entry], State]:
    seen_seqs: list[int] = []

    def apply_differently_each_time(state: State, entry: Entry) -> State:
        seen_seqs.append(entry.seq)
        return replace(apply(state, entry), offer=str(len(seen_seqs)))

    return apply_differently_each_time


def _is_deaf_to_stops(state: State, epoch: int, now: float) -> Step:
    run = replace(state.run, stopped_by=None) if state.run else None
    return plan(replace(state, run=run), epoch, now)


def _forgets_who_is_exclusive(state: State, epoch: int, now: float) -> Step:
    calls = {name: replace(call, exclusive=False) for name, call in state.calls.items()}
    return plan(replace(state, calls=calls), epoch, now)


def _does_not_wait_for_approval(state: State, epoch: int, now: float) -> Step:
    calls = {
        name: replace(call, phase="allowed" if call.phase == "asking" else call.phase)
        for name, call in state.calls.items()
    }
    return plan(replace(state, calls=calls), epoch, now)


def _takes_the_dead_for_living(state: State, epoch: int, now: float) -> Step:
    lost = any(call.epoch != epoch for call in state.calls_in("running"))
    return Wait(now + 1.0) if lost else plan(state, epoch, now)


def _lets_a_program_end_before_its_calls(state: State, entry: Entry) -> State:
    if isinstance(entry.event, CallEnded) and (call := state.calls.get(entry.event.result.call_id)) and call.program:
        ended = replace(call, program=None)
        children = {child for child, other in state.calls.items() if other.parent == call.call.id}
        calls = {name: other for name, other in state.calls.items() if name not in children}
        state = replace(state, calls={**calls, call.call.id: ended})
    return apply(state, entry)


def _stops_programs_first(state: State, epoch: int, now: float) -> Step:
    step = plan(state, epoch, now)
    return StopWork(step.calls[::-1]) if isinstance(step, StopWork) else step


def _forgets_programs(state: State, epoch: int, now: float) -> Step:
    step = plan(state, epoch, now)
    return Wait(now + 1.0) if isinstance(step, Resume) else step


def _rests_while_a_program_computes(state: State, epoch: int, now: float) -> Step:
    calls = {
        name: replace(call, program=replace(call.program, seen=len(call.program.ended))) if call.program else call
        for name, call in state.calls.items()
    }
    return plan(replace(state, calls=calls), epoch, now)


BROKEN = {
    "a plan that stops a program before its calls": (Rules(plan=_stops_programs_first), "fold refuses"),
    "a plan that never runs a program again": (Rules(plan=_forgets_programs), "nobody does"),
    "a plan that takes no notice of results for a program": (
        Rules(plan=_rests_while_a_program_computes),
        "work is in flight|fold refuses|never ends|kept in memory",
    ),
    "a fold that lets a program end before its calls": (
        Rules(apply=_lets_a_program_end_before_its_calls),
        "ended before its calls",
    ),
    "a fold that accepts a second result": (Rules(apply=_accepts_a_second_result), "ended twice"),
    "a fold that loses a result": (Rules(apply=_loses_a_result), "no result"),
    "a fold that remembers what is not in the log": (Rules(apply=_depends_on_hidden_state()), "folds to another state"),
    "a recovery that runs everything again": (Rules(may_run_again=lambda _: True), "not idempotent and ran twice"),
    "a plan that is deaf to stops": (Rules(plan=_is_deaf_to_stops), "although it was stopped"),
    "a plan that forgets who is exclusive": (Rules(plan=_forgets_who_is_exclusive), "has company"),
    "a plan that does not wait for approval": (Rules(plan=_does_not_wait_for_approval), "fold refuses"),
    "a plan that takes the dead for living": (Rules(plan=_takes_the_dead_for_living), "nobody does"),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_the_property_turns_red_for(broken: str) -> None:
    rules, complaint = BROKEN[broken]

    @effort(max_examples=2_000, deadline=None, derandomize=True, database=None, phases=[Stage.generate])
    @given(scripts, st.sampled_from(["stop", "patience"]))
    def holds(script: Script, how: Literal["stop", "patience"]) -> None:
        play(script, how, rules)

    with pytest.raises(Broken, match=complaint):
        holds()
