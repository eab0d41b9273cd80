"""Descriptions of model providers, without their keys."""

from collections.abc import Sequence

from msgspec import Struct


class ProviderCard(Struct, frozen=True, kw_only=True):
    """A provider of configured models."""

    id: str
    base_url: str = ""
    models: tuple[str, ...]
    """The provider's names of the models, the default first."""
    has_key: bool = False


def build_provider_card(name: str) -> ProviderCard:
    """Return a card from the name of a model, where nothing else is configured."""
    provider, _, model = name.rpartition(":")
    return ProviderCard(id=provider or name, models=(model,))


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
