"""One model over two wires: a plain one, and another for turns that offer a tool of the provider's own."""

from collections.abc import AsyncGenerator, Callable, Sequence
from weakref import WeakKeyDictionary

from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.conversation.events import ModelDelta, TurnEnded, TurnFailed
from toolyard.core.ports import Model, ModelRequest, NativeApiModel, NativeToolsModel, Offer, SelectiveModel
from toolyard.core.settings.models.options import Options
from toolyard.core.tools.web_search_rule import NativeTools


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

    def find_provider(self, wire: str) -> str:
        return self._plain.find_provider(wire) if isinstance(self._plain, NativeApiModel) else ""

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
