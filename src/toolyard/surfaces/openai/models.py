"""`GET /v1/models`: the models that a request may name, as OpenAI lists them."""

from typing import Literal

from litestar import get
from litestar.params import FromPath
from msgspec import Struct

from toolyard.core.errors import Invalid
from toolyard.core.settings.model_cards import ModelCard
from toolyard.engine.service import Service
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context
from toolyard.surfaces.openai.errors import OPENAI_ERRORS
from toolyard.surfaces.shared.whole_history.sent_fields import DEFAULT, PLAIN

CREATED = 1_700_000_000
"""OpenAI's clients need a time; providers do not tell when a model was made."""


class OpenAIModel(Struct, kw_only=True):
    id: str
    owned_by: str
    created: int = CREATED
    object: Literal["model"] = "model"


class OpenAIModelList(Struct, kw_only=True):
    data: list[OpenAIModel]
    object: Literal["list"] = "list"


@get("/v1/models", responses=OPENAI_ERRORS, tags=["openai"])
async def list_models(request: HttpRequest) -> OpenAIModelList:
    """List the models that can be used now, after `default`, the configured one."""
    return OpenAIModelList(data=_list_models(_list_cards(request, request.backend.service)))


@get("/v1/models/{name:path}", responses=OPENAI_ERRORS, tags=["openai"])
async def get_model(request: HttpRequest, name: FromPath[str]) -> OpenAIModel:
    """Return one model."""
    wanted_id = name.removeprefix("/")
    for model in _list_models(_list_cards(request, request.backend.service)):
        if model.id == wanted_id:
            return model
    raise Invalid(f"there is no model {wanted_id[:80]!r}; GET /v1/models lists them", {"field": "model"})


ROUTES = (list_models, get_model)


def _list_cards(request: HttpRequest, service: Service) -> list[ModelCard]:
    """Return the models that the caller's key is for."""
    caller = get_request_context(request.scope).caller
    return [card for card in service.models.cards() if caller.may_use_model(card.id)]


def _list_models(cards: list[ModelCard]) -> list[OpenAIModel]:
    usable = [card for card in cards if card.available]
    provider = next((card.provider for card in usable if card.default), "toolyard")
    owners = {DEFAULT: provider, **{card.id: card.provider for card in usable}}
    return [OpenAIModel(id=name + end, owned_by=owner) for end in ("", PLAIN) for name, owner in owners.items()]
