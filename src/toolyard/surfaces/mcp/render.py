"""Encode tools and results for MCP clients. Pure."""

from importlib.metadata import version
from typing import cast

import msgspec

from toolyard.core.failed_results import format_problem
from toolyard.core.items import Problem, Result
from toolyard.core.json_types import Json, is_object
from toolyard.core.tools.definition import Tool
from toolyard.surfaces.mcp.jsonrpc import RpcError

CACHEABLE_METHODS = frozenset(
    {"server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"}
)
NO_CACHE: Json = {"ttlMs": 0, "cacheScope": "private"}
"""Caching hints: lists depend on the caller and may change at any time. A resource may come with its own hints."""
SERVER_INFO: Json = {"name": "toolyard", "title": "Toolyard", "version": version("toolyard")}


def encode_tool(tool: Tool, definition: Json) -> Json:
    """Return a tool for `tools/list`: as its MCP server defines it, but with the name and the schema of `tool`."""
    if definition:
        return {**definition, "name": tool.name, "inputSchema": tool.parameters}
    encoded: Json = {"name": tool.name, "description": tool.description, "inputSchema": build_input_schema(tool)}
    if tool.title:
        encoded["title"] = tool.title
    if hints := {name: True for name, is_set in _list_hints(tool) if is_set}:
        encoded["annotations"] = hints
    return encoded


def _list_hints(tool: Tool) -> tuple[tuple[str, bool], ...]:
    """Return the hints of a tool. Only true ones are sent; MCP's cautious defaults hold for the others."""
    return (
        ("readOnlyHint", tool.read_only),
        ("destructiveHint", tool.destructive),
        ("openWorldHint", tool.open_world),
        ("idempotentHint", tool.idempotent),
    )


def build_input_schema(tool: Tool) -> Json:
    """Return the parameters with `"type": "object"` at the root, which MCP requires."""
    return tool.parameters if tool.parameters.get("type") == "object" else {**tool.parameters, "type": "object"}


def encode_result(result: Result, whole: bytes | None, native: bytes | None) -> Json:
    """Return a call's result: as its MCP server sent it (`native`), or its content before it was cut (`whole`)."""
    if native is not None:
        return cast(Json, msgspec.json.decode(native))
    content = result.content if whole is None else whole.decode("utf-8", "replace")
    encoded: Json = {"content": [{"type": "text", "text": content}], "isError": result.outcome != "ok"}
    if result.outcome == "ok" and (structured := parse_object(content)) is not None:
        encoded["structuredContent"] = structured
    return encoded


def extract_rpc_error(result: Result) -> RpcError | None:
    """Return the JSON-RPC error that an MCP server answered with, to be passed on as such, else None."""
    details = result.error.details if result.error is not None else {}
    code = details.get("code")
    if result.error is None or not isinstance(code, int) or not details.keys() <= {"code", "data"}:
        return None
    return RpcError(code, result.error.error, details.get("data"))


def encode_failure(problem: Problem) -> Json:
    """Return a problem as a failed tool result, which the client's model reads."""
    return {"content": [{"type": "text", "text": format_problem(problem)}], "isError": True}


def parse_object(content: str) -> Json | None:
    """Return the content as an object, or None if it is not a JSON object."""
    if not content.startswith("{"):
        return None
    try:
        value = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if is_object(value) else None


def finish_result(result: Json, method: str, *, modern: bool) -> Json:
    """Return a result in the form of the client's era, which may differ from the era of the server that sent it."""
    if modern and method in CACHEABLE_METHODS and result.get("resultType", "complete") == "complete":
        result = {**NO_CACHE, **result}
    return add_metadata(result, modern=modern)


def add_metadata(result: Json, *, modern: bool) -> Json:
    """Return a result with the type and server information of the modern era, or without them for a legacy client."""
    if not modern:
        return {name: value for name, value in result.items() if name not in ("resultType", *NO_CACHE)}
    meta = result.get("_meta")
    named = {**(meta if is_object(meta) else {}), "io.modelcontextprotocol/serverInfo": SERVER_INFO}
    return {"resultType": "complete", **result, "_meta": named}
