"""Merges several schemas into one that accepts at least the same values. Pure.

`merge_all` accepts what fits every one of them, `flatten_root` the objects that fit a root with choices; either may
accept more.
"""

from collections.abc import Sequence

import msgspec

from toolyard.models.schema_dialects.schema import (
    NormalizedSchema,
    Schema,
    add_description,
    as_list,
    as_schema,
    get_properties,
    get_required,
    get_types,
    note_omissions,
)

_SHAPE = ("properties", "patternProperties", "additionalProperties")
_TUPLE = ("prefixItems", "items")
_LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_SPECIAL = {"type", "enum", "required", *_SHAPE, *_TUPLE, *_LOWER, *_UPPER}
_FAMILIES = ({"if", "then", "else"}, {"contains", "minContains", "maxContains"})
"""Keywords that have a meaning only together, so they are taken from one schema or the other."""
_NOT_ON_TOP = ("allOf", "anyOf", "enum", "const", "not", "$ref", "if", "then", "else")
MAX_BRANCHES = 16


def expand_schema(node: Schema, normalized: NormalizedSchema) -> Schema:
    """Return the schema with its reference and its `allOf` merged in. A circular reference adds nothing.

    Each schema is expanded once: what several references lead to is one object, which must not be changed.
    """
    if "$ref" not in node and "allOf" not in node:
        return node
    if (entry := normalized.expanded.get(id(node))) is not None:
        return entry[1]
    # The entry holds the node, so that its id cannot go to another object. A circular reference finds it empty.
    normalized.expanded[id(node)] = (node, {})
    branches = [normalized.resolve(node["$ref"])] if isinstance(node.get("$ref"), str) else []
    branches += [as_schema(branch) for branch in as_list(node.get("allOf"))]
    plain = {name: value for name, value in node.items() if name not in ("$ref", "allOf")}
    merged = merge_all([plain, *(expand_schema(branch, normalized) for branch in branches)])
    normalized.expanded[id(node)] = (node, merged)
    return merged


def merge_all(branches: Sequence[Schema]) -> Schema:
    """Merge schemas. Where keywords cannot be merged, and for titles and descriptions, the first schema wins."""
    merged: Schema = {}
    for branch in branches:
        merged = _merge_two(merged, branch)
    return merged


def _merge_two(first: Schema, second: Schema) -> Schema:
    if not first or not second or first is second:
        return first or second
    skipped = {name for family in _FAMILIES if family & first.keys() for name in family}
    merged = {**{name: value for name, value in second.items() if name not in skipped}, **first}
    _merge_types(first, second, merged)
    _merge_enums(first, second, merged)
    for names, stricter in ((_LOWER, max), (_UPPER, min)):
        for name in names:
            bounds = [bound for side in (first, second) if isinstance(bound := side.get(name), int | float)]
            if bounds:
                merged[name] = stricter(bounds)
    if first.get("required") or second.get("required"):
        merged["required"] = [*dict.fromkeys([*get_required(first), *get_required(second)])]
    _merge_properties(first, second, merged)
    if any(name in first for name in _TUPLE) and any(name in second for name in _TUPLE):
        for name in _TUPLE:
            merged.pop(name, None)
            if name in first:
                merged[name] = first[name]
    return merged


def _merge_types(first: Schema, second: Schema, merged: Schema) -> None:
    first_types, second_types = get_types(first), get_types(second)
    if first_types and second_types:
        both = [
            kind for kind in first_types if kind in second_types or (kind == "integer" and "number" in second_types)
        ]
        both += ["integer"] if "number" in first_types and "integer" in second_types and "integer" not in both else []
        merged["type"] = (both[0] if len(both) == 1 else both) if both else first["type"]


def _merge_enums(first: Schema, second: Schema, merged: Schema) -> None:
    if "enum" in first and "enum" in second:
        common = [value for value in as_list(first["enum"]) if value in as_list(second["enum"])]
        merged["enum"] = common or first["enum"]


def _merge_properties(first: Schema, second: Schema, merged: Schema) -> None:
    """Merge the properties of both. If both describe an object, `additionalProperties` of either is left out.

    It applies to the properties that its own schema does not name, and those are no longer known after the merge.
    """
    if not (any(name in first for name in _SHAPE) and any(name in second for name in _SHAPE)):
        return
    for name in _SHAPE:
        merged.pop(name, None)
    first_properties, second_properties = get_properties(first), get_properties(second)
    names = dict.fromkeys([*first_properties, *second_properties])
    merged["properties"] = {
        name: _join_all(first_properties[name], second_properties[name])
        if name in first_properties and name in second_properties
        else first_properties.get(name, second_properties.get(name))
        for name in names
    }


def _join_all(first: Schema, second: Schema) -> Schema:
    """Return the schema of what fits both, each part once: merged again and again, it would double each time."""
    parts = {id(part): part for schema in (first, second) for part in _list_all(schema)}
    return first if len(parts) == 1 else {"allOf": [*parts.values()]}


def _list_all(schema: Schema) -> list[Schema]:
    return [as_schema(part) for part in as_list(schema["allOf"])] if schema.keys() == {"allOf"} else [schema]


def flatten_root(normalized: NormalizedSchema) -> Schema:
    """Return the root as one object, since no provider accepts a choice there: its branches become one shape."""
    root = expand_schema(normalized.root, normalized)
    base = {name: value for name, value in root.items() if name not in _NOT_ON_TOP}
    branches = [expand_schema(as_schema(branch), normalized) for branch in as_list(root.get("anyOf"))]
    if not branches:
        return note_omissions(base, root, ("not", "if", "then", "else"))
    if len(branches) <= MAX_BRANCHES and not any("anyOf" in branch for branch in branches):
        base = merge_all([base, _merge_choices(branches)])
    return add_description(base, f"one of: {msgspec.json.encode(root['anyOf']).decode()}")


def _merge_choices(branches: Sequence[Schema]) -> Schema:
    """Return one schema for the objects of all branches. A property that any branch leaves open may be anything."""
    shapes = [get_properties(branch) for branch in branches]
    names = dict.fromkeys(name for shape in shapes for name in shape)
    merged: Schema = {"properties": {name: _merge_property(name, branches, shapes) for name in names}}
    required = [name for name in names if all(name in get_required(branch) for branch in branches)]
    if required:
        merged["required"] = required
    if all(branch.get("additionalProperties") is False and "patternProperties" not in branch for branch in branches):
        merged["additionalProperties"] = False
    return merged


def _merge_property(name: str, branches: Sequence[Schema], shapes: Sequence[dict[str, Schema]]) -> Schema:
    description = next((shape[name]["description"] for shape in shapes if "description" in shape.get(name, {})), None)
    annotations: Schema = {} if description is None else {"description": description}
    choices: dict[bytes, Schema] = {}
    for branch, shape in zip(branches, shapes, strict=True):
        if name not in shape and (branch.get("additionalProperties") is not False or "patternProperties" in branch):
            return annotations
        if name in shape:
            choices[msgspec.json.encode(shape[name], order="deterministic")] = shape[name]
    schemas = [*choices.values()]
    return schemas[0] if len(schemas) == 1 else {**annotations, "anyOf": schemas}
