"""The tasks that run for one conversation: a model turn, a compaction, or calls in parallel.

Each task ends by emitting an event; `plan` decides what follows. A call starts only after its `call.started` is stored.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import ParamSpec

from msgspec.structs import replace

from toolyard.core.conversation.compaction_plan import Compact
from toolyard.core.conversation.events import CallEnded, CallStarted, Durable, TurnEnded, TurnFailed
from toolyard.core.conversation.plan import MAX_CALL_OWNERS
from toolyard.core.conversation.run_state import CallState
from toolyard.core.conversation.state import State
from toolyard.core.errors import Refused, ToolyardError, Unavailable
from toolyard.core.failed_results import build_cancelled_result, build_failed_result, build_unknown_result
from toolyard.core.items import ModelText
from toolyard.core.ports import ModelRequest, Offer, WireExchange
from toolyard.core.settings.model_access import list_denied_models
from toolyard.core.tools.definition import Tool
from toolyard.engine.dependencies import Deps
from toolyard.engine.log.journal import Journal
from toolyard.engine.loop.call_attempts import SELF_CANCELLED, CallControl, CallRunner, build_timeout_problem
from toolyard.engine.loop.deadline import CANCEL_GRACE_S
from toolyard.engine.loop.history_summary import build_compaction_event, summarise
from toolyard.engine.loop.turn import (
    build_model_problem,
    build_request,
    build_system_text,
    build_turn_started,
    check_output,
    stream_turn,
)
from toolyard.engine.tools.caller_tools import RegisteredTool

STOP_GRACE_S = 2.0
_P = ParamSpec("_P")
Task = asyncio.Task[None]

_log = logging.getLogger("toolyard.workers")


class Workers:
    """The tasks of one conversation. They end with its driver; a task that ignores its cancellation is abandoned."""

    def __init__(self, journal: Journal, deps: Deps) -> None:
        self._journal = journal
        self._deps = deps
        self._call_runner = CallRunner(journal, deps)
        self._loop = asyncio.get_running_loop()
        self._turn: Task | None = None
        self._compaction: Task | None = None
        self._calls: dict[str, Task] = {}
        self._closing = False

    async def __aenter__(self) -> "Workers":
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Wait for the running tasks; cancel them if the driver failed or was cancelled."""
        tasks = [*self._calls.values(), *(task for task in (self._turn, self._compaction) if task)]
        if not tasks:
            return
        try:
            if error is None:
                await asyncio.wait(tasks)
        finally:
            self._closing = True
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=STOP_GRACE_S)

    def _start(self, work: Callable[_P, Coroutine[None, None, None]], *args: _P.args, **kwargs: _P.kwargs) -> Task:
        return self._loop.create_task(self._guard(work, *args, **kwargs))

    async def _guard(
        self, work: Callable[_P, Coroutine[None, None, None]], *args: _P.args, **kwargs: _P.kwargs
    ) -> None:
        """Do the work of a task. If it fails, break the journal: it emitted no event, and nothing would follow.

        Not by a callback of the task, which would cost a step of the event loop.
        """
        try:
            await work(*args, **kwargs)
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except BaseException as error:
            if not self._journal.broken:
                _log.error("a worker of conversation %s failed", self._journal.conversation, exc_info=error)
                reason = error if isinstance(error, ToolyardError) else Unavailable("this conversation cannot go on")
                self._journal.fail(reason)
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise

    def ask(self, state: State) -> None:
        """Start a model turn."""
        run, deps = state.run, self._deps
        assert run is not None
        offer = deps.offers.build(state)
        exchanges: list[WireExchange] = []
        request = self._build_request(state, offer)
        if deps.wire_log:
            request = replace(request, record_exchange=exchanges.append)
        self._journal.emit(build_turn_started(request.turn, self._journal.epoch, offer, state))
        # The turn does not wait for the commit of `turn.started`. A turn whose owner died is asked again whether its
        # start was stored or not, so waiting would only delay the first token.
        self._turn = self._start(self._run_turn, request, run.id, exchanges)

    def _build_request(self, state: State, offer: Offer) -> ModelRequest:
        run, deps = state.run, self._deps
        assert run is not None
        system = build_system_text(
            deps.prompt_versions.get_at(run.started_at),
            deps.division_for(run.request.caller).prompt,
            run.settings,
            offer.note,
        )
        # For each turn: a rule that keeps a model from the caller acts at once.
        denied = list_denied_models(run.request.caller, deps.model_access)
        return build_request(state, run, offer, system, deps.clock, self._journal.memo, denied)

    def compact(self, step: Compact, state: State) -> None:
        """Compact the history: at once, or in a task if the model is to write a summary."""
        if not step.summarise:
            self._journal.emit(build_compaction_event(step, state, self._deps.clock))
        elif self._compaction is None or self._compaction.done():
            self._compaction = self._start(self._compact, step, state)

    async def _compact(self, step: Compact, state: State) -> None:
        await self._journal.wait_committed()
        request = self._build_request(state, self._deps.offers.build(state))
        summary = await summarise(self._deps.models, request, step)
        if self._compaction is asyncio.current_task():  # else it was cancelled, too late to stop the model
            self._journal.emit(build_compaction_event(step, state, self._deps.clock, summary))

    def cancel_compaction(self) -> None:
        """Cancel the compaction: another step comes before the next turn, for example the end of the run."""
        if self._compaction is not None:
            self._compaction.cancel()
            self._compaction = None

    async def _run_turn(self, request: ModelRequest, run_id: str, exchanges: Sequence[WireExchange]) -> None:
        event = await stream_turn(request, self._deps.models, self._journal.publish_fleeting)
        if exchanges and self._deps.wire_log:
            await self._deps.wire_log.record(self._journal.conversation, run_id, request.turn, exchanges[-1])
        if self._turn is not asyncio.current_task():
            return  # the turn was stopped, and `stop` emits its end
        run = self._journal.state.run
        if isinstance(event, TurnEnded) and run is not None:
            event = check_output(event, run, self._deps.registry, self._deps.clock)
        try:
            self._journal.emit(event)
        except Refused as error:
            self._journal.emit(TurnFailed(problem=build_model_problem(request.model, str(error))))

    def run(self, calls: Sequence[CallState], state: State, *, just_judged: bool = False) -> None:
        """Start the calls, and end those that may no longer run.

        `just_judged` means that the policy allowed the calls in this very state. Otherwise they are checked again: an
        approval may have taken hours, and the tool or the caller's rights may have changed.
        """
        events: list[Durable] = []
        started: list[tuple[CallState, RegisteredTool]] = []
        for call in calls:
            allowed_tool = self._deps.registry.lookup(call, state) if just_judged else None
            entry = allowed_tool or self._deps.policy_check.recheck(call, state, self._deps.clock.now())
            if isinstance(entry, list):
                events += entry
                continue
            attempt = call.attempt + 1
            events.append(CallStarted(call_id=call.call.id, epoch=self._journal.epoch, attempt=attempt))
            started.append((replace(call, attempt=attempt), entry))
        self._journal.emit(*events)
        for call, entry in started:
            task = self._calls[call.call.id] = self._start(self._run_call, call, entry)
            task.add_done_callback(partial(self._close_cancelled, call))

    async def _run_call(self, call: CallState, entry: RegisteredTool) -> None:
        call_id = call.call.id
        control = CallControl(
            abandon=lambda: self._abandon(call, entry.tool),
            # `stop` removes a call before it cancels the task: a call that is still listed was cancelled by its tool.
            is_stopped=lambda: self._closing or call_id not in self._calls,
        )
        event = await self._call_runner.run(call, entry, control)
        current = self._journal.state.calls.get(call_id)
        # A call can end here, in `_close_cancelled`, in `_abandon` or in `stop`. Whichever removes it from `_calls`
        # emits its end, so that every call gets exactly one result.
        if current is not None and current.phase == "running" and self._calls.pop(call_id, None):
            self._journal.emit(event)

    def _close_cancelled(self, call: CallState, task: Task) -> None:
        """End a call whose task was cancelled from elsewhere, such as by a cancel scope that its tool left open.

        A callback of the task, as it may be cancelled before its first step.
        """
        if task.cancelled() and not self._closing and self._calls.pop(call.call.id, None) and not self._journal.broken:
            self._journal.emit(
                CallEnded(result=build_failed_result(call.call, "cancelled", SELF_CANCELLED, self._deps.clock.now()))
            )

    def _abandon(self, call: CallState, tool: Tool) -> None:
        """End a call whose tool ignores its cancellation. The task stays alive, but its result is not used."""
        if (task := self._calls.pop(call.call.id, None)) is not None:
            _log.warning("tool %s ignores its deadline; it was abandoned", tool.name)
            self._deps.abandon(task)
            result = build_failed_result(call.call, "timeout", build_timeout_problem(tool), self._deps.clock.now())
            self._journal.emit(CallEnded(result=result))

    def recover(self, calls: Sequence[CallState], state: State) -> None:
        """Run again or close the calls that were running when an earlier owner died."""
        now, events, repeated = self._deps.clock.now(), list[Durable](), list[CallState]()
        for call in calls:
            entry = self._deps.policy_check.recheck(call, state, now)
            allowed = not isinstance(entry, list)
            # Starting a call of the application only hands it over, so repeating that has no effect of its own. Any
            # other call may have taken effect already: unless its tool is repeatable, its outcome is unknown.
            safe = allowed and (entry.tool.venue == "client" or self._deps.policy_check.is_repeatable(call, state))
            # A call that several owners died with may be what killed them.
            if safe and call.owners < MAX_CALL_OWNERS:
                repeated.append(call)
            else:
                events.append(CallEnded(result=build_unknown_result(call.call, now)))
        self._journal.emit(*events)
        self.run(repeated, self._journal.state)

    async def stop(self, calls: Sequence[CallState]) -> None:
        """Cancel the turn and these calls, and emit the end of each, whether or not its task has stopped."""
        tasks = [task for call in calls if (task := self._calls.pop(call.call.id, None))]
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
        state, now, events = self._journal.state, self._deps.clock.now(), list[Durable]()
        if state.turn is not None:
            text = self._journal.readers.live_text()  # the part that was streamed stays in the history
            items = (ModelText(id=self._deps.clock.new_id("item"), at=now, text=text),) if text else ()
            events.append(TurnEnded(items=items, finish="cancelled"))
        for call in calls:
            current = state.calls.get(call.call.id)
            if current is not None and current.phase != "closed":
                may_have_run = current.attempt > 0 and not self._deps.policy_check.is_repeatable(current, state)
                events.append(CallEnded(result=build_cancelled_result(call.call, now, may_have_run=may_have_run)))
        self._journal.emit(*events)
