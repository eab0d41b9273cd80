"""Decides where a request's web searches run: at the model's provider, on an MCP server, or nowhere. Pure.

The rule is `choose_search`; docs/how-to/web-search.md has its table.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.errors import Invalid
from toolyard.core.settings.web_search import SearchPlace, WebSearchConfig
from toolyard.core.tools.definition import ProviderOptions, Tool

SEARCH_TOOL = "web_search"
"""The name of a search tool, wherever it runs."""
SearchMode = Literal["", SearchPlace]
"""Where a search is to run, or empty if it is not set."""
Preference = Literal["ai-web-search", "mcp", "duckduckgo"]
NO_SEARCH_NOTE = "You cannot search the web here. Where an answer needs something newer than what you know, say so."


class NativeTools(Struct, frozen=True, kw_only=True):
    """The tools that a model's provider runs itself."""

    tools: frozenset[str] = frozenset()
    """The names, out of `PROVIDER_TOOLS`."""
    options: frozenset[str] = frozenset()
    """The fields of `ProviderOptions` that its search supports. If a limit is set that is not among them, the search is
    not offered."""
    beside_functions: bool = True
    """Whether a request may offer them together with tools that run elsewhere."""


class SearchRules(Struct, frozen=True, kw_only=True):
    """The server's settings for searches. A request, or else its conversation, may set another mode."""

    prefer: SearchMode = ""
    custom_control: bool = False
    full_logging: bool = False
    options: ProviderOptions = ProviderOptions()
    tools: frozenset[str] = frozenset()
    """Further names, here or on their servers, of tools that search the web."""

    def is_search(self, tool: Tool) -> bool:
        """Return whether any of a tool's names is that of a search tool, whichever the model is shown."""
        names = {tool.name, tool.remote, tool.alias}
        return SEARCH_TOOL in names or not names.isdisjoint(self.tools)

    def narrow_to(self, other: "SearchRules") -> "SearchRules":
        """Return these rules with what `other` restricts further. Where searches go stays as it is, but for `off`."""
        mine, others = self.options, other.options
        limits = [limit for limit in (mine.max_uses, others.max_uses) if limit]
        allowed = _narrow_domains(mine.allowed_domains, others.allowed_domains)
        options = replace(
            mine,
            max_uses=min(limits, default=0),
            allowed_domains=others.allowed_domains if allowed is None else allowed,
            blocked_domains=tuple(dict.fromkeys((*mine.blocked_domains, *others.blocked_domains))),
        )
        return SearchRules(
            prefer="off" if other.prefer == "off" or allowed is None else self.prefer,
            custom_control=self.custom_control or other.custom_control,
            full_logging=self.full_logging or other.full_logging,
            options=options,
            tools=self.tools | other.tools,
        )


def _narrow_domains(mine: Sequence[str], others: Sequence[str]) -> tuple[str, ...] | None:
    """Return the domains that both allow, where none stands for all; None if there is no such domain."""
    if not mine or not others:
        return (*mine, *others)
    return tuple(domain for domain in mine if domain in others) or None


def build_search_rules(config: WebSearchConfig) -> SearchRules:
    return SearchRules(
        prefer=config.prefer,
        custom_control=config.custom_control,
        full_logging=config.full_logging,
        options=msgspec.convert(config, ProviderOptions, from_attributes=True),
        tools=config.tools,
    )


class SearchFacts(Struct, frozen=True, kw_only=True):
    """The input of the rule. A text is the reason why something is unavailable; empty means that it is available."""

    no_native: str = ""
    """Why the model's provider cannot search for this caller within the set limits."""
    no_own: str = ""
    """Why no tool of this server or of the application can search."""
    mixes_tools: bool = True
    """Whether the provider accepts its own tools together with others."""
    has_other_tools: bool = False
    """Whether there are other tools to offer."""
    control: bool = False
    """Whether custom control or full logging is required."""


class SearchChoice(Struct, frozen=True, kw_only=True):
    """Where a search runs, and why."""

    where: Literal["native", "mcp", "off"]
    why: str
    alone: bool = False
    """Whether the provider's tools are offered without any others."""
    refused: bool = False
    """Whether the requested mode is unavailable."""


def choose_search(mode: SearchPlace, facts: SearchFacts) -> SearchChoice:
    """Return where a search runs."""
    match mode:
        case "off":
            return SearchChoice(where="off", why="no search is wanted")
        case "native" if facts.no_native:
            return SearchChoice(where="off", why=f"{facts.no_native}; ask for auto or mcp", refused=True)
        case "native":
            return SearchChoice(where="native", why="it was asked for", alone=not facts.mixes_tools)
        case "mcp" | "duckduckgo" if facts.no_own:
            return SearchChoice(where="off", why=f"{facts.no_own}; ask for auto or native", refused=True)
        case "mcp" | "duckduckgo":
            return SearchChoice(where="mcp", why="it was asked for")
        case "auto":
            return _choose_automatically(facts)


def _choose_automatically(facts: SearchFacts) -> SearchChoice:
    together = facts.mixes_tools or not facts.has_other_tools
    if not facts.no_native and together and not facts.control:
        return SearchChoice(where="native", why="the provider searches itself", alone=not facts.mixes_tools)
    if facts.control:
        why = "custom control or full logging is required"
    else:
        why = facts.no_native or "the provider does not take its own tools beside others"
    if facts.no_own:
        return SearchChoice(where="off", why=f"{why}, and {facts.no_own}")
    return SearchChoice(where="mcp", why=why)


class _SearchFields(Struct, frozen=True, kw_only=True):
    web_search: SearchMode = ""
    use_web_search: bool | None = None
    web_search_preference: Preference | None = None


_FIELD_TYPES: Mapping[str, type] = {
    "web_search": SearchMode | bool | dict[str, object],  # pyright: ignore[reportAssignmentType]
    "use_web_search": bool,
    "web_search_preference": Preference,
}
"""The fields that set the mode. Clients write them in two spellings, some of them in `metadata`."""


def _to_camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


_SPELLINGS = {spelling: name for name in _FIELD_TYPES for spelling in (name, _to_camel(name))}
"""The name of a field by each of its spellings."""


def parse_search(fields: Mapping[str, object], mode: SearchMode = "") -> SearchMode:
    """Return the mode that the fields of a request set, themselves or in their `metadata`, or else `mode`.

    Raise Invalid for a value that cannot be read, or that contradicts another one.
    """
    metadata = fields.get("metadata")
    nested = cast("Mapping[str, object]", metadata if isinstance(metadata, Mapping) else {})
    values: dict[str, object] = {"web_search": mode} if mode else {}
    for table, prefix in ((fields, ""), (nested, "metadata.")):
        for spelling, name in _SPELLINGS.items():
            if table.get(spelling) is None:
                continue
            value = _read_field(table[spelling], _FIELD_TYPES[name], f"{prefix}{spelling}")
            if value is not None and values.setdefault(name, value) != value:
                raise Invalid(f"{prefix}{spelling}: contradicts another value", {"field": f"{prefix}{spelling}"})
    if not values:
        return ""
    read = msgspec.convert(values, _SearchFields)
    return merge_modes(read.web_search, read.use_web_search, read.web_search_preference)


def _read_field(value: object, kind: type, field: str) -> object:
    """Return the value of a field; of `web_search` the mode, which true, false and options of OpenAI's mean too."""
    if value == "":
        return None
    try:
        read = cast(object, msgspec.convert(value, kind, strict=False))
    except msgspec.ValidationError as error:
        raise Invalid(f"{field}: {error}", {"field": field}) from None
    if kind is bool or not isinstance(read, bool | dict):
        return read
    return "off" if read is False else "auto"


def merge_modes(
    web_search: SearchMode = "", use_web_search: bool | None = None, web_search_preference: Preference | None = None
) -> SearchMode:
    """Return one mode from `web_search`, or from `useWebSearch` and `webSearchPreference`. Raise Invalid for both."""
    mode, use, preference = web_search, use_web_search, web_search_preference
    if mode and (use is not None or preference is not None):
        raise Invalid("say web_search, or useWebSearch and webSearchPreference, not both", {"field": "web_search"})
    if use is False:
        return "off"
    if preference is not None:
        return "native" if preference == "ai-web-search" else preference
    return "auto" if use else mode
