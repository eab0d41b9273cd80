"""The built-in tool that finds other tools, used if there are too many to show them all."""

from collections.abc import Callable, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.items import Call, Problem
from toolyard.core.ports import Context, ToolHooks, Value
from toolyard.core.tools.definition import Tool
from toolyard.core.tools.trust import join_sources, list_unreviewed_servers, name_description_source
from toolyard.tool_index.find_tools_result import FIND_TOOLS, build_result

MAX_QUERY_CHARS = 1000
WITH_RETURNS_DESCRIPTION = (
    "Find tools for a task, and the schemas of what they return where these are known. There may be more tools than "
    "you are shown: before you say that something cannot be done, describe it here in a few words. What is found can "
    "be called from your next turn on."
)
"""The description where programs call tools: they need to know what comes back."""

FIND_TOOLS_DEFINITION = Tool(
    name=FIND_TOOLS,
    description=(
        "Find tools for a task. There are more tools than you are shown: before you say that something cannot be done, "
        "describe it here in a few words. What is found can be called from your next turn on."
    ),
    read_only=True,
    built_in=True,
    max_result_bytes=65_536,
    parameters={
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_QUERY_CHARS,
                "description": "What is to be done, and with what, for example: cancel a hotel booking",
            }
        },
        "required": ["query"],
        "additionalProperties": False,
    },
)

SearchTools = Callable[[str, Caller, Callable[[Tool], bool]], Sequence[Tool]]
"""Returns the tools for a query, as they are for a caller, of those that the predicate allows."""


class _FindToolsArguments(Struct, forbid_unknown_fields=True):
    query: Annotated[str, Meta(min_length=1, max_length=MAX_QUERY_CHARS)]


def _validate(arguments: dict[str, object]) -> Problem | None:
    try:
        msgspec.convert(arguments, _FindToolsArguments)
    except msgspec.ValidationError as error:
        return Problem(error=f"wrong arguments: {error}", error_type="validation_error")
    return None


class FindToolsVenue:
    def __init__(self, search: SearchTools, *, with_returns: bool = False) -> None:
        """With `with_returns`, what is found has the schema of what it returns."""
        self._search = search
        self._with_returns = with_returns

    def tools(self) -> Sequence[Tool]:
        definition = FIND_TOOLS_DEFINITION
        return (replace(definition, description=WITH_RETURNS_DESCRIPTION) if self._with_returns else definition,)

    def hooks(self, tool: str) -> ToolHooks:
        return ToolHooks(validate=_validate)

    async def run(self, call: Call, tool: Tool, context: Context) -> Value:
        arguments = msgspec.convert(call.arguments, _FindToolsArguments)
        tools = self._search(arguments.query, context.caller, context.may_use)
        # The descriptions stay in the conversation, also when their server does not list the tools any more.
        sources = join_sources(*map(name_description_source, list_unreviewed_servers(tools)))
        return Value(value=build_result(tools, with_returns=self._with_returns), untrusted=sources)

    async def close(self) -> None:
        return None
