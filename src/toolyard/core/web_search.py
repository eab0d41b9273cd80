"""Where a request's web searches run: at the model's provider, on a server of our own, or nowhere. Pure.

The one rule is `decided`; docs/how-to/web-search.md has its table.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from toolyard.core.errors import Invalid
from toolyard.core.tools import ProviderOptions, Tool

SEARCH_TOOL = "web_search"
"""What a search tool is called, wherever it runs."""
SearchMode = Literal["", "auto", "native", "mcp", "duckduckgo", "off"]
"""Where a search shall run; empty where nobody has said so."""
Preference = Literal["ai-web-search", "mcp", "duckduckgo"]
NO_SEARCH_NOTE = "You cannot search the web here. Where an answer needs something newer than what you know, say so."


class NativeTools(Struct, frozen=True, kw_only=True):
    """What a model's provider runs itself."""

    tools: frozenset[str] = frozenset()
    """Those of `PROVIDER_TOOLS` that there are."""
    options: frozenset[str] = frozenset()
    """The fields of `ProviderOptions` that a search can be told. A limit that cannot be told leaves it out."""
    beside_functions: bool = True
    """Whether they may be offered in one request with tools that run elsewhere."""


class SearchRules(Struct, frozen=True, kw_only=True):
    """What a yard has set for searches. A conversation, and before it a request, may wish for another place."""

    prefer: SearchMode = ""
    custom_control: bool = False
    full_logging: bool = False
    options: ProviderOptions = ProviderOptions()
    tools: frozenset[str] = frozenset()
    """Other names, here or on their servers, of tools of our own that search the web."""

    def is_search(self, tool: Tool) -> bool:
        """Return whether any of a tool's names is one of a search, whichever of them a model is shown."""
        names = {tool.name, tool.remote, tool.alias}
        return SEARCH_TOOL in names or not names.isdisjoint(self.tools)


class SearchFacts(Struct, frozen=True, kw_only=True):
    """All that the rule looks at. A text says why something cannot be had; empty means that it can."""

    no_native: str = ""
    """Why the model's provider cannot search for this caller, within the limits that are set."""
    no_own: str = ""
    """Why none of our own tools can."""
    beside: bool = True
    """Whether the provider takes its own tools together with others."""
    others: bool = False
    """Whether there are others to offer."""
    control: bool = False
    """Custom control or full logging is required."""


class SearchChoice(Struct, frozen=True, kw_only=True):
    """Where a search runs, and why there."""

    where: Literal["native", "mcp", "off"]
    why: str
    alone: bool = False
    """The provider's tools go without any other."""
    refused: bool = False
    """What was asked for by name cannot be had."""


def choose_search(mode: Literal["auto", "native", "mcp", "duckduckgo", "off"], facts: SearchFacts) -> SearchChoice:
    """The rule of where a search runs."""
    match mode:
        case "off":
            return SearchChoice(where="off", why="no search is wanted")
        case "native" if facts.no_native:
            return SearchChoice(where="off", why=f"{facts.no_native}; ask for auto or mcp", refused=True)
        case "native":
            return SearchChoice(where="native", why="it was asked for", alone=not facts.beside)
        case "mcp" | "duckduckgo" if facts.no_own:
            return SearchChoice(where="off", why=f"{facts.no_own}; ask for auto or native", refused=True)
        case "mcp" | "duckduckgo":
            return SearchChoice(where="mcp", why="it was asked for")
        case "auto":
            return _choose_automatically(facts)


def _choose_automatically(facts: SearchFacts) -> SearchChoice:
    together = facts.beside or not facts.others
    if not facts.no_native and together and not facts.control:
        return SearchChoice(where="native", why="the provider searches itself", alone=not facts.beside)
    if facts.control:
        why = "custom control or full logging is required"
    else:
        why = facts.no_native or "the provider does not take its own tools beside others"
    if facts.no_own:
        return SearchChoice(where="off", why=f"{why}, and {facts.no_own}")
    return SearchChoice(where="mcp", why=why)


class SearchMetadata(Struct, frozen=True, kw_only=True, rename="camel"):
    """What an older client says of searching, among other things."""

    use_web_search: bool | None = None
    web_search_preference: Preference | None = None


def parse_metadata(metadata: Mapping[str, object], mode: SearchMode = "") -> SearchMode:
    """Raises Invalid for what cannot be understood."""
    try:
        said = msgspec.convert(dict(metadata), SearchMetadata)
    except msgspec.ValidationError as error:
        raise Invalid(f"metadata: {error}", {"field": "metadata"}) from None
    return merge_modes(mode, said.use_web_search, said.web_search_preference)


def merge_modes(mode: SearchMode = "", use: bool | None = None, preference: Preference | None = None) -> SearchMode:
    """One wish from the ways to say it: `web_search`, or `useWebSearch` with `webSearchPreference`."""
    if mode and (use is not None or preference is not None):
        raise Invalid("say web_search, or useWebSearch and webSearchPreference, not both", {"field": "web_search"})
    if use is False:
        return "off"
    if preference is not None:
        return "native" if preference == "ai-web-search" else preference
    return "auto" if use else mode
