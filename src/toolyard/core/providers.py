"""What may be told of a model's provider: everything but its key."""

from collections.abc import Sequence

from msgspec import Struct


class ProviderCard(Struct, frozen=True, kw_only=True):
    """A provider that some configured model is of."""

    id: str
    base_url: str = ""
    models: tuple[str, ...]
    """Their names as the provider has them, the one that is used first in front."""
    has_key: bool = False


def build_provider_card(name: str) -> ProviderCard:
    """Return what a model's name tells of its provider, where nothing else is known."""
    provider, _, model = name.rpartition(":")
    return ProviderCard(id=provider or name, models=(model,))


def add_model(cards: Sequence[ProviderCard], card: ProviderCard) -> tuple[ProviderCard, ...]:
    """Return the cards with one more, its models added to those of the same provider."""
    for at, known in enumerate(cards):
        if known.id == card.id:
            merged = ProviderCard(
                id=known.id,
                base_url=known.base_url,
                models=tuple(dict.fromkeys((*known.models, *card.models))),
                has_key=known.has_key or card.has_key,
            )
            return (*cards[:at], merged, *cards[at + 1 :])
    return (*cards, card)
