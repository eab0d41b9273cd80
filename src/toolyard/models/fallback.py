"""One model, and the next in line where it cannot be had: each is asked in turn until one begins to answer.

It does not know who they are. Only the last one is waited for; any other is to say at once that it cannot. Once a model
has begun, its failure is the turn's: nobody hears two beginnings.
"""

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from msgspec.structs import replace

from toolyard.core.events import ModelDelta, TurnEnded, TurnFailed
from toolyard.core.ports import Model, ModelRequest

FALLBACK_ERROR_TYPES = frozenset({"unavailable", "rate_limited", "timeout"})
"""What another provider may do better: it cannot be reached, is down, or has no room."""
_log = logging.getLogger("toolyard.models")


class FallbackModel:
    def __init__(self, names: Sequence[str], get_model: Callable[[str], Model]) -> None:
        """`made` gives the model of a name, and closes it."""
        self._names = tuple(names)
        self._get_model = get_model

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        *before, last = self._names
        for name in before:
            begun = False
            async with aclosing(self._get_model(name).stream(replace(request, model=name, fail_fast=True))) as events:
                async for event in events:
                    if isinstance(event, TurnFailed) and not begun and event.problem.error_type in FALLBACK_ERROR_TYPES:
                        _log.warning("model %s cannot be had, the next is asked: %s", name, event.problem.error)
                        break
                    begun = True
                    yield event
                else:
                    return
        async with aclosing(self._get_model(last).stream(replace(request, model=last))) as events:
            async for event in events:
                yield event

    async def close(self) -> None:
        pass
