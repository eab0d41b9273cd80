"""Read the tools of a request for a message. Pure."""

import re
from collections.abc import Sequence

from toolyard.core.json_types import is_list, is_object
from toolyard.core.messages_blocks import ToolFields, seal
from toolyard.core.tools.definition import Tool
from toolyard.surfaces.anthropic.blocks import Block, read_mark
from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.shared.client_tools import build_client_tool

_VERSIONED_TYPE = re.compile(r"([a-z_]+)_\d{8}")
_CLIENT_TOOLS = {
    "bash": (),
    "text_editor": ("max_characters",),
    "computer": ("display_width_px", "display_height_px", "display_number", "enable_zoom"),
    "memory": (),
}
"""The tools that Anthropic defines and the client runs, without their versions, and the fields that only they have."""
_TOOL_FIELDS = ("defer_loading", "strict", "eager_input_streaming", "input_examples")
_COMMON_FIELDS = frozenset({"type", "name", "cache_control", "allowed_callers", *_TOOL_FIELDS})


def read_tools(tools: Sequence[Block] | None, provider: str) -> list[Tool]:
    """Return the client's tools. Raise Invalid for a kind of tool that the model cannot have."""
    read = [_read_tool(tool, f"tools.{index}", provider) for index, tool in enumerate(tools or ())]
    return [tool for tool in read if tool is not None]


def is_web_search(block: Block) -> bool:
    """Return whether a tool is the provider's web search."""
    return _find_family(block.get("type")) == "web_search"


def _find_family(kind: object) -> str:
    """Return the name of a type of tool that Anthropic defines, without its version; empty for any other."""
    match = _VERSIONED_TYPE.fullmatch(kind) if isinstance(kind, str) else None
    return match[1] if match else ""


def _read_tool(block: Block, key: str, provider: str) -> Tool | None:
    """Return a tool that the client runs; None for the provider's web search, which is asked for in another way."""
    mark = read_mark(block, key)
    if is_web_search(block):
        return None
    kind = block.get("type") or "custom"
    family = _find_family(kind)
    if kind != "custom" and family not in _CLIENT_TOOLS:
        raise invalid_field(f"{key}.type", f"{str(kind)[:40]!r} cannot be used here: send tools that your program runs")
    _check_names(block, ("description", "input_schema") if kind == "custom" else _CLIENT_TOOLS[family], key)
    fields = _read_tool_fields(block, key)
    fields.cache_control = mark
    if kind != "custom":
        return _read_defined_tool(block, f"Anthropic's {kind}", fields, key, provider)
    if block.get("input_schema") is None:
        raise invalid_field(f"{key}.input_schema", "is missing")
    tool = build_client_tool(block.get("name"), block.get("description"), block.get("input_schema"), key)
    if fields.defer_loading and not provider:
        raise invalid_field(f"{key}.defer_loading", "is Anthropic's, and this model is another provider's")
    return _seal_tool(tool, provider, fields) if provider and fields != ToolFields() else tool


def _read_defined_tool(block: Block, description: str, fields: ToolFields, key: str, provider: str) -> Tool:
    """Return a tool that Anthropic defines and the client runs, with its definition as it is."""
    if not provider:
        raise invalid_field(f"{key}.type", f"{block['type']} is Anthropic's, and this model is another provider's")
    for name in _CLIENT_TOOLS[_find_family(block["type"])]:
        if not isinstance(block.get(name), int | None):
            raise invalid_field(
                f"{key}.{name}", "must be true or false" if name == "enable_zoom" else "must be a number"
            )
    left_out = ("cache_control", "allowed_callers")
    fields.definition = {name: value for name, value in block.items() if name not in left_out and value is not None}
    return _seal_tool(build_client_tool(block.get("name"), description, {"type": "object"}, key), provider, fields)


def _check_names(block: Block, names: Sequence[str], key: str) -> None:
    """Raise Invalid if a tool has fields besides these and those that all tools have, or callers besides the model."""
    if unknown := [name for name in block if name not in _COMMON_FIELDS and name not in names]:
        raise invalid_field(f"{key}.{unknown[0][:40]}", "is unknown")
    if block.get("allowed_callers") not in (None, ["direct"]):
        raise invalid_field(f"{key}.allowed_callers", 'must be ["direct"]: no code at the provider calls tools here')


def _read_tool_fields(block: Block, key: str) -> ToolFields:
    examples = block.get("input_examples")
    if examples is not None and not (is_list(examples) and all(is_object(example) for example in examples)):
        raise invalid_field(f"{key}.input_examples", "must be a list of objects")
    for name in _TOOL_FIELDS[:-1]:
        if not isinstance(block.get(name), bool | None):
            raise invalid_field(f"{key}.{name}", "must be true or false")
    return ToolFields(**{name: block[name] for name in _TOOL_FIELDS if block.get(name) is not None})  # pyright: ignore[reportArgumentType]


def _seal_tool(tool: Tool, provider: str, fields: ToolFields) -> Tool:
    return Tool(
        name=tool.name,
        description=tool.description,
        parameters=tool.parameters,
        venue="client",
        hides_server_tool=True,
        seal=seal(provider, fields),
    )
