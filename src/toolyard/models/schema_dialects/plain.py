"""JSON Schema as OpenAI (without strict mode) and Anthropic take it: nearly all of 2020-12, but a plain object on top.

It is the widest of the dialects, so that little has to be left out.
"""

import re
from collections.abc import Callable
from typing import cast

import msgspec

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
"""What Anthropic takes as the name of a property."""


def to_openai(schema: Schema) -> Schema:
    return _convert(schema, _add_items)


def to_anthropic(schema: Schema) -> Schema:
    return _convert(schema, _remove_invalid_keys)


def _convert(given: Schema, mend: Callable[[Schema], Schema]) -> Schema:
    modern = NormalizedSchema(given)
    made = _map_schemas({"properties": dict[str, object](), **flatten_root(modern), "type": "object"}, mend)
    if modern.defs and b'"$ref":"#/$defs/' in msgspec.json.encode([made, modern.defs]):
        made["$defs"] = {name: _map_schemas(one, mend) for name, one in modern.defs.items()}
    return made


def _map_schemas(node: Schema, mend: Callable[[Schema], Schema]) -> Schema:
    """The schema with each one inside it mended."""
    made = dict(node)
    for name in ("properties", "patternProperties", "dependentSchemas"):
        if name in made:
            made[name] = {key: _map_schemas(as_schema(one), mend) for key, one in as_schema(made[name]).items()}
    for name in ("allOf", "anyOf", "prefixItems"):
        if name in made:
            made[name] = [_map_schemas(as_schema(one), mend) for one in as_list(made[name])]
    for name in ("items", "contains", "additionalProperties", "propertyNames", "then", "else"):
        if isinstance(made.get(name), dict):
            made[name] = _map_schemas(cast("Schema", made[name]), mend)
    for name in ("not", "if"):  # what is loosened under these would make the whole stricter
        if isinstance(made.get(name), dict):
            inside = _map_schemas(cast("Schema", made[name]), mend)
            if mend is _add_items or inside == made[name]:
                made[name] = inside
            else:
                del made[name]
    return mend(made)


def _add_items(node: Schema) -> Schema:
    """OpenAI wants to know what is in an array."""
    return {**node, "items": {}} if "array" in get_types(node) and "items" not in node else node


def _remove_invalid_keys(node: Schema) -> Schema:
    """A property whose name the provider refuses is told in words."""
    given = as_schema(node.get("properties"))
    strange = {name: one for name, one in given.items() if not PROPERTY_NAME.fullmatch(name)}
    if not strange:
        return node
    made = {**node, "properties": {name: one for name, one in given.items() if name not in strange}}
    if "required" in made:
        made["required"] = [name for name in get_required(node) if name not in strange]
    if made.get("additionalProperties") is False or isinstance(made.get("additionalProperties"), dict):
        del made["additionalProperties"]
    return add_description(made, f"also takes {msgspec.json.encode(strange).decode()}")
