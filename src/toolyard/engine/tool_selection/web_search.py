"""Where a run's searches go and which of its provider's own tools it gets: finds the facts, and asks the rule.

It does not know how an offer is made of them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import get_args

from msgspec import Struct
from msgspec.structs import asdict

from toolyard.core.errors import Misconfigured
from toolyard.core.events import Decision
from toolyard.core.tools import ProviderOptions, Tool
from toolyard.core.web_search import (
    NO_SEARCH_NOTE,
    SEARCH_TOOL,
    NativeTools,
    SearchChoice,
    SearchFacts,
    SearchMode,
    SearchRules,
    choose_search,
)

ENFORCED_OPTIONS = ("max_uses", "allowed_domains", "blocked_domains")
"""What a search must be held to, where it is set; where the user is, is only a hint."""


class SearchRequest(Struct, frozen=True, kw_only=True):
    """Who asks which model for what, and which tools there are for it."""

    model: str
    mode: SearchMode
    """The request's own, its conversation's or the yard's."""
    native: Sequence[Tool]
    """The provider's."""
    search_tools: Sequence[Tool]
    """Those of ours, and of the application, that search."""
    has_others: Callable[[], bool]
    """Whether there are more that would be offered."""
    judge: Callable[[Tool], Decision]


class SearchPlan(Struct, frozen=True, kw_only=True):
    """What a run gets. The same values for the same circumstances, so that an offer can be found again by them."""

    search: SearchChoice | None = None
    """None if nobody spoke of searching: then tools that search are tools like any other."""
    left_out: frozenset[str] = frozenset()
    native: tuple[str, ...] = ()

    @property
    def alone(self) -> bool:
        return self.search is not None and self.search.alone

    @property
    def summary(self) -> str:
        """Where a search runs, and why there."""
        return f"{self.search.where}: {self.search.why}" if self.search is not None else ""

    @property
    def note(self) -> str:
        return NO_SEARCH_NOTE if self.search is not None and self.search.where == "off" else ""


NO_SEARCH_PLAN = SearchPlan()
_NO_NATIVE_TOOLS = NativeTools()


class SearchPlanner:
    def __init__(
        self,
        rules: SearchRules = SearchRules(),  # noqa: B008 - immutable
        find_native: Callable[[str], NativeTools] = lambda _: _NO_NATIVE_TOOLS,
        default_model: str = "",
    ) -> None:
        """`hosts` tells what the provider of a model runs itself."""
        if rules.prefer not in get_args(SearchMode):
            raise Misconfigured(f"{rules.prefer!r} is no place to search: use auto, native, mcp, duckduckgo or off")
        self._rules = rules
        self._find_native = find_native
        self._default_model = default_model

    def native_tools(self, native: Iterable[Tool]) -> list[Tool]:
        """Of the provider's tools those that the provider of the usual model has."""
        hosts = self._find_native(self._default_model)
        return [tool for tool in native if _explain_mismatch(tool, hosts) == ""]

    def choose_mode(self, mode: SearchMode) -> SearchMode:
        """That of the request or its conversation; where they have none, the yard's."""
        return mode or self._rules.prefer

    def is_search(self, tool: Tool) -> bool:
        return self._rules.is_search(tool)

    def plan(self, request: SearchRequest) -> SearchPlan:
        wish, hosts = request.mode, self._find_native(request.model)
        missing = {tool.name: _explain_unusable(tool, hosts, request) for tool in request.native}
        own = [tool for tool in request.search_tools if _matches_mode(tool, wish) and request.judge(tool) != "deny"]
        search = choose_search(wish, self._collect_facts(wish, request, hosts, missing, own)) if wish else None
        where = search.where if search else "mcp"
        shown = {tool.name for tool in own} if where == "mcp" else set[str]()
        crowded = not hosts.beside_functions and where != "native" and (bool(shown) or request.has_others())
        native = [
            name
            for name, problem in missing.items()
            if not problem and not crowded and (name != SEARCH_TOOL or where == "native")
        ]
        left_out = (
            frozenset(tool.name for tool in request.search_tools if tool.name not in shown)
            if search
            else frozenset[str]()
        )
        return SearchPlan(search=search, left_out=left_out, native=tuple(native))

    def _collect_facts(
        self,
        mode: SearchMode,
        request: SearchRequest,
        hosts: NativeTools,
        missing: Mapping[str, str],
        search_tools: Sequence[Tool],
    ) -> SearchFacts:
        no_native = missing.get(SEARCH_TOOL, "this server does not offer it")
        brought = any(tool.venue == "client" for tool in search_tools)  # an application's own search is custom control
        return SearchFacts(
            no_native=no_native and f"the model {request.model} cannot search natively: {no_native}",
            no_own="" if search_tools else _NO_DUCKDUCKGO if mode == "duckduckgo" else _NO_OWN,
            beside=hosts.beside_functions,
            others=not hosts.beside_functions and request.has_others(),
            control=self._rules.custom_control or self._rules.full_logging or brought,
        )


_NO_OWN = f"no MCP server that can search runs here, or its tool (a tool named {SEARCH_TOOL}) may not be used"
_NO_DUCKDUCKGO = f"no MCP server named duckduckgo with a tool named {SEARCH_TOOL} runs here, or it may not be used"


def _matches_mode(tool: Tool, mode: SearchMode) -> bool:
    return mode != "duckduckgo" or "duckduckgo" in f"{tool.server} {tool.name} {tool.remote}".lower()


def _explain_unusable(tool: Tool, hosts: NativeTools, request: SearchRequest) -> str:
    """Why a provider's tool cannot be offered; empty if it can. One that needs approval cannot: nobody would ask."""
    if missing := _explain_mismatch(tool, hosts):
        return missing
    return "" if request.judge(tool) == "allow" else f"{tool.name} is not enabled here, or needs approval"


def _explain_mismatch(tool: Tool, hosts: NativeTools) -> str:
    if tool.name not in hosts.tools:
        return f"its provider has no {tool.name}"
    options = asdict(tool.options or ProviderOptions())
    untold = [name for name in ENFORCED_OPTIONS if options[name] and name not in hosts.options]
    return f"its provider's {tool.name} cannot be held to {', '.join(untold)}" if untold else ""
