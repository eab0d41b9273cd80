"""Unwraps a `CallToolResult` that an application returns as it got it from its own MCP server.

Only a value of exactly that shape is unwrapped: a tool's own JSON with a `content` field stays as it is.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from toolyard.core.json_types import Json, is_list, is_object
from toolyard.core.ports import Failure, Value
from toolyard.venues.mcp.calls.content import parse_call_result

_PYTHON_NAMES = {
    "structured_content": "structuredContent",
    "is_error": "isError",
    "result_type": "resultType",
    "meta": "_meta",
    "mime_type": "mimeType",
}
"""Field names as the Python SDK's models are dumped without their aliases."""


class _TextBlock(Struct, tag_field="type", tag="text"):
    text: str


class _ImageBlock(Struct, tag_field="type", tag="image", rename=_PYTHON_NAMES):
    data: str
    mime_type: str


class _AudioBlock(Struct, tag_field="type", tag="audio", rename=_PYTHON_NAMES):
    data: str
    mime_type: str


class _LinkBlock(Struct, tag_field="type", tag="resource_link"):
    uri: str
    name: str


class _Resource(Struct):
    uri: str


class _ResourceBlock(Struct, tag_field="type", tag="resource"):
    resource: _Resource


class _CallToolResult(Struct, forbid_unknown_fields=True, rename=_PYTHON_NAMES):
    content: list[_TextBlock | _ImageBlock | _AudioBlock | _LinkBlock | _ResourceBlock]
    structured_content: object = None
    is_error: bool | None = None
    result_type: str | None = None
    meta: dict[str, object] | None = None

    @property
    def is_recognizable(self) -> bool:
        """Return False for an empty `content` alone, which may be any tool's own JSON."""
        return bool(self.content) or self.structured_content is not None or self.is_error is not None


def unwrap_result(answer: Value | Failure) -> Value | Failure:
    """Return the value or failure of a raw `CallToolResult`; return any other answer as it is."""
    raw = _parse_result(answer.value) if isinstance(answer, Value) else None
    return answer if raw is None else parse_call_result(raw)


def _parse_result(value: object) -> Json | None:
    """Return the value as the JSON of a `CallToolResult`: a dict, a text with its JSON, or a model of the SDK."""
    raw = _to_json(value)
    if raw is None or "content" not in raw:
        return None
    raw = _with_wire_names(raw)
    blocks = raw["content"]
    if is_list(blocks):
        raw["content"] = [_with_wire_names(block) if is_object(block) else block for block in blocks]
    try:
        shape = msgspec.convert(raw, _CallToolResult)
    except msgspec.ValidationError:
        return None
    return raw if shape.is_recognizable else None


def _to_json(value: object) -> Json | None:
    if is_object(value):
        return value
    if isinstance(value, str):
        # Chat Completions carries a tool's JSON as text. Other texts are not decoded: they can be megabytes.
        return _decode(value) if value.lstrip()[:1] == "{" and '"content"' in value else None
    dump = getattr(value, "model_dump", None)
    dumped = dump(mode="json", by_alias=True) if callable(dump) else None
    return dumped if is_object(dumped) else None


def _decode(text: str) -> Json | None:
    try:
        return msgspec.json.decode(text, type=Json)
    except (msgspec.DecodeError, RecursionError):
        return None


def _with_wire_names(fields: Mapping[str, object]) -> Json:
    """Return the fields under MCP's own names, without those that are null."""
    return {_PYTHON_NAMES.get(name, name): field for name, field in fields.items() if field is not None}
