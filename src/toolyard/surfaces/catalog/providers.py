"""`/providers`: list the providers of the configured models. Older clients expect these routes.

Providers are set in the configuration, so requests that change them are refused.
"""

from litestar import get, route
from litestar.enums import HttpMethod
from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.errors import NotFound, Refused
from toolyard.core.masking import mask_addresses
from toolyard.core.settings.model_cards import ProviderCard
from toolyard.surfaces.http.authorization import PathId
from toolyard.surfaces.http.openapi import ERRORS
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context

PROVIDER_PATH = "/providers/{provider_id:str}"
CHANGE_PATHS = [
    "/providers",
    PROVIDER_PATH,
    *(f"{PROVIDER_PATH}/{end}" for end in ("test", "set-default", "models/{kind:str}")),
]
CHANGE_METHODS = [HttpMethod.POST, HttpMethod.PUT, HttpMethod.PATCH, HttpMethod.DELETE]


class ProviderModelView(Struct, kw_only=True):
    model_name: str
    max_tokens: int | None = None
    description: str | None = None


class ProviderModelsView(Struct, kw_only=True):
    """`main` is the model that is used; `all` lists the configured models, including fallbacks."""

    main: ProviderModelView
    all: list[str]
    small: ProviderModelView | None = None


class ProviderConfigView(Struct, kw_only=True):
    name: str
    base_url: str
    """The URL of the provider, for administrators; empty for others."""
    models: ProviderModelsView
    api_key: str = ""
    """Always empty: keys are never shown."""
    enabled: bool = True


class ProviderView(Struct, kw_only=True):
    id: str
    config: ProviderConfigView
    has_key: bool
    enabled: bool = True
    created_at: str | None = None
    updated_at: str | None = None


class ProviderAnswer(Struct, kw_only=True):
    provider: ProviderView
    message: str
    success: bool = True


class ProviderList(Struct, kw_only=True):
    providers: list[ProviderView]
    count: int
    default_provider: str | None
    success: bool = True


class ProviderModels(Struct, kw_only=True):
    provider_id: str
    models: ProviderModelsView
    count: int
    success: bool = True


def find_card(request: HttpRequest, provider_id: str) -> ProviderCard:
    for card in request.backend.provider_cards:
        if card.id == provider_id:
            return card
    raise NotFound(f"there is no provider {provider_id[:80]!r}")


@get("/providers", responses=ERRORS, tags=["providers"])
async def list_providers(request: HttpRequest) -> ProviderList:
    """List the providers of the configured models, the default one first. Keys are never shown."""
    cards = request.backend.provider_cards
    caller = get_request_context(request.scope).caller
    views = [build_provider_view(card, caller) for card in cards]
    return ProviderList(providers=views, count=len(views), default_provider=cards[0].id if cards else None)


@get(PROVIDER_PATH, responses=ERRORS, tags=["providers"])
async def get_provider(request: HttpRequest, provider_id: PathId) -> ProviderAnswer:
    """Return a provider."""
    view = build_provider_view(find_card(request, provider_id), get_request_context(request.scope).caller)
    return ProviderAnswer(provider=view, message="Provider found")


@get(f"{PROVIDER_PATH}/models", responses=ERRORS, tags=["providers"])
async def list_models(request: HttpRequest, provider_id: PathId) -> ProviderModels:
    """List the configured models of a provider."""
    models = build_models_view(find_card(request, provider_id))
    return ProviderModels(provider_id=provider_id, models=models, count=len(models.all))


@route(CHANGE_PATHS, http_method=CHANGE_METHODS, include_in_schema=False)
async def refuse_change() -> None:
    raise Refused("providers are set in the configuration: `model`, [providers.NAME] or the provider's variables")


ROUTES = (list_providers, get_provider, list_models, refuse_change)


def build_provider_view(card: ProviderCard, caller: Caller) -> ProviderView:
    base_url = mask_addresses(card.base_url, every_parameter=True) if caller.administers_server else ""
    config = ProviderConfigView(name=card.id, base_url=base_url, models=build_models_view(card))
    return ProviderView(id=card.id, config=config, has_key=card.has_key)


def build_models_view(card: ProviderCard) -> ProviderModelsView:
    return ProviderModelsView(main=ProviderModelView(model_name=card.models[0]), all=list(card.models))
