"""The headers that a modern request repeats parts of its body in, for those who route by them. They must say the same.

A tool may ask for more of its parameters to be repeated (`x-mcp-header` in its schema).
"""

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from toolyard.core.tools import Tool
from toolyard.surfaces.mcp.client import version_of
from toolyard.surfaces.mcp.jsonrpc import HEADER_MISMATCH, Json, Request, RpcError

NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_BEGINS, _ENDS = "=?base64?", "?="


def check_headers(headers: Mapping[str, str], asked: Request, tools: Sequence[Tool]) -> None:
    """Raises RpcError for a header that is missing or says something else than the body."""
    _same("MCP-Protocol-Version", headers, version_of(asked.params))
    _same("Mcp-Method", headers, asked.method)
    if part := NAMED.get(asked.method):
        _same("Mcp-Name", headers, asked.params.get(part))
    if asked.method == "tools/call":
        tool = next((tool for tool in tools if tool.name == asked.params.get("name")), None)
        arguments = asked.params.get("arguments")
        for name, path in mirrored(tool.parameters) if tool else ():
            _same(f"Mcp-Param-{name}", headers, _at(arguments, path), optional=True)


def mirrored(schema: Json, path: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The parameters that are to be repeated: the header's name, and where the value is."""
    properties = schema.get("properties")
    for name, part in cast(Json, properties).items() if isinstance(properties, dict) else ():
        if isinstance(part, dict):
            marked = cast(Json, part).get("x-mcp-header")
            if isinstance(marked, str):
                yield marked, (*path, name)
            yield from mirrored(cast(Json, part), (*path, name))


def _at(value: object, path: tuple[str, ...]) -> object:
    for name in path:
        value = cast(Json, value).get(name) if isinstance(value, dict) else None
    return value


def _same(name: str, headers: Mapping[str, str], said: object, *, optional: bool = False) -> None:
    header = headers.get(name.lower())
    if header is None and (said is None and optional):
        return
    if header is None:
        raise RpcError(HEADER_MISMATCH, f"Header mismatch: {name} is missing")
    if said is None or not _equal(_decoded(name, header.strip(" \t")), said):
        raise RpcError(HEADER_MISMATCH, f"Header mismatch: {name} is {header[:80]!r}, and the body says otherwise")


def _equal(header: str, said: object) -> bool:
    match said:
        case bool():
            return header == ("true" if said else "false")
        case int() | float():
            try:
                return float(header) == said
            except ValueError:
                return False
        case _:
            return header == said


def _decoded(name: str, header: str) -> str:
    if not (header.startswith(_BEGINS) and header.endswith(_ENDS) and name != "Mcp-Method"):
        if not header.isprintable() or not header.isascii():
            raise RpcError(HEADER_MISMATCH, f"Header mismatch: {name} has characters that a header may not have")
        return header
    try:
        return base64.b64decode(header[len(_BEGINS) : -len(_ENDS)], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise RpcError(HEADER_MISMATCH, f"Header mismatch: {name} is not the Base64 that it says it is") from None
