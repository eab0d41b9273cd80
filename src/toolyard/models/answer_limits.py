"""Chooses `max_tokens` for the Messages API, which requires it: by the model's name where its limit is known."""

import re

from toolyard.core.settings.options import Options

DEFAULT_MAX_TOKENS = 16_384
MIN_THINKING_TOKENS = 1_024
_MODEL_LIMITS = (
    (re.compile(r"claude-(?:2|instant|3-(?:opus|sonnet|haiku))"), 4_096),
    (re.compile(r"claude-3[.-]5"), 8_192),
    (re.compile(r"claude-opus-4(?:-[01](?!\d)|-\d{8}|@|$)"), 32_000),
)
"""The limits of older models, which refuse more; newer models allow more than is requested here."""


def choose_max_tokens(model: str, options: Options, *, thinks: bool) -> int:
    """Return `max_tokens`: as configured, or the default up to the model's limit. Thinking is added to it."""
    tokens = (options.max_tokens or DEFAULT_MAX_TOKENS) + (choose_thinking_tokens(options) if thinks else 0)
    return tokens if options.max_tokens else min(tokens, _find_model_limit(model))


def choose_thinking_tokens(options: Options) -> int:
    """Return the budget for thinking; 0 if the model decides it."""
    return max(options.budget, MIN_THINKING_TOKENS) if options.budget else 0


def _find_model_limit(model: str) -> int:
    return next((tokens for name, tokens in _MODEL_LIMITS if name.search(model)), 10**9)
