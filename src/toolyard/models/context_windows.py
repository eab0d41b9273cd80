"""The context windows of well-known models, by the prefixes of their names; unknown for any other name."""

from toolyard.core.conversation.compaction_plan import FULL_SHARE
from toolyard.core.errors import Misconfigured
from toolyard.core.settings.model_names import parse_model_name
from toolyard.core.settings.options import Options
from toolyard.models.answer_limits import choose_max_tokens

_WINDOW_TOKENS = {
    "gpt-3.5": 16_385,
    "gpt-4": 8_192,
    "gpt-4-turbo": 128_000,
    "gpt-4o": 128_000,
    "gpt-4.1": 1_047_576,
    "gpt-5": 272_000,
    "o1": 200_000,
    "o3": 200_000,
    "o4-mini": 200_000,
    "claude-": 200_000,
    "claude-2": 100_000,
    "gemini-": 1_048_576,
    "qwen-": 131_072,
    "qwen-max": 32_768,
    "qwen3": 131_072,
    "deepseek-": 65_536,
}
"""The tokens of a request, by prefix of the model's name; the longest prefix that matches counts."""
_SEPARATE_OUTPUT_WINDOW = ("gpt-5", "gemini-", "qwen")
"""Models whose answers do not count towards the window; with any other model, request and answer share it."""


def find_context_window(name: str) -> int:
    """Return the window of a model such as `openai:gpt-5-mini` or `openrouter:anthropic/claude-…`; 0 if unknown."""
    model = _extract_model(name)
    return max(
        ((len(begin), tokens) for begin, tokens in _WINDOW_TOKENS.items() if model.startswith(begin)), default=(0, 0)
    )[1]


def compute_usable_window(name: str, window: int, wire: str, options: Options) -> int:
    """Return the window to compact for, reduced so that request and answer fit into the real one together.

    Compaction starts at `FULL_SHARE` of it. Raises Misconfigured if answers leave no room for a request.
    """
    if _extract_model(name).startswith(_SEPARATE_OUTPUT_WINDOW):
        return window
    answer = choose_max_tokens(_extract_model(name), options, thinks=True) if wire == "messages" else options.max_tokens
    if answer >= window:
        raise Misconfigured(
            f"{name!r} has a window of {window:,} tokens: answers of {answer:,} (max_tokens) leave no room"
        )
    return min(window, int((window - answer) / FULL_SHARE))


def _extract_model(name: str) -> str:
    return parse_model_name(name).model.rpartition("/")[2].lower()
