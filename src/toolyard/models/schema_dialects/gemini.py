"""JSON Schema as Gemini takes it in `parametersJsonSchema`: few words, and no references, which are written out."""

from typing import cast

from toolyard.models.schema_dialects.merge import MOST_BRANCHES, all_of, flat, opened
from toolyard.models.schema_dialects.schema import (
    Modern,
    Schema,
    as_list,
    as_schema,
    noted,
    properties_of,
    required_of,
    types_of,
)

MOST_DEPTH = 10
"""A schema that goes deeper, or round, is cut there: what is below may be anything."""
_KEPT = ("title", "description")
_BOUNDS = {
    "array": ("minItems", "maxItems"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
}
_FORMATS = {"date-time", "date", "time", "int32", "int64", "float", "double"}
_TOLD = (
    *("pattern", "minLength", "maxLength", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "default"),
    *("uniqueItems", "minProperties", "maxProperties", "not", "patternProperties", "dependentRequired"),
)


def gemini(given: Schema) -> Schema:
    modern = Modern(given)
    made = _converted({**flat(modern), "type": "object"}, modern, 0)
    return made if "additionalProperties" in made else {**made, "properties": made.get("properties", {})}


def _converted(node: Schema, modern: Modern, depth: int) -> Schema:
    if depth > MOST_DEPTH:
        return {}
    node = opened(node, modern)
    if branches := [as_schema(one) for one in as_list(node.get("anyOf"))]:
        base = {name: value for name, value in node.items() if name not in ("anyOf", *_KEPT)}
        return _choice(node, [all_of([base, one]) for one in branches] if base else branches, modern, depth)
    made: Schema = {name: node[name] for name in _KEPT if isinstance(node.get(name), str)}
    values = [node["const"]] if "const" in node else as_list(node.get("enum"))
    if values:
        return _enum(node, made, values)
    kinds = types_of(node)
    if len([kind for kind in kinds if kind != "null"]) > 1:
        return {**made, "anyOf": [_typed(node, kind, {}, modern, depth) for kind in kinds]}
    if not kinds:
        return noted(made, node, ("properties", "items", *_TOLD))
    kind = next((kind for kind in kinds if kind != "null"), "null")
    made = _typed(node, kind, made, modern, depth)
    return noted({**made, "type": [kind, "null"]} if "null" in kinds and kind != "null" else made, node, _TOLD)


def _choice(node: Schema, branches: list[Schema], modern: Modern, depth: int) -> Schema:
    about: Schema = {name: node[name] for name in _KEPT if isinstance(node.get(name), str)}
    if len(branches) > MOST_BRANCHES:
        return noted(about, node, ("anyOf",))
    return {**about, "anyOf": [_converted(one, modern, depth + 1) for one in branches]}


def _enum(node: Schema, made: Schema, values: list[object]) -> Schema:
    """Only texts, or numbers, can be listed."""
    listed = [value for value in values if value is not None]
    for kind, types in (("string", str), ("number", int | float)):
        if listed and "" not in listed and all(isinstance(one, types) and not isinstance(one, bool) for one in listed):
            enum: Schema = {"type": kind, "enum": listed}
            nothing: Schema = {"type": "null"}
            return {**made, **enum} if None not in values else {**made, "anyOf": [enum, nothing]}
    return noted(made, node, ("const", "enum"))


def _typed(node: Schema, kind: str, made: Schema, modern: Modern, depth: int) -> Schema:
    made = {**made, "type": kind, **{name: node[name] for name in _BOUNDS.get(kind, ()) if name in node}}
    if node.get("format") in _FORMATS and kind in ("string", "number", "integer"):
        made["format"] = node["format"]
    if kind == "object":
        return _object(node, made, modern, depth)
    return _array(node, made, modern, depth) if kind == "array" else made


def _object(node: Schema, made: Schema, modern: Modern, depth: int) -> Schema:
    shape = properties_of(node)
    if shape:
        made["properties"] = {name: _converted(one, modern, depth + 1) for name, one in shape.items()}
        made["required"] = [name for name in required_of(node) if name in shape]
    rest = node.get("additionalProperties")
    if isinstance(rest, dict) and "patternProperties" not in node:
        made["additionalProperties"] = _converted(cast("Schema", rest), modern, depth + 1)
    elif not shape and (rest is True or "patternProperties" in node):
        made["additionalProperties"] = True
    return made


def _array(node: Schema, made: Schema, modern: Modern, depth: int) -> Schema:
    first, rest = as_list(node.get("prefixItems")), node.get("items")
    inside = {} if rest is None or isinstance(rest, bool) else _converted(as_schema(rest), modern, depth + 1)
    if not first:
        return {**made, "items": inside}
    places = [_converted(as_schema(one), modern, depth + 1) for one in first]
    if rest is False:
        most = node.get("maxItems")
        made["maxItems"] = min(len(first), most) if isinstance(most, int) else len(first)
        return {**made, "prefixItems": places, "items": {"anyOf": places}}
    return {**made, "prefixItems": places, "items": inside}
