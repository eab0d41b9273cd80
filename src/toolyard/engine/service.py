"""What a surface may ask of the engine: submit a command, follow a conversation, look at its state, see what there is.

It does not know any wire protocol, nor how a conversation is driven.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from msgspec.structs import replace

from toolyard.codec import check_encodable, check_items
from toolyard.core.caller import Caller
from toolyard.core.commands import Change, Command, Deliver, Start
from toolyard.core.conversation_settings import Settings, SettingsChange
from toolyard.core.cursor import Cursor
from toolyard.core.decide import decide
from toolyard.core.errors import (
    Forbidden,
    Invalid,
    NotFound,
    RateLimited,
    Refused,
    Unavailable,
)
from toolyard.core.events import Entry
from toolyard.core.items import Item, Problem
from toolyard.core.limits import Limits
from toolyard.core.mcp_client import McpClient
from toolyard.core.model_cards import ModelCard
from toolyard.core.notes import to_notes
from toolyard.core.ports import Clock, Failure, McpProxy, Value
from toolyard.core.prices import Price
from toolyard.core.results import build_failed_result
from toolyard.core.run_state import CallState
from toolyard.core.state import State
from toolyard.core.store import Allowance, CatalogQuery, ConversationCard, ListPosition, Store
from toolyard.core.texts import CustomTexts
from toolyard.core.tools import Tool
from toolyard.core.web_search import SearchMode
from toolyard.engine.command_checks import check_command
from toolyard.engine.dependencies import Deps
from toolyard.engine.journal import Observe
from toolyard.engine.ownership import STOPPING, Owner
from toolyard.engine.readers import Reader
from toolyard.engine.readiness import StoreProbe
from toolyard.engine.tool_selection.audit import ToolAudit, audit_tools
from toolyard.observability.metrics import Load, Metrics
from toolyard.observability.run_log import RunLog
from toolyard.observability.telemetry import Observers
from toolyard.observability.wire_log import WireLog

MAX_ITEMS_PER_CHECK = 250
"""Items that are checked before others get their turn: well under a millisecond."""
MAX_OPEN = 200


class Service:
    def __init__(
        self, deps: Deps, store: Store, tasks: asyncio.TaskGroup, mcp_proxy: McpProxy, observers: Sequence[Observe] = ()
    ) -> None:
        self._deps = deps
        self.mcp_proxy = mcp_proxy
        self._store = store
        self.metrics = Metrics(lambda tool: deps.registry.find(tool) is not None)
        observe = Observers(RunLog().observe, self.metrics.observe, *observers).observe
        self._owner = Owner(deps, store, tasks, observe)
        self._probe = StoreProbe(store, tasks)

    async def start(self) -> None:
        """Take up every run that an earlier process left open, and keep watch over waits."""
        self._owner.start()

    async def submit(self, conversation: str, command: Command) -> None:
        """Have a command decided. When this returns its events are stored. Raises Refused or Invalid."""
        if self._deps.draining:
            raise Unavailable(STOPPING)
        await _check_in_pieces(command)
        journal = await self._owner.open_journal(conversation)
        check_command(command, journal.state, self._deps)
        events = decide(journal.state, command, self._deps.clock.now())
        run_id = command.run_id if isinstance(command, Start) else ""
        journal.emit(*events, run=run_id, correlation_id=command.correlation_id)
        self._owner.wake(journal)
        await journal.wait_committed()

    async def change(
        self, conversation: str, by: Caller, edit: Callable[[Settings], SettingsChange], *, correlation_id: str = ""
    ) -> Settings:
        """Change the settings from what they are at this moment: of two who change at once, both count."""
        settings = (await self._owner.open_journal(conversation)).state.settings
        change = edit(settings)
        await self.submit(conversation, Change(by=by, correlation_id=correlation_id, change=change))
        return change.apply_to(settings)

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
    ) -> Start:
        """A Start with an id of its own and what this yard gives by default. Raises Invalid for too large a context."""
        mint = self._deps.clock
        return Start(
            by=caller,
            correlation_id=correlation_id or mint.new_id("trace"),
            run_id=mint.new_id("run"),
            input=tuple(input),
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
        """Those of the caller's division or the yard's own: from them a conversation's are made."""
        return self._deps.division_for(caller).limits or self._deps.limits

    @property
    def wire_log(self) -> WireLog | None:
        return self._deps.wire_log

    def model_cards(self) -> list[ModelCard]:
        """Return what is known of each model that is configured."""
        return self._deps.model_cards()

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
        own = self._deps.division_for(caller).requests_per_minute
        return self._deps.requests_per_minute if own is None else own

    def list_tools(self, caller: Caller, *, include_native: bool = True) -> list[Tool]:
        """What this caller may use where everything is enabled; `hosted` are tools that only a provider can call."""
        usable = self._deps.registry.usable_tools(caller)
        return usable if include_native else [tool for tool in usable if tool.venue != "provider"]

    def unavailable_tools(self, caller: Caller) -> list[Tool]:
        """Return the tools that this caller may use once their servers run again."""
        return self._deps.registry.unavailable_tools(caller)

    def list_taken_names(self, names: Iterable[str], caller: Caller) -> list[str]:
        """Those that are names of the server's own tools: an application's tool of such a name is not offered."""
        return [name for name in names if self._deps.registry.is_taken(name, caller)]

    def on_tools_changed(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Be told when the yard's tools are others than before; what this gives back ends it."""
        listeners = self._deps.registry.listeners
        listeners.append(listener)
        return lambda: listeners.remove(listener)

    def find_servers(self, caller: Caller, capability: str) -> list[str]:
        """Of the MCP servers that can do this, those that have a tool for this caller, or no tools at all."""
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
        """The caller's own, newest change first; `everyone` is for those who may see what is another user's.

        Those that a program made for one call come only with `unlisted`.
        """
        if everyone:
            _require_overseer(caller)
        if not everyone and not caller.user:
            return ()  # an empty user would select everybody's
        user = "" if everyone else caller.user
        return await self._store.cards(
            CatalogQuery(tenant=caller.tenant, user=user, text=text, after=after, limit=limit, unlisted=unlisted)
        )

    async def require_conversation(
        self, conversation: str, caller: Caller, permission: Literal["see", "decide", "own"] = "own"
    ) -> ConversationCard:
        """The card of a conversation in which this caller may do so much. Raises NotFound for any other."""
        card = await self._store.card(conversation)
        if card is not None:
            owner = Caller(user=card.user, tenant=card.tenant)
            allowed = {"see": caller.may_see, "decide": caller.may_decide_for, "own": caller.owns}[permission]
            if allowed(owner):
                return card
        raise NotFound(f"there is no conversation {conversation[:80]!r}")

    def audit_tools(self, caller: Caller) -> ToolAudit:
        """Return what this caller is offered, and what would be run for it."""
        return audit_tools(self._deps.registry, self._deps.policy, caller)

    async def find_unreadiness(self) -> str:
        """Return why this process can do no work now, in words without paths; empty when it can."""
        return STOPPING if self._deps.draining else await self._probe.find_problem()

    async def find_store_problem(self) -> str:
        """Return why the store takes no write, in words without paths; empty when it does."""
        return await self._probe.find_problem()

    def warnings(self) -> list[str]:
        """Return what an operator should look at in the venues, in words."""
        return self._deps.registry.warnings()

    async def forget(self, conversation: str) -> None:
        """Stop what runs in it and delete it, with everything that belongs to it."""
        await self._store.forget(conversation)  # first: whoever is due to take up a stopped run must not find it
        await self._owner.forget(conversation, NotFound("the conversation was deleted"))

    async def admit(self, caller: Caller) -> Allowance:
        """Count a new request of this caller. Raises RateLimited with the time to come again."""
        per_minute = self.requests_per_minute(caller)
        if not per_minute:
            return Allowance(granted=True, remaining=0, retry_after_s=0.0)
        own = f"/{caller.division}" if self._deps.division_for(caller).requests_per_minute is not None else ""
        allowance = await self._store.take(f"{caller.tenant}/{caller.user}{own}", per_minute, self._deps.clock.now())
        if not allowance.granted:
            said = f"more than {per_minute} requests in a minute; come again in {allowance.retry_after_s:.0f} s"
            raise RateLimited(said, retry_after_s=allowance.retry_after_s, per_minute=per_minute)
        return allowance

    async def deliver(self, conversation: str, answers: Mapping[str, Value | Failure], by: Caller) -> None:
        """Hand in the application's results for calls that it was given: all of them, or none and Refused.

        Refused is any but the first result for a call.
        """
        if self._deps.draining:
            raise Unavailable(STOPPING)
        journal = await self._owner.open_journal(conversation)
        calls = {call_id: self._require_awaited(journal.state, call_id, by) for call_id in answers}
        unwrap = self._deps.unwrap_delivered
        results = [
            await self._deps.result_encoder.encode(call.call, tool, unwrap(answers[call_id]), conversation=conversation)
            for call_id, (call, tool) in calls.items()
        ]
        journal = await self._owner.open_journal(
            conversation
        )  # another device may have been first while results were kept
        commands = [check_encodable(Deliver(by=by, result=result)) for result in results]
        now = self._deps.clock.now()
        journal.emit(*(event for command in commands for event in decide(journal.state, command, now)))
        self._owner.wake(journal)
        await journal.wait_committed()

    def _require_awaited(self, state: State, call_id: str, by: Caller) -> tuple[CallState, Tool]:
        """The call, if this caller may hand in its result now: asked before anything is kept. Raises Refused."""
        call = state.calls.get(call_id)
        tool = self._find_tool(call, state) if call else None
        if call is None or tool is None:
            raise Refused(f"call {call_id[:80]!r} does not wait for a result: it has ended or never was")
        trial = build_failed_result(call.call, "error", Problem(error="", error_type=""), 0.0)
        decide(state, Deliver(by=by, result=trial), self._deps.clock.now())
        return call, tool

    async def follow(
        self, conversation: str, after: Cursor | None = None, *, include_argument_deltas: bool = True
    ) -> Reader:
        """Every entry after the cursor, or from now on, then what happens, without end. Detach it when done.

        Who is not `keen` is not woken for pieces of arguments.
        """
        if self._deps.draining:
            raise Unavailable(STOPPING)
        journal = await self._owner.open_journal(conversation)
        end = journal.readers.stored
        if after is not None and after.seq > end:
            raise Invalid(f"the place {str(after)!r} is beyond the end of this conversation's log, which is at {end}")
        return journal.follow(Cursor(end) if after is None else after, include_argument_deltas=include_argument_deltas)

    async def read_entries(self, conversation: str, *, after: int = 0, until: int = 0) -> Sequence[Entry]:
        """The stored entries after one and up to another, or up to the last."""
        return await self._store.read(conversation, after, max(0, until - after))

    async def read_blob(self, conversation: str, handle: str) -> bytes | None:
        """A whole result, or a venue's own form of it, by the handle that its Result has."""
        return await self._store.get(conversation, handle)

    async def find_runs(self, correlation_id: str) -> Sequence[tuple[str, str]]:
        """The conversations and runs that carry this id, whoever may see them."""
        return await self._store.find_runs(correlation_id)

    async def list_open_conversations(self, caller: Caller, *, everyone: bool = False) -> list[ConversationCard]:
        """Those with a run that is at work or waits, as far as this caller may see them; not more than MOST_OPEN."""
        if everyone:
            _require_overseer(caller)
        sees = caller.may_see if everyone else caller.owns
        conversations, _ = await self._store.due(math.inf)
        found: list[ConversationCard] = []
        for conversation in conversations:
            card = await self._store.card(conversation)
            if card is not None and sees(Caller(user=card.user, tenant=card.tenant)):
                found.append(card)
            if len(found) >= MAX_OPEN:
                break
        return found

    def find_only_call(self, server: str) -> str:
        """The one call that runs on an MCP server now; empty if none does, or several."""
        running = [(call, one.state) for one in self._owner for call in one.state.calls_in("running")]
        found = [
            call.call.id
            for call, state in running
            if (tool := self._find_tool(call, state)) is not None and tool.server == server
        ]
        return found[0] if len(found) == 1 else ""

    async def measure_load(self) -> Load:
        """What is going on now. The waiting ones are counted in the store: most of them no process holds."""
        states = [journal.state for journal in self._owner]
        waiting, _ = await self._store.due(math.inf)
        due, _ = await self._store.due(self._deps.clock.now())
        return Load(
            running=sum(state.run is not None and state.run.suspended_at is None for state in states),
            waiting=max(0, len(waiting) - len(due)),
            queued=sum(len(state.queue) for state in states),
            open_streams=sum(journal.readers.attached for journal in self._owner),
        )

    async def state(self, conversation: str) -> State:
        return (await self._owner.open_journal(conversation)).state

    async def close(self, grace_s: float) -> None:
        """Begin nothing new, let running work end for a while, then let go. What was cut off is taken up later."""
        await self._owner.close(grace_s)

    def _find_tool(self, call: CallState, state: State) -> Tool | None:
        entry = self._deps.registry.lookup(call, state)
        return entry.tool if entry else None


async def _check_in_pieces(command: Command) -> None:
    """Raise Invalid for what could not be read back from the log. A long input is checked in pieces: others run."""
    if not isinstance(command, Start) or len(command.input) <= MAX_ITEMS_PER_CHECK:
        check_encodable(command)
        return
    check_encodable(replace(command, input=()))
    for start in range(0, len(command.input), MAX_ITEMS_PER_CHECK):
        await asyncio.sleep(0)
        check_items(command.input[start : start + MAX_ITEMS_PER_CHECK])


def _require_overseer(caller: Caller) -> None:
    """Raises Forbidden for a caller who may see only what is theirs."""
    if not caller.may_see(Caller(user="", tenant=caller.tenant)):
        raise Forbidden("the conversations of other users are listed for operators and approvers only")
