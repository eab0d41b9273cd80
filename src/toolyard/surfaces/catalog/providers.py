"""`/providers`: list the providers of the default models, and try a provider. Older clients expect these routes.

Providers are changed at `/settings/providers/NAME`, so requests that change them here are refused.
"""

import asyncio
from typing import Annotated

from litestar import get, post, route
from litestar.enums import HttpMethod
from litestar.params import JSONBody
from msgspec import Meta, Struct

from toolyard.core.caller import Caller
from toolyard.core.errors import NotFound, Refused
from toolyard.core.masking import mask_addresses
from toolyard.core.settings.models.cards import ProviderCard
from toolyard.models.provider_check import ProviderCheck
from toolyard.surfaces.http.authorization import PathId, require_server_admin
from toolyard.surfaces.http.openapi import ERRORS
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context
from toolyard.surfaces.surface import Backend

PROVIDER_PATH = "/providers/{provider_id:str}"
TEST_PATH = f"{PROVIDER_PATH}/test"
CHANGE_PATHS = [
    "/providers",
    PROVIDER_PATH,
    *(f"{PROVIDER_PATH}/{end}" for end in ("set-default", "models/{kind:str}")),
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


class ProviderTestBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """What to try: the unsaved settings of the provider, and the provider's name of a model."""

    value: dict[str, object] | None = None
    model: Annotated[str, Meta(max_length=200)] = ""


class ProviderTestAnswer(Struct, kw_only=True):
    provider_id: str
    test: ProviderCheck
    message: str
    success: bool


def find_card(request: HttpRequest, provider_id: str) -> ProviderCard:
    for card in request.backend.provider_cards():
        if card.id == provider_id:
            return card
    raise NotFound(f"there is no provider {provider_id[:80]!r}")


@get("/providers", responses=ERRORS, tags=["providers"])
async def list_providers(request: HttpRequest) -> ProviderList:
    """List the providers of the configured models, the default one first. Keys are never shown."""
    cards = request.backend.provider_cards()
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


@post(TEST_PATH, status_code=200, responses=ERRORS, audited_as="provider.test", tags=["providers"])
async def test_provider(
    request: HttpRequest, provider_id: PathId, data: JSONBody[ProviderTestBody | None] = None
) -> ProviderTestAnswer:
    """Try a provider with real requests, for 20 seconds at most: its list of models, and an answer of a named model.

    With `value`, an entry as `PUT /settings/providers/NAME` takes it, that is tried without being saved. The answer
    says in words what came back; `success` is false if the provider cannot be used.
    """
    admin = require_server_admin(request, "providers are tried by administrators of the server")
    backend, body = request.backend, data or ProviderTestBody()
    assert backend.check_provider is not None, "a backend that serves requests has providers"
    turn = backend.share(build_test_lock)
    if turn.locked():
        raise Refused("another provider is being tried: try again when that has ended")
    async with turn, backend.service.auditor.record("provider.test", provider_id, tenant="", by=admin):
        check = await backend.check_provider(provider_id, body.value, body.model)
    return ProviderTestAnswer(provider_id=provider_id, test=check, message=check.message, success=check.ok)


@route(CHANGE_PATHS, http_method=CHANGE_METHODS, include_in_schema=False)
async def refuse_change() -> None:
    raise Refused("providers are changed with PUT /settings/providers/NAME, or in the configuration file")


@route(TEST_PATH, http_method=CHANGE_METHODS[1:], include_in_schema=False)
async def refuse_other_test() -> None:
    raise Refused("a provider is tried with POST")


ROUTES = (list_providers, get_provider, list_models, test_provider, refuse_change, refuse_other_test)


def build_test_lock(_: Backend) -> asyncio.Lock:
    """Return the lock that lets one provider be tried at a time."""
    return asyncio.Lock()


def build_provider_view(card: ProviderCard, caller: Caller) -> ProviderView:
    base_url = mask_addresses(card.base_url, every_parameter=True) if caller.administers_server else ""
    config = ProviderConfigView(name=card.id, base_url=base_url, models=build_models_view(card))
    return ProviderView(id=card.id, config=config, has_key=card.has_key)


def build_models_view(card: ProviderCard) -> ProviderModelsView:
    return ProviderModelsView(main=ProviderModelView(model_name=card.models[0]), all=list(card.models))
