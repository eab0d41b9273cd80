"""Builds the cards of models from their names and the known facts about providers, without asking a provider."""

from urllib.parse import urlsplit

from msgspec import UNSET

from toolyard.core.masking import mask_addresses
from toolyard.core.settings.model_cards import InputKind, ModelCard
from toolyard.core.settings.model_names import parse_model_name
from toolyard.core.tools.web_search_rule import NativeTools
from toolyard.models.chat.request import OPENAI_QUIRKS, QUIRKS
from toolyard.models.providers import PROVIDERS, UNKNOWN_PROVIDER
from toolyard.models.shared.images import supports_images


def model_card(name: str, *, default: bool, context_tokens: int, native: NativeTools, problem: str) -> ModelCard:
    provider, model, base_url = parse_model_name(name)
    if base_url:
        provider = urlsplit(base_url).hostname or ""
    return ModelCard(
        id=mask_addresses(name, every_parameter=True),
        provider=provider,
        name=model,
        default=default,
        context_tokens=context_tokens or None,
        input=_list_input_kinds(provider, model),
        native_tools=sorted(native.tools),
        available=not problem,
        reason=problem or UNSET,
    )


def _list_input_kinds(provider: str, model: str) -> list[InputKind]:
    """Return what a model of that name is known to accept. Text files always work, so `file` stands for PDFs."""
    if not supports_images(model):
        return ["text"]
    wire = PROVIDERS.get(provider, UNKNOWN_PROVIDER).wire
    accepts_files = wire != "chat" or QUIRKS.get(provider, OPENAI_QUIRKS).accepts_files
    return ["text", "image", "file"] if accepts_files else ["text", "image"]
