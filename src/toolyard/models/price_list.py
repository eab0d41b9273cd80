"""The prices of models: the configured ones, then those that `genai-prices` publishes with its releases.

The published prices are loaded with the first model that needs one, in a thread: they take a second. They are never
fetched. Each model is looked up once.
"""

import asyncio
import hashlib
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from types import ModuleType
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from toolyard.core.settings.models.names import LOCAL_PREFIX, OFFLINE, parse_model_name
from toolyard.core.settings.prices import PUBLISHED_CURRENCY, Price, PriceTier, Quote

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice, Tier, TieredPrices

RECHECK_S = 60.0
"""How long a published price is used that depends on the date or the time of day."""
MAX_MODELS = 4_096
"""Models whose prices are kept: providers report any names."""
_PROVIDERS = {"gemini": "google"}
"""The names of providers in the published prices, where they differ."""
_TOOLS = {
    "web_search": "web_searches_kcount",
    "file_search": "storage_searches_kcount",
    "code_execution": "code_executions_kcount",
}
_RATES = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cached": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
}


class _Entry(Struct, frozen=True):
    quote: Quote | None
    until: float


class PriceList:
    """Finds the prices of models by their configured names, or else by the names that providers report."""

    def __init__(self, prices: Mapping[str, Price], *, published: bool = False) -> None:
        """`prices` are the configured ones. Without `published`, all other models have no price."""
        self._prices = prices
        self._published = published
        self._entries: dict[tuple[str, str], _Entry] = {}
        self._module: ModuleType | None = None
        self._loading = asyncio.Lock()

    def replace(self, prices: Mapping[str, Price]) -> None:
        """Use other configured prices from now on."""
        if prices != self._prices:
            self._prices = prices
            self._entries.clear()

    def get(self, model: str, reported: str, now: float) -> Quote | None:
        """Return the price of a model that was looked up before; None if it has none or was not looked up."""
        entry = self._entries.get((model, reported))
        return entry.quote if entry is not None and now < entry.until else None

    async def find(self, model: str, reported: str, now: float) -> Quote | None:
        """Return the price of a model; None if it is unknown. `reported` is the name in a reply, if there is one."""
        entry = self._entries.get((model, reported))
        if entry is None or now >= entry.until:
            entry = await self._look_up(model, reported, now)
            if len(self._entries) >= MAX_MODELS:
                self._entries.clear()
            self._entries[model, reported] = entry
        return entry.quote

    async def _look_up(self, model: str, reported: str, now: float) -> _Entry:
        price = self._prices.get(model) or self._prices.get(reported)
        if price is not None:
            digest = hashlib.blake2b(msgspec.json.encode(price, order="deterministic"), digest_size=4).hexdigest()
            return _Entry(Quote(price=price, version=f"config:{digest}"), float("inf"))
        provider = parse_model_name(model).provider
        if model == OFFLINE or model.startswith(LOCAL_PREFIX):
            return _Entry(Quote(price=Price(input=0.0, output=0.0), version="local"), float("inf"))
        if not self._published or not provider:
            return _Entry(None, float("inf"))
        async with self._loading:
            if self._module is None:
                self._module = await asyncio.to_thread(_load)
        names = (parse_model_name(model).model, reported)
        return _find_published(self._module, _PROVIDERS.get(provider, provider), names, now)


def _load() -> ModuleType:
    """Return the module with the published prices, without those that it could fetch; an empty one without it."""
    try:
        from genai_prices import data_snapshot
    except ImportError:
        return ModuleType("no_prices")
    data_snapshot.get_snapshot()  # reads the bundled prices
    return data_snapshot


def _get_version() -> str:
    from importlib.metadata import version

    return f"genai-prices {version('genai-prices')}"


def _find_published(module: ModuleType, provider: str, names: tuple[str, ...], now: float) -> _Entry:
    if not hasattr(module, "get_snapshot"):
        return _Entry(None, float("inf"))
    for name in filter(None, names):
        with suppress(LookupError):
            _, published = module.get_snapshot().find_provider_model(name, None, provider, None)
            prices = published.get_prices(datetime.fromtimestamp(now, UTC))
            until = now + RECHECK_S if isinstance(published.prices, list) else float("inf")
            price = _convert(prices)
            quote = Quote(price=price, version=_get_version()) if price else None
            return _Entry(quote, until)
    return _Entry(None, float("inf"))


def _convert(prices: "ModelPrice") -> Price | None:
    """Return published prices as ours; None for a model that is not priced by its tokens."""
    if prices.input_mtok is None or prices.output_mtok is None:
        return None
    published = {name: getattr(prices, key) for name, key in _RATES.items()}
    starts = {tier.start for price in published.values() if price is not None for tier in _list_tiers(price)}
    rates = {start: _get_rates(published, start) for start in (0, *sorted(starts))}
    tools = {name: _get_rate(price, 0) for name, key in _TOOLS.items() if (price := getattr(prices, key)) is not None}
    request = prices.requests_kcount
    return Price(
        **rates[0],
        tiers=tuple(PriceTier(above=start, **rates[start]) for start in sorted(starts)),
        tools=tools,
        request=0.0 if request is None else _get_rate(request, 0),
        currency=PUBLISHED_CURRENCY,
    )


def _get_rates(published: "Mapping[str, Decimal | TieredPrices | None]", input_tokens: int) -> dict[str, float]:
    """Return the prices for more than that much input."""
    return {name: _get_rate(price, input_tokens) for name, price in published.items() if price is not None}


def _get_rate(price: "Decimal | TieredPrices", input_tokens: int) -> float:
    if isinstance(price, Decimal):
        return float(price)
    return float(next((tier.price for tier in reversed(price.tiers) if input_tokens >= tier.start), price.base))


def _list_tiers(price: "Decimal | TieredPrices") -> "list[Tier]":
    return [] if isinstance(price, Decimal) else price.tiers
