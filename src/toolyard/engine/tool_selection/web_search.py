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
from toolyard.core.web_search import CANNOT, SEARCH, Facts, Native, Search, SearchRules, Wish, decided

LIMITS = ("max_uses", "allowed_domains", "blocked_domains")
"""What a search must be held to, where it is set; where the user is, is only a hint."""


class Asked(Struct, frozen=True, kw_only=True):
    """Who asks which model for what, and which tools there are for it."""

    model: str
    wish: Wish
    """The request's own, its conversation's or the yard's."""
    native: Sequence[Tool]
    """The provider's."""
    own: Sequence[Tool]
    """Those of ours, and of the application, that search."""
    others: Callable[[], bool]
    """Whether there are more that would be offered."""
    judge: Callable[[Tool], Decision]


class Sought(Struct, frozen=True, kw_only=True):
    """What a run gets. The same values for the same circumstances, so that an offer can be found again by them."""

    search: Search | None = None
    """None if nobody spoke of searching: then tools that search are tools like any other."""
    left_out: frozenset[str] = frozenset()
    native: tuple[str, ...] = ()

    @property
    def alone(self) -> bool:
        return self.search is not None and self.search.alone

    @property
    def told(self) -> str:
        """Where a search runs, and why there."""
        return f"{self.search.where}: {self.search.why}" if self.search is not None else ""

    @property
    def note(self) -> str:
        return CANNOT if self.search is not None and self.search.where == "off" else ""


NOTHING = Sought()
_NONE = Native()


class Searching:
    def __init__(
        self,
        rules: SearchRules = SearchRules(),  # noqa: B008 - immutable
        hosts: Callable[[str], Native] = lambda _: _NONE,
        default_model: str = "",
    ) -> None:
        """`hosts` tells what the provider of a model runs itself."""
        if rules.prefer not in get_args(Wish):
            raise Misconfigured(f"{rules.prefer!r} is no place to search: use auto, native, mcp, duckduckgo or off")
        self._rules = rules
        self._hosts = hosts
        self._default_model = default_model

    def hosted(self, native: Iterable[Tool]) -> list[Tool]:
        """Of the provider's tools those that the provider of the usual model has."""
        hosts = self._hosts(self._default_model)
        return [tool for tool in native if _fits(tool, hosts) == ""]

    def wish(self, wish: Wish) -> Wish:
        """That of the request or its conversation; where they have none, the yard's."""
        return wish or self._rules.prefer

    def is_search(self, tool: Tool) -> bool:
        return self._rules.is_search(tool)

    def sought(self, asked: Asked) -> Sought:
        wish, hosts = asked.wish, self._hosts(asked.model)
        missing = {tool.name: _not_usable(tool, hosts, asked) for tool in asked.native}
        own = [tool for tool in asked.own if _wanted(tool, wish) and asked.judge(tool) != "deny"]
        search = decided(wish, self._facts(wish, asked, hosts, missing, own)) if wish else None
        where = search.where if search else "mcp"
        shown = {tool.name for tool in own} if where == "mcp" else set[str]()
        crowded = not hosts.beside_functions and where != "native" and (bool(shown) or asked.others())
        native = [
            name
            for name, problem in missing.items()
            if not problem and not crowded and (name != SEARCH or where == "native")
        ]
        left_out = frozenset(tool.name for tool in asked.own if tool.name not in shown) if search else frozenset[str]()
        return Sought(search=search, left_out=left_out, native=tuple(native))

    def _facts(self, wish: Wish, asked: Asked, hosts: Native, missing: Mapping[str, str], own: Sequence[Tool]) -> Facts:
        no_native = missing.get(SEARCH, "this server does not offer it")
        brought = any(tool.venue == "client" for tool in own)  # an application's own search is custom control
        return Facts(
            no_native=no_native and f"the model {asked.model} cannot search natively: {no_native}",
            no_own="" if own else _NO_DUCKDUCKGO if wish == "duckduckgo" else _NO_OWN,
            beside=hosts.beside_functions,
            others=not hosts.beside_functions and asked.others(),
            control=self._rules.custom_control or self._rules.full_logging or brought,
        )


_NO_OWN = f"no MCP server that can search runs here, or its tool (a tool named {SEARCH}) may not be used"
_NO_DUCKDUCKGO = f"no MCP server named duckduckgo with a tool named {SEARCH} runs here, or it may not be used"


def _wanted(tool: Tool, wish: Wish) -> bool:
    return wish != "duckduckgo" or "duckduckgo" in f"{tool.server} {tool.name} {tool.remote}".lower()


def _not_usable(tool: Tool, hosts: Native, asked: Asked) -> str:
    """Why a provider's tool cannot be offered; empty if it can. One that needs approval cannot: nobody would ask."""
    if missing := _fits(tool, hosts):
        return missing
    return "" if asked.judge(tool) == "allow" else f"{tool.name} is not enabled here, or needs approval"


def _fits(tool: Tool, hosts: Native) -> str:
    if tool.name not in hosts.tools:
        return f"its provider has no {tool.name}"
    options = asdict(tool.options or ProviderOptions())
    untold = [name for name in LIMITS if options[name] and name not in hosts.options]
    return f"its provider's {tool.name} cannot be held to {', '.join(untold)}" if untold else ""
