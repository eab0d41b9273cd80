"""Models around other models: with fallbacks that are asked in order, or with options of their own."""

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from msgspec.structs import replace

from toolyard.core.conversation.events import ModelDelta, TurnEnded, TurnFailed
from toolyard.core.items import Problem
from toolyard.core.model_failures import RETRYABLE_ERROR_TYPES
from toolyard.core.ports import Model, ModelRequest, NativeApiModel, NativeToolsModel, SelectiveModel
from toolyard.core.settings.models.options import Options, merge_options
from toolyard.core.tools.web_search_rule import NativeTools

FALLBACK_ERROR_TYPES = RETRYABLE_ERROR_TYPES | {"quota_exceeded"}
"""The errors that another provider may not have: unreachable, failing, overloaded or without credit."""
_log = logging.getLogger("toolyard.models")


class ConfiguredModel:
    """Merges a request's options over its own. In a chain of models each applies its own to the same request."""

    def __init__(self, model: Model, options: Options) -> None:
        self._model = model
        self._options = options

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        return self._model.stream(replace(request, options=merge_options(request.options, self._options)))

    @property
    def native(self) -> NativeTools:
        return self._model.native if isinstance(self._model, NativeToolsModel) else NativeTools()

    def list_ignored(self, options: Options) -> Sequence[str]:
        return self._model.list_ignored(options) if isinstance(self._model, SelectiveModel) else ()

    def find_provider(self, wire: str) -> str:
        return self._model.find_provider(wire) if isinstance(self._model, NativeApiModel) else ""

    async def close(self) -> None:
        await self._model.close()


class FallbackModel:
    """Asks several models in order until one begins to answer.

    Only the last model gets the full retries and deadlines; any other fails fast. Once a model has begun to answer, its
    failure ends the turn: the deltas that were sent on cannot be taken back. Models that the caller may not
    use are left out.
    """

    def __init__(self, names: Sequence[str], get_model: Callable[[str], Model]) -> None:
        """`get_model` returns the model of a name, and its owner closes it."""
        self._names = tuple(names)
        self._get_model = get_model

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        # A run names the first model, and its key was checked for that name when the run was started.
        first, *others = self._names
        *earlier, last = (first, *(name for name in others if request.may_use(name)))
        failure: Problem | None = None
        for name in earlier:
            if failure is not None and (refusal := await _admit(request, name, failure)) is not None:
                yield refusal
                return
            started = False
            async with aclosing(self._get_model(name).stream(replace(request, model=name, fail_fast=True))) as events:
                async for event in events:
                    if (
                        isinstance(event, TurnFailed)
                        and not started
                        and event.problem.error_type in FALLBACK_ERROR_TYPES
                    ):
                        _log.warning("model %s is not available, asking the next one: %s", name, event.problem.error)
                        failure = event.problem
                        break
                    started = True
                    yield event if name == first else _name_fallback(event, name)
                else:
                    return
        if failure is not None and (refusal := await _admit(request, last, failure)) is not None:
            yield refusal
            return
        async with aclosing(self._get_model(last).stream(replace(request, model=last))) as events:
            async for event in events:
                yield event if last == first else _name_fallback(event, last)

    def list_ignored(self, options: Options) -> Sequence[str]:
        """Return what the first model leaves out: the others answer only if it cannot."""
        first = self._get_model(self._names[0])
        return first.list_ignored(options) if isinstance(first, SelectiveModel) else ()

    def find_provider(self, wire: str) -> str:
        """Return the provider of the first model, as the others answer only if it cannot."""
        first = self._get_model(self._names[0])
        return first.find_provider(wire) if isinstance(first, NativeApiModel) else ""

    async def close(self) -> None:
        pass


async def _admit(request: ModelRequest, name: str, failure: Problem) -> TurnFailed | None:
    return await request.admit_attempt(name, failure) if request.admit_attempt else None


def _name_fallback(event: ModelDelta | TurnEnded | TurnFailed, name: str) -> ModelDelta | TurnEnded | TurnFailed:
    """Return the event; the end of a turn with the configured name of the model that answered."""
    return replace(event, fallback=name) if isinstance(event, TurnEnded) else event
