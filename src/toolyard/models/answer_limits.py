"""How many tokens an answer may have in the Messages API, which wants a number: by the model's name, where known."""

import re

from toolyard.core.options import Options

USUAL = 16_384
LEAST_THINKING = 1_024
_MOST = (
    (re.compile(r"claude-(?:2|instant|3-(?:opus|sonnet|haiku))"), 4_096),
    (re.compile(r"claude-3[.-]5"), 8_192),
    (re.compile(r"claude-opus-4(?:-[01](?!\d)|-\d{8}|@|$)"), 32_000),
)
"""What older models give at most; newer ones give more than is asked for here."""


def answer_tokens(model: str, options: Options, *, thinks: bool) -> int:
    """What is asked for: as it was set, with the thinking on top; else what is usual and what the model can give."""
    wanted = (options.max_tokens or USUAL) + (thinking_tokens(options) if thinks else 0)
    return wanted if options.max_tokens else min(wanted, _most(model))


def thinking_tokens(options: Options) -> int:
    """0 where it is the model's to say."""
    return max(options.budget, LEAST_THINKING) if options.budget else 0


def _most(model: str) -> int:
    return next((tokens for name, tokens in _MOST if name.search(model)), 10**9)
