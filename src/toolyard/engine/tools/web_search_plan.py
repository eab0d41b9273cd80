"""Plans where a run's web searches go and which of its provider's own tools it gets.

The rule itself is `core.tools.web_search_rule.choose_search`; this module collects the facts for it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import get_args

from msgspec import Struct
from msgspec.structs import asdict

from toolyard.core.conversation.events import Decision
from toolyard.core.errors import Misconfigured
from toolyard.core.settings.versions import Versions
from toolyard.core.tools.definition import ProviderOptions, Tool
from toolyard.core.tools.web_search_rule import (
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
"""Options that a provider must support if they are set. The user's location is only a hint."""


class SearchRequest(Struct, frozen=True, kw_only=True):
    """The model, the requested search mode, and the tools that a plan can use."""

    model: str
    rules: SearchRules
    mode: SearchMode
    """Of the request, else of its conversation, else of the server."""
    native: Sequence[Tool]
    """The tools that providers run themselves."""
    search_tools: Sequence[Tool]
    """Search tools of this server and of the application."""
    has_others: Callable[[], bool]
    """Returns whether tools other than search tools would be offered."""
    judge: Callable[[Tool], Decision]


class SearchPlan(Struct, frozen=True, kw_only=True):
    """The search plan of a run. Equal circumstances give equal plans: a plan is part of an offer's cache key."""

    search: SearchChoice | None = None
    """None if no search mode is set: then search tools are tools like any other."""
    left_out: frozenset[str] = frozenset()
    native: tuple[str, ...] = ()
    options: ProviderOptions | None = None
    """Those of a native search, if others were set since the run began."""

    @property
    def alone(self) -> bool:
        return self.search is not None and self.search.alone

    @property
    def summary(self) -> str:
        """Return where a search runs and why; empty without a search."""
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
        get_default: Callable[[], str] = lambda: "",
    ) -> None:
        """`find_native` returns which tools the provider of a model runs itself, `get_default` the default model."""
        if rules.prefer not in get_args(SearchMode):
            raise Misconfigured(f"{rules.prefer!r} is not a place to search: use auto, native, mcp, duckduckgo or off")
        self.versions = Versions(rules)
        self._find_native = find_native
        self._get_default = get_default

    def native_tools(self, native: Iterable[Tool], model: str = "", mode: SearchMode = "") -> list[Tool]:
        """Return the tools of `native` that the provider of a model, or of the default one, runs under a search mode.

        Without a mode a request may ask for a search, so that it counts as one that runs.
        """
        hosts = self._find_native(model or self._get_default())
        searches = self._may_search_natively(mode or self.versions.current.prefer)
        return [
            tool for tool in native if not _explain_mismatch(tool, hosts) and (searches or tool.name != SEARCH_TOOL)
        ]

    def _may_search_natively(self, mode: SearchMode) -> bool:
        rules = self.versions.current
        if mode == "auto":
            return not (rules.custom_control or rules.full_logging)
        return mode in ("", "native")

    def find_rules(self, begun_at: float) -> SearchRules:
        """Return the rules of a run: those that it began with, with what was restricted since."""
        versions = self.versions
        if begun_at >= versions.changed_at:
            return versions.current
        return versions.get_at(begun_at).narrow_to(versions.current)

    def is_search(self, tool: Tool) -> bool:
        return self.versions.current.is_search(tool)

    def plan(self, request: SearchRequest) -> SearchPlan:
        mode, hosts = request.mode, self._find_native(request.model)
        problems = {tool.name: _explain_unusable(tool, hosts, request) for tool in request.native}
        usable = [tool for tool in request.search_tools if _matches_mode(tool, mode) and request.judge(tool) != "deny"]
        search = choose_search(mode, self._collect_facts(mode, request, hosts, problems, usable)) if mode else None
        where = search.where if search else "mcp"
        offered = {tool.name for tool in usable} if where == "mcp" else set[str]()
        # Some providers reject a request that mixes their own tools with functions: functions win, unless the search
        # itself is to run at the provider.
        crowded = not hosts.beside_functions and where != "native" and (bool(offered) or request.has_others())
        native = [
            name
            for name, problem in problems.items()
            if not problem and not crowded and (name != SEARCH_TOOL or where == "native")
        ]
        left_out = (
            frozenset(tool.name for tool in request.search_tools if tool.name not in offered)
            if search
            else frozenset[str]()
        )
        is_current = request.rules is self.versions.current
        options = None if is_current else request.rules.options
        return SearchPlan(search=search, left_out=left_out, native=tuple(native), options=options)

    def _collect_facts(
        self,
        mode: SearchMode,
        request: SearchRequest,
        hosts: NativeTools,
        problems: Mapping[str, str],
        search_tools: Sequence[Tool],
    ) -> SearchFacts:
        no_native = problems.get(SEARCH_TOOL, "this server does not offer it")
        # An application that brings its own search tool wants control over its searches.
        brought = any(tool.venue == "client" for tool in search_tools)
        return SearchFacts(
            no_native=no_native and f"the model {request.model} cannot search natively: {no_native}",
            no_own="" if search_tools else _NO_DUCKDUCKGO if mode == "duckduckgo" else _NO_OWN,
            mixes_tools=hosts.beside_functions,
            has_other_tools=not hosts.beside_functions and request.has_others(),
            control=request.rules.custom_control or request.rules.full_logging or brought,
        )


_NO_OWN = f"no MCP server that can search runs here, or its tool (a tool named {SEARCH_TOOL}) may not be used"
_NO_DUCKDUCKGO = f"no MCP server named duckduckgo with a tool named {SEARCH_TOOL} runs here, or it may not be used"


def _matches_mode(tool: Tool, mode: SearchMode) -> bool:
    return mode != "duckduckgo" or "duckduckgo" in f"{tool.server} {tool.name} {tool.remote}".lower()


def _explain_unusable(tool: Tool, hosts: NativeTools, request: SearchRequest) -> str:
    """Return why a provider's tool cannot be offered; empty if it can.

    A tool that needs approval cannot: the provider would run it without asking.
    """
    if mismatch := _explain_mismatch(tool, hosts):
        return mismatch
    return "" if request.judge(tool) == "allow" else f"{tool.name} is not enabled here, or needs approval"


def _explain_mismatch(tool: Tool, hosts: NativeTools) -> str:
    if tool.name not in hosts.tools:
        return f"its provider has no {tool.name}"
    options = asdict(tool.options or ProviderOptions())
    unsupported = [name for name in ENFORCED_OPTIONS if options[name] and name not in hosts.options]
    return f"its provider's {tool.name} cannot be held to {', '.join(unsupported)}" if unsupported else ""
