"""The tools of one offer: each parsed once, found by their examples or by words."""

from collections.abc import Sequence
from datetime import datetime
from functools import cached_property

from toolyard.core.tools.definition import Tool
from toolyard.core.tools.templates import list_examples
from toolyard.models.offline.evidence import Draft
from toolyard.models.offline.parameters import Parameter, parse_parameters
from toolyard.models.offline.templates import Template, TemplateFit, select_best_fits
from toolyard.models.offline.text import TokenizedText
from toolyard.tool_index.index import IndexEntry, ToolIndex, ToolMatch, build_entry


class CatalogueTool:
    """A tool with its parameters, index entry and templates, each parsed once on first use."""

    def __init__(self, tool: Tool) -> None:
        self.tool = tool

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        return parse_parameters(self.tool)

    @cached_property
    def entry(self) -> IndexEntry:
        return build_entry(self.tool)

    @cached_property
    def templates(self) -> list[Template]:
        by_name = {parameter.name: parameter for parameter in self.parameters}
        templates = [Template(self.tool, example, by_name) for example in list_examples(self.tool)]
        return [template for template in templates if all(slot in by_name for slot in template.slots)]

    def get_parameter(self, name: str) -> Parameter:
        return next(parameter for parameter in self.parameters if parameter.name == name)

    def find_missing(self, draft: Draft) -> Parameter | None:
        """Return the first required parameter that a draft lacks."""
        return next(
            (
                parameter
                for parameter in self.parameters
                if parameter.required and parameter.name not in draft.arguments
            ),
            None,
        )


class Catalogue:
    def __init__(self, tools: Sequence[CatalogueTool]) -> None:
        self._tools = {entry.tool.name: entry for entry in tools}
        self._index = ToolIndex()
        for entry in tools:
            self._index.put_entry(entry.entry)

    def narrow_to(self, name: str) -> "Catalogue":
        """Return the catalogue of one tool and the sources of its values; all of it if there is no such tool."""
        chosen = self._tools.get(name)
        if chosen is None:
            return self
        sources = [self._tools[source] for source in chosen.tool.sources.values() if source in self._tools]
        return Catalogue([chosen, *sources])

    def get_tool(self, name: str) -> CatalogueTool | None:
        return self._tools.get(name)

    @property
    def all_tools(self) -> list[Tool]:
        return [entry.tool for entry in self._tools.values()]

    def find_fits(self, text: TokenizedText, now: datetime) -> list[TemplateFit]:
        return select_best_fits(
            [
                fit
                for entry in self._tools.values()
                for template in entry.templates
                for fit in template.find_fits(text, now)
            ]
        )

    def search(self, words: str, count: int) -> list[ToolMatch]:
        return self._index.search(words, count)

    def find_nearest(self, words: str, count: int) -> list[Tool]:
        """Return the tools that rank best for some words, then others in their order, up to a count."""
        tools = [*(match.tool for match in self.search(words, count)), *self.all_tools]
        return list({tool.name: tool for tool in tools}.values())[:count]
