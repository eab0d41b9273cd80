"""Prices of models, and what a turn costs: whole millionths of a currency unit, in integer arithmetic. Pure."""

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta, Struct

from toolyard.core.items import Usage
from toolyard.core.settings.types import Count, Name

PerMillion = Annotated[float, Meta(extra={"ge": 0, "le": 1_000_000})]
PerThousand = Annotated[float, Meta(extra={"ge": 0, "le": 1_000_000})]
Currency = Annotated[str, Meta(extra={"pattern": r"^[A-Z]{3}\Z", "says": "three letters such as USD"})]
MICROS = 1_000_000
"""The parts of a currency unit in which costs are counted."""
CALL_PRICE = "tool"
"""The version of the price of a call, which is a rule of its tool."""
PUBLISHED_CURRENCY = "USD"
"""The currency of the published prices."""


class Cost(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What a turn, a summary or a call costs, and the price that it was computed with."""

    micros: int
    """Whole millionths of a unit of the currency."""
    currency: str = PUBLISHED_CURRENCY
    price: str = ""
    """The version of the price."""
    tools: dict[str, int] = {}
    """Those of the millionths that are for uses of the provider's own tools, by tool."""
    unpriced_tools: tuple[str, ...] = ()
    """The provider's tools that were used and have no price: their uses are not part of the cost."""
    estimated: bool = False
    """Whether a part of it is an estimate: a reply was lost before the provider told what it counted."""


class Rates(Struct, frozen=True, kw_only=True):
    """Prices per million tokens. Tokens of the cache cost as much as other input unless their own price is set."""

    input: PerMillion
    output: PerMillion
    cached: PerMillion | None = None
    """For input that is read from the provider's cache."""
    cache_write: PerMillion | None = None
    """For input that is written to the cache for five minutes, or for the provider's usual time."""
    cache_write_1h: PerMillion | None = None
    """For input that is written to the cache for an hour; that of `cache_write` if it is not set."""

    def list_rates(self) -> tuple[int, int, int, int, int]:
        """Return the prices in millionths for input, cached input, cache writes of both kinds, and output."""
        write = self.input if self.cache_write is None else self.cache_write
        write_1h = write if self.cache_write_1h is None else self.cache_write_1h
        cached = self.input if self.cached is None else self.cached
        return _scale(self.input), _scale(cached), _scale(write), _scale(write_1h), _scale(self.output)


class PriceTier(Rates, frozen=True, kw_only=True):
    """The prices of a whole request whose input is longer than `above` tokens."""

    above: Count


class Price(Rates, frozen=True, kw_only=True):
    """The prices of a model."""

    tiers: tuple[PriceTier, ...] = ()
    tools: dict[Name, PerThousand] = {}
    """Prices of a thousand uses of the provider's own tools, by tool."""
    request: PerThousand = 0.0
    """The price of a thousand requests, besides their tokens."""
    currency: Currency = PUBLISHED_CURRENCY

    def iter_problems(self) -> Iterator[tuple[str, str]]:
        starts = [tier.above for tier in self.tiers]
        if starts != sorted(set(starts)):
            yield "tiers", "must be in the order of `above`, each with another one"

    @property
    def has_token_price(self) -> bool:
        return bool(self.input or self.output)

    def find_rates(self, input_tokens: int) -> Rates:
        """Return the prices for a request with so much input."""
        if not self.tiers:
            return self
        return next((tier for tier in reversed(self.tiers) if input_tokens > tier.above), self)


class Quote(Struct, frozen=True, kw_only=True):
    """The price of a model with its version."""

    price: Price
    version: str


def compute_cost(usage: Usage, quote: Quote, *, lost_micros: int = 0, estimated: bool = False) -> Cost:
    """Return the cost of a turn. `lost_micros` are added for replies of the same turn that were lost."""
    price = quote.price
    plain, cached, write, write_1h, output = price.find_rates(usage.input_tokens).list_rates()
    special = usage.cached_tokens + usage.cache_writes_5m + usage.cache_writes_1h
    parts = (
        max(0, usage.input_tokens - special) * plain
        + usage.cached_tokens * cached
        + usage.cache_writes_5m * write
        + usage.cache_writes_1h * write_1h
        + usage.output_tokens * output
        + _scale(price.request) * 1_000
    )
    tools = {name: _price_uses(price, name, uses) for name, uses in usage.tool_uses.items() if name in price.tools}
    return Cost(
        micros=_round(parts) + sum(tools.values()) + lost_micros,
        currency=price.currency,
        price=quote.version,
        tools=tools,
        unpriced_tools=tuple(name for name in usage.tool_uses if name not in price.tools),
        estimated=estimated or bool(lost_micros),
    )


def compute_bound(
    price: Price, input_tokens: int, output_tokens: int, tool_uses: dict[str, int], *, caches_for_an_hour: bool = False
) -> int:
    """Return the most that a request costs, in millionths, if it has so many tokens: nothing comes from the cache.

    `caches_for_an_hour` means that the request may ask for the cache of an hour.
    """
    plain, _, write, write_1h, output = price.find_rates(input_tokens).list_rates()
    input_rate = max(plain, write, write_1h if caches_for_an_hour else 0)
    parts = input_tokens * input_rate + output_tokens * output + _scale(price.request) * 1_000
    return -(-parts // MICROS) + sum(_price_uses(price, name, uses) for name, uses in tool_uses.items())


def to_micros(amount: float) -> int:
    """Return an amount of currency units in whole millionths."""
    return _scale(amount)


def _price_uses(price: Price, tool: str, uses: int) -> int:
    return _round(_scale(price.tools.get(tool, 0.0)) * uses * 1_000)


def _scale(amount: float) -> int:
    return round(amount * MICROS)


def _round(parts: int) -> int:
    """Return millionths of millionths as whole millionths, half of one rounded up."""
    return (parts + MICROS // 2) // MICROS
