"""The tasks that run for one conversation: a model turn, a compaction, or calls in parallel.

Each task ends by emitting an event; `plan` decides what follows. A call starts only after its `call.started` is stored.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace

from toolyard.core.conversation.context.compaction_plan import Compact
from toolyard.core.conversation.events import CallEnded, CallJudged, CallStarted, Durable, TurnEnded, TurnFailed
from toolyard.core.conversation.plan import (
    MAX_CALL_OWNERS,
    AwaitRoom,
    GiveUpTurn,
    Judge,
    RunCalls,
    StopWork,
    select_starting,
)
from toolyard.core.conversation.run_state import CallState
from toolyard.core.conversation.state import State
from toolyard.core.errors import Refused, ToolyardError, Unavailable
from toolyard.core.failed_results import (
    build_cancelled_program_result,
    build_cancelled_result,
    build_failed_result,
    build_unknown_result,
    describe_program_calls,
)
from toolyard.core.items import ModelText, Problem, Result
from toolyard.core.model_failures import WAITS_UNTIL
from toolyard.core.ports import ModelRequest, Offer, WireExchange
from toolyard.core.settings.models.access import list_denied_models
from toolyard.core.settings.prices import Cost
from toolyard.core.store.ledger import name_summary
from toolyard.core.tools.definition import Tool
from toolyard.engine.dependencies import Deps
from toolyard.engine.log.journal import Journal
from toolyard.engine.loop.call_attempts import (
    SELF_CANCELLED,
    CallControl,
    CallRunner,
    build_timeout_problem,
    compute_call_cost,
    find_started_cost,
)
from toolyard.engine.loop.deadline import CANCEL_GRACE_S
from toolyard.engine.loop.history_summary import build_compaction_event, summarise
from toolyard.engine.loop.program_calls import LoggedProgramCalls, list_effects
from toolyard.engine.loop.turn import (
    build_model_problem,
    build_request,
    build_system_text,
    build_turn_started,
    check_output,
    stream_turn,
)
from toolyard.engine.spending.turn_meter import TurnMeter
from toolyard.engine.tools.caller_tools import RegisteredTool

STOP_GRACE_S = 2.0
Task = asyncio.Task[None]

_log = logging.getLogger("toolyard.workers")


class _Guard:
    """Breaks the journal if the work of a task fails: without the event that ends the work, nothing would follow.

    Not a callback of the task, which would cost a step of the event loop.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if error is None or isinstance(error, asyncio.CancelledError | GeneratorExit):
            return False
        if not self._journal.broken:
            _log.error("a worker of conversation %s failed", self._journal.conversation, exc_info=error)
            reason = error if isinstance(error, ToolyardError) else Unavailable("this conversation cannot go on")
            self._journal.fail(reason)
        return not isinstance(error, KeyboardInterrupt | SystemExit)


class Workers:
    """The tasks of one conversation. They end with its driver; a task that ignores its cancellation is abandoned."""

    def __init__(self, journal: Journal, deps: Deps) -> None:
        self._journal = journal
        self._deps = deps
        self._call_runner = CallRunner(journal, deps)
        self._loop = asyncio.get_running_loop()
        self._turn: Task | None = None
        self._meter: TurnMeter | None = None
        """That of the turn in flight."""
        self._compaction: Task | None = None
        self._summary_meter: TurnMeter | None = None
        """That of a summary that was begun and is not recorded yet."""
        self._room_wait: Task | None = None
        self._calls: dict[str, Task] = {}
        self._programs: dict[str, LoggedProgramCalls] = {}
        """The calls of each program that is in memory, by the id of the program's own call."""
        self._dropped_programs: set[Task] = set()
        self._closing = False
        self._guard = _Guard(journal)

    async def __aenter__(self) -> "Workers":
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Wait for the running tasks; cancel them if the driver failed or was cancelled."""
        self._cancel_room_wait()  # it may take a day, and another owner goes on with it
        self.drop_programs()
        others = (*self._dropped_programs, self._turn, self._compaction)
        # A call that is listed here and done was cancelled before its first step: its callback, which ends the call,
        # has not run yet.
        tasks = [*self._calls.values(), *(task for task in others if task is not None and not task.done())]
        try:
            if tasks and error is None:
                await asyncio.wait(tasks)
        finally:
            self._closing = True
            if unfinished := [task for task in tasks if not task.done()]:
                for task in unfinished:
                    task.cancel()
                await asyncio.wait(unfinished, timeout=STOP_GRACE_S)
            self._call_runner.close()

    def ask(self, state: State) -> None:
        """Start a model turn."""
        run, deps = state.run, self._deps
        assert run is not None
        offer = deps.offers.build(state)
        if reason := deps.policy_check.find_revocation(state):
            number = state.turn.number if state.turn else state.turns + 1
            problem = Problem(error=f"this request goes no further: {reason}", error_type="permission_denied")
            self._journal.emit(
                build_turn_started(number, self._journal.epoch, offer, state), TurnFailed(problem=problem)
            )
            return
        exchanges: list[WireExchange] = []
        request = self._build_request(state, offer)
        if deps.wire_log:
            request = replace(request, record_exchange=exchanges.append)
        self._journal.emit(build_turn_started(request.turn, self._journal.epoch, offer, state))
        # The turn does not wait for the commit of `turn.started`. A turn whose owner died is asked again whether its
        # start was stored or not, so waiting would only delay the first token.
        self._meter = TurnMeter(deps.spending, self._journal.conversation, self._journal.epoch, state, request)
        self._turn = self._loop.create_task(self._run_turn(self._meter, run.id, exchanges))

    def prepare(self, step: Compact | AwaitRoom, state: State) -> None:
        """Begin what comes before a turn: a compaction of the history, or a wait for room in a budget."""
        if isinstance(step, Compact):
            self._begin_compaction(step, state)
        elif self._room_wait is None or self._room_wait.done():
            self._room_wait = self._loop.create_task(self._ask_with_room())

    async def _ask_with_room(self) -> None:
        """Start a model turn once its budgets have room for it, or no longer ask for a higher amount."""
        with self._guard:
            spending, journal = self._deps.spending, self._journal
            while True:
                # For each attempt: budgets, rules and tools may have changed. What is reserved here is what the turn
                # reserves, as both have the same key.
                state, budgets = journal.require_state(), spending.budgets
                request = self._build_request(state, self._deps.offers.build(state))
                meter = TurnMeter(spending, journal.conversation, journal.epoch, state, request)
                refusal = await meter.reserve()
                if refusal is None or WAITS_UNTIL not in refusal.problem.details or meter.full_share is None:
                    break
                await spending.wait_for_change(meter.full_share, budgets)
            if self._room_wait is asyncio.current_task():  # else the run was stopped meanwhile
                self.ask(journal.require_state())

    def _cancel_room_wait(self) -> None:
        if self._room_wait is not None:
            self._room_wait.cancel()
            self._room_wait = None

    def _build_request(self, state: State, offer: Offer) -> ModelRequest:
        run, deps = state.run, self._deps
        assert run is not None
        system = build_system_text(
            deps.prompt_versions.get_at(run.started_at),
            deps.division_for(run.request.caller, run.started_at).prompt,
            run.settings,
            offer.note,
        )
        # For each turn: a rule that keeps a model from the caller acts at once.
        denied = list_denied_models(run.request.caller, deps.model_access)
        return build_request(state, run, offer, system, deps.clock, self._journal.memo, denied)

    def _begin_compaction(self, step: Compact, state: State) -> None:
        """Compact the history: at once, or in a task if the model is to write a summary."""
        if not step.summarise:
            self._journal.emit(build_compaction_event(step, state, self._deps.clock))
        elif self._compaction is None or self._compaction.done():
            self._compaction = self._loop.create_task(self._compact(step, state))

    async def _compact(self, step: Compact, state: State) -> None:
        with self._guard:
            await self._journal.wait_committed()
            request = self._build_request(state, self._deps.offers.build(state))
            journal, deps = self._journal, self._deps
            meter = TurnMeter(
                deps.spending, journal.conversation, journal.epoch, state, request, name=name_summary(state)
            )
            self._summary_meter = meter
            summary = await summarise(deps.models, meter, step)
            if self._compaction is not asyncio.current_task():
                return  # it was cancelled, too late to stop the model
            self._summary_meter = None
            if summary.refusal is None:
                journal.emit(build_compaction_event(step, state, deps.clock, summary))
            else:  # the turn would be refused as well: without a summary nothing is removed for it
                journal.emit(build_turn_started(request.turn, journal.epoch, request.offer, state), summary.refusal)

    async def price_lost_summary(self, state: State, *, is_takeover: bool) -> Cost | None:
        """Return the estimated cost of a summary whose answer nobody waits for any more; None if there is none.

        The log does not tell of the summary of an owner that died, but its reservation does.
        """
        spending, meter = self._deps.spending, self._summary_meter
        if meter is not None:
            self._summary_meter = None
            return meter.estimate_unseen_cost()
        if is_takeover and spending.has_budgets():
            return (await spending.price_lost_requests(self._journal.conversation, state)).summary
        return None

    def cancel_preparation(self) -> None:
        """Cancel the compaction, or the wait for room: another step comes first, for example the end of the run."""
        self._cancel_room_wait()
        if self._compaction is not None:
            self._compaction.cancel()
            self._compaction = None

    async def _run_turn(self, meter: TurnMeter, run_id: str, exchanges: Sequence[WireExchange]) -> None:
        with self._guard:
            request = meter.request
            event = await meter.reserve() or await stream_turn(
                request, self._deps.models, self._journal.publish_fleeting
            )
            event = await meter.add_cost(event, self._journal.readers.live_output)
            if exchanges and self._deps.wire_log:
                await self._deps.wire_log.record(self._journal.conversation, run_id, request.turn, exchanges[-1])
            if self._turn is not asyncio.current_task(self._loop):
                return  # the turn was stopped, and `stop` emits its end
            run = self._journal.state.run
            if isinstance(event, TurnEnded) and run is not None:
                event = check_output(event, run, self._deps.registry, self._deps.clock)
            try:
                self._journal.emit(event)
            except Refused as error:
                self._journal.emit(TurnFailed(problem=build_model_problem(request.model, str(error)), cost=event.cost))

    def start_calls(self, step: Judge | RunCalls, state: State, now: float) -> None:
        """Start calls that are allowed, and end those that are not. Requested ones are judged first."""
        if isinstance(step, Judge):
            self._judge(step.calls, state, now)
        else:
            self._run(step.calls, state)

    def _judge(self, calls: Sequence[CallState], state: State, now: float) -> None:
        """Judge requested calls, and start those that are allowed and have room."""
        self.cancel_preparation()
        events = self._deps.policy_check.judge(calls, state, now)
        allowed = [event for event in events if isinstance(event, CallJudged) and event.verdict == "allow"]
        starting = {judged.call_id for judged in select_starting(state, allowed)}
        started: list[tuple[CallState, RegisteredTool]] = []
        for number, event in enumerate(events):
            if not isinstance(event, CallJudged) or event.call_id not in starting:
                continue
            call = state.calls[event.call_id]
            entry = self._deps.registry.lookup(call, state)
            assert entry is not None  # else the call was not allowed
            attempt = call.attempt + 1
            events[number] = CallStarted(
                call_id=event.call_id,
                epoch=self._journal.epoch,
                attempt=attempt,
                rule=event.rule,
                exclusive=event.exclusive,
            )
            started.append((replace(call, attempt=attempt), entry))
        self._journal.emit(*events)
        self._start_tasks(started)

    def _run(self, calls: Sequence[CallState], state: State) -> None:
        """Start the calls, and end those that may no longer run.

        The policy is asked again: an approval may have taken hours, and the tool or the caller's rights may have
        changed.
        """
        events: list[Durable] = []
        started: list[tuple[CallState, RegisteredTool]] = []
        for call in calls:
            entry = self._deps.policy_check.recheck(call, state, self._deps.clock.now())
            if isinstance(entry, list):
                events += entry
                continue
            attempt = call.attempt + 1
            events.append(CallStarted(call_id=call.call.id, epoch=self._journal.epoch, attempt=attempt))
            started.append((replace(call, attempt=attempt), entry))
        self._journal.emit(*events)
        self._start_tasks(started)

    def _start_tasks(self, started: Sequence[tuple[CallState, RegisteredTool]]) -> None:
        """Start the tasks of calls whose start was emitted."""
        for call, entry in started:
            if entry.program_venue is not None:
                self._start_program(call, entry)
                continue
            on_end = partial(self._close_unstarted, call)
            task = self._calls[call.call.id] = self._loop.create_task(self._run_call(call, entry, on_end))
            task.add_done_callback(on_end)

    async def _run_call(self, call: CallState, entry: RegisteredTool, on_end: Callable[[Task], None]) -> None:
        with self._guard:
            call_id = call.call.id
            if (task := self._calls.get(call_id)) is not None:
                task.remove_done_callback(on_end)  # it would cost a step of the event loop
            control = CallControl(
                abandon=lambda: self._abandon(call, entry.tool),
                # `stop` removes a call before it cancels the task: one that is still listed was cancelled by its tool.
                is_stopped=lambda: self._closing or call_id not in self._calls,
            )
            try:
                event = await self._call_runner.run(call, entry, control)
            except asyncio.CancelledError:
                self._close_cancelled(call)
                raise
            current = self._journal.state.calls.get(call_id)
            # A call can end here, in `_close_cancelled`, in `_abandon` or in `stop`. Whichever removes it from `_calls`
            # emits its end, so that every call gets exactly one result.
            if current is not None and current.phase == "running" and self._calls.pop(call_id, None):
                self._journal.emit(event)

    def _start_program(self, call: CallState, entry: RegisteredTool) -> None:
        call_id = call.call.id
        calls = LoggedProgramCalls(self._journal, self._deps, call_id)
        self._programs[call_id] = calls
        self._calls[call_id] = self._loop.create_task(self._run_program(call, entry, calls))

    async def _run_program(self, call: CallState, entry: RegisteredTool, calls: LoggedProgramCalls) -> None:
        with self._guard:
            call_id, task = call.call.id, asyncio.current_task()
            control = CallControl(
                abandon=lambda: None, is_stopped=lambda: self._closing or self._calls.get(call_id) is not task
            )
            event = await self._call_runner.run_program(call, entry, calls, control)
            if self._calls.get(call_id) is task:
                del self._calls[call_id], self._programs[call_id]
                self._journal.emit(event)

    def notify_programs(self) -> None:
        """Tell the programs in memory that the state has changed: results of their calls may have come."""
        for calls in self._programs.values():
            calls.notify()

    def forget_waiting_programs(self, state: State) -> None:
        """Forget the programs in memory if the run waits for people, which may take days."""
        if self._programs and state.run is not None and state.run.suspended_at is not None:
            self.drop_programs()

    def drop_programs(self) -> None:
        """Forget the programs in memory: the log has all that is needed to run them again, and they have no effects."""
        for call_id in self._programs:
            if (task := self._calls.pop(call_id, None)) is not None:
                task.cancel()
                self._dropped_programs.add(task)
                task.add_done_callback(self._dropped_programs.discard)
        self._programs.clear()

    def resume(self, calls: Sequence[CallState]) -> None:
        """Run programs again from their start, up to where they waited, and on from there.

        The policy is not asked about the program again: it is about each further call.
        """
        for call in calls:
            entry = self._deps.registry.lookup(call, self._journal.state)
            if entry is None or entry.program_venue is None:
                self._give_up_program(call)
                continue
            attempt = call.attempt + 1
            self._journal.emit(CallStarted(call_id=call.call.id, epoch=self._journal.epoch, attempt=attempt))
            self._start_program(replace(call, attempt=attempt), entry)

    def _give_up_program(self, call: CallState) -> None:
        """End a program that cannot run here, at once: a step that changes nothing would be planned again."""
        now, state, events = self._deps.clock.now(), self._journal.state, list[Durable]()
        for child in state.calls.values():
            if child.parent == call.call.id:
                if (task := self._calls.pop(child.call.id, None)) is not None:
                    task.cancel()
                    self._deps.abandon(task)
                result = build_cancelled_result(child.call, now, may_have_run=child.attempt > 0)
                events.append(self._end_call(child, result))
        self._journal.emit(*events)
        current = self._journal.state.calls[call.call.id]
        effects = list_effects(current.program, state, self._deps.registry) if current.program else []
        details = describe_program_calls(effects)
        error = "this server does not run programs any more"
        problem = Problem(error=error, error_type="unavailable", details=details)
        result = build_failed_result(call.call, "error", problem, now)
        self._journal.emit(CallEnded(result=replace(result, untrusted=current.program_sources)))

    def _close_unstarted(self, call: CallState, task: Task) -> None:
        """End a call whose task was cancelled before its first step. A callback of the task."""
        if task.cancelled():
            self._close_cancelled(call)

    def _close_cancelled(self, call: CallState) -> None:
        """End a call whose task was cancelled from elsewhere, such as by a cancel scope that its tool left open."""
        if not self._closing and self._calls.pop(call.call.id, None) and not self._journal.broken:
            result = build_failed_result(call.call, "cancelled", SELF_CANCELLED, self._deps.clock.now())
            self._journal.emit(self._end_call(call, result))

    def _abandon(self, call: CallState, tool: Tool) -> None:
        """End a call whose tool ignores its cancellation. The task stays alive, but its result is not used."""
        if (task := self._calls.pop(call.call.id, None)) is not None:
            _log.warning("tool %s ignores its deadline; it was abandoned", tool.name)
            self._deps.abandon(task)
            result = build_failed_result(call.call, "timeout", build_timeout_problem(tool), self._deps.clock.now())
            self._journal.emit(CallEnded(result=result, cost=compute_call_cost(tool)))

    def recover(self, calls: Sequence[CallState], state: State) -> None:
        """Run again or close the calls that were running when an earlier owner died, and go on with programs."""
        now, events, repeated = self._deps.clock.now(), list[Durable](), list[CallState]()
        programs = [call for call in calls if self._deps.registry.runs_program(call, state)]
        self.resume(programs)
        for call in (call for call in calls if call not in programs):
            entry = self._deps.policy_check.recheck(call, state, now)
            allowed = not isinstance(entry, list)
            # Starting a call of the application only hands it over, so repeating that has no effect of its own. Any
            # other call may have taken effect already: unless its tool is repeatable, its outcome is unknown.
            safe = allowed and (entry.tool.venue == "client" or self._deps.policy_check.is_repeatable(call, state))
            # A call that several owners died with may be what killed them.
            if safe and call.owners < MAX_CALL_OWNERS:
                repeated.append(call)
            else:
                read_only = self._deps.policy_check.is_read_only(call, state)
                events.append(self._end_call(call, build_unknown_result(call.call, now, read_only=read_only)))
        self._journal.emit(*events)
        self._run(repeated, self._journal.state)

    async def break_off(self, step: StopWork | GiveUpTurn) -> None:
        """End a turn or calls that are not to go on."""
        if isinstance(step, StopWork):
            await self.stop(step.calls)
            return
        error = f"the server stopped {step.owners} times during this turn; it is not tried again"
        problem = Problem(error=error, error_type="unavailable")
        self._journal.emit(TurnFailed(problem=problem, cost=await self._estimate_lost_turn(self._journal.state)))

    async def stop(self, calls: Sequence[CallState]) -> None:
        """Cancel the turn and these calls, and emit the end of each, whether or not its task has stopped."""
        tasks = [task for call in calls if (task := self._calls.pop(call.call.id, None))]
        for call in calls:
            self._programs.pop(call.call.id, None)
        if self._journal.state.turn is not None and self._turn is not None:
            tasks.append(self._turn)
            self._turn = None
        for task in tasks:
            task.cancel()
        if tasks:
            _, stubborn = await asyncio.wait(tasks, timeout=CANCEL_GRACE_S)
            for task in stubborn:
                _log.warning("a task of conversation %s ignores its cancellation", self._journal.conversation)
                self._deps.abandon(task)
        lost_cost = await self._estimate_lost_turn(self._journal.state)
        state, now, events = self._journal.state, self._deps.clock.now(), list[Durable]()
        if state.turn is not None:
            text = self._journal.readers.live_text()  # the part that was streamed stays in the history
            items = (ModelText(id=self._deps.clock.new_id("item"), at=now, text=text),) if text else ()
            written = self._journal.readers.live_output()
            cost = self._meter.estimate_cost(written) if self._meter is not None else lost_cost
            events.append(TurnEnded(items=items, finish="cancelled", cost=cost))
        for call in calls:
            current = state.calls.get(call.call.id)
            if current is not None and current.phase != "closed" and current.program is None:
                may_have_run = current.attempt > 0 and not self._deps.policy_check.is_repeatable(current, state)
                result = build_cancelled_result(call.call, now, may_have_run=may_have_run)
                events.append(self._end_call(current, result))
        self._journal.emit(*events)
        for call in calls:
            self._end_stopped_program(call.call.id)

    async def _estimate_lost_turn(self, state: State) -> Cost | None:
        """Return the estimated cost of a turn that earlier owners asked for and that this one has not."""
        if state.turn is None or self._meter is not None:
            return None
        request = self._build_request(state, self._deps.offers.build(state))
        meter = TurnMeter(self._deps.spending, self._journal.conversation, self._journal.epoch, state, request)
        return await meter.estimate_lost_cost()

    def _end_call(self, call: CallState, result: Result) -> CallEnded:
        """Return the end of a call whose tool has not answered: it costs its price if it had started."""
        cost = find_started_cost(call, self._journal.state, self._deps.registry)
        return CallEnded(result=result, cost=cost)

    def _end_stopped_program(self, call_id: str) -> None:
        """End a program after its calls, and tell the model which of them have run."""
        state = self._journal.state
        call = state.calls.get(call_id)
        if call is not None and call.phase == "nested" and call.program is not None:
            effects = list_effects(call.program, state, self._deps.registry)
            now, untrusted = self._deps.clock.now(), call.program_sources
            result = build_cancelled_program_result(call.call, effects, now, untrusted=untrusted)
            self._journal.emit(CallEnded(result=result))
