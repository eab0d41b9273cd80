"""How many tokens an answer may have in the Messages API, which wants a number: by the model's name, where known."""

import re

from toolyard.core.options import Options

DEFAULT_MAX_TOKENS = 16_384
MIN_THINKING_TOKENS = 1_024
_MODEL_LIMITS = (
    (re.compile(r"claude-(?:2|instant|3-(?:opus|sonnet|haiku))"), 4_096),
    (re.compile(r"claude-3[.-]5"), 8_192),
    (re.compile(r"claude-opus-4(?:-[01](?!\d)|-\d{8}|@|$)"), 32_000),
)
"""What older models give at most; newer ones give more than is asked for here."""


def choose_max_tokens(model: str, options: Options, *, thinks: bool) -> int:
    """What is asked for: as it was set, with the thinking on top; else what is usual and what the model can give."""
    wanted = (options.max_tokens or DEFAULT_MAX_TOKENS) + (choose_thinking_tokens(options) if thinks else 0)
    return wanted if options.max_tokens else min(wanted, _find_model_limit(model))


def choose_thinking_tokens(options: Options) -> int:
    """0 where it is the model's to say."""
    return max(options.budget, MIN_THINKING_TOKENS) if options.budget else 0


def _find_model_limit(model: str) -> int:
    return next((tokens for name, tokens in _MODEL_LIMITS if name.search(model)), 10**9)
