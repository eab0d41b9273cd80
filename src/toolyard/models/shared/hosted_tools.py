"""Which tools each provider runs itself. `core.tools.web_search_rule` decides from these facts where a search runs."""

import re

from toolyard.core.tools.web_search_rule import NativeTools

_WITHOUT_NATIVE_TOOLS = re.compile(
    r"gpt-3|gpt-4(?![o.])|gpt-4\.1-nano|o1-(?:mini|preview)|claude-(?:2|instant|3-(?:opus|sonnet|haiku))|gemini-1\."
)
"""Models that are known to have no native tools; any other model is assumed to have them."""
_MIXES_FUNCTIONS = re.compile(r"gemini-(?:[3-9]|\d\d)")
_NONE = NativeTools()
_OPENAI = NativeTools(
    tools=frozenset({"web_search", "code_execution", "file_search"}),
    options=frozenset({"max_uses", "allowed_domains", "user_location", "stores"}),
)
_ANTHROPIC = NativeTools(
    tools=frozenset({"web_search", "code_execution"}),
    options=frozenset({"max_uses", "allowed_domains", "blocked_domains", "user_location"}),
)
_GEMINI = frozenset({"web_search", "code_execution", "file_search"})


def find_native_tools(wire: str, model: str) -> NativeTools:
    """Return the tools that the provider of a wire runs itself for a model of this name."""
    if _WITHOUT_NATIVE_TOOLS.search(model):
        return _NONE
    match wire:
        case "responses":
            return _OPENAI
        case "messages":
            return _ANTHROPIC
        case "gemini":
            return NativeTools(
                tools=_GEMINI, options=frozenset({"stores"}), beside_functions=supports_functions_with_native(model)
            )
        case _:
            return _NONE


def supports_functions_with_native(model: str) -> bool:
    """Return whether Google's own tools may be offered together with functions: earlier models refuse that."""
    return bool(_MIXES_FUNCTIONS.search(model))
