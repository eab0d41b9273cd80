"""The description of a model that users can choose, and its prices."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from toolyard.core.errors import Misconfigured, MissingKey
from toolyard.core.masking import mask_addresses

PerMillion = Annotated[float, Meta(extra={"ge": 0, "le": 1_000_000})]


class Price(Struct, frozen=True, kw_only=True):
    """Prices per million tokens. Cached tokens cost as much as other input unless `cached` is set."""

    input: PerMillion
    output: PerMillion
    cached: PerMillion | None = None
    currency: Annotated[str, Meta(extra={"pattern": r"^[A-Z]{3}\Z", "says": "three letters such as USD"})] = "USD"


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
