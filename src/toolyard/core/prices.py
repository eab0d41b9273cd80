"""What a model's tokens cost. It does not know any model."""

from typing import Annotated

from msgspec import Meta, Struct

PerMillion = Annotated[float, Meta(ge=0, le=1_000_000)]


class Price(Struct, frozen=True, kw_only=True):
    """For a million tokens each; cached ones cost as much as others where nothing else is said."""

    input: PerMillion
    output: PerMillion
    cached: PerMillion | None = None
    currency: Annotated[str, Meta(pattern=r"^[A-Z]{3}\Z", extra={"says": "three letters such as USD"})] = "USD"
