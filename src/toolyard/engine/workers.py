"""What runs now for one conversation: a model turn, or calls side by side. Each ends by emitting; none decides.

A worker that is about to cause an effect first waits until the intent is stored. It does not know where tools run: a
venue does that, and answers with a value, a failure, or that the result will come later.
"""

import asyncio
import itertools
import logging
import random
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from time import perf_counter

from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.division import EVERYBODY, UNDIVIDED, Division, Divisions, division_of
from toolyard.core.errors import Refused, ToolyardError, Unavailable
from toolyard.core.events import (
    CallEnded,
    CallParked,
    CallProgressed,
    CallStarted,
    Durable,
    TurnEnded,
    TurnFailed,
    TurnStarted,
)
from toolyard.core.items import Call, ModelText, Problem
from toolyard.core.limits import Limits
from toolyard.core.plan import MOST_OWNERS
from toolyard.core.ports import Context, Exchanged, Failure, Later, Mint, Model, ModelRequest, Offer, Policy, Value
from toolyard.core.prices import Price
from toolyard.core.results import cancelled, failed, problem_of, unknown
from toolyard.core.room import Compact
from toolyard.core.running import CallState
from toolyard.core.settings import Settings
from toolyard.core.state import State
from toolyard.core.tools import Tool
from toolyard.engine.deadline import STUBBORN_S, Deadline
from toolyard.engine.governor import Governor, told_of_edit
from toolyard.engine.journal import Journal
from toolyard.engine.judge import Judge
from toolyard.engine.kept import Keeper
from toolyard.engine.prompt import model_request, system_text
from toolyard.engine.registry import Registered, Registry
from toolyard.engine.summary import room_made, summarised
from toolyard.engine.telemetry import correlation

STOP_GRACE_S = 2.0
FIRST_BACKOFF_S = 0.1
MOST_BACKOFF_S = 5.0
OVER = (TurnEnded, TurnFailed)
MOST_CALLS = 1000
"""A turn that asks for more fails; up to here each call over the limit is answered by itself."""

_log = logging.getLogger("toolyard.workers")


@dataclass(slots=True, kw_only=True)
class Deps:
    """What the loop needs, wired once."""

    registry: Registry
    policy: Policy
    judge: Judge
    governor: Governor
    models: Callable[[str], Model]
    mint: Mint
    limits: Limits
    default_model: str
    windows: Callable[[str], int] = lambda _: 0
    """How many tokens a model takes; 0 where nobody knows."""
    allowed_models: frozenset[str] | None = None
    """The models that a request may name; None means any."""
    default_settings: Settings = field(default_factory=Settings)
    """What a new conversation is set to unless its caller says otherwise."""
    requests_per_minute: int = 0
    """New requests that one caller may make; zero means no bound."""
    system_prompt: str = ""
    prices: Mapping[str, Price] = field(default_factory=dict[str, Price])
    keeper: Keeper | None = None
    """Keeps what goes over the wire; None where nobody asked for it."""
    divisions: Divisions = field(default_factory=lambda: UNDIVIDED)
    """What holds for a division or a tenant in place of what holds for everybody."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    draining: bool = field(default=False)
    """Set when the process is about to stop: nothing new is begun."""
    abandoned: set["asyncio.Task[None]"] = field(default_factory=set["asyncio.Task[None]"])

    def division(self, caller: Caller) -> Division:
        return division_of(caller, self.divisions) or EVERYBODY

    def abandon(self, task: "asyncio.Task[None]") -> None:
        """Keep hold of a task that does not end, so that it is not lost without a trace; nobody waits for it."""
        self.abandoned.add(task)
        task.add_done_callback(self.abandoned.discard)


class Workers:
    """The tasks of one conversation. They end with it; one that cannot be stopped is let go of, and said so."""

    def __init__(self, journal: Journal, deps: Deps) -> None:
        self._journal = journal
        self._deps = deps
        self._loop = asyncio.get_running_loop()
        self._turn: asyncio.Task[None] | None = None
        self._room: asyncio.Task[None] | None = None
        self._calls: dict[str, asyncio.Task[None]] = {}

    async def __aenter__(self) -> "Workers":
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """What still runs may end, unless something went wrong or somebody stops this: then it is stopped, too."""
        tasks = [*self._calls.values(), *(task for task in (self._turn, self._room) if task)]
        if not tasks:
            return
        try:
            if error is None:
                await asyncio.wait(tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=STOP_GRACE_S)

    def _start(self, work: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        task = self._loop.create_task(work)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """A worker ends by emitting. One that fails instead is a fault of ours, or the store's: nothing can go on."""
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._journal.broken:
            _log.error("a worker of conversation %s failed", self._journal.conversation, exc_info=error)
            known = error if isinstance(error, ToolyardError) else Unavailable("this conversation cannot go on")
            self._journal.give_up(known)

    def ask(self, state: State) -> None:
        """Begin a model turn."""
        run, deps = state.run, self._deps
        assert run is not None
        offer = deps.registry.offer(state)
        same, exchanges = offer.digest == state.offer, list[Exchanged]()
        request = self._request(state, offer)
        if deps.keeper:
            request = replace(request, keep=exchanges.append)
        self._journal.emit(
            TurnStarted(
                number=request.turn,
                epoch=self._journal.epoch,
                offer=offer.digest,
                offered=len(offer.tools),
                added={} if same else {k: v for k, v in offer.hashes.items() if state.offered.get(k) != v},
                removed=() if same else tuple(name for name in state.offered if name not in offer.hashes),
                search=offer.search,
            )
        )
        self._turn = self._start(self._ask(request, run.id, exchanges))

    def _request(self, state: State, offer: Offer) -> ModelRequest:
        run, deps = state.run, self._deps
        assert run is not None
        system = system_text(deps.system_prompt, deps.division(run.request.caller).prompt, run.settings, offer.note)
        return model_request(state, run, offer, system, deps.mint, self._journal.memo)

    def compact(self, step: Compact, state: State) -> None:
        """Make room in the history, once; where the model has to be asked for a summary, that takes a while."""
        if not step.summarise:
            self._journal.emit(room_made(step, state, self._deps.mint))
        elif self._room is None or self._room.done():
            self._room = self._start(self._compact(step, state))

    async def _compact(self, step: Compact, state: State) -> None:
        await self._journal.committed()
        request = self._request(state, self._deps.registry.offer(state))
        summary = await summarised(self._deps.models, request, step)
        if self._room is asyncio.current_task():
            self._journal.emit(room_made(step, state, self._deps.mint, summary))

    def leave_room(self) -> None:
        """Room is no longer wanted: the run ends before its next turn."""
        if self._room is not None:
            self._room.cancel()
            self._room = None

    async def _ask(self, request: ModelRequest, run_id: str, exchanges: Sequence[Exchanged]) -> None:
        event = await self._streamed(request)
        if exchanges and self._deps.keeper:
            await self._deps.keeper.keep(self._journal.conversation, run_id, request.turn, exchanges[-1])
        if self._turn is not asyncio.current_task():
            return  # it was stopped, and let go of too late to say anything
        try:
            self._journal.emit(event)
        except Refused as error:
            self._journal.emit(TurnFailed(problem=_gave_nonsense(request.model, str(error))))

    async def _streamed(self, request: ModelRequest) -> TurnEnded | TurnFailed:
        try:
            model = self._deps.models(request.model)
            async with aclosing(model.stream(request)) as events:
                async for event in events:
                    if isinstance(event, OVER):
                        return _bounded(event, request.model)
                    self._journal.tell(event)
            why = "it gave neither an end nor a failure"
        except BaseException as error:  # a model's failure ends the run, not the process
            if is_own_cancellation(error):
                raise
            _log.error("model %s failed", request.model, exc_info=error, extra=_bound(request.correlation_id))
            why = f"{type(error).__name__}: {error}"
        return TurnFailed(problem=_gave_nonsense(request.model, why))

    def run(self, calls: Sequence[CallState], state: State, *, just_judged: bool = False) -> None:
        """Start the calls whose time has come; what may not run any more is closed instead."""
        events: list[Durable] = []
        started: list[tuple[CallState, Registered]] = []
        for call in calls:
            known = self._deps.judge.find(call, state) if just_judged else None
            entry = known or self._deps.judge.again(call, state, self._deps.mint.now())
            if isinstance(entry, list):
                events += entry
                continue
            attempt = call.attempt + 1
            events.append(CallStarted(call_id=call.call.id, epoch=self._journal.epoch, attempt=attempt))
            started.append((replace(call, attempt=attempt), entry))
        self._journal.emit(*events)
        for call, entry in started:
            self._calls[call.call.id] = self._start(self._call(call, entry))

    async def _call(self, call: CallState, entry: Registered) -> None:
        call_id, tool, deps = call.call.id, entry.tool, self._deps
        began = perf_counter()
        answer = await self._attempts(call, entry)
        if isinstance(answer, Later):
            wait_s = tool.client_s if answer.kind == "client" else tool.approval_s
            event: Durable = CallParked(
                call_id=call_id,
                kind=answer.kind,
                expires_at=deps.mint.now() + wait_s,
                question=answer.question,
                resume_token=answer.resume_token,
            )
        else:
            took = (perf_counter() - began) * 1000
            result = await deps.governor.result(
                call.call, tool, answer, conversation=self._journal.conversation, duration_ms=took
            )
            event = CallEnded(result=told_of_edit(result, call))
        current = self._journal.state.calls.get(call_id)
        if current is not None and current.phase == "running" and self._calls.pop(call_id, None):
            self._journal.emit(event)

    async def _attempts(self, call: CallState, entry: Registered) -> Value | Failure | Later:
        """Run it; if it is idempotent and the failure may pass, run it again."""
        tool, attempt, backoff_s = entry.tool, call.attempt, FIRST_BACKOFF_S
        tries_left = tool.retries if tool.idempotent else 0
        while True:
            await self._journal.committed()  # journal before effect
            answer = await self._attempt(call, entry, attempt)
            if tries_left <= 0 or not (isinstance(answer, Failure) and answer.passing):
                return answer
            tries_left -= 1
            attempt += 1
            await self._deps.sleep(backoff_s * random.uniform(0.5, 1.5))
            backoff_s = min(backoff_s * 2, MOST_BACKOFF_S)
            self._journal.emit(CallStarted(call_id=call.call.id, epoch=self._journal.epoch, attempt=attempt))

    async def _attempt(self, call: CallState, entry: Registered, attempt: int) -> Value | Failure | Later:
        tool = entry.tool
        context = self._context(call, attempt, tool.timeout_s)
        correlation.set(context.correlation_id)
        asked = call.call if call.approved is None else replace(call.call, arguments=call.arguments)
        deadline = Deadline(self._loop, tool.timeout_s, lambda: self._abandon(call, tool))
        try:
            return await entry.venue.run(asked, tool, context)
        except BaseException as error:
            if deadline.made(error):
                return Failure(problem=_late(tool.timeout_s, tool.idempotent), passing=True)
            if is_own_cancellation(error):
                raise
            _log.error("venue %s failed", tool.venue, exc_info=error, extra=_bound(context.correlation_id))
            said = f"{type(error).__name__}: {error}"
            return Failure(problem=problem_of(said, "execution_error"), passing=True)
        finally:
            deadline.over()

    def _abandon(self, call: CallState, tool: Tool) -> None:
        """A tool that does not even let itself be cancelled: its call ends without it."""
        if (task := self._calls.pop(call.call.id, None)) is not None:
            _log.warning("tool %s ignores its deadline; it was abandoned", tool.name)
            self._deps.abandon(task)
            late = _late(tool.timeout_s, tool.idempotent)
            self._journal.emit(CallEnded(result=failed(call.call, "timeout", late, self._deps.mint.now())))

    def _context(self, call: CallState, attempt: int, timeout_s: float) -> Context:
        run, call_id, journal = self._journal.state.run, call.call.id, self._journal
        assert run is not None
        loop, home, reports = self._loop, threading.get_ident(), itertools.count()

        def tell(event: CallProgressed) -> None:
            current = journal.state.calls.get(call_id)
            if current is not None and current.phase == "running":
                journal.tell(event)

        def progress(done: float, total: float | None = None, message: str = "") -> None:
            event = CallProgressed(call_id=call_id, offset=next(reports), progress=done, total=total, message=message)
            if threading.get_ident() == home:
                tell(event)
            else:
                loop.call_soon_threadsafe(tell, event)

        answer = call.answer
        return Context(
            caller=run.request.caller,
            conversation=journal.conversation,
            run_id=run.id,
            call_id=call_id,
            correlation_id=run.correlation_id,
            idempotency_key=f"{journal.conversation}:{call_id}",
            attempt=attempt,
            deadline=self._deps.mint.now() + timeout_s,
            progress=progress,
            answer={"reply": answer.reply, "content": answer.content} if answer else None,
            resume_token=call.parked.resume_token if call.parked else "",
            may_use=lambda tool: self._deps.registry.may_use(tool, journal.state),
        )

    def recover(self, calls: Sequence[CallState], state: State) -> None:
        """An owner died with these in flight. Run again what is safe to run again; own up to the rest."""
        now, events, again = self._deps.mint.now(), list[Durable](), list[CallState]()
        for call in calls:
            entry = self._deps.judge.again(call, state, now)
            safe = not isinstance(entry, list) and (entry.tool.idempotent or entry.tool.venue == "client")
            if safe and call.owners < MOST_OWNERS:
                again.append(call)
            else:
                events.append(CallEnded(result=unknown(call.call, now)))
        self._journal.emit(*events)
        self.run(again, self._journal.state)

    async def stop(self, calls: Sequence[CallState]) -> None:
        """Stop the turn and these calls; whatever they did until now, each gets its end."""
        tasks = [task for call in calls if (task := self._calls.pop(call.call.id, None))]
        if self._journal.state.turn is not None and self._turn is not None:
            tasks.append(self._turn)
            self._turn = None
        for task in tasks:
            task.cancel()
        if tasks:
            _, stubborn = await asyncio.wait(tasks, timeout=STUBBORN_S)
            for task in stubborn:
                _log.warning("something in conversation %s ignores being stopped", self._journal.conversation)
                self._deps.abandon(task)
        state, now, events = self._journal.state, self._deps.mint.now(), list[Durable]()
        if state.turn is not None:
            text = self._journal.readers.live_text()
            said = (ModelText(id=self._deps.mint.id("item"), at=now, text=text),) if text else ()
            events.append(TurnEnded(items=said, finish="cancelled"))
        for call in calls:
            current = state.calls.get(call.call.id)
            if current is not None and current.phase != "closed":
                events.append(CallEnded(result=cancelled(call.call, now, may_have_run=self._may_have_run(current))))
        self._journal.emit(*events)

    def _may_have_run(self, call: CallState) -> bool:
        entry = self._deps.registry.find(call.call.tool)
        return call.attempt > 0 and not (entry is not None and entry.tool.idempotent)


def is_own_cancellation(error: BaseException) -> bool:
    """Whether somebody stops this task; a CancelledError that comes from inside is a failure like any other."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


def _bound(correlation_id: str) -> dict[str, str]:
    return {"correlation_id": correlation_id}


def _gave_nonsense(model: str, why: str) -> Problem:
    return problem_of(f"the model {model} failed: {why}", "model_error")


def _bounded(event: TurnEnded | TurnFailed, model: str) -> TurnEnded | TurnFailed:
    calls = sum(isinstance(item, Call) for item in event.items) if isinstance(event, TurnEnded) else 0
    if calls <= MOST_CALLS:
        return event
    return TurnFailed(problem=_gave_nonsense(model, f"it asked for {calls} calls at once"))


def _late(timeout_s: float, idempotent: bool) -> Problem:
    rest = "" if idempotent else "; it was stopped, but may have taken effect"
    return Problem(
        error=f"no answer within {timeout_s:g} s{rest}", error_type="timeout", details={"timeout_s": timeout_s}
    )
