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

PASSED_ON = frozenset({"unavailable", "rate_limited", "timeout"})
"""What another provider may do better: it cannot be reached, is down, or has no room."""
_log = logging.getLogger("toolyard.models")


class Fallback:
    def __init__(self, names: Sequence[str], made: Callable[[str], Model]) -> None:
        """`made` gives the model of a name, and closes it."""
        self._names = tuple(names)
        self._made = made

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        *before, last = self._names
        for name in before:
            begun = False
            async with aclosing(self._made(name).stream(replace(request, model=name, hasty=True))) as events:
                async for event in events:
                    if isinstance(event, TurnFailed) and not begun and event.problem.error_type in PASSED_ON:
                        _log.warning("model %s cannot be had, the next is asked: %s", name, event.problem.error)
                        break
                    begun = True
                    yield event
                else:
                    return
        async with aclosing(self._made(last).stream(replace(request, model=last))) as events:
            async for event in events:
                yield event

    async def close(self) -> None:
        pass
