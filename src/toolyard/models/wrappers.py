"""Models around other models: with options of their own, with fallbacks, or with a second wire for native tools."""

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from weakref import WeakKeyDictionary

from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.caller import is_admitted
from toolyard.core.conversation.events import ModelDelta, TurnEnded, TurnFailed
from toolyard.core.model_failures import RETRYABLE_ERROR_TYPES
from toolyard.core.ports import Model, ModelRequest, NativeToolsModel, Offer, SelectiveModel
from toolyard.core.settings.options import Options, merge_options
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

    async def close(self) -> None:
        await self._model.close()


class FallbackModel:
    """Asks several models in order until one begins to answer.

    Only the last model gets the full retries and deadlines; any other fails fast. Once a model has begun to answer, its
    failure ends the turn: the deltas that were sent on cannot be taken back. Models that the caller's key is not for
    are left out.
    """

    def __init__(self, names: Sequence[str], get_model: Callable[[str], Model]) -> None:
        """`get_model` returns the model of a name, and its owner closes it."""
        self._names = tuple(names)
        self._get_model = get_model

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        # A run names the first model, and its key was checked for that name when the run was started.
        first, *others = self._names
        *earlier, last = (first, *(name for name in others if is_admitted(name, request.key_models)))
        for name in earlier:
            started = False
            async with aclosing(self._get_model(name).stream(replace(request, model=name, fail_fast=True))) as events:
                async for event in events:
                    if (
                        isinstance(event, TurnFailed)
                        and not started
                        and event.problem.error_type in FALLBACK_ERROR_TYPES
                    ):
                        _log.warning("model %s is not available, asking the next one: %s", name, event.problem.error)
                        break
                    started = True
                    yield event
                else:
                    return
        async with aclosing(self._get_model(last).stream(replace(request, model=last))) as events:
            async for event in events:
                yield event

    def list_ignored(self, options: Options) -> Sequence[str]:
        """Return what the first model leaves out: the others answer only if it cannot."""
        first = self._get_model(self._names[0])
        return first.list_ignored(options) if isinstance(first, SelectiveModel) else ()

    async def close(self) -> None:
        pass


class _Route(Struct, frozen=True):
    """The wire for the turns of an offer."""

    is_native: bool
    reduced_offer: Offer | None = None
    """The offer without unsupported tools; None if it has none."""


class NativeToolRouter:
    """One model over two wires: a plain one, and another for turns that offer a tool of the provider's own.

    OpenAI runs its own tools only in the Responses API; all other turns use Chat Completions. A conversation may change
    the wire at any turn. An offer may have been made for another model that then was not available: provider tools that
    this model does not have are removed from it.
    """

    def __init__(self, plain: Model, make_native: Callable[[], Model]) -> None:
        """`make_native` is called when the native wire is first needed."""
        self._plain = plain
        self._make_native = make_native
        self._native: Model | None = None
        self._offers: WeakKeyDictionary[Offer, _Route] = WeakKeyDictionary()

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        offer = request.offer
        route = self._offers.get(offer)
        if route is None:
            route = self._offers[offer] = self._choose_route(offer)
        if route.reduced_offer is not None:
            request = _replace_offer(request, route.reduced_offer)
        return self._get_native_model().stream(request) if route.is_native else self._plain.stream(request)

    def _choose_route(self, offer: Offer) -> _Route:
        if all(tool.venue != "provider" for tool in offer.tools):
            return _Route(False)
        supported = self.native.tools
        remaining = tuple(tool for tool in offer.tools if tool.venue != "provider" or tool.name in supported)
        is_native = any(tool.venue == "provider" for tool in remaining)
        return _Route(is_native, None if len(remaining) == len(offer.tools) else replace(offer, tools=remaining))

    @property
    def native(self) -> NativeTools:
        model = self._get_native_model()
        return model.native if isinstance(model, NativeToolsModel) else NativeTools()

    def list_ignored(self, options: Options) -> Sequence[str]:
        """Return what the plain wire leaves out: whether a turn needs the other one is not known before its offer."""
        return self._plain.list_ignored(options) if isinstance(self._plain, SelectiveModel) else ()

    def _get_native_model(self) -> Model:
        self._native = self._native or self._make_native()
        return self._native

    async def close(self) -> None:
        await self._plain.close()
        if self._native is not None:
            await self._native.close()


def _replace_offer(request: ModelRequest, offer: Offer) -> ModelRequest:
    """Return the request with a reduced offer; a `tool_choice` of a removed tool becomes `auto`."""
    removed = {tool.name for tool in request.offer.tools} - {tool.name for tool in offer.tools}
    choice = "auto" if request.tool_choice in removed else request.tool_choice
    return replace(request, offer=offer, tool_choice=choice)
