"""Offers: the tools that a turn shows to the model. The policy decides on permission.

An offer is the same object as long as nothing changed, so that a wire can use its encoded form again.
"""

import hashlib
import itertools
import math
from collections.abc import Callable, Container, Mapping, Sequence

from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.conversation.events import Decision
from toolyard.core.conversation.settings import Settings
from toolyard.core.conversation.state import State
from toolyard.core.ports import Offer, Policy, PolicyRequest, Verdict
from toolyard.core.settings.limits import Budget
from toolyard.core.tools.definition import RUN_CODE_NAME, ProviderOptions, Tool, get_approval_terms
from toolyard.core.tools.trust import list_unreviewed_servers
from toolyard.core.tools.web_search_rule import SEARCH_TOOL, SearchRules
from toolyard.engine.tools.caller_tools import RegisteredTool
from toolyard.engine.tools.registry import Registry, find_denial, get_caller
from toolyard.engine.tools.tool_selection import ToolSelector
from toolyard.engine.tools.web_search_plan import NO_SEARCH_PLAN, SearchPlan, SearchRequest
from toolyard.tool_index.find_tools_result import estimate_tool_bytes

MAX_OFFERS = 512
MAX_TURNS_BEFORE_CLIENT = 2
"""A run that must call a tool of its client is offered no others after so many turns with calls of others."""
_NOTHING_DENIED = frozenset[str]()
TOO_MANY_TOOLS = Offer(tools=(), digest="", hashes={})
"""Cached in place of an offer where there are more tools than the budget allows."""


class Offers:
    """Builds the offers of runs from the registered tools."""

    def __init__(self, registry: Registry, policy: Policy, budget: Budget = Budget()) -> None:  # noqa: B008
        self.registry = registry
        self._policy = policy
        self._search_planner = registry.search_planner
        self._offers: dict[object, Offer] = {}
        self._selector = ToolSelector(budget)
        self._indexed: object = None
        registry.listeners.append(self._offers.clear)

    def build(self, state: State) -> Offer:
        """Return the tools for the next turn of this conversation's run."""
        run = state.run
        if run is None or run.request.tool_choice == "none":
            return self._make_offer(())
        caller = run.request.caller
        if run.must_call_client and run.tool_turns >= MAX_TURNS_BEFORE_CLIENT:
            return self._make_offer(self._list_app_tools(state))
        search_plan = self.plan_search(state)
        denied = self._list_denied(caller) | search_plan.left_out
        # Everything that an offer depends on. A policy with rules of the user may depend on anything, so its offers are
        # not looked up.
        settings = effective_settings(state)
        basis = (
            self.registry.version,
            caller,
            self.registry.tables.caller_tools(caller),
            settings.tools,
            settings.bound_tools,
            state.has_handles,
            denied,
            search_plan,
            0.0 if run.started_at >= self.registry.changed_at else run.started_at,
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

    def plan_search(self, state: State) -> SearchPlan:
        """Return where the searches of this conversation's run go, and which tools its provider runs itself."""
        run = state.run
        if run is None:
            return NO_SEARCH_PLAN
        rules = self._search_planner.find_rules(run.started_at)
        mode = run.request.web_search or run.settings.web_search or rules.prefer
        if not (mode or self.registry.has_more_native):
            return NO_SEARCH_PLAN
        request, denied = run.request, self._list_denied(run.request.caller)

        def judge(tool: Tool) -> Decision:
            return self.judge(tool, state, None).decision

        table = self.registry.table_for(request.caller)
        own_tools = (tools.tools.items() for tools in self.registry.tables.caller_tools(request.caller))
        personal = (name for name, tool in itertools.chain(*own_tools) if tool and rules.is_search(tool))
        is_current = rules is self._search_planner.versions.current
        shared = (name for name, entry in table.items() if rules.is_search(entry.tool))
        names = dict.fromkeys((*(self.registry.search_tools if is_current else shared), *personal))
        registered = [table[name].tool for name in names if name in table and name not in denied]
        return self._search_planner.plan(
            SearchRequest(
                model=run.model,
                rules=rules,
                mode=mode,
                native=[entry.tool for entry in self._list_native(None if is_current else rules.options).values()],
                search_tools=[*registered, *filter(rules.is_search, request.app_tools)],
                has_others=lambda: self._has_other_tools(state, denied, rules),
                judge=judge,
            )
        )

    def search(self, query: str, caller: Caller, allowed: Callable[[Tool], bool]) -> list[Tool]:
        """Return this caller's tools that match the query best, among those that are allowed."""
        self._update_index(caller)
        return self._selector.search(query, allowed)

    def may_use(self, tool: Tool, state: State) -> bool:
        """Return whether this conversation's caller may use one of the server's tools now."""
        entry = self.registry.table_for(get_caller(state)).get(tool.name)
        if entry is None or state.run is None or find_denial(entry.hooks.authorize, state.run.request.caller):
            return False
        return self._is_offered(entry, state) and tool.name not in self.plan_search(state).left_out

    def list_offered(self, state: State) -> list[Tool]:
        """Return the tools whose descriptions the model was shown in the current turn, as they are now."""
        request = state.run.request if state.run else None
        entries = (
            (self.registry.find(name, request.app_tools, request.caller) for name in state.offered) if request else ()
        )
        return [entry.tool for entry in entries if entry is not None]

    def build_policy_request(self, tool: Tool, state: State, arguments: dict[str, object] | None) -> PolicyRequest:
        return PolicyRequest(
            tool=tool,
            caller=get_caller(state),
            settings=effective_settings(state),
            remembered=state.remembered,
            arguments=arguments,
            begun_at=state.run.started_at if state.run else math.inf,
        )

    def judge(self, tool: Tool, state: State, arguments: dict[str, object] | None) -> Verdict:
        """Return what the policy says of a tool, or of a call with these arguments, in this conversation's run.

        Rules that were set since the run began count if they are stricter; what they widen holds from the next run on.
        """
        verdict = self._policy.judge(self.build_policy_request(tool, state, arguments))
        earlier = self.find_earlier(tool, state)
        if earlier is None:
            return verdict
        before = self._policy.judge(self.build_policy_request(earlier, state, arguments))
        return verdict.raise_to(replace(before, terms=before.terms or get_approval_terms(earlier)))

    def find_earlier(self, tool: Tool, state: State) -> Tool | None:
        """Return a tool as it was when the run began, if rules were set since."""
        rules, run = self.registry.rules, state.run
        if run is None or run.started_at >= rules.changed_at:
            return None
        entry = self.registry.find(tool.name, caller=get_caller(state))
        return rules.apply_at(entry.listed, run.started_at) if entry else None

    def _list_denied(self, caller: Caller) -> frozenset[str]:
        hooks = self.registry.authorize_hooks
        if not hooks:
            return _NOTHING_DENIED
        return frozenset(name for name, hook in hooks.items() if find_denial(hook, caller))

    def _list_native(self, search_options: ProviderOptions | None) -> Mapping[str, RegisteredTool]:
        """Return the tools that providers run themselves, with other limits of a search if any are given."""
        native = self.registry.native
        if search_options is None or SEARCH_TOOL not in native:
            return native
        return {**native, SEARCH_TOOL: self.registry.limit_search(native[SEARCH_TOOL], search_options)}

    def _has_other_tools(self, state: State, denied: Container[str], rules: SearchRules) -> bool:
        """Return whether any tool other than a search tool would be offered."""
        table = self.registry.table_for(get_caller(state))
        entries = (entry for name, entry in table.items() if name not in denied)
        entries_to_offer = itertools.chain(self._list_app_tools(state), entries)
        return any(not rules.is_search(entry.tool) and self._is_offered(entry, state) for entry in entries_to_offer)

    def _list_within_budget(self, state: State, denied: Container[str]) -> list[RegisteredTool] | None:
        """Return all tools that may be used, or None if they exceed the budget."""
        selected, bytes_left = list[RegisteredTool](), self._selector.budget.schema_bytes
        hidden = {tool.name for tool in state.run.request.app_tools if tool.hides_server_tool} if state.run else ()
        for name, entry in self.registry.table_for(get_caller(state)).items():
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
            entry = self.registry.find_non_native(name, app_tools, caller)
            if entry is None or (name in denied and not entry.tool.hides_server_tool):
                return None
            return entry.tool if self._is_offered(entry, state, many=True) else None

        always = dict.fromkeys(entry.tool.name for entry in self._list_app_tools(state, denied))
        names = self._selector.select_names(state, usable, always)
        entries = (self.registry.find_non_native(name, app_tools, caller) for name in names)
        offer = self._make_offer([entry for entry in entries if entry], search_plan)
        return self._cache_offer((key, offer.digest), offer)

    def _update_index(self, caller: Caller) -> None:
        """Bring the search index up to date for this caller. Only tools that differ are indexed again."""
        basis = (self.registry.version, self.registry.tables.caller_tools(caller))
        if self._indexed != basis:
            always = (entry.tool for entry in self.registry.table_for(caller).values() if entry.on_demand == "always")
            self._selector.update_index({tool.name: tool for tool in always})
            self._indexed = basis

    def _is_offered(self, entry: RegisteredTool, state: State, *, many: bool = False) -> bool:
        if entry.on_demand == "with_handles" and not state.has_handles:
            return False
        if entry.on_demand == "with_many_tools" and not many and not self._has_return_types(state):
            return False
        return self.judge(entry.tool, state, None).decision != "deny"

    def _has_return_types(self, state: State) -> bool:
        """Return whether programs are offered, and it is known of a tool what it returns to them."""
        table = self.registry.table_for(get_caller(state))
        program = table.get(RUN_CODE_NAME)
        if program is None or not any(entry.tool.returns is not None for entry in table.values()):
            return False
        return self.judge(program.tool, state, None).decision != "deny"

    def _list_app_tools(self, state: State, denied: Container[str] = ()) -> list[RegisteredTool]:
        tools = state.run.request.app_tools if state.run else ()
        if not tools:
            return []
        table = self.registry.table_for(get_caller(state))
        names = (
            tool.name
            for tool in tools
            if tool.hides_server_tool or (tool.name not in table and tool.name not in denied)
        )
        entries = (self.registry.find_non_native(name, tools, None) for name in names)
        return [entry for entry in entries if entry and self._is_offered(entry, state)]

    def _make_offer(self, elsewhere: Sequence[RegisteredTool], search_plan: SearchPlan = NO_SEARCH_PLAN) -> Offer:
        """Return the offer of these tools, after the provider's own ones, which must be declared to be used at all.

        Where a tool of another venue has the name of a provider's tool, the provider's is left out.
        """
        used_names = {entry.tool.name for entry in elsewhere} if search_plan.native else ()
        native = self._list_native(search_plan.options)
        entries = [*(native[name] for name in search_plan.native if name not in used_names), *elsewhere]
        hashes = {entry.tool.name: entry.hash for entry in entries}
        digest = hashlib.blake2b("".join(f"{k}{v}" for k, v in hashes.items()).encode(), digest_size=8).hexdigest()
        # Also cached by content: different callers and states that lead to the same tools share one object.
        key, tools = (digest, search_plan.note, search_plan.summary), tuple(entry.tool for entry in entries)
        if (offer := self._offers.get(key)) is not None:
            return offer
        offer = Offer(
            tools=tools,
            digest=digest,
            hashes=hashes,
            note=search_plan.note,
            search=search_plan.summary,
            unreviewed=list_unreviewed_servers(tools),
        )
        return self._cache_offer(key, offer)

    def _cache_offer(self, key: object, offer: Offer) -> Offer:
        if len(self._offers) >= MAX_OFFERS:
            self._offers.clear()
        self._offers[key] = offer
        return offer


def effective_settings(state: State) -> Settings:
    """Return the settings that the run started with, without the tools that were disabled since."""
    run, current = state.run, state.settings
    if run is None or run.settings is current:
        return current
    return run.settings.without_tools_disabled_in(current)
