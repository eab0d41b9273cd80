"""One model over two wires: a plain one, and another for turns that offer a tool of the provider's own.

OpenAI runs its own tools only in the Responses API, while Chat Completions is what everybody speaks: the plain wire
stays the one for all else. A conversation may go from one to the other at any turn.
"""

from collections.abc import AsyncGenerator, Callable
from weakref import WeakKeyDictionary

from toolyard.core.events import ModelDelta, TurnEnded, TurnFailed
from toolyard.core.ports import Hosting, Model, ModelRequest, Offer
from toolyard.core.search import Native


class ByOffer:
    def __init__(self, plain: Model, native: Callable[[], Model]) -> None:
        """`native` is made when it is first needed."""
        self._plain = plain
        self._make_native = native
        self._native: Model | None = None
        self._offers: WeakKeyDictionary[Offer, bool] = WeakKeyDictionary()

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        offer = request.offer
        wants = self._offers.get(offer)
        if wants is None:
            wants = self._offers[offer] = any(tool.venue == "provider" for tool in offer.tools)
        return self._hosting().stream(request) if wants else self._plain.stream(request)

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
