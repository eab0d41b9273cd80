"""The body fields that say how the model is to answer, and where web searches run: the same on every endpoint."""

import msgspec
from msgspec import field
from msgspec.structs import replace

from toolyard.core.settings.models.options import DEFAULT_OPTIONS, Options
from toolyard.core.tools.web_search_rule import Preference, SearchMode, parse_search
from toolyard.surfaces.http.request_body import LenientBody


class WebSearchFields(LenientBody, kw_only=True):
    """`web_search`, or its older form: `useWebSearch` and `webSearchPreference`. Clients write either spelling."""

    web_search: SearchMode | bool | None = field(default=None, name="web_search")
    """Where the web is searched: by the model's provider (`native`), by an MCP server (`mcp`), or `off`."""
    web_search_in_camel_case: SearchMode | bool | None = field(default=None, name="webSearch")
    use_web_search: bool | None = field(default=None, name="use_web_search")
    """Whether the web may be searched: the older form of `web_search`."""
    use_web_search_in_camel_case: bool | None = field(default=None, name="useWebSearch")
    web_search_preference: Preference | None = field(default=None, name="web_search_preference")
    """Where the web is searched if `use_web_search` is true; `ai-web-search` is `native`."""
    web_search_preference_in_camel_case: Preference | None = field(default=None, name="webSearchPreference")
    metadata: dict[str, object] | None = None
    """Whatever the client keeps with the request. The fields above are read here too."""

    @property
    def search_mode(self) -> SearchMode:
        """The mode that any of the fields sets. Raises Invalid if they contradict each other."""
        return parse_search({info.encode_name: getattr(self, info.name) for info in _FIELDS})


_FIELDS = msgspec.structs.fields(WebSearchFields)


class AnswerFields(WebSearchFields, kw_only=True):
    """`output_schema`, the JSON Schema of the final text, and `options`: temperature, top_p, max_tokens, stop, seed."""

    output_schema: dict[str, object] | None = None
    """A JSON Schema that the final text has to fit."""
    options: Options | None = None
    """Options of the model: `temperature`, `top_p`, `max_tokens`, `stop`, `seed` and others."""

    @property
    def answer_options(self) -> Options:
        """The options with the output schema. An option that the model's provider does not have ends the run."""
        options = self.options or DEFAULT_OPTIONS
        return options if self.output_schema is None else replace(options, output_schema=self.output_schema)
