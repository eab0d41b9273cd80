"""Read the tools that a request declares, and its tool choice. Pure.

The client's own tools become functions, as `tool_kinds` says. `mcp` is about the server's tools: see `mcp_tools`. What
neither the client nor this server runs is left out and named in the response, so that a client which declares all tools
that it knows of is answered with those that work.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, cast

import msgspec
from msgspec import Meta, Struct

from toolyard.core.json_types import is_object
from toolyard.core.tools.definition import Tool
from toolyard.core.tools.web_search_rule import SEARCH_TOOL
from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.openai.options import read_tool_choice
from toolyard.surfaces.openai.responses.tool_kinds import (
    FUNCTION,
    KINDS,
    NAMESPACE,
    ToolKind,
    WireTool,
    build_tool_parameters,
)
from toolyard.surfaces.shared.client_tools import build_client_tool

MCP = "mcp"
MAX_FUNCTIONS = 1_000
"""The most tools of a request, with those in namespaces."""
_LOADING_ITEMS = ("tool_search_output", "additional_tools")
"""The items of an input that bring further tools."""


class ResponseTool(Struct, kw_only=True):
    """A tool that the client runs itself; or, with the type `mcp`, the server's tools as the client wants them."""

    type: str = FUNCTION
    name: str = ""
    description: str | None = None
    parameters: dict[str, object] | None = None
    server_label: Annotated[str, Meta(max_length=200)] | None = None
    server_url: str | None = None
    connector_id: str | None = None
    allowed_tools: object = None
    require_approval: object = None
    tools: list["ResponseTool"] | None = None
    """The tools of a namespace."""
    format: object = None
    environment: object = None
    execution: object = None
    """These mean different things in different types."""


class DeclaredTools(Struct, frozen=True, kw_only=True):
    """The tools of a request that its client runs, as functions."""

    tools: Sequence[Tool] = ()
    wire_tools: dict[str, WireTool] = {}
    """What the client calls those that are no plain functions, by the names of their functions."""
    left_out: tuple[str, ...] = ()
    """The types of the tools that nobody runs."""
    asks_search: bool = False
    """Whether the client wants the model to search the web."""


def read_declared_tools(
    tools: Sequence[ResponseTool] | None,
    items: Sequence[dict[str, object]],
    is_server_tool: Callable[[str], bool],
    can_search: Callable[[Sequence[Tool]], bool],
) -> DeclaredTools:
    """Return the tools of a request and those that items of its input have loaded. Raise Invalid.

    `can_search` returns whether the web can be searched in a run with these tools.
    """
    reader = _ToolReader(is_server_tool)
    for index, tool in enumerate(tools or ()):
        reader.add(tool, f"tools.{index}")
    for index, item in enumerate(items):
        if item.get("type") in _LOADING_ITEMS:
            reader.add_loaded(item.get("tools"), f"input.{index}.tools")
    search_types = reader.search_types
    asks_search = bool(search_types) and can_search(reader.tools)
    left_out = dict.fromkeys((*reader.left_out, *(() if asks_search else search_types)))
    return DeclaredTools(
        tools=reader.tools, wire_tools=reader.wire_tools, left_out=tuple(left_out), asks_search=asks_search
    )


class _ToolReader:
    def __init__(self, is_server_tool: Callable[[str], bool]) -> None:
        self.tools: list[Tool] = []
        self.wire_tools: dict[str, WireTool] = {}
        self.left_out: list[str] = []
        self.search_types: list[str] = []
        self._names: dict[str, WireTool] = {}
        self._is_server_tool = is_server_tool

    def add(self, tool: ResponseTool, key: str, *, may_repeat: bool = False) -> None:
        """Add a tool, or those of a namespace. With `may_repeat`, leave out those that are there already."""
        if tool.type == NAMESPACE:
            if not tool.name:
                raise invalid_field(key, "has no name")
            for index, inner in enumerate(tool.tools or ()):
                # The model reads what the namespace is for once.
                note = f"\n\n{tool.name}: {tool.description}" if tool.description and not index else ""
                self._add_tool(inner, f"{key}.tools.{index}", tool.name, note, may_repeat=may_repeat)
        elif is_search_type(tool.type):
            self.search_types.append(tool.type)
        elif tool.type != MCP:
            self._add_tool(tool, key, may_repeat=may_repeat)

    def add_loaded(self, tools: object, key: str) -> None:
        """Add the tools of an item. A history may have several with the same tools."""
        try:
            loaded = msgspec.convert(tools, list[ResponseTool])
        except msgspec.ValidationError as error:
            raise invalid_field(key, str(error)) from None
        for index, tool in enumerate(loaded):
            self.add(tool, f"{key}.{index}", may_repeat=True)

    def _add_tool(self, tool: ResponseTool, key: str, namespace: str = "", note: str = "", *, may_repeat: bool) -> None:
        kind = _find_kind(tool)
        if kind is None:
            self.left_out.append(f"{namespace}.{tool.type}" if namespace else tool.type)
            return
        if kind.is_named and not tool.name:
            raise invalid_field(key, "has no name")
        wire = _name_tool(tool, namespace)
        name = wire.function_name
        if may_repeat and self._names.get(name) == wire:
            return
        self._check_name(name, wire, key)
        self.tools.append(
            build_client_tool(name, _describe(tool, kind) + note, build_tool_parameters(kind, tool.parameters), key)
        )
        self._names[name] = wire
        if wire != WireTool(name=name):
            self.wire_tools[name] = wire

    def _check_name(self, name: str, wire: WireTool, key: str) -> None:
        if len(self.tools) >= MAX_FUNCTIONS:
            raise invalid_field(key, f"is one tool too many: {MAX_FUNCTIONS} may be declared")
        if name in self._names:
            raise invalid_field(key, f"two tools are named {name[:80]!r} for the model: rename one")
        if wire.namespace and self._is_server_tool(name):
            raise invalid_field(key, f"{name[:80]!r} is the name of a tool of this server: rename the namespace")


def _find_kind(tool: ResponseTool) -> ToolKind | None:
    """Return the kind of a tool that its client runs; None if another type, or a provider runs it."""
    if tool.type == "shell" and tool.environment is not None and _to_table(tool.environment).get("type") != "local":
        return None
    if tool.type == "tool_search" and tool.execution != "client":
        return None  # a server's search is for tools that are offered later; here all are offered at once
    return KINDS.get(tool.type)


def _name_tool(tool: ResponseTool, namespace: str) -> WireTool:
    kind = KINDS.get(tool.type)
    return WireTool(type=tool.type, name=tool.name if kind and kind.is_named else "", namespace=namespace)


def _describe(tool: ResponseTool, kind: ToolKind) -> str:
    text, grammar = tool.description or kind.description, _to_table(tool.format)
    if kind.type != "custom" or not grammar.get("definition"):
        return text
    return f"{text}\n\nThe input must match this {grammar.get('syntax')} grammar:\n{grammar['definition']}"


def _to_table(value: object) -> dict[str, object]:
    return value if is_object(value) else {}


def is_search_type(tool_type: object) -> bool:
    """Return whether a type is that of OpenAI's web search, which has several with dates and suffixes."""
    return isinstance(tool_type, str) and tool_type.startswith(SEARCH_TOOL)


def read_declared_choice(choice: object, declared: DeclaredTools) -> str:
    """Return `auto`, `none`, `required` or the name of a function. Raise Invalid if the forced tool cannot run."""
    if not is_object(choice):
        return read_tool_choice(choice, "tool_choice")
    table = choice
    tool_type, name, namespace = (str(table.get(key) or "") for key in ("type", "name", NAMESPACE))
    if is_search_type(tool_type) and declared.asks_search:
        return SEARCH_TOOL
    if tool_type in declared.left_out or is_search_type(tool_type):
        raise invalid_field("tool_choice", f"no tool of the type {tool_type[:40]!r} can run here")
    if tool_type not in KINDS or (tool_type == FUNCTION and not namespace):
        return read_tool_choice(cast(object, choice), "tool_choice")
    function_name = WireTool(type=tool_type, name=name, namespace=namespace).function_name
    if function_name not in declared.wire_tools:
        raise invalid_field("tool_choice", f"there is no {tool_type} tool {name[:80]!r} in tools")
    return function_name
