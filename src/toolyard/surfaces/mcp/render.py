"""Tools and results as MCP shows them. Pure."""

from importlib.metadata import version
from typing import cast

import msgspec

from toolyard.core.items import Problem, Result
from toolyard.core.results import format_problem
from toolyard.core.tools import Tool
from toolyard.surfaces.mcp.jsonrpc import Json, RpcError

CACHEABLE_METHODS = frozenset(
    {"server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"}
)
NO_CACHE: Json = {"ttlMs": 0, "cacheScope": "private"}
"""What is listed here depends on who asks, and may change at any time. A resource may come with hints of its own."""
SERVER_INFO: Json = {"name": "toolyard", "title": "Toolyard", "version": version("toolyard")}


def encode_tool(tool: Tool, definition: Json) -> Json:
    """A server's tool as that server defines it, under the name it has here; one of ours by what we know of it."""
    if definition:
        return {**definition, "name": tool.name}
    shown: Json = {"name": tool.name, "description": tool.description, "inputSchema": build_input_schema(tool)}
    if hints := {name: True for name, is_set in _list_hints(tool) if is_set}:
        shown["annotations"] = hints
    return shown


def _list_hints(tool: Tool) -> tuple[tuple[str, bool], ...]:
    """Only what is marked becomes a hint: of what is not, MCP's cautious defaults hold."""
    return (
        ("readOnlyHint", tool.read_only),
        ("destructiveHint", tool.destructive),
        ("openWorldHint", tool.open_world),
        ("idempotentHint", tool.idempotent),
    )


def build_input_schema(tool: Tool) -> Json:
    """MCP wants an object at the root, said in so many words."""
    return tool.parameters if tool.parameters.get("type") == "object" else {**tool.parameters, "type": "object"}


def encode_result(result: Result, whole: bytes | None, native: bytes | None) -> Json:
    """What a call came to: as its server sent it, where that is kept, or as it was before it was cut for a model."""
    if native is not None:
        return cast(Json, msgspec.json.decode(native))
    content = result.content if whole is None else whole.decode("utf-8", "replace")
    shown: Json = {"content": [{"type": "text", "text": content}], "isError": result.outcome != "ok"}
    if result.outcome == "ok" and (structured := parse_object(content)) is not None:
        shown["structuredContent"] = structured
    return shown


def extract_rpc_error(result: Result) -> RpcError | None:
    """The error of the protocol that a server answered with, if it did: it is passed on as one."""
    details = result.error.details if result.error is not None else {}
    code = details.get("code")
    if result.error is None or not isinstance(code, int) or not details.keys() <= {"code", "data"}:
        return None
    return RpcError(code, result.error.error, details.get("data"))


def encode_failure(problem: Problem) -> Json:
    """A failure that the client's model is to read, without a run that it came from."""
    return {"content": [{"type": "text", "text": format_problem(problem)}], "isError": True}


def parse_object(content: str) -> Json | None:
    """The content as an object, if that is what it is."""
    if not content.startswith("{"):
        return None
    try:
        found = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError):
        return None
    return cast(Json, found) if isinstance(found, dict) else None


def finish_result(result: Json, method: str, *, modern: bool) -> Json:
    """A result as the client's era has it, whatever the era of the server that it came from."""
    if modern and method in CACHEABLE_METHODS and result.get("resultType", "complete") == "complete":
        result = {**NO_CACHE, **result}
    return add_metadata(result, modern=modern)


def add_metadata(result: Json, *, modern: bool) -> Json:
    """A modern result says what kind it is and who gave it."""
    if not modern:
        return {name: value for name, value in result.items() if name not in ("resultType", *NO_CACHE)}
    meta = result.get("_meta")
    named = {**(cast(Json, meta) if isinstance(meta, dict) else {}), "io.modelcontextprotocol/serverInfo": SERVER_INFO}
    return {"resultType": "complete", **result, "_meta": named}
