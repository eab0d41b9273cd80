"""Which tools there are, where each runs, and which of them a caller is offered.

It decides nothing about permission: the policy does. An offer is the same object as long as nothing changed, so that
what was encoded for it can be used again.
"""

import hashlib
import itertools
import logging
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolyard.codec import check_encodable
from toolyard.core.caller import Caller
from toolyard.core.conversation_settings import Settings
from toolyard.core.errors import Invalid, Misconfigured
from toolyard.core.events import Decision
from toolyard.core.items import Problem
from toolyard.core.limits import Budget
from toolyard.core.ports import AuthorizeHook, Monitored, Offer, Policy, PolicyRequest, ToolHooks, Venue, Verdict
from toolyard.core.run_state import CallState
from toolyard.core.state import State
from toolyard.core.templates import check_slots
from toolyard.core.tools import NAME_PATTERN, Tool, hash_definition
from toolyard.core.web_search import SEARCH_TOOL
from toolyard.engine.tool_selection.caller_tools import Availability, RegisteredTool, ToolTable, ToolTables
from toolyard.engine.tool_selection.offers import ToolSelector
from toolyard.engine.tool_selection.web_search import NO_SEARCH_PLAN, SearchPlan, SearchPlanner, SearchRequest
from toolyard.tool_index.find_tools_result import estimate_tool_bytes

if TYPE_CHECKING:  # loaded by name, where it is wired: typed functions do without
    from toolyard.engine.argument_validation import Schemas

MAX_OFFERS = 512
TOO_MANY_TOOLS = Offer(tools=(), digest="", hashes={})
"""Stands for an offer of more tools than are shown."""
_log = logging.getLogger("toolyard.registry")


class Registry:
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
        """What providers run themselves: such a tool may have the name of another."""
        self._more_native = False
        """Whether providers run more than a search."""
        self._search_tools: list[str] = []
        self._authorize_hooks: dict[str, AuthorizeHook] = {}
        self._venues: list[Venue] = []
        self._tables = ToolTables(self._try_register)
        self._version = 0
        self.listeners: list[Callable[[], None]] = []
        """Told when the tools are others than before."""
        self._offers: dict[object, Offer] = {}
        self._selector = ToolSelector(budget)
        self._indexed: object = None

    def add(self, venue: Venue, *, on_demand: Availability = "always") -> None:
        for tool in venue.tools():
            entry = RegisteredTool(
                tool=tool, venue=venue, hooks=venue.hooks(tool.name), hash=hash_definition(tool), on_demand=on_demand
            )
            there = self._native if tool.venue == "provider" else self._tools
            self._check(entry, there)
            there[tool.name] = entry
            if entry.hooks.authorize:
                self._authorize_hooks[tool.name] = entry.hooks.authorize
        self._venues.append(venue)
        self._tables.add(venue)
        self._on_change()

    def refresh(self, venue: Venue) -> None:
        """Take what a venue lists now in place of what it listed before. What cannot be offered is left out, and told.

        What is as it was stays the same entry, and in the venue's order: an offer of the same tools stays the same.
        """
        kept = {name: entry for name, entry in self._tools.items() if entry.venue is not venue}
        for tool in venue.tools():
            before = self._tools.get(tool.name)
            if before is not None and before.venue is venue and before.tool is tool:
                kept[tool.name] = before
                continue
            if (entry := self._try_register(tool, venue, kept)) is not None:
                kept[tool.name] = entry
        self._tools = kept
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
        for told in list(self.listeners):
            told()

    @property
    def schemas(self) -> "Schemas":
        """Made when the first tool comes that has only a schema to hold arguments to."""
        self._schemas = self._schemas or self._make_schemas()
        return self._schemas

    def validate(self, entry: RegisteredTool, arguments: dict[str, object]) -> Problem | None:
        """What is wrong with the arguments, field by field."""
        check = entry.hooks.validate
        return check(arguments) if check else self.schemas.validate(entry.tool, entry.hash, arguments)

    def names(self) -> list[str]:
        return list(self._tools)

    def usable_tools(self, caller: Caller) -> list[Tool]:
        """What this caller may use in a conversation where everything is enabled."""
        ours = [
            entry.tool
            for entry in self._table_for(caller).values()
            if entry.on_demand == "always" and not find_denial(entry.hooks.authorize, caller)
        ]
        return self._filter_permitted((*ours, *self.native_tools()), caller)

    def unavailable_tools(self, caller: Caller) -> list[Tool]:
        """Return what this caller may use once its servers run again."""
        return self._filter_permitted(self._tables.unavailable_tools(caller), caller)

    def _filter_permitted(self, tools: Iterable[Tool], caller: Caller) -> list[Tool]:
        questions = (PolicyRequest(tool=tool, caller=caller, settings=Settings()) for tool in tools)
        return [question.tool for question in questions if self._policy.judge(question).decision != "deny"]

    def native_tools(self) -> list[Tool]:
        """What the provider of the usual model runs itself."""
        return self._search_planner.native_tools(entry.tool for entry in self._native.values())

    def list_registered(self, caller: Caller) -> tuple[list[RegisteredTool], list[tuple[Tool, Venue]]]:
        """What is registered as this caller gets it; and what venues list besides, which could not be registered."""
        refused = [(tool, venue) for venue in self._venues for tool in venue.tools() if tool.name not in self._tools]
        return list(self._table_for(caller).values()), refused

    def warnings(self) -> list[str]:
        """Return what the venues say that is wrong with them."""
        venues = {id(entry.venue): entry.venue for entry in self._tools.values()}
        return [line for venue in venues.values() if isinstance(venue, Monitored) for line in venue.warnings()]

    def find(self, name: str, app_tools: Iterable[Tool] = (), caller: Caller | None = None) -> RegisteredTool | None:
        """The tool of that name: the server's own, then the application's, then one that providers run.

        It is as this caller gets it; without a caller, as all do.
        """
        return self._find_non_native(name, app_tools, caller) or self._native.get(name)

    def lookup(self, call: CallState, state: State) -> RegisteredTool | None:
        """The tool of a call, as the caller of its run gets it."""
        request = state.run.request if state.run else None
        return self.find(call.call.tool, request.app_tools, request.caller) if request else self.find(call.call.tool)

    def is_taken(self, name: str, caller: Caller) -> bool:
        """Whether the server has a tool of its own by that name, as far as this caller may know."""
        return name in self._table_for(caller)

    def _find_non_native(self, name: str, app_tools: Iterable[Tool], caller: Caller | None) -> RegisteredTool | None:
        """The tool of that name that runs anywhere but at a provider."""
        if found := (self._table_for(caller) if caller else self._tools).get(name):
            return found
        app_tool = next((tool for tool in app_tools if tool.name == name), None)
        if app_tool is None:
            return None
        return RegisteredTool(tool=app_tool, venue=self._client, hooks=ToolHooks(), hash=hash_definition(app_tool))

    def check_app_tools(self, tools: Sequence[Tool]) -> None:
        """Raises Misconfigured for an application's tool that cannot be offered."""
        seen: set[str] = set()
        for tool in tools:
            self._check_name(tool, tool.name in seen)
            seen.add(tool.name)
            self.schemas.compile(tool, hash_definition(tool))

    def build_offer(self, state: State) -> Offer:
        """The tools for the next turn of this conversation's run."""
        run = state.run
        if run is None or run.request.tool_choice == "none":
            return self._make_offer(())
        caller = run.request.caller
        sought = self.web_search_plan(state)
        gated = self._list_denied(caller) | sought.left_out
        basis = (
            self._version,
            caller,
            self._tables.caller_tools(caller),
            effective_settings(state).tools,
            state.has_handles,
            gated,
            sought,
        )
        key: object = (basis, run.id) if run.request.app_tools else basis
        if self._policy.cacheable and (offer := self._offers.get(key)):
            return offer if offer is not TOO_MANY_TOOLS else self._build_narrowed_offer(key, state, gated, sought)
        few = [] if sought.alone else self._list_within_budget(state, gated)
        if few is None:
            self._cache_offer(key, TOO_MANY_TOOLS)
            return self._build_narrowed_offer(key, state, gated, sought)
        app_tools = [] if sought.alone else self._list_app_tools(state, gated)
        return self._cache_offer(key, self._make_offer([*few, *app_tools], sought))

    def web_search_plan(self, state: State) -> SearchPlan:
        """Where the searches of this conversation's run go, and what its provider runs itself."""
        run = state.run
        wish = self._search_planner.choose_mode(run.request.web_search or run.settings.web_search) if run else ""
        if run is None or not (wish or self._more_native):
            return NO_SEARCH_PLAN
        request, gated = run.request, self._list_denied(run.request.caller)

        def judge(tool: Tool) -> Decision:
            return self._policy.judge(self.build_policy_request(tool, state, None)).decision

        table = self._table_for(request.caller)
        apart = (tools.tools.items() for tools in self._tables.caller_tools(request.caller))
        personal = (name for name, tool in itertools.chain(*apart) if tool and self._search_planner.is_search(tool))
        names = dict.fromkeys((*self._search_tools, *personal))
        ours = [table[name].tool for name in names if name in table and name not in gated]
        return self._search_planner.plan(
            SearchRequest(
                model=run.model,
                mode=wish,
                native=[entry.tool for entry in self._native.values()],
                search_tools=[*ours, *filter(self._search_planner.is_search, request.app_tools)],
                has_others=lambda: self._has_other_tools(state, gated),
                judge=judge,
            )
        )

    def _list_denied(self, caller: Caller) -> frozenset[str]:
        return frozenset(name for name, gate in self._authorize_hooks.items() if find_denial(gate, caller))

    def _has_other_tools(self, state: State, gated: Container[str]) -> bool:
        """Whether any tool would be offered that is no search."""
        table = self._table_for(get_caller(state))
        entries = (entry for name, entry in table.items() if name not in gated)
        every = itertools.chain(self._list_app_tools(state), entries)
        return any(not self._search_planner.is_search(entry.tool) and self._is_offered(entry, state) for entry in every)

    def _list_within_budget(self, state: State, gated: Container[str]) -> list[RegisteredTool] | None:
        """All that may be used, unless that is more than the budget."""
        few, left = list[RegisteredTool](), self._selector.budget.schema_bytes
        for name, entry in self._table_for(get_caller(state)).items():
            if name in gated or not self._is_offered(entry, state):
                continue
            few.append(entry)
            left -= estimate_tool_bytes(entry.tool)
            if left < 0 or len(few) > self._selector.budget.tools:
                return None
        return few

    def _build_narrowed_offer(self, key: object, state: State, gated: Container[str], sought: SearchPlan) -> Offer:
        """Some of very many. The same object as long as they are the same."""
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
            return entry.tool if entry and name not in gated and self._is_offered(entry, state, many=True) else None

        whole = dict.fromkeys(entry.tool.name for entry in self._list_app_tools(state, gated))
        names = self._selector.select_names(state, usable, whole)
        entries = (self._find_non_native(name, app_tools, caller) for name in names)
        offer = self._make_offer([entry for entry in entries if entry], sought)
        return self._cache_offer((key, offer.digest), offer)

    def search(self, query: str, caller: Caller, allowed: Callable[[Tool], bool]) -> list[Tool]:
        """The tools that fit some words best, as this caller gets them, of those that may be used."""
        self._update_index(caller)
        return self._selector.search(query, allowed)

    def may_use(self, tool: Tool, state: State) -> bool:
        """Whether this conversation's caller may use one of the yard's tools, as things stand."""
        entry = self._table_for(get_caller(state)).get(tool.name)
        if entry is None or state.run is None or find_denial(entry.hooks.authorize, state.run.request.caller):
            return False
        return self._is_offered(entry, state) and tool.name not in self.web_search_plan(state).left_out

    def _update_index(self, caller: Caller) -> None:
        """Only what is another for this caller than for the one before is read anew."""
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
        wanted = {"always": True, "cut": state.has_handles, "many": many}
        if not wanted[entry.on_demand]:
            return False
        return self._policy.judge(self.build_policy_request(entry.tool, state, None)).decision != "deny"

    def _list_app_tools(self, state: State, gated: Container[str] = ()) -> list[RegisteredTool]:
        tools = state.run.request.app_tools if state.run else ()
        table = self._table_for(get_caller(state)) if tools else self._tools
        wanted = (tool.name for tool in tools if tool.name not in table and tool.name not in gated)
        found = (self._find_non_native(name, tools, None) for name in wanted)
        return [entry for entry in found if entry and self._is_offered(entry, state)]

    def _make_offer(self, elsewhere: Sequence[RegisteredTool], sought: SearchPlan = NO_SEARCH_PLAN) -> Offer:
        """A provider must be told of its own tools before it can use any: they are always shown, and first.

        A name stands for one tool: where another has it, the provider's is left out.
        """
        taken = {entry.tool.name for entry in elsewhere} if sought.native else ()
        entries = [*(self._native[name] for name in sought.native if name not in taken), *elsewhere]
        hashes = {entry.tool.name: entry.hash for entry in entries}
        digest = hashlib.blake2b("".join(f"{k}{v}" for k, v in hashes.items()).encode(), digest_size=8).hexdigest()
        key, tools = (digest, sought.note, sought.summary), tuple(entry.tool for entry in entries)
        return self._offers.get(key) or self._cache_offer(
            key, Offer(tools=tools, digest=digest, hashes=hashes, note=sought.note, search=sought.summary)
        )

    def _cache_offer(self, key: object, offer: Offer) -> Offer:
        if len(self._offers) >= MAX_OFFERS:
            self._offers.clear()
        self._offers[key] = offer
        return offer

    def _check(self, entry: RegisteredTool, others: Mapping[str, RegisteredTool]) -> None:
        self._check_name(entry.tool, entry.tool.name in others)
        try:
            check_encodable(entry.tool)
            check_slots(entry.tool)
        except Invalid as error:
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
    """What the run began with; but a tool that was disabled since is disabled at once."""
    run, now = state.run, state.settings
    if run is None or run.settings is now or now.tools is None:
        return now if run is None else run.settings
    began = run.settings.tools
    return replace(run.settings, tools=now.tools if began is None else began & now.tools)


def find_denial(authorize: AuthorizeHook | None, caller: Caller) -> Verdict | None:
    """The denial of a tool's own check, if it denies. One that fails denies, and the log says why."""
    if authorize is None:
        return None
    try:
        verdict = authorize(caller)
        return verdict if verdict is not None and verdict.decision == "deny" else None
    except Exception as error:
        _log.exception("a tool's own check failed; denied")
        return Verdict("deny", f"the tool's own check failed: {type(error).__name__}")
