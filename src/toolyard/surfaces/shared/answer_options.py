"""The body fields that say how the model is to answer."""

from msgspec.structs import replace

from toolyard.core.settings.options import DEFAULT_OPTIONS, Options
from toolyard.surfaces.shared.web_search_fields import WebSearchFields


class AnswerFields(WebSearchFields, kw_only=True):
    """`output_schema`, the JSON Schema of the final text, and `options`: temperature, top_p, max_tokens, stop, seed."""

    output_schema: dict[str, object] | None = None
    options: Options | None = None

    @property
    def answer_options(self) -> Options:
        """The options with the output schema. An option that the model's provider does not have ends the run."""
        options = self.options or DEFAULT_OPTIONS
        return options if self.output_schema is None else replace(options, output_schema=self.output_schema)
