"""The owner of one conversation without any I/O: it carries out the steps of `plan`, and what it has in flight is lost
when it crashes. The effects are imagined; the log, the fold, `plan` and `decide` are the real ones."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from core.log_checker import PROGRAM, SAFE_TO_REPEAT, Broken, LogChecker, require
from core.story import Apply, Story, model_text, ok_result, tool_call, user
from toolyard.core.conversation.commands import Start, StateCommand
from toolyard.core.conversation.context.compaction_plan import Compact
from toolyard.core.conversation.decide import decide
from toolyard.core.conversation.events import (
    CallEnded,
    CallJudged,
    CallsRequested,
    CallStarted,
    Durable,
    HistoryCompacted,
    RunEnded,
    RunStarted,
    RunSuspended,
    StopRequested,
    TurnEnded,
    TurnFailed,
    TurnStarted,
)
from toolyard.core.conversation.plan import (
    CLIENT_GONE,
    MAX_CALL_OWNERS,
    AskModel,
    AwaitRoom,
    BeginRun,
    End,
    Expire,
    GiveUpCalls,
    GiveUpTurn,
    Judge,
    Recover,
    Rest,
    Resume,
    RunCalls,
    Step,
    StopWork,
    Suspend,
    Wait,
    plan,
    select_starting,
)
from toolyard.core.conversation.run_state import CallState
from toolyard.core.conversation.state import State, apply
from toolyard.core.errors import Refused
from toolyard.core.failed_results import (
    build_cancelled_result,
    build_expired_result,
    build_failed_result,
    build_rule_denied_result,
    build_unknown_result,
)
from toolyard.core.items import Call, Item, Problem, Result, child_id
from toolyard.core.settings.limits import Limits
from toolyard.core.tools.definition import Tool

MAX_STEPS = 100
APPROVAL_S = 60.0
ASKING_TOOL = Tool(name="ask", approval="ask")
WINDOW = 150
"""So few tokens that room has to be made again and again."""
PROGRAM_TOOLS = ("plain", "safe", "alone", "ask", "app", "form", "forbidden")
"""Plain ones, an idempotent one, one that is exclusive, one that asks for approval, one that the app runs, one that
asks a question first, and one that nobody may use."""
TOOLS = (*PROGRAM_TOOLS, PROGRAM)
PROGRAM_CALLS = 4
"""How many calls a program makes: two at once, then another one after each of the first results."""


def may_run_again(call: CallState) -> bool:
    """The engine's rule for a call whose owner died."""
    return call.call.tool == PROGRAM or (call.call.tool == SAFE_TO_REPEAT and call.owners < MAX_CALL_OWNERS)


@dataclass(frozen=True)
class Rules:
    """What is under test. A negative control puts something broken here."""

    apply: Apply = apply
    plan: Callable[[State, int, float], Step] = plan
    may_run_again: Callable[[CallState], bool] = may_run_again


class Owner:
    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._story = Story(rules.apply)
        self.log_checker = LogChecker()
        self.epoch = 1
        self.now = 1_000.0
        self.asking = False
        self.running: list[str] = []
        self.programs: set[str] = set()
        """The programs that are in memory and wait, or go on with a result."""

    @property
    def state(self) -> State:
        return self._story.state

    @property
    def busy(self) -> list[str]:
        """The calls that run, and the programs that have a result to go on with."""
        computing = [call_id for call_id in sorted(self.programs) if self.state.calls[call_id].has_news]
        return [*self.running, *computing]

    def submit(self, command: StateCommand) -> None:
        """A command from outside. One that is refused leaves no trace."""
        try:
            events = decide(self.state, command, self.now)
        except Refused:
            return
        self._record_tools(command.input if isinstance(command, Start) else ())
        self.emit(*events, run=command.run_id if isinstance(command, Start) else "")

    def emit(self, *events: Durable, run: str = "") -> None:
        before = len(self._story.log)
        try:
            self._story.add(*events, at=self.now, run=run)
        except Refused as refused:
            raise Broken(f"the owner wrote what the fold refuses: {refused}") from refused
        for entry in self._story.log[before:]:
            self.log_checker.see(entry)

    def try_again(self, event: Durable) -> None:
        """Write something that cannot be: the fold must refuse it."""
        before = len(self._story.log)
        try:
            self._story.add(event, at=self.now)
        except Refused:
            return
        for entry in self._story.log[before:]:
            self.log_checker.see(entry)

    def end_turn(self, event: TurnEnded | TurnFailed) -> None:
        self.asking = False
        self._record_tools(event.items if isinstance(event, TurnEnded) else ())
        self.emit(event)

    def end_call(self, *events: Durable, call_id: str) -> None:
        self.running.remove(call_id)
        self.emit(*events)

    def continue_program(self, call_id: str) -> None:
        """Give a program its next result. It asks for the calls that follow, or ends."""
        call = self.state.calls[call_id]
        seen, requested = (call.program.seen + 1, call.program.requested) if call.program else (0, 0)
        if seen == PROGRAM_CALLS:
            self._forget(call_id)
            return self.emit(CallEnded(result=ok_result(call_id, PROGRAM)))
        tools = [_choose_tool(call_id, position) for position in range(requested, min(seen + 2, PROGRAM_CALLS))]
        children = tuple(tool_call(child_id(call_id, requested + n), tool) for n, tool in enumerate(tools))
        self._forget(call_id)
        self.programs.add(call_id)
        self._record_tools(children)
        return self.emit(CallsRequested(parent=call_id, seen=seen, calls=children))

    def fail_program(self, call_id: str) -> None:
        """End a program with an error, after its calls: those that run are waited for, the others do not start."""
        children = [call for call in self.state.calls.values() if call.parent == call_id]
        if any(child.phase == "running" for child in children):
            return
        self._forget(call_id)
        ended = [build_cancelled_result(child.call, self.now, may_have_run=child.attempt > 0) for child in children]
        wrong = Problem(error="it broke", error_type="program_error")
        failed = build_failed_result(self.state.calls[call_id].call, "error", wrong, self.now)
        self.emit(*(CallEnded(result=result) for result in (*ended, failed)))

    def _forget(self, call_id: str) -> None:
        self.programs.discard(call_id)
        self.running = [running for running in self.running if running != call_id]

    def crash(self) -> None:
        self.epoch += 1
        self._story.epoch = self.epoch
        self.asking = False
        self.running.clear()
        self.programs.clear()

    def drive(self, max_steps: int = MAX_STEPS) -> None:
        """Carry out up to `max_steps` steps; all of them must come to a rest in `MAX_STEPS`."""
        for _ in range(max_steps):
            step = self._rules.plan(self.state, self.epoch, self.now)
            if isinstance(step, Wait | Rest):
                return self._check_idle(step)
            self._do(step)
        return require(max_steps < MAX_STEPS, "the plan never comes to a rest")

    def check(self) -> None:
        again = State()
        for entry in self.log_checker.read_back:
            again = self._rules.apply(again, entry)
        require(again == self.state, "the log folds to another state when it is read again")
        self.log_checker.inspect(self.state)

    def _record_tools(self, items: tuple[Item, ...]) -> None:
        self.log_checker.tools |= {item.id: item.tool for item in items if isinstance(item, Call)}

    def _check_idle(self, step: Wait | Rest) -> None:
        run = self.state.run
        if isinstance(step, Wait):
            require(self.asking or bool(self.busy), "it waits for work that nobody does")
            require(step.until > self.now, "it waits for a moment that is past")
        else:
            require(run is None or run.suspended_at is not None, "it rests while a run is open")
            require(not self.asking and not self.busy, "it rests while work is in flight")
            require(not self.programs, "a program is kept in memory while it rests")

    def _do(self, step: Step) -> None:
        match step:
            case BeginRun():
                self.emit(RunStarted(model="m", limits=step.queued.request.limits or Limits(), window=WINDOW))
            case AskModel() | AwaitRoom():  # a budget has room by then
                turn = self.state.turn
                self.emit(TurnStarted(number=turn.number if turn else self.state.turns + 1, epoch=self.epoch))
                self.asking = True
            case GiveUpTurn():
                self.emit(TurnFailed(problem=Problem(error="its owners died", error_type="unavailable")))
            case Compact():
                items = () if step.dropped else (user(f"room.{len(self._story.log)}"), *step.kept_items)
                self.emit(HistoryCompacted(through=step.through, dropped=step.dropped, items=items))
            case Suspend():
                self.programs.clear()
                self.emit(RunSuspended(waiting_for=step.waiting_for, wake_at=step.wake_at))
            case End():
                message = model_text(f"end.{len(self._story.log)}") if step.ending == "limit" else None
                self.emit(RunEnded(ending=step.ending, detail=step.detail, message=message))
            case GiveUpCalls() | Judge() | RunCalls() | Recover() | Resume() | Expire() | StopWork():
                self._do_calls(step)
            case Wait() | Rest():
                pass
            case _:
                assert_never(step)

    def _do_calls(self, step: GiveUpCalls | Judge | RunCalls | Recover | Resume | Expire | StopWork) -> None:
        match step:
            case GiveUpCalls():
                self.emit(*(CallEnded(result=build_unknown_result(call.call, self.now)) for call in step.calls))
            case Judge():
                self._judge(step.calls)
            case RunCalls():
                self._start(step.calls)
            case Recover():
                lost = [call for call in step.calls if not self._rules.may_run_again(call)]
                self.emit(*(CallEnded(result=build_unknown_result(call.call, self.now)) for call in lost))
                self._start([call for call in step.calls if call not in lost])
            case Resume():
                for call in step.calls:
                    self.emit(CallStarted(call_id=call.call.id, epoch=self.epoch, attempt=call.attempt + 1))
                    self.programs.add(call.call.id)
            case Expire():
                stop = (StopRequested(by="server", detail=CLIENT_GONE),) if step.ends_run else ()
                self.emit(*(CallEnded(result=self._expire_call(call)) for call in step.calls), *stop)
            case StopWork():
                self._stop(step.calls)
            case _:
                assert_never(step)

    def _judge(self, calls: list[CallState]) -> None:
        events = [event for call in calls for event in self._judge_call(call.call)]
        allowed = [event for event in events if isinstance(event, CallJudged) and event.verdict == "allow"]
        starting = select_starting(self.state, allowed)
        self.emit(*(self._build_start(event) if event in starting else event for event in events))
        self.running += [judged.call_id for judged in starting]

    def _build_start(self, event: Durable) -> CallStarted:
        assert isinstance(event, CallJudged)
        attempt = self.state.calls[event.call_id].attempt + 1
        return CallStarted(
            call_id=event.call_id, epoch=self.epoch, attempt=attempt, rule=event.rule, exclusive=event.exclusive
        )

    def _judge_call(self, call: Call) -> tuple[Durable, ...]:
        if call.tool == "forbidden":
            denied = CallJudged(call_id=call.id, verdict="deny", rule="roles")
            return denied, CallEnded(result=build_rule_denied_result(call, "roles", self.now))
        if call.tool == "ask" and not any(approved.covers(ASKING_TOOL) for approved in self.state.remembered):
            expires_at, tool = self.now + APPROVAL_S, ASKING_TOOL.identity
            return (CallJudged(call_id=call.id, verdict="ask", rule="approval", expires_at=expires_at, tool=tool),)
        return (CallJudged(call_id=call.id, verdict="allow", rule="default", exclusive=call.tool == "alone"),)

    def _expire_call(self, call: CallState) -> Result:
        return build_expired_result(call.call, self.now, awaiting_approval=call.phase == "asking")

    def _start(self, calls: list[CallState]) -> None:
        for call in calls:
            self.emit(CallStarted(call_id=call.call.id, epoch=self.epoch, attempt=call.attempt + 1))
            self.running.append(call.call.id)

    def _stop(self, calls: list[CallState]) -> None:
        stopped = {call.call.id for call in calls}
        self.running = [call_id for call_id in self.running if call_id not in stopped]
        self.programs -= stopped
        ends: list[Durable] = [
            CallEnded(result=build_cancelled_result(call.call, self.now, may_have_run=call.attempt > 0))
            for call in calls
        ]
        if self.state.turn is not None:
            self.asking = False
            ends.append(TurnEnded(items=(), finish="cancelled"))
        self.emit(*ends)


def _choose_tool(program: str, position: int) -> str:
    """Return the tool of a program's call: the same whenever the program is run again."""
    return PROGRAM_TOOLS[(sum(program.encode()) + position) % len(PROGRAM_TOOLS)]
