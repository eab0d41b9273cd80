"""The engine's interface for surfaces: submit commands, follow conversations, read their state, list what exists.

Wire protocols are left to the surfaces, and driving conversations to `ownership`.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Literal

from msgspec import Struct, UnsetType
from msgspec.structs import replace

from toolyard.codec import check_encodable, check_items
from toolyard.core.caller import Caller
from toolyard.core.conversation.approvals import find_refusal
from toolyard.core.conversation.commands import (
    Approve,
    Change,
    Command,
    Delete,
    Deliver,
    Deny,
    Fork,
    RemoveMessage,
    Start,
)
from toolyard.core.conversation.cursor import Cursor
from toolyard.core.conversation.decide import decide
from toolyard.core.conversation.events import Entry, Origin, RequestKey
from toolyard.core.conversation.forks import find_fork_items
from toolyard.core.conversation.notes import to_notes
from toolyard.core.conversation.run_state import CallState
from toolyard.core.conversation.settings import Settings
from toolyard.core.conversation.state import State
from toolyard.core.errors import (
    Forbidden,
    Invalid,
    Misconfigured,
    NotFound,
    RateLimited,
    Refused,
    RequestRepeated,
    Unavailable,
)
from toolyard.core.failed_results import build_failed_result
from toolyard.core.items import Item, Problem, Result, result_id
from toolyard.core.ports import Clock, Failure, McpProxy, SelectiveModel, Value
from toolyard.core.settings.limits import Limits
from toolyard.core.settings.model_cards import ModelCard
from toolyard.core.settings.options import DEFAULT_OPTIONS, Options
from toolyard.core.settings.prices import Price
from toolyard.core.settings.texts import CustomTexts
from toolyard.core.store import Allowance, CatalogQuery, ConversationCard, ListPosition, RequestRecord, Store
from toolyard.core.store.audit_chain import AuditAction, AuditEntry, AuditQuery, clean_reference, hash_content
from toolyard.core.store.figures import select_step
from toolyard.core.tools.definition import Tool
from toolyard.core.tools.mcp_client import McpClient
from toolyard.core.tools.web_search_rule import SearchMode
from toolyard.engine.access.explanation import AccessExplanation
from toolyard.engine.access.failed_sign_ins import FailedSignIns
from toolyard.engine.access.presets import Presets
from toolyard.engine.access.refused_attempts import RefusedAttempts
from toolyard.engine.access.shares import Shares
from toolyard.engine.dependencies import Deps
from toolyard.engine.log.journal import Observe
from toolyard.engine.log.readers import Reader
from toolyard.engine.loop.command_checks import check_named_model, plan_search
from toolyard.engine.loop.starting_tools import wait_for_tools
from toolyard.engine.replicas.command_delivery import CommandDelivery
from toolyard.engine.replicas.due_work import DueWork
from toolyard.engine.replicas.message_handler import Replicas
from toolyard.engine.replicas.ownership import STOPPING, Owner
from toolyard.engine.replicas.readiness import StoreProbe
from toolyard.engine.replicas.repeated_requests import build_restart
from toolyard.engine.replicas.requests import Requests
from toolyard.engine.tools.large_results import build_original_handle
from toolyard.engine.tools.tool_health import ToolAudit, audit_tools
from toolyard.observability.audit import Auditor
from toolyard.observability.figures import FigureRecorder
from toolyard.observability.metrics import Load, Metrics
from toolyard.observability.run_log import RunLog
from toolyard.observability.telemetry import Observers
from toolyard.observability.wire_log import WireLog

MAX_ITEMS_PER_CHECK = 250
"""Items that are checked before the event loop runs other tasks: well under a millisecond."""
MAX_OPEN = 200
"""Conversations that `list_open_conversations` returns."""


class StartedRun(Struct, frozen=True, kw_only=True, eq=False):
    """A run that was started, or that an earlier request with the same key has started, and a reader from its start."""

    conversation: str
    run_id: str
    reader: Reader
    repeated: bool = False


class Service:
    """What surfaces call. Methods raise errors of `core.errors`, which the surfaces map to their protocols."""

    def __init__(
        self, deps: Deps, store: Store, tasks: asyncio.TaskGroup, mcp_proxy: McpProxy, observers: Sequence[Observe] = ()
    ) -> None:
        self._deps = deps
        self.mcp_proxy = mcp_proxy
        self._store = store
        self.shares = Shares(store, deps.clock)
        self.presets = Presets(store, deps.clock)
        self.auditor = Auditor(store, deps.clock)
        self.failed_sign_ins = FailedSignIns(self.auditor, tasks.create_task)
        self.refused_attempts = RefusedAttempts(self.auditor, tasks.create_task)
        self.metrics = Metrics(lambda tool: deps.registry.find(tool) is not None)
        self._figures = FigureRecorder(store, deps.clock.now, tasks.create_task, self._find_conversation_owner)
        observe = Observers(RunLog().observe, self.metrics.observe, self._figures.observe, *observers).observe
        self._owner = Owner(deps, store, tasks, observe)
        self._due_work = DueWork(deps, store, self._owner, self.auditor)
        self._probe = StoreProbe(store, tasks)
        self._requests = Requests(store, deps.clock)
        self._delivery = CommandDelivery(deps, store, self._owner, self._requests)
        self._replicas = Replicas(store, self._owner, self._delivery)
        self._tasks = tasks

    async def start(self) -> None:
        """Resume every run that an earlier process left open, and wake runs when their waits are over."""
        self._due_work.start(self._tasks)
        self._replicas.start(self._tasks)

    async def submit(self, conversation: str, command: Command) -> None:
        """Decide a command and store its events before returning.

        Raises Refused, Invalid or NotFound; or RequestRepeated if the command's request took effect before.
        """
        if self._deps.draining:
            raise Unavailable(STOPPING)
        if isinstance(command, Delete):
            await self._delete(conversation, command)
            return
        await _check_in_pieces(command)
        if isinstance(command, Approve | Deny | Change | RemoveMessage) and (
            audited := await self._describe(conversation, command)
        ):
            action, target, content_hash = audited
            if isinstance(command, Approve | Deny):
                await self._require_decider(conversation, command, audited)
            async with self.auditor.record(action, target, by=command.by, content_hash=content_hash):
                await self._delivery.submit(conversation, command)
            return
        await self._delivery.submit(conversation, command)

    async def _require_decider(
        self, conversation: str, command: Approve | Deny, audited: tuple[AuditAction, str, str]
    ) -> None:
        """Raise Refused, after an entry that says so, if the caller may not decide a call that asks.

        That depends on the call alone, so it cannot have changed when the command is decided.
        """
        state = await self.view(conversation)
        call = state.calls.get(command.call_id)
        if call is None or call.phase != "asking" or not (refusal := find_refusal(state, call, command.by)):
            return
        action, target, content_hash = audited
        await self.refused_attempts.count(action, target, command.by, content_hash)
        raise Refused(refusal)

    async def _describe(
        self, conversation: str, command: Approve | Deny | Change | RemoveMessage
    ) -> tuple[AuditAction, str, str] | None:
        """Return what the audit log says of a command, which the log of the conversation holds in full; else None."""
        if isinstance(command, Change):
            prompt = command.change.system_prompt
            return None if isinstance(prompt, UnsetType) else ("prompt.change", conversation, hash_content(prompt))
        if isinstance(command, RemoveMessage):
            return "message.delete", f"{conversation}/{','.join(sorted(command.ids))}", ""
        call = (await self.view(conversation)).calls.get(command.call_id)
        edited = command.arguments if isinstance(command, Approve) else None
        decided = hash_content((call.call.tool, call.arguments if edited is None else edited)) if call else ""
        return (
            "call.approve" if isinstance(command, Approve) else "call.deny",
            f"{conversation}/{command.call_id}",
            decided,
        )

    async def start_run(self, conversation: str, command: Start, *, include_argument_deltas: bool = True) -> StartedRun:
        """Submit a Start and follow the conversation from right before it. The caller detaches the reader.

        If the command's request took effect before, the earlier run is followed, as `repeat_request` does.
        """
        if record := await self.find_request(command.request):
            return await self.repeat_request(
                record, command.correlation_id, include_argument_deltas=include_argument_deltas
            )
        # Claim before following: a reader that follows without a claim would have to move to the journal at once. If
        # another replica owns the conversation, its log is followed.
        await self._owner.open_journal(conversation)
        reader = await self.follow(conversation, include_argument_deltas=include_argument_deltas)
        try:
            record = await self.submit_once(conversation, command)
        except BaseException:
            reader.detach()
            self._owner.release_unused(conversation)
            raise
        if record is not None:
            reader.detach()
            self._owner.release_unused(conversation)
            return await self.follow_request(record, include_argument_deltas=include_argument_deltas)
        return StartedRun(conversation=conversation, run_id=command.run_id, reader=reader)

    async def submit_once(self, conversation: str, command: Command) -> RequestRecord | None:
        """Submit a command, unless its request took effect before: then return the record of that."""
        try:
            await self.submit(conversation, command)
        except RequestRepeated:
            if record := await self.find_request(command.request):
                return record
            raise
        return None

    async def find_request(self, request: RequestKey | None) -> RequestRecord | None:
        """Return the record of a request that took effect before, if it has a key. Raises Invalid for another body."""
        return await self._requests.find(request)

    async def repeat_request(
        self, record: RequestRecord, correlation_id: str, *, include_argument_deltas: bool = True
    ) -> StartedRun:
        """Follow the run of an earlier request, or a new one in its place. The caller detaches the reader.

        A run that failed for a reason that passes, before any call started, is run again; that counts as a new request.
        """
        entries = await self.read_entries(record.conversation, after=record.seq - 1)
        restart = build_restart(entries, self._deps.clock.new_id("run"), correlation_id)
        if restart is not None:
            await self.admit(restart.by)
            with suppress(Refused):  # the conversation has gone on meanwhile
                return await self.start_run(
                    record.conversation, restart, include_argument_deltas=include_argument_deltas
                )
        return await self.follow_request(record, include_argument_deltas=include_argument_deltas)

    async def follow_request(self, record: RequestRecord, *, include_argument_deltas: bool = True) -> StartedRun:
        """Follow the run that an earlier request has started, from its beginning. The caller detaches the reader."""
        if (await self.view(record.conversation)).owner is None:
            raise NotFound("the conversation of the first request, which this one repeats, was deleted")
        after = Cursor(record.seq - 1)
        reader = await self.follow(record.conversation, after, include_argument_deltas=include_argument_deltas)
        return StartedRun(conversation=record.conversation, run_id=record.run, reader=reader, repeated=True)

    async def fork(
        self,
        source: str,
        target: str,
        by: Caller,
        *,
        after: str = "",
        correlation_id: str = "",
        request: RequestKey | None = None,
        unlisted: bool = False,
    ) -> RequestRecord | None:
        """Open the conversation `target` with the items of `source` up to the end of a run or up to an item.

        Without `after` all items are copied. Raises Refused for a place inside a turn, or if nothing is there. If the
        request took effect before, return its record, which names the conversation that was opened then.
        """
        if record := await self.find_request(request):
            return record
        state = await self.view(source)
        if state.owner is None or not by.owns(state.owner):
            raise NotFound(f"there is no conversation {source[:80]!r}")
        entries = await self.read_entries(source) if after else ()
        # Folding a long log takes long: other conversations go on meanwhile.
        items = tuple(await asyncio.to_thread(find_fork_items, state, after, entries))
        await self.copy_blobs(source, target, items)
        settings = replace(state.settings, ephemeral=False, unlisted=unlisted)
        origin = Origin(conversation=source, after=after)
        command = Fork(
            by=by, correlation_id=correlation_id, request=request, origin=origin, items=items, settings=settings
        )
        try:
            record = await self.submit_once(target, command)
        except (Refused, Invalid):
            await self._drop_copies(target)
            raise
        # No other failure drops them: the fork may be on its way to the store.
        if record is not None:
            await self._drop_copies(target)
        return record

    async def _drop_copies(self, target: str) -> None:
        """Delete the blobs of a fork that was not made."""
        if await self._store.card(target) is None:
            await self._store.delete_conversation(target)

    async def copy_blobs(self, source: str, target: str, items: Sequence[Item]) -> None:
        """Copy the whole results of the items. Before the fork is stored: one that lacks them would have lost data."""
        results = [item for item in items if isinstance(item, Result)]
        originals = {build_original_handle(result.call_id) for result in results if result.redacted}
        for handle in {handle for result in results for handle in (result.handle, result.native)} | originals:
            if handle and (body := await self._store.get_blob(source, handle)) is not None:
                await self._store.put_blob(target, handle, body)

    def build_start(
        self,
        caller: Caller,
        input: Sequence[Item],
        *,
        correlation_id: str = "",
        tool_choice: str = "auto",
        model: str = "",
        limits: Limits | None = None,
        web_search: SearchMode = "",
        context: Mapping[str, object] = {},
        language: str = "",
        settings: Settings | None = None,
        app_tools: Sequence[Tool] = (),
        interrupt: bool = False,
        mcp_client: McpClient | None = None,
        options: Options = DEFAULT_OPTIONS,
        ends_on_expiry: bool = False,
        leave_s: float = 0.0,
        client_fields: Mapping[str, object] = {},
        delivers: Sequence[Result] = (),
        request: RequestKey | None = None,
        may_open: bool = True,
    ) -> Start:
        """Return a Start with a new run id and this server's defaults. Raises Invalid if the context is too large."""
        clock = self._deps.clock
        return Start(
            by=caller,
            correlation_id=correlation_id or clock.new_id("trace"),
            run_id=clock.new_id("run"),
            input=self.redact_items(input),
            app_tools=tuple(app_tools),
            tool_choice=tool_choice,
            model=model,
            limits=limits,
            web_search=web_search,
            context=to_notes(context),
            language=language,
            settings=settings or self._deps.default_settings,
            queue_limit=self._deps.limits.queued_messages,
            interrupt=interrupt,
            mcp_client=mcp_client,
            options=options,
            ends_on_expiry=ends_on_expiry,
            leave_s=leave_s,
            client_fields=dict(client_fields),
            delivers=tuple(delivers),
            request=request,
            may_open=may_open,
        )

    @property
    def clock(self) -> Clock:
        return self._deps.clock

    @property
    def default_model(self) -> str:
        return self._deps.default_model

    @property
    def default_settings(self) -> Settings:
        return self._deps.default_settings

    def limits_for(self, caller: Caller) -> Limits:
        """Return the limits of the caller's division, or else the server's: the defaults of a conversation."""
        return self._deps.division_for(caller).limits or self._deps.limits

    @property
    def wire_log(self) -> WireLog | None:
        return self._deps.wire_log

    def model_cards(self) -> list[ModelCard]:
        """Return a card for each configured model, and for each that a provider is known to list."""
        return self._deps.model_cards()

    def list_ignored_options(self, model: str, options: Options) -> Sequence[str]:
        """Return the options that a model leaves out; none if it is not known, or may not be named by a request."""
        try:
            check_named_model(model, self._deps, may_name_address=False)
            chosen = self._deps.models(model or self._deps.default_model)
        except (Invalid, Misconfigured):
            return ()  # the run says why it cannot use the model
        return chosen.list_ignored(options) if isinstance(chosen, SelectiveModel) else ()

    def model_list_problems(self) -> dict[str, str]:
        """Return why the lists of some providers could not be fetched, by provider."""
        return self._deps.model_list_problems()

    @property
    def model_patterns(self) -> Sequence[str]:
        return self._deps.model_patterns

    @property
    def texts(self) -> CustomTexts:
        return self._deps.texts

    @property
    def prices(self) -> Mapping[str, Price]:
        return self._deps.prices

    def requests_per_minute(self, caller: Caller) -> int:
        of_division = self._deps.division_for(caller).requests_per_minute
        return self._deps.requests_per_minute if of_division is None else of_division

    def list_tools(
        self, caller: Caller, settings: Settings | None = None, *, include_native: bool = True
    ) -> list[Tool]:
        """Return the tools that this caller may use, where the settings of a conversation are given in that one.

        `include_native` adds tools that only a provider can call.
        """
        usable = self._deps.registry.usable_tools(caller, settings or Settings())
        return usable if include_native else [tool for tool in usable if tool.venue != "provider"]

    async def wait_for_tools(self, caller: Caller, is_listed: Callable[[], bool] | None = None) -> None:
        """Wait while a server that has never listed its tools is starting, or until `is_listed` returns True."""
        await wait_for_tools(caller, self._deps, is_listed)

    def find_tool(self, name: str) -> Tool | None:
        """Return the server's tool of this name, whoever may use it."""
        entry = self._deps.registry.find(name)
        return entry.tool if entry else None

    def can_search(self, caller: Caller, model: str, app_tools: Sequence[Tool] = ()) -> bool:
        """Return whether a run in a new conversation could search the web, at the model's provider or with a tool."""
        start = self.build_start(caller, (), model=model, web_search="auto", app_tools=app_tools)
        search = plan_search(start, State(), self._deps).search
        return search is not None and search.where != "off"

    def unavailable_tools(self, caller: Caller) -> list[Tool]:
        """Return the tools that this caller may use once their servers run again."""
        return self._deps.registry.unavailable_tools(caller)

    def describe_missing_tool(self, name: str, caller: Caller) -> Problem:
        """Return why there is no such tool for this caller: its server does not offer it now, or nobody has it."""
        return self._deps.registry.describe_missing_tool(name, [tool.name for tool in self.list_tools(caller)], caller)

    def list_taken_names(self, names: Iterable[str], caller: Caller) -> list[str]:
        """Return the names that the server's own tools have: an application's tool of such a name is not offered."""
        return [name for name in names if self._deps.registry.is_taken(name, caller)]

    def on_tools_changed(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` whenever the server's tools change. Return a function that unsubscribes it."""
        listeners = self._deps.registry.listeners
        listeners.append(listener)
        return lambda: listeners.remove(listener)

    def find_servers(self, caller: Caller, capability: str) -> list[str]:
        """Return the MCP servers with this capability that have a tool for this caller, or no tools at all."""
        usable = {tool.server for tool in self._deps.registry.usable_tools(caller)}
        offering = self.mcp_proxy.find_servers(capability, caller)
        return [server for server, has_tools in offering.items() if server in usable or not has_tools]

    async def list_conversations(
        self,
        caller: Caller,
        *,
        text: str = "",
        after: ListPosition | None = None,
        limit: int = 50,
        everyone: bool = False,
        unlisted: bool = False,
    ) -> Sequence[ConversationCard]:
        """Return the caller's conversations, newest change first.

        `everyone` includes those of other users and needs a role that may see them. `unlisted` includes conversations
        that a program made for one call.
        """
        if everyone:
            _require_overseer(caller)
        if not everyone and not caller.user:
            return ()  # an empty user would select the conversations of everybody
        user = "" if everyone else caller.user
        return await self._store.cards(
            CatalogQuery(tenant=caller.tenant, user=user, text=text, after=after, limit=limit, unlisted=unlisted)
        )

    async def require_conversation(
        self, conversation: str, caller: Caller, permission: Literal["see", "decide", "own"] = "own"
    ) -> ConversationCard:
        """Return the card of a conversation in which this caller has the permission. Raises NotFound otherwise."""
        card = await self._store.card(conversation)
        if card is not None:
            owner = Caller(user=card.user, tenant=card.tenant)
            allowed = {"see": caller.may_see, "decide": caller.may_decide_for, "own": caller.owns}[permission]
            if allowed(owner):
                return card
        # The same error whether the conversation is missing or another user's: it must not reveal which ids exist.
        raise NotFound(f"there is no conversation {conversation[:80]!r}")

    async def read_audit(self, query: AuditQuery) -> Sequence[AuditEntry]:
        """Return a page of the audit log. Permission is not checked here."""
        tenant = None if query.tenant is None else clean_reference(query.tenant)
        return await self._store.read_audit(replace(query, tenant=tenant, actor=clean_reference(query.actor)))

    def audit_tools(self, caller: Caller) -> ToolAudit:
        """Return the tools that this caller is offered, and those that would run for it."""
        return audit_tools(self._deps.registry, self._deps.policy, caller)

    def explain_access(self, caller: Caller, tool: str) -> AccessExplanation:
        """Return why a caller may or may not use a tool. Raises NotFound if there is no such tool."""
        explanation = self._deps.policy_check.explain(caller, tool)
        if explanation is None:
            raise NotFound(f"there is no tool {tool[:80]!r}")
        return explanation

    async def find_unreadiness(self) -> str:
        """Return why this process is not ready, without paths; empty if it is ready."""
        return STOPPING if self._deps.leaving else await self._probe.find_problem()

    async def find_store_problem(self) -> str:
        """Return why the store accepts no write, without paths; empty if it does."""
        return await self._probe.find_problem()

    def warnings(self) -> list[str]:
        """Return the warnings of the venues, for operators."""
        return self._deps.registry.warnings()

    async def _delete(self, conversation: str, command: Delete) -> None:
        """Delete a conversation and stop what runs in it. Its log is not read, so that a damaged one can be deleted."""
        await self.require_conversation(conversation, command.by)
        async with self.auditor.record("conversation.delete", conversation, by=command.by):
            await self._owner.delete(conversation, NotFound("the conversation was deleted"))

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
        if record := await self.find_request(request):
            return record
        if self._deps.draining:
            raise Unavailable(STOPPING)
        results = await self.encode_results(conversation, answers, by)
        # Encoding may have stored large results meanwhile. Deciding the command checks again whether each call still
        # waits: another device may have delivered first.
        return await self.submit_once(conversation, Deliver(by=by, results=tuple(results), request=request))

    async def encode_results(
        self, conversation: str, answers: Mapping[str, Value | Failure], by: Caller
    ) -> Sequence[Result]:
        """Return the application's results for calls that wait for it, as the log holds them. Raises Refused."""
        state = await self.view(conversation)
        calls = {call_id: self._require_awaited(state, call_id, by) for call_id in answers}
        unwrap = self._deps.unwrap_delivered
        return [
            await self._deps.result_encoder.encode(call.call, tool, unwrap(answers[call_id]), conversation=conversation)
            for call_id, (call, tool) in calls.items()
        ]

    async def has_result(self, conversation: str, call_id: str, text: str) -> bool | None:
        """Return whether the history has this text as the result of a call; None if it has no result of the call."""
        history = (await self.view(conversation)).full_history
        position = history.find(result_id(call_id))
        result = None if position is None else history[position]
        if not isinstance(result, Result):
            return None
        return await self._deps.result_encoder.has_text(result, text, conversation)

    def _require_awaited(self, state: State, call_id: str, by: Caller) -> tuple[CallState, Tool]:
        """Return a call that waits for this caller's result, and its tool. Raises Refused before anything is stored."""
        call = state.calls.get(call_id)
        tool = self._find_tool(call, state) if call else None
        if call is None or tool is None:
            raise Refused(f"call {call_id[:80]!r} does not wait for a result: it has ended or never was")
        trial = build_failed_result(call.call, "error", Problem(error="", error_type=""), 0.0)
        decide(state, Deliver(by=by, results=(trial,)), self._deps.clock.now())
        return call, tool

    async def follow(
        self, conversation: str, after: Cursor | None = None, *, include_argument_deltas: bool = True
    ) -> Reader:
        """Return a reader of the entries after the cursor, or from now on, and of everything that follows.

        Detach the reader when done. Argument deltas are skipped unless `include_argument_deltas` is set.
        """
        if self._deps.draining:
            raise Unavailable(STOPPING)
        return await self._owner.views.follow(conversation, after, include_argument_deltas=include_argument_deltas)

    async def read_entries(self, conversation: str, *, after: int = 0, until: int = 0) -> Sequence[Entry]:
        """Return the stored entries after number `after` and up to `until`, or up to the last."""
        return await self._store.read(conversation, after, max(0, until - after))

    async def read_entry(self, conversation: str, seq: int) -> Entry | None:
        """Return the stored entry of that number, or None if there is none."""
        entries = await self.read_entries(conversation, after=seq - 1, until=seq)
        return entries[0] if entries else None

    async def read_blob(self, conversation: str, handle: str) -> bytes | None:
        """Return a whole result, or its form in the venue's own format, by a handle of its Result."""
        return await self._store.get_blob(conversation, handle)

    async def read_original(self, conversation: str, call_id: str) -> bytes | None:
        """Return the result of a call as it was before secrets were replaced; None if nothing was."""
        return await self._store.get_blob(conversation, build_original_handle(call_id))

    def redact_items(self, items: Sequence[Item]) -> tuple[Item, ...]:
        """Return the items of an application with redacted results."""
        return self._deps.redactor.redact_items(items)

    async def find_runs(self, correlation_id: str) -> Sequence[tuple[str, str]]:
        """Return the conversations and runs with this correlation id. Permission is not checked here."""
        return await self._store.find_runs(correlation_id)

    async def list_open_conversations(self, caller: Caller, *, everyone: bool = False) -> Sequence[ConversationCard]:
        """Return up to MAX_OPEN conversations with an open run, among those that this caller may see."""
        if everyone:
            _require_overseer(caller)
        if not everyone and not caller.user:
            return ()  # an empty user would select the conversations of everybody
        return await self._store.list_open(caller.tenant, "" if everyone else caller.user, MAX_OPEN)

    async def list_waiting_conversations(self, caller: Caller) -> Sequence[ConversationCard]:
        """Return up to MAX_OPEN conversations of the tenant with an open run, for the calls that this caller decides.

        Permission is not checked here: it differs from call to call.
        """
        return await self._store.list_open(caller.tenant, "", MAX_OPEN)

    async def read_figures(
        self, caller: Caller, since: float, until: float, *, points: int, everyone: bool = False
    ) -> Sequence[tuple[float, bytes]]:
        """Return the encoded figures of the caller's runs in a period, in steps that show it in that many points.

        `everyone` includes the runs of other users and needs a role that may see them.
        """
        if everyone:
            _require_overseer(caller)
        if not everyone and not caller.user:
            return ()  # an empty user would select the figures of everybody
        step_s = select_step(until - since, points)
        return await self._figures.read(caller.tenant, "" if everyone else caller.user, step_s, since)

    def find_only_call(self, server: str) -> str:
        """Return the id of the call that runs on an MCP server now; empty if none or several run there."""
        running = [(call, journal.state) for journal in self._owner for call in journal.state.calls_in("running")]
        call_ids = [
            call.call.id
            for call, state in running
            if (tool := self._find_tool(call, state)) is not None and tool.server == server
        ]
        return call_ids[0] if len(call_ids) == 1 else ""

    async def measure_load(self) -> Load:
        """Return the current load. Waiting runs are counted in the store: most of them are in no process's memory."""
        states = [journal.state for journal in self._owner]
        counts = await self._store.count_open(self._deps.clock.now())
        return Load(
            running=sum(state.run is not None and state.run.suspended_at is None for state in states),
            waiting=counts.waiting,
            queued=sum(len(state.queue) for state in states),
            open_streams=sum(journal.readers.attached for journal in self._owner) + self._owner.views.open_streams,
        )

    async def view(self, conversation: str) -> State:
        """Return the state of a conversation without claiming it; an empty state if it does not exist."""
        return await self._owner.views.read_state(conversation)

    @property
    def replica(self) -> str:
        """Return the id of this process among those that share the store; empty if no others do."""
        return self._store.replica if self._store.is_shared else ""

    def stop_claiming(self) -> None:
        """Say that this process is not ready, and leave due work to others. Requests are still served."""
        self._deps.leaving = True
        self._due_work.stop()

    async def close(self, grace_s: float) -> None:
        """Start nothing new, give running work `grace_s` to end, then cancel it. The next process resumes such work."""
        self._deps.leaving = True
        self._due_work.stop()
        await self._owner.close(grace_s)
        await self._figures.close()
        await self.failed_sign_ins.close()
        await self.refused_attempts.close()
        self._replicas.close()

    def _find_conversation_owner(self, conversation: str) -> Caller | None:
        journal = self._owner.find_journal(conversation)
        return journal.state.owner if journal is not None else None

    def _find_tool(self, call: CallState, state: State) -> Tool | None:
        entry = self._deps.registry.lookup(call, state)
        return entry.tool if entry else None


async def _check_in_pieces(command: Command) -> None:
    """Raise Invalid for a command that could not be read back from the log.

    A long input is checked in pieces, so that other tasks can run in between.
    """
    items = command.input if isinstance(command, Start) else command.items if isinstance(command, Fork) else ()
    if len(items) <= MAX_ITEMS_PER_CHECK:
        check_encodable(command)
        return
    check_encodable(replace(command, input=()) if isinstance(command, Start) else replace(command, items=()))
    for start in range(0, len(items), MAX_ITEMS_PER_CHECK):
        await asyncio.sleep(0)
        check_items(items[start : start + MAX_ITEMS_PER_CHECK])


def _require_overseer(caller: Caller) -> None:
    """Raise Forbidden for a caller who may see only their own conversations."""
    if not caller.may_see(Caller(user="", tenant=caller.tenant)):
        raise Forbidden("the conversations of other users are listed for operators and approvers only")
