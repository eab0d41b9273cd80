"""The settings of models, their providers, and web searches."""

import msgspec
from msgspec import Struct

from toolyard.core.settings.options import Options
from toolyard.core.settings.types import CountOrZero, Name
from toolyard.core.tools.definition import ProviderOptions, SearchOptions
from toolyard.core.tools.web_search_rule import SearchPlace, SearchRules


class WebSearchConfig(SearchOptions, frozen=True, kw_only=True):
    """Where searches run if neither a request nor its conversation decides it, and the limits of native searches."""

    prefer: SearchPlace = "auto"
    custom_control: bool = False
    full_logging: bool = False
    tools: frozenset[Name] = frozenset()
    """The names of further tools that search the web."""

    @property
    def rules(self) -> SearchRules:
        return SearchRules(
            prefer=self.prefer,
            custom_control=self.custom_control,
            full_logging=self.full_logging,
            options=msgspec.convert(self, ProviderOptions, from_attributes=True),
            tools=self.tools,
        )


class ProviderToolsConfig(Struct, frozen=True, kw_only=True):
    """The tools that the model's provider may run itself, besides web search."""

    code_execution: bool = False
    file_search: tuple[Name, ...] = ()
    """The stores of files to search, by their ids at the provider."""


class ModelOptions(Options, frozen=True, kw_only=True):
    """The options of one model, and its context window."""

    window: CountOrZero = 0
    """The size of its context window in tokens; 0 means the size that Toolyard knows for it."""
