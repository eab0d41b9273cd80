"""Where web searches run and how they are limited, as the configuration file and the store set it. Pure."""

from typing import Literal

from msgspec import Struct

from toolyard.core.settings.types import CountOrZero, Country, Domain, Name

SearchPlace = Literal["auto", "native", "mcp", "duckduckgo", "off"]
"""Where a search is to run."""


class UserLocation(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Roughly where the user is, for a search that depends on it."""

    city: str = ""
    region: str = ""
    country: Country = ""
    """Two letters, as in ISO 3166-1."""
    timezone: str = ""


class SearchOptions(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Options of a search that the model's provider runs."""

    max_uses: CountOrZero = 0
    """The limit for one turn; zero means the provider's limit."""
    allowed_domains: tuple[Domain, ...] = ()
    blocked_domains: tuple[Domain, ...] = ()
    user_location: UserLocation | None = None


class WebSearchConfig(SearchOptions, frozen=True, kw_only=True):
    """Where searches run if neither a request nor its conversation decides it, and the limits of native searches."""

    prefer: SearchPlace = "auto"
    custom_control: bool = False
    full_logging: bool = False
    tools: frozenset[Name] = frozenset()
    """The names of further tools that search the web."""
