"""Prices of tokens."""

from typing import Annotated

from msgspec import Meta, Struct

PerMillion = Annotated[float, Meta(extra={"ge": 0, "le": 1_000_000})]


class Price(Struct, frozen=True, kw_only=True):
    """Prices per million tokens. Cached tokens cost as much as other input unless `cached` is set."""

    input: PerMillion
    output: PerMillion
    cached: PerMillion | None = None
    currency: Annotated[str, Meta(extra={"pattern": r"^[A-Z]{3}\Z", "says": "three letters such as USD"})] = "USD"
