"""Check the headers that repeat parts of a modern request's body, for proxies that route by them.

They must match the body, or a proxy's rules could be evaded. A tool may name parameters that are to be repeated as
well (`x-mcp-header` in its schema).
"""

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping

from toolyard.core.json_types import Json, is_object
from toolyard.core.tools.definition import Tool
from toolyard.surfaces.mcp.client import read_version
from toolyard.surfaces.mcp.jsonrpc import HEADER_MISMATCH, RpcError, RpcRequest

NAME_PARAMS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_BASE64_PREFIX, _BASE64_SUFFIX = "=?base64?", "?="


def check_headers(headers: Mapping[str, str], request: RpcRequest, find_tool: Callable[[str], Tool | None]) -> None:
    """Raise RpcError for a header that is missing or differs from the body."""
    _require_match("MCP-Protocol-Version", headers, read_version(request.params))
    _require_match("Mcp-Method", headers, request.method)
    if part := NAME_PARAMS.get(request.method):
        _require_match("Mcp-Name", headers, request.params.get(part))
    if request.method == "tools/call":
        tool = find_tool(str(request.params.get("name")))
        arguments = request.params.get("arguments")
        for name, path in iter_mirrored_parameters(tool.parameters) if tool else ():
            _require_match(f"Mcp-Param-{name}", headers, _get_at_path(arguments, path), optional=True)


def iter_mirrored_parameters(schema: Json, path: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the header name and the path of each parameter that has to be repeated in a header."""
    properties = schema.get("properties")
    for name, part in properties.items() if is_object(properties) else ():
        if is_object(part):
            marked = part.get("x-mcp-header")
            if isinstance(marked, str):
                yield marked, (*path, name)
            yield from iter_mirrored_parameters(part, (*path, name))


def _get_at_path(value: object, path: tuple[str, ...]) -> object:
    for name in path:
        value = value.get(name) if is_object(value) else None
    return value


def _require_match(name: str, headers: Mapping[str, str], expected: object, *, optional: bool = False) -> None:
    header = headers.get(name.lower())
    if header is None and (expected is None and optional):
        return
    if header is None:
        raise RpcError(HEADER_MISMATCH, f"Header mismatch: {name} is missing")
    if expected is None or not _is_equal(_decode_header(name, header.strip(" \t")), expected):
        raise RpcError(HEADER_MISMATCH, f"Header mismatch: {name} is {header[:80]!r}, and the body says otherwise")


def _is_equal(header: str, expected: object) -> bool:
    match expected:
        case bool():
            return header == ("true" if expected else "false")
        case int() | float():
            try:
                return float(header) == expected
            except ValueError:
                return False
        case _:
            return header == expected


def _decode_header(name: str, header: str) -> str:
    """Return the value of a header. Values that are not printable ASCII come as `=?base64?…?=`; methods never do."""
    if not (header.startswith(_BASE64_PREFIX) and header.endswith(_BASE64_SUFFIX) and name != "Mcp-Method"):
        if not header.isprintable() or not header.isascii():
            raise RpcError(HEADER_MISMATCH, f"Header mismatch: {name} has characters that a header may not have")
        return header
    try:
        return base64.b64decode(header[len(_BASE64_PREFIX) : -len(_BASE64_SUFFIX)], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise RpcError(HEADER_MISMATCH, f"Header mismatch: {name} is not the Base64 that it says it is") from None
