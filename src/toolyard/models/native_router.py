"""One model over two wires: a plain one, and another for turns that offer a tool of the provider's own.

OpenAI runs its own tools only in the Responses API, while Chat Completions is what everybody speaks: the plain wire
stays the one for all else. A conversation may go from one to the other at any turn. An offer may be made for another
model, which cannot be had: what this one's provider does not run for it is left out.
"""

from collections.abc import AsyncGenerator, Callable
from weakref import WeakKeyDictionary

from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.events import ModelDelta, TurnEnded, TurnFailed
from toolyard.core.ports import Model, ModelRequest, NativeToolsModel, Offer
from toolyard.core.web_search import NativeTools


class _Route(Struct, frozen=True):
    """Where the turns of an offer go."""

    is_native: bool
    reduced_offer: Offer | None = None
    """What is left of the offer, where something must be left out."""


class NativeToolRouter:
    def __init__(self, plain: Model, make_native: Callable[[], Model]) -> None:
        """`native` is made when it is first needed."""
        self._plain = plain
        self._make_native = make_native
        self._native: Model | None = None
        self._offers: WeakKeyDictionary[Offer, _Route] = WeakKeyDictionary()

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        offer = request.offer
        way = self._offers.get(offer)
        if way is None:
            way = self._offers[offer] = self._choose_route(offer)
        if way.reduced_offer is not None:
            request = _replace_offer(request, way.reduced_offer)
        return self._get_native_model().stream(request) if way.is_native else self._plain.stream(request)

    def _choose_route(self, offer: Offer) -> _Route:
        if all(tool.venue != "provider" for tool in offer.tools):
            return _Route(False)
        has = self.native.tools
        rest = tuple(tool for tool in offer.tools if tool.venue != "provider" or tool.name in has)
        hosted = any(tool.venue == "provider" for tool in rest)
        return _Route(hosted, None if len(rest) == len(offer.tools) else replace(offer, tools=rest))

    @property
    def native(self) -> NativeTools:
        hosting = self._get_native_model()
        return hosting.native if isinstance(hosting, NativeToolsModel) else NativeTools()

    def _get_native_model(self) -> Model:
        self._native = self._native or self._make_native()
        return self._native

    async def close(self) -> None:
        await self._plain.close()
        if self._native is not None:
            await self._native.close()


def _replace_offer(request: ModelRequest, offer: Offer) -> ModelRequest:
    """The request with the rest of its offer; a choice of what is left out is none."""
    gone = {tool.name for tool in request.offer.tools} - {tool.name for tool in offer.tools}
    choice = "auto" if request.tool_choice in gone else request.tool_choice
    return replace(request, offer=offer, tool_choice=choice)
