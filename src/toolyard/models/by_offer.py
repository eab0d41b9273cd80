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
from toolyard.core.ports import Hosting, Model, ModelRequest, Offer
from toolyard.core.web_search import Native


class _Way(Struct, frozen=True):
    """Where the turns of an offer go."""

    hosted: bool
    rest: Offer | None = None
    """What is left of the offer, where something must be left out."""


class ByOffer:
    def __init__(self, plain: Model, native: Callable[[], Model]) -> None:
        """`native` is made when it is first needed."""
        self._plain = plain
        self._make_native = native
        self._native: Model | None = None
        self._offers: WeakKeyDictionary[Offer, _Way] = WeakKeyDictionary()

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        offer = request.offer
        way = self._offers.get(offer)
        if way is None:
            way = self._offers[offer] = self._way(offer)
        if way.rest is not None:
            request = _without(request, way.rest)
        return self._hosting().stream(request) if way.hosted else self._plain.stream(request)

    def _way(self, offer: Offer) -> _Way:
        if all(tool.venue != "provider" for tool in offer.tools):
            return _Way(False)
        has = self.native.tools
        rest = tuple(tool for tool in offer.tools if tool.venue != "provider" or tool.name in has)
        hosted = any(tool.venue == "provider" for tool in rest)
        return _Way(hosted, None if len(rest) == len(offer.tools) else replace(offer, tools=rest))

    @property
    def native(self) -> Native:
        hosting = self._hosting()
        return hosting.native if isinstance(hosting, Hosting) else Native()

    def _hosting(self) -> Model:
        self._native = self._native or self._make_native()
        return self._native

    async def close(self) -> None:
        await self._plain.close()
        if self._native is not None:
            await self._native.close()


def _without(request: ModelRequest, rest: Offer) -> ModelRequest:
    """The request with the rest of its offer; a choice of what is left out is none."""
    gone = {tool.name for tool in request.offer.tools} - {tool.name for tool in rest.tools}
    choice = "auto" if request.tool_choice in gone else request.tool_choice
    return replace(request, offer=rest, tool_choice=choice)
