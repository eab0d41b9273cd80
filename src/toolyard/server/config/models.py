"""The settings of models, their providers, and web searches."""

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
    """Where searches run if neither a request nor its conversation decides it, and the limits of native searches."""

    prefer: Literal["auto", "native", "mcp", "duckduckgo", "off"] = "auto"
    custom_control: bool = False
    full_logging: bool = False
    tools: frozenset[Name] = frozenset()
    """The names of further tools that search the web."""
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
    """The tools that the model's provider may run itself, besides web search."""

    code_execution: bool = False
    file_search: tuple[Name, ...] = ()
    """The stores of files to search, by their ids at the provider."""


class ProviderConfig(Struct, frozen=True, kw_only=True):
    api_key: HeaderSecret = ""
    base_url: Url = ""
    headers: dict[HeaderName, HeaderSecret] = {}
    wire: Literal["chat", "responses", "messages", "gemini", ""] = ""
    """The wire format that the provider speaks; empty means that of its preset."""


class ModelOptions(Struct, frozen=True, kw_only=True):
    """The options of one model."""

    window: CountOrNone = 0
    """The size of its context window in tokens; 0 means the size that Toolyard knows for it."""
    max_tokens: CountOrNone = 0
    """The maximum number of tokens in an answer; 0 leaves it to the provider."""
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    thinking: Literal["", "low", "medium", "high", "adaptive"] | Count = ""
    """How much the model may think before it answers: an effort, or a number of tokens."""
