"""What the configuration says of models, their providers, and searches."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from toolyard.core.tools import ProviderOptions, UserLocation
from toolyard.core.web_search import SearchRules
from toolyard.server.config.values import Count, CountOrNone, Country, Domain, HeaderName, HeaderSecret, Name, Url


class Location(Struct, frozen=True, kw_only=True):
    """Roughly where the users are."""

    city: str = ""
    region: str = ""
    country: Country = ""
    timezone: str = ""


class WebSearchConfig(Struct, frozen=True, kw_only=True):
    """Where searches run where neither a request nor its conversation says so, and what native ones are held to."""

    prefer: Literal["auto", "native", "mcp", "duckduckgo", "off"] = "auto"
    custom_control: bool = False
    full_logging: bool = False
    tools: frozenset[Name] = frozenset()
    """Other names of tools that search."""
    max_uses: CountOrNone = 0
    allowed_domains: tuple[Domain, ...] = ()
    blocked_domains: tuple[Domain, ...] = ()
    user_location: Location | None = None

    @property
    def rules(self) -> SearchRules:
        location = self.user_location and msgspec.convert(self.user_location, UserLocation, from_attributes=True)
        options = ProviderOptions(
            max_uses=self.max_uses,
            allowed_domains=self.allowed_domains,
            blocked_domains=self.blocked_domains,
            user_location=location,
        )
        return SearchRules(
            prefer=self.prefer,
            custom_control=self.custom_control,
            full_logging=self.full_logging,
            options=options,
            tools=self.tools,
        )


class ProviderToolsConfig(Struct, frozen=True, kw_only=True):
    """What the model's provider may run itself besides a search."""

    code_execution: bool = False
    file_search: tuple[Name, ...] = ()
    """The stores, at the provider, to look in."""


class ProviderConfig(Struct, frozen=True, kw_only=True):
    api_key: HeaderSecret = ""
    base_url: Url = ""
    headers: dict[HeaderName, HeaderSecret] = {}
    wire: Literal["chat", "responses", "messages", "gemini", ""] = ""
    """What the provider speaks, if it is not what is known of it."""


class ModelOptions(Struct, frozen=True, kw_only=True):
    """How one model is used."""

    window: CountOrNone = 0
    """How many tokens it takes, if that is not what is known of it."""
    max_tokens: CountOrNone = 0
    """What an answer may have; 0 leaves it to the provider."""
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    thinking: Literal["", "low", "medium", "high", "adaptive"] | Count = ""
    """How much it may think before it answers: an effort, or tokens."""
