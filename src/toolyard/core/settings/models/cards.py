"""Models that users can choose and their providers: settings, and descriptions without keys."""

from collections.abc import Sequence
from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from toolyard.core.errors import Misconfigured, MissingKey
from toolyard.core.masking import mask_addresses
from toolyard.core.settings.models.options import ForwardedOption
from toolyard.core.settings.types import BetaName, HeaderName, HeaderSecret, Url

InputKind = Literal["text", "image", "file"]


class ModelCard(Struct, frozen=True, kw_only=True):
    """A model, what it accepts, and the reason if it cannot be used."""

    id: str
    provider: str
    name: str
    default: bool
    context_tokens: int | None
    """None if it is unknown."""
    input: list[InputKind]
    native_tools: list[str]
    """Tools that the provider runs itself."""
    available: bool
    reason: str | UnsetType = UNSET


def describe_model_problem(error: Misconfigured) -> str:
    """Return a short reason why a model cannot be used."""
    return f"needs {error.variable}" if isinstance(error, MissingKey) else mask_addresses(str(error))


class Provider(Struct, frozen=True, kw_only=True):
    """The settings of a provider that differ from its preset."""

    api_key: HeaderSecret = ""
    base_url: Url = ""
    headers: dict[HeaderName, HeaderSecret] = {}
    wire: Literal["chat", "responses", "messages", "gemini", ""] = ""
    """The wire format that the provider speaks; empty means that of its preset."""
    forward: frozenset[ForwardedOption] = frozenset()
    """The options of requests that the provider gets although they change the price or may name a person."""
    betas: frozenset[BetaName] = frozenset()
    """The values of `anthropic-beta` that requests may pass on to the provider."""

    def __repr__(self) -> str:
        # Keys and headers are secrets.
        return f"Provider(base_url={self.base_url!r}, wire={self.wire!r})"


class ProviderCard(Struct, frozen=True, kw_only=True):
    """A provider of configured models."""

    id: str
    base_url: str = ""
    models: tuple[str, ...]
    """The provider's names of the models, the default first."""
    has_key: bool = False


def add_model(cards: Sequence[ProviderCard], card: ProviderCard) -> tuple[ProviderCard, ...]:
    """Return the cards with `card` added, merged with the card of the same provider if there is one."""
    for at, existing in enumerate(cards):
        if existing.id == card.id:
            merged = ProviderCard(
                id=existing.id,
                base_url=existing.base_url,
                models=tuple(dict.fromkeys((*existing.models, *card.models))),
                has_key=existing.has_key or card.has_key,
            )
            return (*cards[:at], merged, *cards[at + 1 :])
    return (*cards, card)
