"""`GET /v1/models`: the models that a request may name, as OpenAI lists them."""

from typing import Annotated, Literal

from litestar import get
from litestar.params import FromPath, QueryParameter
from msgspec import Struct

from toolyard.core.errors import Invalid
from toolyard.core.settings.models.names import PLAIN
from toolyard.surfaces.http.request_context import HttpRequest
from toolyard.surfaces.openai.errors import OPENAI_ERRORS
from toolyard.surfaces.shared.whole_history.model_list import (
    VERSION_HEADER,
    AnthropicModel,
    AnthropicModelList,
    ListedModel,
    build_anthropic_model,
    build_anthropic_page,
    list_models,
)

CREATED = 1_700_000_000
"""OpenAI's clients need a time; providers do not tell when a model was made."""


PageSize = Annotated[int, QueryParameter(ge=1, le=1_000, description="How many of Anthropic's list")]
PageId = Annotated[
    str | None, QueryParameter(max_length=500, description="Where a page begins or ends, for Anthropic's")
]


class OpenAIModel(Struct, kw_only=True):
    id: str
    owned_by: str
    created: int = CREATED
    object: Literal["model"] = "model"


class OpenAIModelList(Struct, kw_only=True):
    data: list[OpenAIModel]
    object: Literal["list"] = "list"


@get("/v1/models", responses=OPENAI_ERRORS, tags=["openai"])
async def list_all(
    request: HttpRequest, limit: PageSize = 20, before_id: PageId = None, after_id: PageId = None
) -> OpenAIModelList | AnthropicModelList:
    """List the models that can be used now, after `default`, the configured one, and the presets.

    Requests with `anthropic-version` get Anthropic's list, in pages.
    """
    models = await list_models(request)
    if VERSION_HEADER in request.headers:
        return build_anthropic_page(models, limit, before_id, after_id)
    return OpenAIModelList(data=_build_models(models))


@get("/v1/models/{name:path}", responses=OPENAI_ERRORS, tags=["openai"])
async def get_model(request: HttpRequest, name: FromPath[str]) -> OpenAIModel | AnthropicModel:
    """Return one model."""
    models, wanted_id = await list_models(request), name.removeprefix("/")
    for model in _build_models(models):
        if model.id == wanted_id:
            if VERSION_HEADER not in request.headers:
                return model
            owned_model = next((listed for listed in models if listed.id == wanted_id), None)
            return build_anthropic_model(owned_model or ListedModel(id=wanted_id, owner=model.owned_by))
    raise Invalid(f"there is no model {wanted_id[:80]!r}; GET /v1/models lists them", {"field": "model"})


ROUTES = (list_all, get_model)


def _build_models(models: list[ListedModel]) -> list[OpenAIModel]:
    owners = {model.id: model.owner for model in models}
    return [OpenAIModel(id=name + end, owned_by=owner) for end in ("", PLAIN) for name, owner in owners.items()]
