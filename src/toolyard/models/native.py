"""What each provider's own tools can do, as facts: for whoever decides where a search runs. It decides nothing."""

from dataclasses import dataclass

from toolyard.models._gemini_native import beside_functions
from toolyard.models.providers import Provider


@dataclass(frozen=True, slots=True, kw_only=True)
class Native:
    tools: frozenset[str] = frozenset()
    """Those of `PROVIDER_TOOLS` that there are."""
    options: frozenset[str] = frozenset()
    """The fields of `ProviderOptions` that a search can be told. A limit that cannot be told leaves it out."""
    beside_functions: bool = True
    """Whether they may be offered in one request with tools that run elsewhere."""


_NONE = Native()
_OPENAI = Native(
    tools=frozenset({"web_search", "code_execution", "file_search"}),
    options=frozenset({"max_uses", "allowed_domains", "user_location", "stores"}),
)
_ANTHROPIC = Native(
    tools=frozenset({"web_search", "code_execution"}),
    options=frozenset({"max_uses", "allowed_domains", "blocked_domains", "user_location"}),
)
_GEMINI = frozenset({"web_search", "code_execution", "file_search"})


def native(provider: Provider, model: str) -> Native:
    """What this provider runs itself for a model of this name."""
    match provider.native_wire or provider.wire:
        case "responses":
            return _OPENAI
        case "messages":
            return _ANTHROPIC
        case "gemini":
            return Native(tools=_GEMINI, options=frozenset({"stores"}), beside_functions=beside_functions(model))
        case _:
            return _NONE
