"""Model providers: their settings, and their descriptions without keys."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from toolyard.core.settings.options import ForwardedOption
from toolyard.core.settings.types import HeaderName, HeaderSecret, Url


class Provider(Struct, frozen=True, kw_only=True):
    """The settings of a provider that differ from its preset."""

    api_key: HeaderSecret = ""
    base_url: Url = ""
    headers: dict[HeaderName, HeaderSecret] = {}
    wire: Literal["chat", "responses", "messages", "gemini", ""] = ""
    """The wire format that the provider speaks; empty means that of its preset."""
    forward: frozenset[ForwardedOption] = frozenset()
    """The options of requests that the provider gets although they change the price or may name a person."""

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
