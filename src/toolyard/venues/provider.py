"""Tools that a model's provider runs itself while it answers. They are only declared here, never run."""

from collections.abc import Sequence

from toolyard.core.items import Call, Problem
from toolyard.core.ports import Context, Failure, ToolHooks
from toolyard.core.tools.definition import ProviderOptions, Tool

NOT_CALLABLE_TEXT = "this tool runs at the model's provider, which calls it itself; it cannot be called here"
_DESCRIPTIONS = {
    "web_search": "Search the web.",
    "code_execution": "Run code in the provider's sandbox.",
    "file_search": "Search in files that are kept at the provider.",
}


def build_provider_tool(name: str, options: ProviderOptions | None = None) -> Tool:
    """Return one of `PROVIDER_TOOLS`, which is offered to every provider that has it."""
    return Tool(name=name, description=_DESCRIPTIONS[name], venue="provider", options=options)


class ProviderVenue:
    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tuple(tools)

    def tools(self) -> Sequence[Tool]:
        return self._tools

    def hooks(self, tool: str) -> ToolHooks:
        """Return hooks that reject all arguments: a call that arrives here is one that the provider did not run."""
        return ToolHooks(validate=lambda _: _build_problem())

    async def run(self, call: Call, tool: Tool, context: Context) -> Failure:
        return Failure(problem=_build_problem())

    async def close(self) -> None:
        return None


def _build_problem() -> Problem:
    return Problem(error=NOT_CALLABLE_TEXT, error_type="unavailable")
