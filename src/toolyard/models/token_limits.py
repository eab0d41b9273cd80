"""The limits of well-known models in tokens, by their names: the context window, and the length of an answer."""

import re
from functools import lru_cache

from toolyard.core.conversation.context.compaction_plan import FULL_SHARE
from toolyard.core.errors import Misconfigured
from toolyard.core.settings.models.names import parse_model_name
from toolyard.core.settings.models.options import MIN_THINKING_TOKENS, Options

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
DEFAULT_MAX_TOKENS = 16_384
_ANSWER_LIMITS = (
    (re.compile(r"claude-(?:2|instant|3-(?:opus|sonnet|haiku))"), 4_096),
    (re.compile(r"claude-3[.-]5"), 8_192),
    (re.compile(r"claude-opus-4(?:-[01](?!\d)|-\d{8}|@|$)"), 32_000),
)
"""The longest answers of older models, which refuse more; newer models allow more than is requested here."""


@lru_cache(maxsize=1024)  # each run asks
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


def choose_max_tokens(model: str, options: Options, *, thinks: bool) -> int:
    """Return `max_tokens` for the Messages API, which requires it.

    It is as configured, or the default up to the model's limit. Thinking is added to it.
    """
    tokens = (options.max_tokens or DEFAULT_MAX_TOKENS) + (choose_thinking_tokens(options) if thinks else 0)
    return tokens if options.max_tokens else min(tokens, _find_answer_limit(model))


def choose_thinking_tokens(options: Options) -> int:
    """Return the budget for thinking; 0 if the model decides it."""
    return max(options.budget, MIN_THINKING_TOKENS) if options.budget else 0


def _find_answer_limit(model: str) -> int:
    return next((tokens for name, tokens in _ANSWER_LIMITS if name.search(model)), 10**9)
