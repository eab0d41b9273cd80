"""One model turn: its start event, its stream and its end. Whatever the model does, the turn ends with one event."""

import logging
from collections.abc import Callable
from contextlib import aclosing

from toolyard.core.conversation.events import ModelDelta, TurnEnded, TurnFailed, TurnStarted
from toolyard.core.conversation.state import State
from toolyard.core.failed_results import to_problem
from toolyard.core.items import Call, Problem
from toolyard.core.ports import Model, ModelRequest, Offer
from toolyard.core.tools.trust import list_unreviewed_servers
from toolyard.engine.loop.deadline import is_own_cancellation

MAX_CALLS = 1000
"""A turn with more calls fails as a whole. Below this, each call over `calls_per_turn` gets an error result."""
_END_EVENTS = (TurnEnded, TurnFailed)

_log = logging.getLogger("toolyard.turn")


def build_turn_started(number: int, epoch: int, offer: Offer, state: State) -> TurnStarted:
    """Return the start of a turn, with only the tools that differ from those of the turn before."""
    same = offer.digest == state.offer
    return TurnStarted(
        number=number,
        epoch=epoch,
        offer=offer.digest,
        offered=len(offer.tools),
        added={} if same else {k: v for k, v in offer.hashes.items() if state.offered.get(k) != v},
        removed=() if same else tuple(name for name in state.offered if name not in offer.hashes),
        search=offer.search,
        unreviewed=list_unreviewed_servers(offer.tools),
    )


async def stream_turn(
    request: ModelRequest, models: Callable[[str], Model], tell: Callable[[ModelDelta], None]
) -> TurnEnded | TurnFailed:
    """Pass each delta to `tell` as it arrives, and return the event that ends the turn."""
    try:
        async with aclosing(models(request.model).stream(request)) as events:
            async for event in events:
                if isinstance(event, _END_EVENTS):
                    return _limit_calls(event, request.model)
                tell(event)
        why = "it gave neither an end nor a failure"
    except BaseException as error:  # a model's failure ends the run, not the process
        if is_own_cancellation(error):
            raise
        log_fields = {"correlation_id": request.correlation_id}
        _log.error("model %s failed", request.model, exc_info=error, extra=log_fields)
        why = f"{type(error).__name__}: {error}"
    return TurnFailed(problem=build_model_problem(request.model, why))


def build_model_problem(model: str, why: str) -> Problem:
    return to_problem(f"the model {model} failed: {why}", "model_error")


def _limit_calls(event: TurnEnded | TurnFailed, model: str) -> TurnEnded | TurnFailed:
    calls = sum(isinstance(item, Call) for item in event.items) if isinstance(event, TurnEnded) else 0
    if calls <= MAX_CALLS:
        return event
    return TurnFailed(problem=build_model_problem(model, f"it asked for {calls} calls at once"))
