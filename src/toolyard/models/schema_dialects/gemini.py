"""JSON Schema as Gemini accepts it in `parametersJsonSchema`: few keywords, and references written out."""

from typing import cast

from toolyard.models.schema_dialects.merge import MAX_BRANCHES, expand_schema, flatten_root, merge_all
from toolyard.models.schema_dialects.schema import (
    NormalizedSchema,
    Schema,
    as_list,
    as_schema,
    get_properties,
    get_required,
    get_types,
    note_omissions,
)

MAX_DEPTH = 10
"""A deeper or recursive schema is cut off here: below, any value is allowed."""
_ANNOTATIONS = ("title", "description")
_BOUNDS = {
    "array": ("minItems", "maxItems"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
}
_FORMATS = {"date-time", "date", "time", "int32", "int64", "float", "double"}
_DESCRIBED_KEYWORDS = (
    *("pattern", "minLength", "maxLength", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "default"),
    *("uniqueItems", "minProperties", "maxProperties", "not", "patternProperties", "dependentRequired"),
)


def to_gemini(schema: Schema) -> Schema:
    normalized = NormalizedSchema(schema)
    converted = _convert({**flatten_root(normalized), "type": "object"}, normalized, 0)
    return (
        converted
        if "additionalProperties" in converted
        else {**converted, "properties": converted.get("properties", {})}
    )


def _convert(node: Schema, normalized: NormalizedSchema, depth: int) -> Schema:
    if depth > MAX_DEPTH:
        return {}
    node = expand_schema(node, normalized)
    if branches := [as_schema(branch) for branch in as_list(node.get("anyOf"))]:
        base = {name: value for name, value in node.items() if name not in ("anyOf", *_ANNOTATIONS)}
        return _convert_choice(
            node, [merge_all([base, branch]) for branch in branches] if base else branches, normalized, depth
        )
    converted: Schema = {name: node[name] for name in _ANNOTATIONS if isinstance(node.get(name), str)}
    values = [node["const"]] if "const" in node else as_list(node.get("enum"))
    if values:
        return _convert_enum(node, converted, values)
    kinds = get_types(node)
    if len([kind for kind in kinds if kind != "null"]) > 1:
        return {**converted, "anyOf": [_convert_type(node, kind, {}, normalized, depth) for kind in kinds]}
    if not kinds:
        return note_omissions(converted, node, ("properties", "items", *_DESCRIBED_KEYWORDS))
    kind = next((kind for kind in kinds if kind != "null"), "null")
    converted = _convert_type(node, kind, converted, normalized, depth)
    return note_omissions(
        {**converted, "type": [kind, "null"]} if "null" in kinds and kind != "null" else converted,
        node,
        _DESCRIBED_KEYWORDS,
    )


def _convert_choice(node: Schema, branches: list[Schema], normalized: NormalizedSchema, depth: int) -> Schema:
    annotations: Schema = {name: node[name] for name in _ANNOTATIONS if isinstance(node.get(name), str)}
    if len(branches) > MAX_BRANCHES:
        return note_omissions(annotations, node, ("anyOf",))
    return {**annotations, "anyOf": [_convert(branch, normalized, depth + 1) for branch in branches]}


def _convert_enum(node: Schema, converted: Schema, values: list[object]) -> Schema:
    """Return an enum of strings or of numbers: Gemini accepts no other enums, and no empty string in one."""
    listed = [value for value in values if value is not None]
    for kind, types in (("string", str), ("number", int | float)):
        if (
            listed
            and "" not in listed
            and all(isinstance(entry, types) and not isinstance(entry, bool) for entry in listed)
        ):
            enum: Schema = {"type": kind, "enum": listed}
            null: Schema = {"type": "null"}
            return {**converted, **enum} if None not in values else {**converted, "anyOf": [enum, null]}
    return note_omissions(converted, node, ("const", "enum"))


def _convert_type(node: Schema, kind: str, converted: Schema, normalized: NormalizedSchema, depth: int) -> Schema:
    converted = {**converted, "type": kind, **{name: node[name] for name in _BOUNDS.get(kind, ()) if name in node}}
    if node.get("format") in _FORMATS and kind in ("string", "number", "integer"):
        converted["format"] = node["format"]
    if kind == "object":
        return _convert_object(node, converted, normalized, depth)
    return _convert_array(node, converted, normalized, depth) if kind == "array" else converted


def _convert_object(node: Schema, converted: Schema, normalized: NormalizedSchema, depth: int) -> Schema:
    properties = get_properties(node)
    if properties:
        converted["properties"] = {
            name: _convert(property_schema, normalized, depth + 1) for name, property_schema in properties.items()
        }
        converted["required"] = [name for name in get_required(node) if name in properties]
    additional = node.get("additionalProperties")
    if isinstance(additional, dict) and "patternProperties" not in node:
        converted["additionalProperties"] = _convert(cast("Schema", additional), normalized, depth + 1)
    elif not properties and (additional is True or "patternProperties" in node):
        converted["additionalProperties"] = True
    return converted


def _convert_array(node: Schema, converted: Schema, normalized: NormalizedSchema, depth: int) -> Schema:
    prefix, items = as_list(node.get("prefixItems")), node.get("items")
    item_schema = {} if items is None or isinstance(items, bool) else _convert(as_schema(items), normalized, depth + 1)
    if not prefix:
        return {**converted, "items": item_schema}
    positions = [_convert(as_schema(schema), normalized, depth + 1) for schema in prefix]
    if items is False:
        max_items = node.get("maxItems")
        converted["maxItems"] = min(len(prefix), max_items) if isinstance(max_items, int) else len(prefix)
        return {**converted, "prefixItems": positions, "items": {"anyOf": positions}}
    return {**converted, "prefixItems": positions, "items": item_schema}
