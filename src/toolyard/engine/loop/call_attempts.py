"""Runs one call: its attempts, retries and deadline. The venue of the tool does the work.

A venue answers with a value, with a failure, or with Pending: the result will come later.
"""

import asyncio
import itertools
import logging
import math
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import cast

from msgspec.structs import replace

from toolyard.core.conversation.context.notes import to_fields
from toolyard.core.conversation.events import CallEnded, CallParked, CallProgressed, CallStarted, Durable
from toolyard.core.conversation.run_state import CallState
from toolyard.core.conversation.state import State
from toolyard.core.errors import Fenced
from toolyard.core.failed_results import build_cancelled_result, to_problem
from toolyard.core.items import Problem, Result
from toolyard.core.ports import Context, Failure, Pending, Value
from toolyard.core.settings.prices import CALL_PRICE, Cost, to_micros
from toolyard.core.store import PROGRAM_FORMAT
from toolyard.core.tools.definition import Tool
from toolyard.core.tools.redactor import MAX_MATCH_CHARS, Redactor
from toolyard.core.tools.trust import join_sources
from toolyard.engine.dependencies import Deps
from toolyard.engine.log.journal import Journal
from toolyard.engine.loop.deadline import Deadline, DeadlineTimer
from toolyard.engine.loop.outages import outlast_outage
from toolyard.engine.loop.program_calls import LoggedProgramCalls
from toolyard.engine.tools.caller_tools import RegisteredTool
from toolyard.engine.tools.large_results import mention_edit
from toolyard.engine.tools.registry import Registry
from toolyard.observability.telemetry import correlation

FIRST_BACKOFF_S = 0.1
MAX_BACKOFF_S = 5.0
MAX_PROGRESS_CHARS = 10_000
SELF_CANCELLED = Problem(
    error="the tool cancelled itself; it had started and may have taken effect", error_type="cancelled"
)
OLDER_REPLICAS = Problem(
    error="programs are not run while a server of an earlier version runs beside this one; call the tools one by one, "
    "or try again later",
    error_type="unavailable",
)
"""What is told of a program whose log some of the replicas could not read."""

_log = logging.getLogger("toolyard.attempts")


@dataclass(frozen=True, slots=True)
class CallControl:
    """The hooks by which a running call and the owner of its task know of each other."""

    abandon: Callable[[], None]
    """Called when a tool does not end although it was cancelled at its deadline."""
    is_stopped: Callable[[], bool]
    """Returns whether the owner has cancelled the task; any other cancellation comes from the tool."""


class CallRunner:
    """Runs the calls of one conversation, and retries those that are safe to repeat."""

    def __init__(self, journal: Journal, deps: Deps) -> None:
        self._journal = journal
        self._deps = deps
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._deadlines = DeadlineTimer(self._loop)

    def close(self) -> None:
        """Cancel the timer of deadlines, once no call runs any more."""
        self._deadlines.close()

    async def run(self, call: CallState, entry: RegisteredTool, control: CallControl) -> CallParked | CallEnded:
        """Run a call and return the event that records its result, or that it waits for one."""
        tool, deps, began = entry.tool, self._deps, perf_counter()
        cost = compute_call_cost(tool)
        refusal = await self._reserve(call, cost) if cost is not None and deps.spending.budgets else None
        answer = refusal or await self._run_attempts(call, entry, control)
        redactor = self._find_redactor()
        if isinstance(answer, Pending):
            wait_s = tool.client_s if answer.kind == "client" else tool.approval_s
            # In a thread, as a server chooses how many texts its question has.
            redact = redactor.redact_question
            question = await asyncio.to_thread(redact, answer.question) if answer.question else {}
            return CallParked(
                call_id=call.call.id,
                kind=answer.kind,
                expires_at=deps.clock.now() + wait_s,
                question=question,
                resume_token=answer.resume_token,
                bound=answer.bound,
            )
        duration_ms = (perf_counter() - began) * 1000
        if call.parent and isinstance(answer, Value) and answer.structured is not None:
            answer = replace(answer, value=answer.structured)
        encode = partial(
            deps.result_encoder.encode,
            call.call,
            tool,
            answer,
            conversation=self._journal.conversation,
            redactor=redactor,
            duration_ms=duration_ms,
        )
        result = await (outlast_outage(encode, self._journal, deps) if deps.is_shared else encode())
        if call.parent and isinstance(answer, Value) and isinstance(answer.value, str):
            result = replace(result, is_text=True)
        return CallEnded(
            result=mention_edit(self._mark_read_result(result, tool), call),
            cost=None if refusal else cost,
        )

    async def _reserve(self, call: CallState, cost: Cost) -> Failure | None:
        """Reserve what a call costs in the budgets of its run. Return why it must not run; None if it may."""
        run, reserve = self._journal.state.run, self._deps.spending.reserve_call
        assert run is not None
        work = partial(reserve, self._journal.conversation, call.call.id, cost, run)
        problem = await (outlast_outage(work, self._journal, self._deps) if self._deps.is_shared else work())
        return Failure(problem=problem) if problem else None

    async def run_program(
        self, call: CallState, entry: RegisteredTool, calls: LoggedProgramCalls, control: CallControl
    ) -> CallEnded:
        """Run a program to its end and return the event that records its result.

        Its venue limits the time that it computes. The time that its calls take is theirs, and people's.
        """
        assert entry.program_venue is not None
        began, deps = perf_counter(), self._deps
        context = self._build_context(call, call.attempt, deps.limits.run_seconds, entry.listed)
        correlation.set(context.correlation_id)
        approved_call = call.call if call.approved is None else replace(call.call, arguments=call.arguments)
        try:
            if calls.recorded_seen < 0 and await self._has_older_replicas():
                answer = Failure(problem=OLDER_REPLICAS)
            else:
                answer = await entry.program_venue.run_program(approved_call, context, calls)
        except asyncio.CancelledError:
            if control.is_stopped():
                raise
            answer = Failure(problem=Problem(error="the program was cancelled", error_type="cancelled"))
        except Exception as error:
            if self._journal.broken:
                raise
            _log.exception("a program failed", extra={"correlation_id": context.correlation_id})
            answer = Failure(problem=to_problem(f"{type(error).__name__}: {error}", "execution_error"))
        await calls.wait_closed(self._cancel_child)
        encode = partial(
            deps.result_encoder.encode,
            call.call,
            entry.tool,
            _complete_program_answer(answer, calls),
            conversation=self._journal.conversation,
            redactor=self._find_redactor(),
            duration_ms=(perf_counter() - began) * 1000,
        )
        result = await (outlast_outage(encode, self._journal, deps) if deps.is_shared else encode())
        untrusted = join_sources(result.untrusted, calls.sources)
        return CallEnded(result=mention_edit(replace(result, untrusted=untrusted), call))

    async def _has_older_replicas(self) -> bool:
        """Return whether a live replica could not read the entries of a program."""
        deps = self._deps
        return deps.is_shared and await outlast_outage(deps.read_oldest_format, self._journal, deps) < PROGRAM_FORMAT

    def _cancel_child(self, child: CallState) -> None:
        """End a call that its program did not wait for."""
        result = build_cancelled_result(child.call, self._deps.clock.now(), may_have_run=child.attempt > 0)
        cost = find_started_cost(child, self._journal.state, self._deps.registry)
        self._journal.emit(CallEnded(result=result, cost=cost))

    def _find_redactor(self) -> Redactor:
        run = self._journal.state.run
        return self._deps.redaction.find(run.started_at if run else math.inf)

    def _mark_read_result(self, result: Result, tool: Tool) -> Result:
        """Mark what a tool of Toolyard reads from the conversation itself as untrusted, if anything there is."""
        sources = self._journal.state.history.sources if tool.built_in else ""
        return replace(result, untrusted=join_sources(result.untrusted, sources)) if sources else result

    async def _run_attempts(
        self, call: CallState, entry: RegisteredTool, control: CallControl
    ) -> Value | Failure | Pending:
        """Run the call; retry while its tool is repeatable, the failure is retryable and retries are left."""
        tool, attempt, backoff_s = entry.tool, call.attempt, FIRST_BACKOFF_S
        tries_left = tool.retries if tool.repeatable else 0
        while True:
            # Journal before effect: `call.started` is stored before the tool runs. After a crash the log then shows
            # which calls may have taken effect, and no other call can have.
            await self._journal.wait_committed()
            # From here on no other replica may take the conversation over before the tool has started. A store that
            # one process uses has neither replicas nor outages that end by themselves.
            if self._deps.is_shared:
                await outlast_outage(self._deps.ensure_lease, self._journal, self._deps)
            if self._journal.is_lost:
                raise Fenced("another replica has taken the conversation over before its tool started")
            answer = await self._run_attempt(call, entry, attempt, control)
            if tries_left <= 0 or not (isinstance(answer, Failure) and answer.retryable):
                return answer
            tries_left -= 1
            attempt += 1
            await self._deps.sleep(backoff_s * random.uniform(0.5, 1.5))
            backoff_s = min(backoff_s * 2, MAX_BACKOFF_S)
            self._journal.emit(CallStarted(call_id=call.call.id, epoch=self._journal.epoch, attempt=attempt))

    async def _run_attempt(
        self, call: CallState, entry: RegisteredTool, attempt: int, control: CallControl
    ) -> Value | Failure | Pending:
        tool = entry.tool
        context = self._build_context(call, attempt, tool.timeout_s, entry.listed)
        correlation.set(context.correlation_id)
        approved_call = call.call if call.approved is None else replace(call.call, arguments=call.arguments)
        deadline = Deadline(self._loop, self._deadlines, tool.timeout_s, control.abandon, control.is_stopped)
        try:
            answer = await entry.venue.run(approved_call, tool, context)
            await deadline.absorb_pending()
            return answer
        except BaseException as error:
            if deadline.absorb_cancellation(error):
                return (
                    Failure(problem=build_timeout_problem(tool), retryable=True)
                    if deadline.passed
                    else Failure(problem=SELF_CANCELLED)
                )
            if isinstance(error, asyncio.CancelledError):
                raise
            log_fields = {"correlation_id": context.correlation_id}
            _log.error("venue %s failed", tool.venue, exc_info=error, extra=log_fields)
            error_text = f"{type(error).__name__}: {error}"
            return Failure(problem=to_problem(error_text, "execution_error"), retryable=True)
        finally:
            deadline.finish()

    def _build_context(self, call: CallState, attempt: int, timeout_s: float, listed: Tool) -> Context:
        run, call_id, journal = self._journal.state.run, call.call.id, self._journal
        assert run is not None
        loop, loop_thread, report_numbers = self._loop, self._thread, itertools.count()

        def publish(event: CallProgressed) -> None:
            # A tool, or a thread that it left behind, may report after its call has ended.
            current = journal.state.calls.get(call_id)
            if current is not None and current.phase == "running":
                journal.publish_fleeting(event)

        def progress(done: float, total: float | None = None, message: str = "") -> None:
            number = next(report_numbers)
            # Cut before the search, which takes time with the length, and again so that no half of a secret is left.
            text = self._find_redactor().redact_text(message[: MAX_PROGRESS_CHARS + MAX_MATCH_CHARS])
            event = CallProgressed(
                call_id=call_id, offset=number, progress=done, total=total, message=text[:MAX_PROGRESS_CHARS]
            )
            # A synchronous tool runs in a worker thread, and the journal may be used from the loop's thread only.
            if threading.get_ident() == loop_thread:
                publish(event)
            else:
                loop.call_soon_threadsafe(publish, event)

        answer = call.answer
        return Context(
            caller=run.request.caller,
            conversation=journal.conversation,
            run_id=run.id,
            call_id=call_id,
            correlation_id=run.correlation_id,
            idempotency_key=f"{journal.conversation}:{call_id}",
            attempt=attempt,
            deadline=self._deps.clock.now() + timeout_s,
            progress=progress,
            fields=to_fields(run.settings.context.values()),
            answer={"reply": answer.reply, "content": answer.content} if answer else None,
            resume_token=call.parked.resume_token if call.parked else "",
            mcp_client=run.request.mcp_client,
            may_use=lambda tool: self._deps.offers.may_use(tool, journal.state),
            listed=listed,
        )


def _complete_program_answer(answer: Value | Failure, calls: LoggedProgramCalls) -> Value | Failure:
    """Add to the answer of a program what the model has to know of its calls: effects of a failed one, and edits."""
    edited_calls = calls.list_edits()
    edits: dict[str, object] = {"edited_by_a_person": edited_calls} if edited_calls else {}
    if isinstance(answer, Failure):
        details = {**answer.problem.details, **calls.describe_effects(), **edits}
        return replace(answer, problem=replace(answer.problem, details=details))
    if not edits or not isinstance(answer.value, dict):
        return answer
    return replace(answer, value={**cast(dict[str, object], answer.value), **edits})


def compute_call_cost(tool: Tool) -> Cost | None:
    """Return what a call of a tool costs; None if the tool has no price."""
    return Cost(micros=to_micros(tool.price), price=CALL_PRICE) if tool.price else None


def find_started_cost(call: CallState, state: State, registry: Registry) -> Cost | None:
    """Return the cost of a call that ends without an answer of its tool: its price if it had started.

    A program has none: its calls have theirs.
    """
    entry = registry.lookup(call, state) if call.attempt else None
    return compute_call_cost(entry.tool) if entry is not None and entry.program_venue is None else None


def price_started_calls(events: Sequence[Durable], state: State, registry: Registry) -> Sequence[Durable]:
    """Return the events with the costs of calls that end while they wait: those with a question had started."""
    return [
        replace(event, cost=find_started_cost(state.calls[event.result.call_id], state, registry))
        if isinstance(event, CallEnded) and event.result.call_id in state.calls
        else event
        for event in events
    ]


def build_timeout_problem(tool: Tool) -> Problem:
    """Return the problem that tells the model that a tool did not answer before its deadline."""
    effect = "" if tool.read_only else "; it was stopped, but may have taken effect"
    return Problem(
        error=f"no answer within {tool.timeout_s:g} s{effect}",
        error_type="timeout",
        details={"timeout_s": tool.timeout_s},
    )
