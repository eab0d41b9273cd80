"""Decides whether a history is too long for its model, and which items to leave out. Pure.

Compactions are rare and large: in between a request only grows at its end, so that providers can cache its beginning.
"""

import math
from collections.abc import Sequence

from msgspec import Struct

from toolyard.core.conversation.context.token_estimate import estimate_tokens
from toolyard.core.conversation.context.window import count_saved_tokens, find_blocks
from toolyard.core.conversation.history import count_messages
from toolyard.core.conversation.run_state import RunState
from toolyard.core.conversation.state import State
from toolyard.core.items import Item, Result, SystemText, UserMessage
from toolyard.core.model_failures import TOO_LARGE

FULL_SHARE = 0.8
"""The share of the context window from which on the history is compacted: the answer needs room, too."""
TARGET_SHARE = 0.5
"""The share of a bound that a compaction leaves."""
HOPELESS_SHARE = 1.5
"""The share of the context window above which a request is hopeless, even if our estimate is wrong."""
MIN_SAVED_TOKENS = 16
"""Tokens that leaving out a result must save."""
MIN_SAVED_SHARE = 0.1
"""The share of the context window that a compaction must save: less is not worth the loss of the provider's cache."""


class Compact(Struct, frozen=True, kw_only=True):
    """A step: leave out the results in `dropped`, or else all items up to `through`, with or without a summary."""

    through: str
    dropped: tuple[str, ...] = ()
    kept_items: tuple[Item, ...] = ()
    """The items up to `through` that stay: the instructions, and the request that is being answered."""
    summarise: bool = False
    tell_model: bool = False
    """Whether the model is told that items are missing. Not where a setting limits the history: that is expected."""
    until: float = 0.0


class _Target(Struct, frozen=True, kw_only=True):
    """The size that a compaction has to reach."""

    tokens: float
    messages: int = 0
    """0 means any number."""
    of_model: bool = False
    """Whether the model's context window was reached, rather than a limit of the settings."""
    min_saved: float = 0.0
    """Tokens to save at least: where prompt and tools alone fill the window, leaving out messages does not help."""


def is_full(state: State, run: RunState) -> bool:
    settings = run.settings
    bounded = run.window or settings.max_tokens or settings.max_messages
    return bool(bounded) and _compute_target(state, run) is not None


def plan_compaction(state: State, run: RunState, until: float) -> Compact | None:
    """Return what to leave out, or None if that would save too little."""
    target = _compute_target(state, run)
    if target is None:
        return None
    items = state.history.items_from(0)
    starts = find_blocks(items)
    return _plan_dropped_results(state, items, starts, target) or _plan_dropped_turns(
        state, run, items, starts, target, until
    )


def _compute_target(state: State, run: RunState) -> _Target | None:
    history, settings = state.history, run.settings
    token_targets, min_saved = list[float](), 0.0
    if run.window and state.tokens > FULL_SHARE * run.window:
        # A target for the history alone: prompt and tools (`overhead_tokens`) take their part. A large prompt
        # must not take all of it, so the history keeps a minimum.
        token_targets.append(max(TARGET_SHARE * run.window - state.overhead_tokens, (1 - FULL_SHARE) * run.window))
        min_saved = MIN_SAVED_SHARE * run.window
    if run.failure is not None and run.failure.error_type == TOO_LARGE:
        token_targets.append(TARGET_SHARE * history.tokens)
        min_saved = 0.0
    of_model = bool(token_targets)
    if settings.max_tokens and history.tokens > settings.max_tokens:
        token_targets.append(TARGET_SHARE * settings.max_tokens)
    too_many = settings.max_messages and history.messages > settings.max_messages
    if not token_targets and not too_many:
        return None
    return _Target(
        tokens=min(token_targets, default=float(history.tokens)),
        messages=max(1, int(TARGET_SHARE * settings.max_messages)) if too_many else 0,
        of_model=of_model,
        min_saved=0.0 if too_many or len(token_targets) > 1 else min_saved,
    )


def _plan_dropped_results(
    state: State, items: Sequence[Item], starts: Sequence[int], target: _Target
) -> Compact | None:
    """Leave out old tool results, if that is enough: messages and answers stay word for word."""
    if target.messages:
        return None
    recent = _find_cut(items, starts, target.tokens / 2, 0)
    old = [item for item in items[:recent] if isinstance(item, Result) and count_saved_tokens(item) >= MIN_SAVED_TOKENS]
    gain = sum(map(count_saved_tokens, old))
    if not old or gain < target.min_saved or state.history.tokens - gain > target.tokens:
        return None
    return Compact(through=old[-1].id, dropped=tuple(item.id for item in old))


def _plan_dropped_turns(
    state: State, run: RunState, items: Sequence[Item], starts: Sequence[int], target: _Target, until: float
) -> Compact | None:
    """Leave out the oldest turns. An earlier summary goes with them, never alone."""
    movable = [start for start in starts if start > state.window.head]
    if not movable:
        return None
    cut = _find_cut(items, movable, target.tokens / (2 if target.of_model else 1), target.messages)
    request_starts = [at for at in movable if at >= cut and isinstance(items[at], UserMessage)]
    if request_starts and not target.of_model:
        cut = request_starts[0]
    before_cut = items[:cut]
    request = [item for item in before_cut if isinstance(item, UserMessage)][-1:] if not request_starts else []
    kept_items = (*(item for item in before_cut if isinstance(item, SystemText)), *request)
    left_out = [item for item in before_cut[state.window.head :] if item not in kept_items]
    if not left_out or sum(map(estimate_tokens, left_out)) < target.min_saved:
        return None
    # The model must be able to read all that it summarises in one request.
    fits = not run.window or sum(map(estimate_tokens, before_cut)) + state.overhead_tokens <= run.window
    return Compact(
        through=before_cut[-1].id,
        kept_items=kept_items,
        summarise=target.of_model and fits and not run.settings.ephemeral,
        tell_model=target.of_model,
        until=until,
    )


def _find_cut(items: Sequence[Item], starts: Sequence[int], tokens: float, messages: int) -> int:
    """Return the first start from which the remaining items are within the bounds; the last start if there is none.

    The excess is rounded up to steps. A client that sends its whole history each time, a little longer than before,
    then gets the same cut for a while, and the provider's cache stays valid.
    """
    excess = _round_up(sum(map(estimate_tokens, items)) - tokens, tokens / 2)
    excess_messages = _round_up(count_messages(items) - messages, max(1, messages // 2)) if messages else 0
    begin, size, count = 0, 0, 0
    for start in starts:
        size += sum(map(estimate_tokens, items[begin:start]))
        count += count_messages(items[begin:start])
        begin = start
        if size >= excess and count >= excess_messages:
            return start
    return starts[-1]


def _round_up(excess: float, step: float) -> float:
    return math.ceil(excess / step) * step if excess > 0 else 0.0
