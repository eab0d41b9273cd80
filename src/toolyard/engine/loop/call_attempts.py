"""Runs one call: its attempts, retries and deadline. The venue of the tool does the work.

A venue answers with a value, with a failure, or with Pending: the result will come later.
"""

import asyncio
import itertools
import logging
import random
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TypeVar

from msgspec.structs import replace

from toolyard.core.conversation.events import CallEnded, CallParked, CallProgressed, CallStarted
from toolyard.core.conversation.notes import to_fields
from toolyard.core.conversation.run_state import CallState
from toolyard.core.errors import Fenced, StoreDown
from toolyard.core.failed_results import to_problem
from toolyard.core.items import Problem, Result
from toolyard.core.ports import Context, Failure, Pending, Value
from toolyard.core.settings.prices import CALL_PRICE, Cost, to_micros
from toolyard.core.tools.definition import Tool
from toolyard.core.tools.redaction import MAX_MATCH_CHARS
from toolyard.core.tools.trust import join_sources
from toolyard.engine.dependencies import Deps
from toolyard.engine.log.journal import Journal
from toolyard.engine.loop.deadline import Deadline
from toolyard.engine.tools.caller_tools import RegisteredTool
from toolyard.engine.tools.large_results import mention_edit
from toolyard.observability.telemetry import correlation

FIRST_BACKOFF_S = 0.1
MAX_BACKOFF_S = 5.0
OUTAGE_RETRY_S = 0.5
MAX_PROGRESS_CHARS = 10_000

_log = logging.getLogger("toolyard.attempts")
_T = TypeVar("_T")


SELF_CANCELLED = Problem(
    error="the tool cancelled itself; it had started and may have taken effect", error_type="cancelled"
)


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

    async def run(self, call: CallState, entry: RegisteredTool, control: "CallControl") -> CallParked | CallEnded:
        """Run a call and return the event that records its result, or that it waits for one."""
        tool, deps, began = entry.tool, self._deps, perf_counter()
        answer = await self._run_attempts(call, entry, control)
        if isinstance(answer, Pending):
            wait_s = tool.client_s if answer.kind == "client" else tool.approval_s
            # In a thread, as a server chooses how many texts its question has.
            redact = deps.redactor.redact_question
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
        encode = partial(
            deps.result_encoder.encode,
            call.call,
            tool,
            answer,
            conversation=self._journal.conversation,
            duration_ms=duration_ms,
        )
        result = await (self._outlast_outage(encode) if deps.is_shared else encode())
        return CallEnded(
            result=mention_edit(self._mark_read_result(result, tool), call),
            cost=Cost(micros=to_micros(tool.price), price=CALL_PRICE) if tool.price else None,
        )

    def _mark_read_result(self, result: Result, tool: Tool) -> Result:
        """Mark what a tool of Toolyard reads from the conversation itself as untrusted, if anything there is."""
        sources = self._journal.state.history.sources if tool.built_in else ""
        return replace(result, untrusted=join_sources(result.untrusted, sources)) if sources else result

    async def _run_attempts(
        self, call: CallState, entry: RegisteredTool, control: "CallControl"
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
                await self._outlast_outage(self._deps.ensure_lease)
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

    async def _outlast_outage(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """Do the work, and again while a shared store is down: the call waits with it for as long as its run may."""
        while True:
            try:
                return await work()
            except StoreDown:
                if self._journal.broken:
                    raise
                await self._deps.sleep(OUTAGE_RETRY_S)

    async def _run_attempt(
        self, call: CallState, entry: RegisteredTool, attempt: int, control: "CallControl"
    ) -> Value | Failure | Pending:
        tool = entry.tool
        context = self._build_context(call, attempt, tool.timeout_s)
        correlation.set(context.correlation_id)
        approved_call = call.call if call.approved is None else replace(call.call, arguments=call.arguments)
        deadline = Deadline(self._loop, tool.timeout_s, control.abandon, control.is_stopped)
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

    def _build_context(self, call: CallState, attempt: int, timeout_s: float) -> Context:
        run, call_id, journal = self._journal.state.run, call.call.id, self._journal
        assert run is not None
        loop, loop_thread, report_numbers = self._loop, self._thread, itertools.count()
        redact = self._deps.redactor.redact_text

        def publish(event: CallProgressed) -> None:
            # A tool, or a thread that it left behind, may report after its call has ended.
            current = journal.state.calls.get(call_id)
            if current is not None and current.phase == "running":
                journal.publish_fleeting(event)

        def progress(done: float, total: float | None = None, message: str = "") -> None:
            number = next(report_numbers)
            # Cut before the search, which takes time with the length, and again so that no half of a secret is left.
            text = redact(message[: MAX_PROGRESS_CHARS + MAX_MATCH_CHARS])[:MAX_PROGRESS_CHARS]
            event = CallProgressed(call_id=call_id, offset=number, progress=done, total=total, message=text)
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
        )


def build_timeout_problem(tool: Tool) -> Problem:
    """Return the problem that tells the model that a tool did not answer before its deadline."""
    effect = "" if tool.read_only else "; it was stopped, but may have taken effect"
    return Problem(
        error=f"no answer within {tool.timeout_s:g} s{effect}",
        error_type="timeout",
        details={"timeout_s": tool.timeout_s},
    )
