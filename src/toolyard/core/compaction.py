"""Whether a conversation is near what its model takes, and what then makes room. Pure.

Room is made rarely and in large pieces: between two times a request only grows, so that providers can cache it.
"""

import math
from collections.abc import Sequence

from msgspec import Struct

from toolyard.core.history import count_messages
from toolyard.core.items import Item, Result, SystemText, UserMessage
from toolyard.core.run_state import RunState
from toolyard.core.state import State
from toolyard.core.token_estimate import estimate_tokens
from toolyard.core.window import count_saved_tokens, find_blocks

FULL_SHARE = 0.8
"""Of what a model takes: from here on room is made, as its answer needs some, too."""
TARGET_SHARE = 0.5
"""Of any bound: what is left when room was made."""
HOPELESS_SHARE = 1.5
"""Of what a model takes: our estimate may err, but not by so much."""
MIN_SAVED_TOKENS = 16
"""Tokens that a result must give to be left out."""
MIN_SAVED_SHARE = 0.1
"""Of what a model takes: for less it is not worth to give up what a provider has cached."""
TOO_LARGE = "too_large"
"""What a request that its model cannot take fails with."""


class Compact(Struct, frozen=True, kw_only=True):
    """Make room: leave out the results that are named, or else all through an item, with or without a summary."""

    through: str
    dropped: tuple[str, ...] = ()
    kept_items: tuple[Item, ...] = ()
    """What stays of it in any case: the instructions, and the request that is being worked on."""
    summarise: bool = False
    tell_model: bool = False
    """The model is told that something is missing; where somebody set a window, that is what they asked for."""
    until: float = 0.0


class _Target(Struct, frozen=True, kw_only=True):
    """What the history may come to."""

    tokens: float
    messages: int = 0
    """0 means any number."""
    of_model: bool = False
    """The model's own bound was reached, not one that somebody set."""
    min_saved: float = 0.0
    """What must be saved at least: where the prompt and the tools alone fill a window, leaving out words is no help."""


def is_full(state: State, run: RunState) -> bool:
    settings = run.settings
    bounded = run.window or settings.max_tokens or settings.max_messages
    return bool(bounded) and _compute_target(state, run) is not None


def plan_compaction(state: State, run: RunState, until: float) -> Compact | None:
    """What to leave out; None if there is nothing, or too little to be worth it."""
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
    over, least = list[float](), 0.0
    if run.window and state.tokens > FULL_SHARE * run.window:
        over.append(max(TARGET_SHARE * run.window - state.surplus, (1 - FULL_SHARE) * run.window))
        least = MIN_SAVED_SHARE * run.window
    if run.failure is not None and run.failure.error_type == TOO_LARGE:
        over.append(TARGET_SHARE * history.tokens)
        least = 0.0
    of_model = bool(over)
    if settings.max_tokens and history.tokens > settings.max_tokens:
        over.append(TARGET_SHARE * settings.max_tokens)
    crowd = settings.max_messages and history.messages > settings.max_messages
    if not over and not crowd:
        return None
    return _Target(
        tokens=min(over, default=float(history.tokens)),
        messages=max(1, int(TARGET_SHARE * settings.max_messages)) if crowd else 0,
        of_model=of_model,
        min_saved=0.0 if crowd or len(over) > 1 else least,
    )


def _plan_dropped_results(
    state: State, items: Sequence[Item], starts: Sequence[int], target: _Target
) -> Compact | None:
    """Old results go first, if that is enough: what was asked and answered stays word for word."""
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
    """The oldest turns go; what stands for earlier ones goes with them, never alone."""
    movable = [start for start in starts if start > state.window.head]
    if not movable:
        return None
    cut = _find_cut(items, movable, target.tokens / (2 if target.of_model else 1), target.messages)
    asked = [at for at in movable if at >= cut and isinstance(items[at], UserMessage)]
    if asked and not target.of_model:
        cut = asked[0]
    gone = items[:cut]
    request = [item for item in gone if isinstance(item, UserMessage)][-1:] if not asked else []
    kept = (*(item for item in gone if isinstance(item, SystemText)), *request)
    left_out = [item for item in gone[state.window.head :] if item not in kept]
    if not left_out or sum(map(estimate_tokens, left_out)) < target.min_saved:
        return None
    fits = not run.window or sum(map(estimate_tokens, gone)) + state.surplus <= run.window
    return Compact(
        through=gone[-1].id,
        kept_items=kept,
        summarise=target.of_model and fits and not run.settings.ephemeral,
        tell_model=target.of_model,
        until=until,
    )


def _find_cut(items: Sequence[Item], starts: Sequence[int], tokens: float, messages: int) -> int:
    """The first place from which all that follows is within the bounds; the last place if none is.

    What goes is counted from the beginning and in steps: where the same history comes again and again, a little longer
    each time, it is cut at the same place for a while.
    """
    excess = _round_up(sum(map(estimate_tokens, items)) - tokens, tokens / 2)
    many = _round_up(count_messages(items) - messages, max(1, messages // 2)) if messages else 0
    begin, size, count = 0, 0, 0
    for start in starts:
        size += sum(map(estimate_tokens, items[begin:start]))
        count += count_messages(items[begin:start])
        begin = start
        if size >= excess and count >= many:
            return start
    return starts[-1]


def _round_up(excess: float, step: float) -> float:
    return math.ceil(excess / step) * step if excess > 0 else 0.0
