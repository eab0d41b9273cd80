"""The registry of tools: which tools exist, where each runs, and which of them a run is offered.

The policy decides on permission. An offer is the same object as long as nothing changed, so that a wire can use its
encoded form again.
"""

import hashlib
import itertools
import logging
import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from toolyard.codec import check_encodable
from toolyard.core.caller import Caller
from toolyard.core.conversation.events import Decision
from toolyard.core.conversation.run_state import CallState
from toolyard.core.conversation.settings import Settings
from toolyard.core.conversation.state import State
from toolyard.core.errors import Invalid, Misconfigured
from toolyard.core.items import Problem
from toolyard.core.ports import AuthorizeHook, Monitored, Offer, Policy, PolicyRequest, ToolHooks, Venue, Verdict
from toolyard.core.settings.limits import Budget
from toolyard.core.tools.definition import NAME_PATTERN, Tool, hash_definition
from toolyard.core.tools.schema_expansion import UnboundedSchema, measure_schema
from toolyard.core.tools.templates import check_slots
from toolyard.core.tools.web_search_rule import SEARCH_TOOL
from toolyard.engine.tools.caller_tools import Availability, RegisteredTool, ToolTable, ToolTables
from toolyard.engine.tools.offers import ToolSelector
from toolyard.engine.tools.web_search_plan import NO_SEARCH_PLAN, SearchPlan, SearchPlanner, SearchRequest
from toolyard.tool_index.find_tools_result import estimate_tool_bytes

MAX_NAMED = 20
MAX_LETTERS = 64
MAX_OUTAGES = 5


def build_unknown_tool_problem(name: str, offered: Iterable[str], outages: Sequence[str] = ()) -> Problem:
    """Return the problem with the names of the offered tools, the most similar first.

    `outages` are about servers that may have such a tool, as nobody knows their tools yet.
    """
    near = sorted(offered, key=lambda other: -_compute_likeness(name[:MAX_LETTERS].lower(), other.lower()))
    names = ", ".join(near[:MAX_NAMED]) or "none"
    hints = "".join(f". A server whose tools are not known may have it: {text}" for text in outages[:MAX_OUTAGES])
    return Problem(
        error=f"there is no tool named {name[:MAX_LETTERS]!r}; there are: {names}{hints}",
        error_type="unknown_tool",
        details={"tools": near[:MAX_NAMED]},
    )


def _compute_likeness(name: str, other: str) -> float:
    """Return the share of letter pairs that two names have in common."""
    pairs, other_pairs = {*itertools.pairwise(name)}, {*itertools.pairwise(other)}
    return len(pairs & other_pairs) / (len(pairs | other_pairs) or 1)


if TYPE_CHECKING:  # loaded by `app` when a tool first needs it: typed functions bring their own validation
    from toolyard.engine.tools.argument_validation import Schemas

MAX_OFFERS = 512
MAX_TURNS_BEFORE_CLIENT = 2
"""A run that must call a tool of its client is offered no others after so many turns with calls of others."""
TOO_MANY_TOOLS = Offer(tools=(), digest="", hashes={})
"""Cached in place of an offer where there are more tools than the budget allows."""
NO_SETTINGS = Settings()
_log = logging.getLogger("toolyard.registry")


class Registry:
    """The tools of all venues, and the offers that are built from them."""

    def __init__(
        self,
        policy: Policy,
        client: Venue,
        schemas: Callable[[], "Schemas"],
        budget: Budget = Budget(),  # noqa: B008
        search_planner: SearchPlanner | None = None,
    ) -> None:
        self._search_planner = search_planner or SearchPlanner()
        self._make_schemas = schemas
        self._schemas: Schemas | None = None
        self._policy = policy
        self._client = client
        self._tools: dict[str, RegisteredTool] = {}
        self._native: dict[str, RegisteredTool] = {}
        """Tools that providers run themselves. A tool of another venue may have the same name."""
        self._more_native = False
        """Whether there are tools in `_native` besides web search."""
        self._search_tools: list[str] = []
        self._authorize_hooks: dict[str, AuthorizeHook] = {}
        self._venues: list[Venue] = []
        self._tables = ToolTables(self._try_register)
        self._version = 0
        self.listeners: list[Callable[[], None]] = []
        """Called when the registered tools have changed."""
        self._offers: dict[object, Offer] = {}
        self._selector = ToolSelector(budget)
        self._indexed: object = None

    def add(self, venue: Venue, *, on_demand: Availability = "always") -> None:
        """Register the tools of a venue. Raises Misconfigured for a tool that cannot be offered."""
        for tool in venue.tools():
            entry = RegisteredTool(
                tool=tool, venue=venue, hooks=venue.hooks(tool.name), hash=hash_definition(tool), on_demand=on_demand
            )
            table = self._native if tool.venue == "provider" else self._tools
            self._check(entry, table)
            table[tool.name] = entry
            if entry.hooks.authorize:
                self._authorize_hooks[tool.name] = entry.hooks.authorize
        self._venues.append(venue)
        self._tables.add(venue)
        self._on_change()

    def refresh(self, venue: Venue) -> None:
        """Replace the tools of a venue by those that it lists now. A tool that cannot be offered is skipped and logged.

        Unchanged tools keep their entries, in the venue's order, so that an offer of the same tools stays the same.
        """
        tools = {name: entry for name, entry in self._tools.items() if entry.venue is not venue}
        for tool in venue.tools():
            before = self._tools.get(tool.name)
            if before is not None and before.venue is venue and before.tool is tool:
                tools[tool.name] = before
                continue
            if (entry := self._try_register(tool, venue, tools)) is not None:
                tools[tool.name] = entry
        self._tools = tools
        self._on_change()

    def _try_register(self, tool: Tool, venue: Venue, others: Mapping[str, RegisteredTool]) -> RegisteredTool | None:
        entry = RegisteredTool(tool=tool, venue=venue, hooks=venue.hooks(tool.name), hash=hash_definition(tool))
        try:
            self._check(entry, others)
        except Misconfigured as error:
            _log.warning("a tool of the venue %s is not offered: %s", tool.venue, error)
            return None
        return entry

    def _table_for(self, caller: Caller) -> ToolTable:
        return self._tables.table_for(caller, self._tools)

    def _on_change(self) -> None:
        self._version += 1
        self._offers.clear()
        self._tables.clear()
        self._more_native = bool(self._native.keys() - {SEARCH_TOOL})
        self._search_tools = [name for name, entry in self._tools.items() if self._search_planner.is_search(entry.tool)]
        for listener in list(self.listeners):
            listener()

    @property
    def schemas(self) -> "Schemas":
        """Return the schema validators, created for the first tool without a validation hook."""
        self._schemas = self._schemas or self._make_schemas()
        return self._schemas

    def validate(self, entry: RegisteredTool, arguments: dict[str, object]) -> Problem | None:
        """Return what is wrong with the arguments, field by field, or None."""
        check = entry.hooks.validate
        return check(arguments) if check else self.schemas.validate(entry.tool, entry.hash, arguments)

    def names(self) -> list[str]:
        return list(self._tools)

    def usable_tools(self, caller: Caller, settings: Settings = NO_SETTINGS) -> list[Tool]:
        """Return the tools that this caller may use in a conversation with these settings and everything enabled."""
        registered = [
            entry.tool
            for entry in self._table_for(caller).values()
            if entry.on_demand == "always" and not find_denial(entry.hooks.authorize, caller)
        ]
        return self._filter_permitted((*registered, *self.native_tools(settings)), caller)

    def unavailable_tools(self, caller: Caller) -> list[Tool]:
        """Return the tools that this caller may use once their servers run again."""
        return self._filter_permitted(self._tables.unavailable_tools(caller), caller)

    def _filter_permitted(self, tools: Iterable[Tool], caller: Caller) -> list[Tool]:
        requests = (PolicyRequest(tool=tool, caller=caller, settings=Settings()) for tool in tools)
        return [request.tool for request in requests if self._policy.judge(request).decision != "deny"]

    def native_tools(self, settings: Settings = NO_SETTINGS) -> list[Tool]:
        """Return the tools that the provider of a conversation's model, or of the default one, runs itself."""
        native = (entry.tool for entry in self._native.values())
        return self._search_planner.native_tools(native, settings.model, settings.web_search)

    def list_registered(self, caller: Caller) -> tuple[list[RegisteredTool], list[tuple[Tool, Venue]]]:
        """Return the registered tools of this caller, and the listed tools that could not be registered."""
        refused = [(tool, venue) for venue in self._venues for tool in venue.tools() if tool.name not in self._tools]
        return list(self._table_for(caller).values()), refused

    def warnings(self) -> list[str]:
        """Return the warnings of all venues that report any."""
        venues = {id(entry.venue): entry.venue for entry in self._tools.values()}
        return [line for venue in venues.values() if isinstance(venue, Monitored) for line in venue.warnings()]

    def find(self, name: str, app_tools: Iterable[Tool] = (), caller: Caller | None = None) -> RegisteredTool | None:
        """Return the tool of that name: the server's, else the application's, else a provider's.

        The tool is this caller's version of it or, without a caller, everybody's.
        """
        return self._find_non_native(name, app_tools, caller) or self._native.get(name)

    def lookup(self, call: CallState, state: State) -> RegisteredTool | None:
        """Return the tool of a call, in the version of the run's caller."""
        request = state.run.request if state.run else None
        name = call.call.tool
        entry = self.find(name, request.app_tools, request.caller) if request else self.find(name)
        if entry is None or entry.tool.venue != "provider" or entry.tool in self.native_tools(state.settings):
            return entry
        return None  # no provider runs it here

    def lacks_tools(self, state: State) -> bool:
        """Return whether an open call is of a tool that was offered and that is missing or another one here."""
        open_calls = [
            call for call in state.calls_in("requested", "allowed", "running") if call.call.tool in state.offered
        ]
        entries = [(self.lookup(call, state), state.offered[call.call.tool]) for call in open_calls]
        return any(entry is None or entry.hash != offered for entry, offered in entries)

    @property
    def is_starting(self) -> bool:
        """Return whether any server is being started, so that `starts_until` is worth asking."""
        return self._tables.is_starting

    def starts_until(self, caller: Caller, tool: Tool | None = None, *, max_s: float = math.inf) -> float:
        """Return until when the server of this tool may take to start, or those that may have a missing tool; else 0.0.

        `max_s` bounds the time since the start of a server.
        """
        return self._tables.starts_until(caller, tool, max_s)

    def list_offered(self, state: State) -> list[Tool]:
        """Return the tools whose descriptions the model was shown in the current turn, as they are now."""
        request = state.run.request if state.run else None
        entries = (self.find(name, request.app_tools, request.caller) for name in state.offered) if request else ()
        return [entry.tool for entry in entries if entry is not None]

    def describe_missing_tool(self, name: str, offered: Iterable[str], caller: Caller) -> Problem:
        """Return why there is no such tool for this caller: its server does not offer it now, or nobody has it."""
        absence = self._tables.explain_absence(name, caller)
        return absence or build_unknown_tool_problem(name, offered, self._tables.list_outages(caller))

    def is_taken(self, name: str, caller: Caller) -> bool:
        """Return whether the server has a tool of that name for this caller."""
        return name in self._table_for(caller)

    def _find_non_native(self, name: str, app_tools: Iterable[Tool], caller: Caller | None) -> RegisteredTool | None:
        """Return the tool of that name that does not run at a provider."""
        app_tool = next((tool for tool in app_tools if tool.name == name), None)
        entry = (self._table_for(caller) if caller else self._tools).get(name)
        if app_tool is None or (entry is not None and not app_tool.hides_server_tool):
            return entry
        return RegisteredTool(tool=app_tool, venue=self._client, hooks=ToolHooks(), hash=hash_definition(app_tool))

    def check_app_tools(self, tools: Sequence[Tool]) -> None:
        """Raise Misconfigured for an application's tool that cannot be offered."""
        seen: set[str] = set()
        for tool in tools:
            self._check_name(tool, tool.name in seen)
            seen.add(tool.name)
            self.schemas.compile(tool, hash_definition(tool))

    def build_offer(self, state: State) -> Offer:
        """Return the tools for the next turn of this conversation's run."""
        run = state.run
        if run is None or run.request.tool_choice == "none":
            return self._make_offer(())
        caller = run.request.caller
        if run.must_call_client and run.tool_turns >= MAX_TURNS_BEFORE_CLIENT:
            return self._make_offer(self._list_app_tools(state))
        search_plan = self.web_search_plan(state)
        denied = self._list_denied(caller) | search_plan.left_out
        # Everything that an offer depends on. A policy with rules of the user may depend on anything, so its offers are
        # not looked up.
        settings = effective_settings(state)
        basis = (
            self._version,
            caller,
            self._tables.caller_tools(caller),
            settings.tools,
            settings.bound_tools,
            state.has_handles,
            denied,
            search_plan,
        )
        # The application's tools are not hashable and belong to one request: the run's id stands for them.
        key: object = (basis, run.id) if run.request.app_tools else basis
        if self._policy.cacheable and (offer := self._offers.get(key)):
            return offer if offer is not TOO_MANY_TOOLS else self._build_narrowed_offer(key, state, denied, search_plan)
        within_budget = [] if search_plan.alone else self._list_within_budget(state, denied)
        if within_budget is None:
            self._cache_offer(key, TOO_MANY_TOOLS)
            return self._build_narrowed_offer(key, state, denied, search_plan)
        app_tools = [] if search_plan.alone else self._list_app_tools(state, denied)
        return self._cache_offer(key, self._make_offer([*within_budget, *app_tools], search_plan))

    def web_search_plan(self, state: State) -> SearchPlan:
        """Return where the searches of this conversation's run go, and which tools its provider runs itself."""
        run = state.run
        mode = self._search_planner.choose_mode(run.request.web_search or run.settings.web_search) if run else ""
        if run is None or not (mode or self._more_native):
            return NO_SEARCH_PLAN
        request, denied = run.request, self._list_denied(run.request.caller)

        def judge(tool: Tool) -> Decision:
            return self._policy.judge(self.build_policy_request(tool, state, None)).decision

        table = self._table_for(request.caller)
        own_tools = (tools.tools.items() for tools in self._tables.caller_tools(request.caller))
        personal = (name for name, tool in itertools.chain(*own_tools) if tool and self._search_planner.is_search(tool))
        names = dict.fromkeys((*self._search_tools, *personal))
        registered = [table[name].tool for name in names if name in table and name not in denied]
        return self._search_planner.plan(
            SearchRequest(
                model=run.model,
                mode=mode,
                native=[entry.tool for entry in self._native.values()],
                search_tools=[*registered, *filter(self._search_planner.is_search, request.app_tools)],
                has_others=lambda: self._has_other_tools(state, denied),
                judge=judge,
            )
        )

    def _list_denied(self, caller: Caller) -> frozenset[str]:
        return frozenset(name for name, authorize in self._authorize_hooks.items() if find_denial(authorize, caller))

    def _has_other_tools(self, state: State, denied: Container[str]) -> bool:
        """Return whether any tool other than a search tool would be offered."""
        table = self._table_for(get_caller(state))
        entries = (entry for name, entry in table.items() if name not in denied)
        entries_to_offer = itertools.chain(self._list_app_tools(state), entries)
        return any(
            not self._search_planner.is_search(entry.tool) and self._is_offered(entry, state)
            for entry in entries_to_offer
        )

    def _list_within_budget(self, state: State, denied: Container[str]) -> list[RegisteredTool] | None:
        """Return all tools that may be used, or None if they exceed the budget."""
        selected, bytes_left = list[RegisteredTool](), self._selector.budget.schema_bytes
        hidden = {tool.name for tool in state.run.request.app_tools if tool.hides_server_tool} if state.run else ()
        for name, entry in self._table_for(get_caller(state)).items():
            if name in denied or name in hidden or not self._is_offered(entry, state):
                continue
            selected.append(entry)
            bytes_left -= estimate_tool_bytes(entry.tool)
            if bytes_left < 0 or len(selected) > self._selector.budget.tools:
                return None
        return selected

    def _build_narrowed_offer(
        self, key: object, state: State, denied: Container[str], search_plan: SearchPlan
    ) -> Offer:
        """Return an offer of selected tools: the same object as long as the selection is the same."""
        if (
            self._policy.cacheable
            and ToolSelector.is_unchanged(state)
            and (offer := self._offers.get((key, state.offer)))
        ):
            return offer
        app_tools, caller = state.run.request.app_tools if state.run else (), get_caller(state)
        self._update_index(caller)

        def usable(name: str) -> Tool | None:
            entry = self._find_non_native(name, app_tools, caller)
            if entry is None or (name in denied and not entry.tool.hides_server_tool):
                return None
            return entry.tool if self._is_offered(entry, state, many=True) else None

        always = dict.fromkeys(entry.tool.name for entry in self._list_app_tools(state, denied))
        names = self._selector.select_names(state, usable, always)
        entries = (self._find_non_native(name, app_tools, caller) for name in names)
        offer = self._make_offer([entry for entry in entries if entry], search_plan)
        return self._cache_offer((key, offer.digest), offer)

    def search(self, query: str, caller: Caller, allowed: Callable[[Tool], bool]) -> list[Tool]:
        """Return this caller's tools that match the query best, among those that are allowed."""
        self._update_index(caller)
        return self._selector.search(query, allowed)

    def may_use(self, tool: Tool, state: State) -> bool:
        """Return whether this conversation's caller may use one of the server's tools now."""
        entry = self._table_for(get_caller(state)).get(tool.name)
        if entry is None or state.run is None or find_denial(entry.hooks.authorize, state.run.request.caller):
            return False
        return self._is_offered(entry, state) and tool.name not in self.web_search_plan(state).left_out

    def _update_index(self, caller: Caller) -> None:
        """Bring the search index up to date for this caller. Only tools that differ are indexed again."""
        basis = (self._version, self._tables.caller_tools(caller))
        if self._indexed != basis:
            always = (entry.tool for entry in self._table_for(caller).values() if entry.on_demand == "always")
            self._selector.update_index({tool.name: tool for tool in always})
            self._indexed = basis

    def build_policy_request(self, tool: Tool, state: State, arguments: dict[str, object] | None) -> PolicyRequest:
        return PolicyRequest(
            tool=tool,
            caller=get_caller(state),
            settings=effective_settings(state),
            remembered=state.remembered,
            arguments=arguments,
        )

    def _is_offered(self, entry: RegisteredTool, state: State, *, many: bool = False) -> bool:
        available = {"always": True, "cut": state.has_handles, "many": many}
        if not available[entry.on_demand]:
            return False
        return self._policy.judge(self.build_policy_request(entry.tool, state, None)).decision != "deny"

    def _list_app_tools(self, state: State, denied: Container[str] = ()) -> list[RegisteredTool]:
        tools = state.run.request.app_tools if state.run else ()
        table = self._table_for(get_caller(state)) if tools else self._tools
        names = (
            tool.name
            for tool in tools
            if tool.hides_server_tool or (tool.name not in table and tool.name not in denied)
        )
        entries = (self._find_non_native(name, tools, None) for name in names)
        return [entry for entry in entries if entry and self._is_offered(entry, state)]

    def _make_offer(self, elsewhere: Sequence[RegisteredTool], search_plan: SearchPlan = NO_SEARCH_PLAN) -> Offer:
        """Return the offer of these tools, after the provider's own ones, which must be declared to be used at all.

        Where a tool of another venue has the name of a provider's tool, the provider's is left out.
        """
        used_names = {entry.tool.name for entry in elsewhere} if search_plan.native else ()
        entries = [*(self._native[name] for name in search_plan.native if name not in used_names), *elsewhere]
        hashes = {entry.tool.name: entry.hash for entry in entries}
        digest = hashlib.blake2b("".join(f"{k}{v}" for k, v in hashes.items()).encode(), digest_size=8).hexdigest()
        # Also cached by content: different callers and states that lead to the same tools share one object.
        key, tools = (digest, search_plan.note, search_plan.summary), tuple(entry.tool for entry in entries)
        return self._offers.get(key) or self._cache_offer(
            key, Offer(tools=tools, digest=digest, hashes=hashes, note=search_plan.note, search=search_plan.summary)
        )

    def _cache_offer(self, key: object, offer: Offer) -> Offer:
        if len(self._offers) >= MAX_OFFERS:
            self._offers.clear()
        self._offers[key] = offer
        return offer

    def find_defect(self, tool: Tool) -> str:
        """Return why a tool cannot be offered, whatever the names of the others; empty if it can be."""
        entry = RegisteredTool(tool=tool, venue=self._client, hooks=ToolHooks(), hash=hash_definition(tool))
        try:
            self._check(entry, {})
        except Misconfigured as error:
            return str(error).removeprefix(f"tool {tool.name!r}: ")
        return ""

    def _check(self, entry: RegisteredTool, others: Mapping[str, RegisteredTool]) -> None:
        self._check_name(entry.tool, entry.tool.name in others)
        try:
            check_encodable(entry.tool)
            check_slots(entry.tool)
            if entry.hooks.validate is not None:  # else the validator measures it
                measure_schema(entry.tool.parameters)
        except (Invalid, UnboundedSchema) as error:
            raise Misconfigured(f"tool {entry.tool.name!r}: {error}") from None
        if entry.hooks.validate is None:
            self.schemas.compile(entry.tool, entry.hash)

    def _check_name(self, tool: Tool, taken: bool) -> None:
        if not NAME_PATTERN.fullmatch(tool.name):
            raise Misconfigured(
                f"{tool.name[:80]!r} cannot be a tool's name: use 1 to 64 letters, digits, underscores or hyphens"
            )
        if taken:
            raise Misconfigured(f"two tools are named {tool.name!r}: rename one, for example with @tool(name=…)")


def get_caller(state: State) -> Caller:
    return state.run.request.caller if state.run else Caller()


def effective_settings(state: State) -> Settings:
    """Return the settings that the run started with, without the tools that were disabled since."""
    run, current = state.run, state.settings
    if run is None or run.settings is current:
        return current
    return run.settings.without_tools_disabled_in(current)


def find_denial(authorize: AuthorizeHook | None, caller: Caller) -> Verdict | None:
    """Return the denial of a tool's `authorize` hook, or None. A hook that fails denies."""
    if authorize is None:
        return None
    try:
        verdict = authorize(caller)
        return verdict if verdict is not None and verdict.decision == "deny" else None
    except Exception as error:
        _log.exception("a tool's own check failed; denied")
        return Verdict("deny", f"the tool's own check failed: {type(error).__name__}")
