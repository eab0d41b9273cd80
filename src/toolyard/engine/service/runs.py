"""Runs for surfaces: start them once for each request, deliver results of applications, admit callers."""

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress

from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.conversation.commands import (
    Deliver,
    Start,
)
from toolyard.core.conversation.cursor import Cursor
from toolyard.core.conversation.decide import decide
from toolyard.core.conversation.events import RequestKey, RunRequest
from toolyard.core.conversation.run_state import CallState
from toolyard.core.conversation.settings import Settings
from toolyard.core.conversation.state import State
from toolyard.core.errors import (
    NotFound,
    RateLimited,
    Refused,
    Unavailable,
)
from toolyard.core.failed_results import build_failed_result
from toolyard.core.items import Item, Problem, Result, result_id
from toolyard.core.ports import Failure, Value
from toolyard.core.settings.limits import Limits
from toolyard.core.store import Allowance, RequestRecord, Store
from toolyard.core.tools.definition import Tool
from toolyard.engine.dependencies import Deps
from toolyard.engine.log.readers import Reader
from toolyard.engine.loop.command_checks import plan_search
from toolyard.engine.replicas.ownership import STOPPING, Driver
from toolyard.engine.replicas.requests import build_restart
from toolyard.engine.service.conversations import Conversations
from toolyard.named_locks import NamedLocks


class StartedRun(Struct, frozen=True, kw_only=True, eq=False):
    """A run that was started, or that an earlier request with the same key has started, and a reader from its start."""

    conversation: str
    run_id: str
    reader: Reader
    repeated: bool = False


class Runs:
    """Starts runs, follows earlier ones, and takes the results of applications."""

    def __init__(self, deps: Deps, store: Store, driver: Driver, conversations: Conversations) -> None:
        self._deps = deps
        self._store = store
        self._driver = driver
        self._conversations = conversations
        self._locks = NamedLocks()

    def build_start(
        self,
        caller: Caller,
        input: Sequence[Item],
        run: RunRequest = RunRequest(),  # noqa: B008 - immutable
        *,
        correlation_id: str = "",
        settings: Settings | None = None,
        interrupt: bool = False,
        delivers: Sequence[Result] = (),
        request: RequestKey | None = None,
        may_open: bool = True,
    ) -> Start:
        """Return a Start with a new run id and this server's defaults."""
        clock = self._deps.clock
        return Start(
            by=caller,
            correlation_id=correlation_id or clock.new_id("trace"),
            run_id=clock.new_id("run"),
            input=self.redact_items(input),
            run=run,
            settings=settings or self._deps.default_settings,
            queue_limit=self._deps.limits.queued_messages,
            interrupt=interrupt,
            delivers=tuple(delivers),
            request=request,
            may_open=may_open,
        )

    async def start(
        self, conversation: str, command: Start, *, is_new: bool = False, include_argument_deltas: bool = True
    ) -> StartedRun:
        """Submit a Start and follow the conversation from right before it. The caller detaches the reader.

        The id of a new conversation was made for this command. If the command's request took effect before, the earlier
        run is followed, as `repeat_request` does.
        """
        record = None if command.has_new_key else await self._conversations.find_request(command.request)
        if record is not None:
            return await self.repeat(record, command.correlation_id, include_argument_deltas=include_argument_deltas)
        # Claim before following: a reader that follows without a claim would have to move to the journal at once. If
        # another replica owns the conversation, its log is followed.
        await self._driver.open_journal(conversation, is_new=is_new)
        reader = await self._conversations.follow(conversation, include_argument_deltas=include_argument_deltas)
        try:
            record = await self._conversations.submit_once(conversation, command)
        except BaseException:
            reader.detach()
            self._driver.release_unused(conversation)
            raise
        if record is not None:
            reader.detach()
            self._driver.release_unused(conversation)
            return await self.follow_request(record, include_argument_deltas=include_argument_deltas)
        return StartedRun(conversation=conversation, run_id=command.run_id, reader=reader)

    async def repeat(
        self, record: RequestRecord, correlation_id: str, *, include_argument_deltas: bool = True
    ) -> StartedRun:
        """Follow the run of an earlier request, or a new one in its place. The caller detaches the reader.

        A run that failed for a reason that passes, before any call started, is run again; that counts as a new request.
        """
        entries = await self._conversations.read_entries(record.conversation, after=record.seq - 1)
        restart = build_restart(entries, self._deps.clock.new_id("run"), correlation_id)
        if restart is not None:
            await self.admit(restart.by)
            with suppress(Refused):  # the conversation has gone on meanwhile
                return await self.start(record.conversation, restart, include_argument_deltas=include_argument_deltas)
        # Another sending may have run it again since the record was read.
        current = await self._conversations.find_request(entries[0].request) if entries else None
        return await self.follow_request(current or record, include_argument_deltas=include_argument_deltas)

    async def follow_request(self, record: RequestRecord, *, include_argument_deltas: bool = True) -> StartedRun:
        """Follow the run that an earlier request has started, from its beginning. The caller detaches the reader."""
        if (await self._conversations.view(record.conversation)).owner is None:
            raise NotFound("the conversation of the first request, which this one repeats, was deleted")
        after = Cursor(record.seq - 1)
        reader = await self._conversations.follow(
            record.conversation, after, include_argument_deltas=include_argument_deltas
        )
        return StartedRun(conversation=record.conversation, run_id=record.run, reader=reader, repeated=True)

    async def deliver(
        self,
        conversation: str,
        answers: Mapping[str, Value | Failure],
        by: Caller,
        *,
        request: RequestKey | None = None,
    ) -> RequestRecord | None:
        """Record the application's results for calls that wait for it: all of them, or none.

        Raises Refused, for example for a second result of a call. If the request took effect before, return its record.
        """
        if record := await self._conversations.find_request(request):
            return record
        if self._deps.draining:
            raise Unavailable(STOPPING)
        results = await self.encode_results(conversation, answers, by)
        # Encoding may have stored large results meanwhile. Deciding the command checks again whether each call still
        # waits: another device may have delivered first.
        return await self._conversations.submit_once(
            conversation, Deliver(by=by, results=tuple(results), request=request)
        )

    async def encode_results(
        self, conversation: str, answers: Mapping[str, Value | Failure], by: Caller
    ) -> Sequence[Result]:
        """Return the application's results for calls that wait for it, as the log holds them. Raises Refused."""
        state = await self._conversations.view(conversation)
        calls = {call_id: self._require_awaited(state, call_id, by) for call_id in answers}
        deps, unwrap = self._deps, self._deps.unwrap_delivered
        redactor = deps.redaction.find(state.run.started_at if state.run else math.inf)
        return [
            await deps.result_encoder.encode(
                call.call, tool, unwrap(answers[call_id]), conversation=conversation, redactor=redactor
            )
            for call_id, (call, tool) in calls.items()
        ]

    async def has_result(self, conversation: str, call_id: str, text: str) -> bool | None:
        """Return whether the history has this text as the result of a call; None if it has no result of the call."""
        state = await self._conversations.view(conversation)
        history = state.full_history
        position = history.find(result_id(call_id))
        result = None if position is None else history[position]
        if not isinstance(result, Result):
            return None
        # The result was encoded with the rules of its run, which may have been others.
        redactor = self._deps.redaction.find(result.at)
        return await self._deps.result_encoder.has_text(result, text, conversation, redactor)

    def _require_awaited(self, state: State, call_id: str, by: Caller) -> tuple[CallState, Tool]:
        """Return a call that waits for this caller's result, and its tool. Raises Refused before anything is stored."""
        call = state.calls.get(call_id)
        entry = self._deps.registry.lookup(call, state) if call else None
        if call is None or entry is None:
            raise Refused(f"call {call_id[:80]!r} does not wait for a result: it has ended or does not exist")
        trial = build_failed_result(call.call, "error", Problem(error="", error_type=""), 0.0)
        decide(state, Deliver(by=by, results=(trial,)), self._deps.clock.now())
        return call, entry.tool

    def hold(self, request: RequestKey | None) -> AbstractAsyncContextManager[None]:
        """Keep later requests with the key waiting until the block ends."""
        return nullcontext() if request is None else self._locks.lock("request", request.key_hash)

    async def admit(self, caller: Caller) -> Allowance:
        """Count a new request of this caller. Raises RateLimited with the time to wait."""
        per_minute = self.requests_per_minute(caller)
        if not per_minute:
            return Allowance(granted=True, remaining=0, retry_after_s=0.0)
        # A user counts once for the server's limit, and separately in each division that has a limit of its own.
        suffix = f"/{caller.division}" if self._deps.division_for(caller).requests_per_minute is not None else ""
        allowance = await self._store.take_allowance(
            f"{caller.tenant}/{caller.user}{suffix}", per_minute, self._deps.clock.now()
        )
        if not allowance.granted:
            reason = f"more than {per_minute} requests in a minute"
            raise RateLimited.after(reason, allowance.retry_after_s, per_minute)
        return allowance

    def requests_per_minute(self, caller: Caller) -> int:
        of_division = self._deps.division_for(caller).requests_per_minute
        return self._deps.requests_per_minute if of_division is None else of_division

    def limits_for(self, caller: Caller) -> Limits:
        """Return the limits of the caller's division, or else the server's: the defaults of a conversation."""
        return self._deps.division_for(caller).limits or self._deps.limits

    async def find(self, correlation_id: str) -> Sequence[tuple[str, str]]:
        """Return the conversations and runs with this correlation id. Permission is not checked here."""
        return await self._store.find_runs(correlation_id)

    def can_search(self, caller: Caller, model: str, app_tools: Sequence[Tool] = ()) -> bool:
        """Return whether a run in a new conversation could search the web, at the model's provider or with a tool."""
        run = RunRequest(model=model, web_search="auto", app_tools=tuple(app_tools))
        start = self.build_start(caller, (), run)
        search = plan_search(start, State(), self._deps).search
        return search is not None and search.where != "off"

    def redact_items(self, items: Sequence[Item]) -> tuple[Item, ...]:
        """Return the items of an application with redacted results."""
        return self._deps.redaction.current.redact_items(items)
