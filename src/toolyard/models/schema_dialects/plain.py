"""JSON Schema as OpenAI (without strict mode) and Anthropic accept it: most of 2020-12, with an object as root."""

import re
from collections.abc import Callable

import msgspec

from toolyard.core.json_types import is_object
from toolyard.models.schema_dialects.merge import flatten_root
from toolyard.models.schema_dialects.schema import (
    NormalizedSchema,
    Schema,
    add_description,
    as_list,
    as_schema,
    get_required,
    get_types,
)

PROPERTY_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""The property names that Anthropic accepts."""


def to_openai(schema: Schema) -> Schema:
    return _convert(schema, _add_items)


def to_anthropic(schema: Schema) -> Schema:
    return _convert(schema, _remove_invalid_keys)


def _convert(schema: Schema, adapt: Callable[[Schema], Schema]) -> Schema:
    normalized = NormalizedSchema(schema)
    converted = _map_schemas({"properties": dict[str, object](), **flatten_root(normalized), "type": "object"}, adapt)
    if normalized.defs and b'"$ref":"#/$defs/' in msgspec.json.encode([converted, normalized.defs]):
        converted["$defs"] = {name: _map_schemas(definition, adapt) for name, definition in normalized.defs.items()}
    return converted


def _map_schemas(node: Schema, adapt: Callable[[Schema], Schema]) -> Schema:
    """Return the schema with `adapt` applied to it and to every schema inside it."""
    mapped = dict(node)
    for name in ("properties", "patternProperties", "dependentSchemas"):
        if name in mapped:
            mapped[name] = {
                key: _map_schemas(as_schema(schema), adapt) for key, schema in as_schema(mapped[name]).items()
            }
    for name in ("allOf", "anyOf", "prefixItems"):
        if name in mapped:
            mapped[name] = [_map_schemas(as_schema(schema), adapt) for schema in as_list(mapped[name])]
    for name in ("items", "contains", "additionalProperties", "propertyNames", "then", "else"):
        if is_object(schema := mapped.get(name)):
            mapped[name] = _map_schemas(schema, adapt)
    for name in ("not", "if"):  # loosening what is below these would make the whole stricter
        if is_object(schema := mapped.get(name)):
            inside = _map_schemas(schema, adapt)
            if adapt is _add_items or inside == schema:
                mapped[name] = inside
            else:
                del mapped[name]
    return adapt(mapped)


def _add_items(node: Schema) -> Schema:
    """Add `items` to an array without it: OpenAI refuses one that does not say what it holds."""
    return {**node, "items": {}} if "array" in get_types(node) and "items" not in node else node


def _remove_invalid_keys(node: Schema) -> Schema:
    """Move properties whose names Anthropic refuses into the description."""
    properties = as_schema(node.get("properties"))
    invalid = {name: schema for name, schema in properties.items() if not PROPERTY_NAME.fullmatch(name)}
    if not invalid:
        return node
    cleaned = {**node, "properties": {name: schema for name, schema in properties.items() if name not in invalid}}
    if "required" in cleaned:
        cleaned["required"] = [name for name in get_required(node) if name not in invalid]
    if cleaned.get("additionalProperties") is False or isinstance(cleaned.get("additionalProperties"), dict):
        del cleaned["additionalProperties"]
    return add_description(cleaned, f"also takes {msgspec.json.encode(invalid).decode()}")
