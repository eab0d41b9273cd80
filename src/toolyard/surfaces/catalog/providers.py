"""`/providers`: the providers of the configured models, for clients of seed 004. They are set in the configuration."""

from collections.abc import Sequence

from litestar import get, route
from litestar.enums import HttpMethod
from litestar.handlers import HTTPRouteHandler
from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.errors import NotFound, Refused
from toolyard.core.masking import mask_addresses
from toolyard.core.providers import ProviderCard
from toolyard.surfaces.authorization import PathId
from toolyard.surfaces.openapi import ERRORS
from toolyard.surfaces.request_context import Visitor, visit_of

PROVIDER = "/providers/{provider_id:str}"
WRITTEN = ["/providers", PROVIDER, *(f"{PROVIDER}/{end}" for end in ("test", "set-default", "models/{kind:str}"))]
WRITES = [HttpMethod.POST, HttpMethod.PUT, HttpMethod.PATCH, HttpMethod.DELETE]


class ShownModel(Struct, kw_only=True):
    model_name: str
    max_tokens: int | None = None
    description: str | None = None


class ShownModels(Struct, kw_only=True):
    """`main` is the one that is used; `all` are those that are configured, fallbacks among them."""

    main: ShownModel
    all: list[str]
    small: ShownModel | None = None


class ProviderConfig(Struct, kw_only=True):
    name: str
    base_url: str
    """For administrators; empty for others."""
    models: ShownModels
    api_key: str = ""
    """Never shown."""
    enabled: bool = True


class ShownProvider(Struct, kw_only=True):
    id: str
    config: ProviderConfig
    has_key: bool
    enabled: bool = True
    created_at: str | None = None
    updated_at: str | None = None


class ProviderAnswer(Struct, kw_only=True):
    provider: ShownProvider
    message: str
    success: bool = True


class ProviderList(Struct, kw_only=True):
    providers: list[ShownProvider]
    count: int
    default_provider: str | None
    success: bool = True


class ProviderModels(Struct, kw_only=True):
    provider_id: str
    models: ShownModels
    count: int
    success: bool = True


def routes(cards: Sequence[ProviderCard]) -> list[HTTPRouteHandler]:
    def card_of(provider_id: str) -> ProviderCard:
        for card in cards:
            if card.id == provider_id:
                return card
        raise NotFound(f"there is no provider {provider_id[:80]!r}")

    @get("/providers", responses=ERRORS, tags=["providers"])
    async def list_providers(request: Visitor) -> ProviderList:
        """The providers of the configured models, the one that is used first in front. Keys are never shown."""
        caller = visit_of(request.scope).caller
        shown = [shown_provider(card, caller) for card in cards]
        return ProviderList(providers=shown, count=len(shown), default_provider=cards[0].id if cards else None)

    @get(PROVIDER, responses=ERRORS, tags=["providers"])
    async def get_provider(request: Visitor, provider_id: PathId) -> ProviderAnswer:
        shown = shown_provider(card_of(provider_id), visit_of(request.scope).caller)
        return ProviderAnswer(provider=shown, message="Provider found")

    @get(f"{PROVIDER}/models", responses=ERRORS, tags=["providers"])
    async def list_models(provider_id: PathId) -> ProviderModels:
        models = shown_models(card_of(provider_id))
        return ProviderModels(provider_id=provider_id, models=models, count=len(models.all))

    @route(WRITTEN, http_method=WRITES, include_in_schema=False)
    async def refuse_change() -> None:
        raise Refused("providers are set in the configuration: `model`, [providers.NAME] or the provider's variables")

    return [list_providers, get_provider, list_models, refuse_change]


def shown_provider(card: ProviderCard, caller: Caller) -> ShownProvider:
    base_url = mask_addresses(card.base_url, every_parameter=True) if caller.administers_server else ""
    config = ProviderConfig(name=card.id, base_url=base_url, models=shown_models(card))
    return ShownProvider(id=card.id, config=config, has_key=card.has_key)


def shown_models(card: ProviderCard) -> ShownModels:
    return ShownModels(main=ShownModel(model_name=card.models[0]), all=list(card.models))
