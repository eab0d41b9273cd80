"""JSON Schema as Gemini takes it in `parametersJsonSchema`: few words, and no references, which are written out."""

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
"""A schema that goes deeper, or round, is cut there: what is below may be anything."""
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
    modern = NormalizedSchema(schema)
    made = _convert({**flatten_root(modern), "type": "object"}, modern, 0)
    return made if "additionalProperties" in made else {**made, "properties": made.get("properties", {})}


def _convert(node: Schema, modern: NormalizedSchema, depth: int) -> Schema:
    if depth > MAX_DEPTH:
        return {}
    node = expand_schema(node, modern)
    if branches := [as_schema(one) for one in as_list(node.get("anyOf"))]:
        base = {name: value for name, value in node.items() if name not in ("anyOf", *_ANNOTATIONS)}
        return _convert_choice(node, [merge_all([base, one]) for one in branches] if base else branches, modern, depth)
    made: Schema = {name: node[name] for name in _ANNOTATIONS if isinstance(node.get(name), str)}
    values = [node["const"]] if "const" in node else as_list(node.get("enum"))
    if values:
        return _convert_enum(node, made, values)
    kinds = get_types(node)
    if len([kind for kind in kinds if kind != "null"]) > 1:
        return {**made, "anyOf": [_convert_type(node, kind, {}, modern, depth) for kind in kinds]}
    if not kinds:
        return note_omissions(made, node, ("properties", "items", *_DESCRIBED_KEYWORDS))
    kind = next((kind for kind in kinds if kind != "null"), "null")
    made = _convert_type(node, kind, made, modern, depth)
    return note_omissions(
        {**made, "type": [kind, "null"]} if "null" in kinds and kind != "null" else made, node, _DESCRIBED_KEYWORDS
    )


def _convert_choice(node: Schema, branches: list[Schema], modern: NormalizedSchema, depth: int) -> Schema:
    about: Schema = {name: node[name] for name in _ANNOTATIONS if isinstance(node.get(name), str)}
    if len(branches) > MAX_BRANCHES:
        return note_omissions(about, node, ("anyOf",))
    return {**about, "anyOf": [_convert(one, modern, depth + 1) for one in branches]}


def _convert_enum(node: Schema, made: Schema, values: list[object]) -> Schema:
    """Only texts, or numbers, can be listed."""
    listed = [value for value in values if value is not None]
    for kind, types in (("string", str), ("number", int | float)):
        if listed and "" not in listed and all(isinstance(one, types) and not isinstance(one, bool) for one in listed):
            enum: Schema = {"type": kind, "enum": listed}
            nothing: Schema = {"type": "null"}
            return {**made, **enum} if None not in values else {**made, "anyOf": [enum, nothing]}
    return note_omissions(made, node, ("const", "enum"))


def _convert_type(node: Schema, kind: str, made: Schema, modern: NormalizedSchema, depth: int) -> Schema:
    made = {**made, "type": kind, **{name: node[name] for name in _BOUNDS.get(kind, ()) if name in node}}
    if node.get("format") in _FORMATS and kind in ("string", "number", "integer"):
        made["format"] = node["format"]
    if kind == "object":
        return _convert_object(node, made, modern, depth)
    return _convert_array(node, made, modern, depth) if kind == "array" else made


def _convert_object(node: Schema, made: Schema, modern: NormalizedSchema, depth: int) -> Schema:
    shape = get_properties(node)
    if shape:
        made["properties"] = {name: _convert(one, modern, depth + 1) for name, one in shape.items()}
        made["required"] = [name for name in get_required(node) if name in shape]
    rest = node.get("additionalProperties")
    if isinstance(rest, dict) and "patternProperties" not in node:
        made["additionalProperties"] = _convert(cast("Schema", rest), modern, depth + 1)
    elif not shape and (rest is True or "patternProperties" in node):
        made["additionalProperties"] = True
    return made


def _convert_array(node: Schema, made: Schema, modern: NormalizedSchema, depth: int) -> Schema:
    first, rest = as_list(node.get("prefixItems")), node.get("items")
    inside = {} if rest is None or isinstance(rest, bool) else _convert(as_schema(rest), modern, depth + 1)
    if not first:
        return {**made, "items": inside}
    places = [_convert(as_schema(one), modern, depth + 1) for one in first]
    if rest is False:
        most = node.get("maxItems")
        made["maxItems"] = min(len(first), most) if isinstance(most, int) else len(first)
        return {**made, "prefixItems": places, "items": {"anyOf": places}}
    return {**made, "prefixItems": places, "items": inside}
