"""Tools that providers run themselves: which provider has which, and their results and citations. Pure.

`core.tools.web_search_rule` decides from these facts where a search runs.
"""

import re
from collections import Counter
from collections.abc import Iterable

from toolyard.core.items import Call, Citation, Item, Outcome, Problem, Result, Seal, result_id
from toolyard.core.tools.web_search_rule import NativeTools
from toolyard.core.utf8 import find_char_boundary

MAX_CONTENT_BYTES = 32_768
"""The longest readable content of a result. The seal holds all of it, as the provider requires it back."""
WEB_SCHEMES = ("https://", "http://")
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


def count_hosted_calls(items: Iterable[Item]) -> dict[str, int]:
    """Return how often the provider ran each of its own tools, by the calls of a turn."""
    return dict(Counter(item.tool for item in items if isinstance(item, Call) and item.ran_at))


def build_hosted_result(
    call: Call, at: float, outcome: Outcome, content: str, error: Problem | None = None, seal: Seal | None = None
) -> Result:
    return Result(
        id=result_id(call.id),
        at=at,
        call_id=call.id,
        tool=call.tool,
        outcome=outcome,
        content=_shorten(content),
        error=error,
        ran_at=call.ran_at,
        seal=seal,
        untrusted=f"{call.tool} at {call.ran_at}",
    )


def _shorten(content: str) -> str:
    if len(content) * 4 <= MAX_CONTENT_BYTES or len(encoded := content.encode()) <= MAX_CONTENT_BYTES:
        return content
    head = encoded[: find_char_boundary(encoded, MAX_CONTENT_BYTES)].decode()
    return f"{head}\n… [{len(encoded):,} bytes in all; the rest is left out here]"


def build_citation(start: int, end: int, url: str | None, title: str | None, quote: str | None = "") -> Citation:
    """Return a citation. Only a web address becomes its URL, since pages link it; any other serves as the title."""
    address = url if url and url.lower().startswith(WEB_SCHEMES) else ""
    return Citation(start=start, end=end, url=address, title=title or ("" if address else url or ""), quote=quote or "")
