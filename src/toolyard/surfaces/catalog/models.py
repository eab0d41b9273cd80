"""`GET /models`: the models that a request may name."""

from litestar import get
from msgspec import Struct

from toolyard.core.settings.models.cards import ModelCard
from toolyard.core.settings.models.names import OFFLINE
from toolyard.models.providers import PROVIDERS, describe_setup
from toolyard.surfaces.http.openapi import ERRORS
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context


class ProviderSetup(Struct, kw_only=True):
    """A provider that can be configured by its name."""

    name: str
    key_variable: str
    """The environment variable of its key; empty if it needs none."""


PROVIDER_SETUPS = [ProviderSetup(name=name, key_variable=preset.key_variable) for name, preset in PROVIDERS.items()]


class ModelList(Struct, kw_only=True):
    """The configured models. If there are none, `hint` says what to configure."""

    models: list[ModelCard]
    patterns: list[str] = []
    """Model names that match one of these patterns may be used as well; `models` has those that a provider lists."""
    list_problems: dict[str, str] = {}
    """Why the lists of some providers could not be fetched, by provider."""
    providers: list[ProviderSetup]
    """The providers that can be configured by name, whether they are or not."""
    hint: str = ""
    success: bool = True


@get("/models", responses=ERRORS, tags=["server"])
async def models(request: HttpRequest) -> ModelList:
    """List the models that a request may name, with their options, and the missing settings of unusable ones.

    Lists of providers are fetched in the background: the first answer may have only the configured models.
    """
    service = request.backend.service
    caller, cards = get_request_context(request.scope).caller, service.models.cards()
    hint = describe_setup() if [card.id for card in cards] == [OFFLINE] else ""
    return ModelList(
        models=service.models.cards(caller),
        patterns=list(service.models.patterns),
        list_problems=service.models.list_problems(),
        providers=PROVIDER_SETUPS,
        hint=hint,
    )


ROUTES = (models,)
