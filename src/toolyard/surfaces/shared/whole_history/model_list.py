"""`/v1/models`: the models and presets that a request may name, and the form in which Anthropic's clients list them."""

from typing import Literal

from msgspec import Struct

from toolyard.core.errors import Invalid
from toolyard.core.settings.models.names import PRESET_PREFIX
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context
from toolyard.surfaces.shared.whole_history.sent_fields import DEFAULT

VERSION_HEADER = "anthropic-version"
"""The header that clients of Anthropic's API send with every request, and others do not."""
OWNER = "toolyard"
EPOCH = "1970-01-01T00:00:00Z"
"""Providers do not tell when a model was made."""


class ListedModel(Struct, frozen=True, kw_only=True):
    """A name that a request may use as its model."""

    id: str
    owner: str
    context_tokens: int | None = None


class AnthropicModel(Struct, kw_only=True):
    id: str
    display_name: str
    created_at: str = EPOCH
    lifecycle: Literal["active"] = "active"
    max_input_tokens: int | None = None
    max_tokens: int | None = None
    type: Literal["model"] = "model"


class AnthropicModelList(Struct, kw_only=True):
    data: list[AnthropicModel]
    first_id: str | None
    last_id: str | None
    has_more: bool


async def list_models(request: HttpRequest) -> list[ListedModel]:
    """Return the models that can be used now, after `default`, the configured one, and then the presets."""
    service, caller = request.backend.service, get_request_context(request.scope).caller
    cards = [card for card in service.models.cards(caller) if card.available]
    default = next((card for card in cards if card.default), None)
    presets = dict.fromkeys(preset.name for preset in await service.presets.list(caller))
    return [
        ListedModel(
            id=DEFAULT,
            owner=default.provider if default else OWNER,
            context_tokens=default.context_tokens if default else None,
        ),
        *(ListedModel(id=card.id, owner=card.provider, context_tokens=card.context_tokens) for card in cards),
        *(ListedModel(id=PRESET_PREFIX + name, owner=OWNER) for name in presets),
    ]


def build_anthropic_model(model: ListedModel) -> AnthropicModel:
    return AnthropicModel(id=model.id, display_name=model.id, max_input_tokens=model.context_tokens)


def build_anthropic_page(
    models: list[ListedModel], limit: int, before_id: str | None, after_id: str | None
) -> AnthropicModelList:
    """Return a page of the models. Raise Invalid for an id that is not listed."""
    ids = [model.id for model in models]
    for field, model_id in (("before_id", before_id), ("after_id", after_id)):
        if model_id is not None and model_id not in ids:
            raise Invalid(f"{field}: there is no model {model_id[:80]!r}", {"field": field})
    start = ids.index(after_id) + 1 if after_id is not None else 0
    end = ids.index(before_id) if before_id is not None else len(models)
    if before_id is not None and after_id is None:
        start = max(0, end - limit)  # the page right before it
    page = [build_anthropic_model(model) for model in models[start:end][:limit]]
    return AnthropicModelList(
        data=page,
        first_id=page[0].id if page else None,
        last_id=page[-1].id if page else None,
        has_more=start > 0 if before_id is not None and after_id is None else start + len(page) < end,
    )
