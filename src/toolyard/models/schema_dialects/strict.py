"""OpenAI's strict mode: every object closed and all its properties required, and few other words. See `convert`."""

import re
from typing import cast

from toolyard.models.schema_dialects.merge import MAX_BRANCHES, expand_schema, merge_all
from toolyard.models.schema_dialects.schema import (
    NormalizedSchema,
    Schema,
    UnsupportedSchema,
    as_list,
    as_schema,
    get_properties,
    get_required,
    get_types,
    note_omissions,
)

MAX_DEPTH = 10
MAX_PROPERTIES = 5_000
MAX_VALUES = 1_000
_ANNOTATIONS = ("title", "description")
_BOUNDS = {
    "array": ("minItems", "maxItems"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
_DESCRIBED_KEYWORDS = (
    "minLength",
    "maxLength",
    "default",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "not",
    "dependentRequired",
)
_UNSUPPORTED_PATTERN = re.compile(r"\(\?|\\\d")
"""Looking around and back, which strict mode cannot do."""
NULL: Schema = {"type": "null"}


def to_strict(schema: Schema) -> Schema:
    return _StrictConverter(schema).convert()


class _StrictConverter:
    def __init__(self, schema: Schema) -> None:
        self._modern = NormalizedSchema(schema)
        self._defs: dict[str, Schema] = {}
        self._properties = 0
        self._values = 0

    def convert(self) -> Schema:
        root = expand_schema(self._modern.root, self._modern)
        if "anyOf" in root or get_types(root) not in ([], ["object"]):
            raise UnsupportedSchema("its root is a choice")
        made = self._convert_object(root, {name: root[name] for name in _ANNOTATIONS if name in root}, 0)
        return {**made, "$defs": self._defs} if self._defs else made

    def _convert(self, node: Schema, depth: int) -> Schema:
        if depth > MAX_DEPTH:
            raise UnsupportedSchema(f"it is nested more than {MAX_DEPTH} levels deep")
        if "$ref" in node and not (node.keys() - {"$ref", *_ANNOTATIONS, "default", "examples", "deprecated"}):
            return self._convert_reference(str(node["$ref"]), depth)
        node = expand_schema(node, self._modern)
        made: Schema = {name: node[name] for name in _ANNOTATIONS if isinstance(node.get(name), str)}
        if branches := [as_schema(one) for one in as_list(node.get("anyOf"))]:
            return self._convert_choice(node, made, branches, depth)
        if values := [node["const"]] if "const" in node else as_list(node.get("enum")):
            return self._convert_enum(made, values)
        kinds = get_types(node)
        if not kinds:
            raise UnsupportedSchema("a value may be of any type")
        if len(kinds) == 1:
            return note_omissions(self._convert_type(node, kinds[0], made, depth), node, _DESCRIBED_KEYWORDS)
        return {**made, "anyOf": [self._convert_type(node, kind, {}, depth) for kind in kinds]}

    def _convert_reference(self, reference: str, depth: int) -> Schema:
        name = reference.removeprefix("#/$defs/")
        if name not in self._defs:
            self._defs[name] = {}
            self._defs[name] = self._convert(self._modern.resolve(reference), min(depth, 1) + 1)
        return {"$ref": reference}

    def _convert_choice(self, node: Schema, made: Schema, branches: list[Schema], depth: int) -> Schema:
        base = {name: value for name, value in node.items() if name not in ("anyOf", *_ANNOTATIONS)}
        if len(branches) > MAX_BRANCHES:
            raise UnsupportedSchema("it is a choice of too many")
        return {
            **made,
            "anyOf": [self._convert(merge_all([base, one]) if base else one, depth + 1) for one in branches],
        }

    def _convert_enum(self, made: Schema, values: list[object]) -> Schema:
        kinds = [*dict.fromkeys(map(_detect_type, values))]
        self._values += len(values)
        if self._values > MAX_VALUES:
            raise UnsupportedSchema(f"it lists more than {MAX_VALUES:,} values")
        return {**made, "type": kinds[0] if len(kinds) == 1 else kinds, "enum": values}

    def _convert_type(self, node: Schema, kind: str, made: Schema, depth: int) -> Schema:
        if kind == "object":
            if not (get_properties(node) or node.get("additionalProperties") is False):
                raise UnsupportedSchema("an object may have any properties")
            return self._convert_object(node, made, depth)
        made = {**made, "type": kind, **{name: node[name] for name in _BOUNDS.get(kind, ()) if name in node}}
        if kind == "string":
            return _convert_string(node, made)
        return self._convert_array(node, made, depth) if kind == "array" else made

    def _convert_object(self, node: Schema, made: Schema, depth: int) -> Schema:
        if "patternProperties" in node or node.get("additionalProperties", False) is not False:
            raise UnsupportedSchema("an object may have more properties than it names")
        shape, required = get_properties(node), get_required(node)
        if not set(required) <= shape.keys():
            raise UnsupportedSchema("a property is required of which nothing is said")
        self._properties += len(shape)
        if self._properties > MAX_PROPERTIES:
            raise UnsupportedSchema(f"it has more than {MAX_PROPERTIES:,} properties")
        properties = {name: self._convert(one, depth + 1) for name, one in shape.items()}
        closed = {name: one if name in required else _add_null(one) for name, one in properties.items()}
        return {
            **made,
            "type": "object",
            "properties": closed,
            "required": [*shape],
            "additionalProperties": False,
        }

    def _convert_array(self, node: Schema, made: Schema, depth: int) -> Schema:
        rest, first = node.get("items"), [as_schema(one) for one in as_list(node.get("prefixItems"))]
        full = isinstance(most := node.get("maxItems"), int) and most <= len(first)
        if rest is False and first:
            made["maxItems"] = min(len(first), most if isinstance(most, int) else len(first))
        elif not full:
            if not isinstance(rest, dict):
                raise UnsupportedSchema("an array may hold anything")
            first.append(cast("Schema", rest))
        inside = [self._convert(one, depth + 1) for one in first]
        return {**made, "items": inside[0] if len(inside) == 1 else {"anyOf": inside}}


def _convert_string(node: Schema, made: Schema) -> Schema:
    if node.get("format") in _FORMATS:
        made["format"] = node["format"]
    pattern = node.get("pattern")
    if not isinstance(pattern, str):
        return made
    return (
        note_omissions(made, node, ("pattern",))
        if _UNSUPPORTED_PATTERN.search(pattern)
        else {**made, "pattern": pattern}
    )


def _detect_type(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    for kind, types in (("string", str), ("integer", int), ("number", float)):
        if isinstance(value, types):
            return kind
    if value is None:
        return "null"
    raise UnsupportedSchema("it lists objects or arrays")


def _add_null(made: Schema) -> Schema:
    """The schema of a property that may be left out, which is to say null."""
    kinds = get_types(made)
    if "null" in kinds or any("null" in get_types(as_schema(one)) for one in as_list(made.get("anyOf"))):
        return made
    if "enum" in made:
        return {**made, "type": [*kinds, "null"], "enum": [*as_list(made["enum"]), None]}
    if len(kinds) == 1 and kinds[0] not in ("object", "array"):
        return {**made, "type": [kinds[0], "null"]}
    if "anyOf" in made:
        return {**made, "anyOf": [*as_list(made["anyOf"]), NULL]}
    about = {name: made[name] for name in _ANNOTATIONS if name in made}
    return {**about, "anyOf": [{name: one for name, one in made.items() if name not in about}, NULL]}


def remove_forced_nulls(value: dict[str, object], schema: Schema) -> dict[str, object]:
    """Arguments as the original schema means them: a null that stands for a property left out is taken out."""
    modern = NormalizedSchema(schema)
    return cast("dict[str, object]", _remove_nulls(value, modern.root, modern, 0))


def _remove_nulls(value: object, node: Schema, modern: NormalizedSchema, depth: int) -> object:
    if depth > 3 * MAX_DEPTH or not isinstance(value, dict | list):
        return value
    node = expand_schema(node, modern)
    choices = [as_schema(one) for one in as_list(node.get("anyOf"))]
    if isinstance(value, list):
        inside = next((found for one in (node, *choices) if (found := as_schema(one.get("items")))), Schema())
        return [_remove_nulls(one, inside, modern, depth + 1) for one in cast("list[object]", value)]
    given = cast("dict[str, object]", value)
    shape, required = get_properties(node), get_required(node)
    for choice in (expand_schema(one, modern) for one in choices):
        if not shape and given.keys() <= get_properties(choice).keys():
            shape, required = get_properties(choice), get_required(choice)
    return {
        name: _remove_nulls(one, shape.get(name, {}), modern, depth + 1)
        for name, one in given.items()
        if one is not None or name in required or _accepts_null(shape.get(name, {}), modern)
    }


def _accepts_null(node: Schema, modern: NormalizedSchema) -> bool:
    node = expand_schema(node, modern)
    if "const" in node or "enum" in node:
        return node.get("const", 0) is None or None in as_list(node.get("enum"))
    if choices := as_list(node.get("anyOf")):
        return any(_accepts_null(as_schema(one), modern) for one in choices)
    return not get_types(node) or "null" in get_types(node)
