"""Cards of models, from what is known of their names and providers. It asks no provider."""

from urllib.parse import urlsplit

from msgspec import UNSET

from toolyard.core.masking import mask_addresses
from toolyard.core.model_cards import InputKind, ModelCard
from toolyard.core.web_search import Native
from toolyard.models.chat.request import MANNERS, OPENAI
from toolyard.models.images import sees
from toolyard.models.providers import ANY, PROVIDERS


def model_card(name: str, *, default: bool, context_tokens: int, native: Native, problem: str) -> ModelCard:
    url = urlsplit(name)
    is_address = url.scheme in ("http", "https")
    provider, model = (url.hostname or "", url.fragment) if is_address else _split(name)
    return ModelCard(
        id=mask_addresses(name, every_parameter=True),
        provider=provider,
        name=model,
        default=default,
        context_tokens=context_tokens or None,
        input=_input_kinds(provider, model),
        native_tools=sorted(native.tools),
        available=not problem,
        reason=problem or UNSET,
    )


def _split(name: str) -> tuple[str, str]:
    provider, colon, model = name.partition(":")
    return (provider, model) if colon else ("", name)


def _input_kinds(provider: str, model: str) -> list[InputKind]:
    """What a model of that name surely takes. A text that comes as a file is told in words, so PDFs are what counts."""
    if not sees(model):
        return ["text"]
    wire = PROVIDERS.get(provider, ANY).wire
    takes_files = wire != "chat" or MANNERS.get(provider, OPENAI).files
    return ["text", "image", "file"] if takes_files else ["text", "image"]
