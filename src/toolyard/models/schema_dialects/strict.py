"""Schemas that decoding enforces: every object is closed, and few keywords are allowed.

OpenAI's strict mode also requires every property.
"""

import re
from typing import Literal

from msgspec import Struct

from toolyard.core.json_types import is_list, is_object
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
_ALL_BOUNDS = tuple(dict.fromkeys(name for names in _BOUNDS.values() for name in names))
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
"""Lookarounds and backreferences, which strict mode does not support."""
NULL: Schema = {"type": "null"}


class StrictRules(Struct, frozen=True, kw_only=True):
    """The rules of a provider that enforces a schema."""

    optional: Literal["null", "keep", "refuse"] = "null"
    """Whether an optional property becomes one that may be null, stays as it is, or makes the schema unsupported."""
    bounds: bool = True
    """Whether limits of numbers and arrays, and patterns of texts, are enforced; else they are only described."""


ARGUMENTS = StrictRules()
"""The rules for a tool's arguments at OpenAI. `remove_forced_nulls` removes the nulls of optional properties again."""
OPENAI_OUTPUT = StrictRules(optional="refuse")
"""The rules for an answer at OpenAI. The answer is a text that is passed on as it is, so no null can be removed."""
ANTHROPIC_OUTPUT = StrictRules(optional="keep", bounds=False)
"""The rules for an answer at Anthropic."""


def to_strict(schema: Schema, rules: StrictRules = ARGUMENTS) -> Schema:
    return _StrictConverter(schema, rules).convert()


class _StrictConverter:
    def __init__(self, schema: Schema, rules: StrictRules) -> None:
        self._rules = rules
        self._described = _DESCRIBED_KEYWORDS if rules.bounds else (*_DESCRIBED_KEYWORDS, *_ALL_BOUNDS, "pattern")
        self._normalized = NormalizedSchema(schema)
        self._defs: dict[str, Schema] = {}
        self._properties = 0
        self._values = 0

    def convert(self) -> Schema:
        root = expand_schema(self._normalized.root, self._normalized)
        if "anyOf" in root or get_types(root) not in ([], ["object"]):
            raise UnsupportedSchema("its root is a choice")
        converted = self._convert_object(root, {name: root[name] for name in _ANNOTATIONS if name in root}, 0)
        return {**converted, "$defs": self._defs} if self._defs else converted

    def _convert(self, node: Schema, depth: int) -> Schema:
        if depth > MAX_DEPTH:
            raise UnsupportedSchema(f"it is nested more than {MAX_DEPTH} levels deep")
        if "$ref" in node and not (node.keys() - {"$ref", *_ANNOTATIONS, "default", "examples", "deprecated"}):
            return self._convert_reference(str(node["$ref"]), depth)
        node = expand_schema(node, self._normalized)
        converted: Schema = {name: node[name] for name in _ANNOTATIONS if isinstance(node.get(name), str)}
        if branches := [as_schema(branch) for branch in as_list(node.get("anyOf"))]:
            return self._convert_choice(node, converted, branches, depth)
        if values := [node["const"]] if "const" in node else as_list(node.get("enum")):
            return self._convert_enum(converted, values)
        kinds = get_types(node)
        if not kinds:
            raise UnsupportedSchema("a value may be of any type")
        if len(kinds) == 1:
            return note_omissions(self._convert_type(node, kinds[0], converted, depth), node, self._described)
        return {**converted, "anyOf": [self._convert_type(node, kind, {}, depth) for kind in kinds]}

    def _convert_reference(self, reference: str, depth: int) -> Schema:
        name = reference.removeprefix("#/$defs/")
        if name not in self._defs:
            self._defs[name] = {}  # a recursive schema finds its own name taken
            self._defs[name] = self._convert(self._normalized.resolve(reference), min(depth, 1) + 1)
        return {"$ref": reference}

    def _convert_choice(self, node: Schema, annotations: Schema, branches: list[Schema], depth: int) -> Schema:
        base = {name: value for name, value in node.items() if name not in ("anyOf", *_ANNOTATIONS)}
        if len(branches) > MAX_BRANCHES:
            raise UnsupportedSchema("it is a choice of too many")
        return {
            **annotations,
            "anyOf": [self._convert(merge_all([base, branch]) if base else branch, depth + 1) for branch in branches],
        }

    def _convert_enum(self, annotations: Schema, values: list[object]) -> Schema:
        kinds = [*dict.fromkeys(map(_detect_type, values))]
        self._values += len(values)
        if self._values > MAX_VALUES:
            raise UnsupportedSchema(f"it lists more than {MAX_VALUES:,} values")
        return {**annotations, "type": kinds[0] if len(kinds) == 1 else kinds, "enum": values}

    def _convert_type(self, node: Schema, kind: str, converted: Schema, depth: int) -> Schema:
        if kind == "object":
            if not (get_properties(node) or node.get("additionalProperties") is False):
                raise UnsupportedSchema("an object may have any properties")
            return self._convert_object(node, converted, depth)
        bounds = _BOUNDS.get(kind, ()) if self._rules.bounds else ()
        converted = {**converted, "type": kind, **{name: node[name] for name in bounds if name in node}}
        if kind == "string":
            return _convert_string(node, converted, with_pattern=self._rules.bounds)
        return self._convert_array(node, converted, depth) if kind == "array" else converted

    def _convert_object(self, node: Schema, annotations: Schema, depth: int) -> Schema:
        if "patternProperties" in node or node.get("additionalProperties", False) is not False:
            raise UnsupportedSchema("an object may have more properties than it names")
        properties, required = get_properties(node), get_required(node)
        if not set(required) <= properties.keys():
            raise UnsupportedSchema("a property is required of which nothing is said")
        self._properties += len(properties)
        if self._properties > MAX_PROPERTIES:
            raise UnsupportedSchema(f"it has more than {MAX_PROPERTIES:,} properties")
        converted = {name: self._convert(schema, depth + 1) for name, schema in properties.items()}
        closed: Schema = {**annotations, "type": "object", "additionalProperties": False}
        if self._rules.optional == "keep":
            return {**closed, "properties": converted, "required": [name for name in properties if name in required]}
        nullable = {name: schema if name in required else _add_null(schema) for name, schema in converted.items()}
        if self._rules.optional == "refuse" and nullable != converted:
            raise UnsupportedSchema("a property is optional")
        return {**closed, "properties": nullable, "required": [*properties]}

    def _convert_array(self, node: Schema, converted: Schema, depth: int) -> Schema:
        items, prefix = node.get("items"), [as_schema(schema) for schema in as_list(node.get("prefixItems"))]
        is_full = isinstance(max_items := node.get("maxItems"), int) and max_items <= len(prefix)
        if items is False and prefix:
            if self._rules.bounds:
                converted["maxItems"] = min(len(prefix), max_items if isinstance(max_items, int) else len(prefix))
        elif not is_full:
            if not is_object(items):
                raise UnsupportedSchema("an array may hold anything")
            prefix.append(items)
        item_schemas = [self._convert(schema, depth + 1) for schema in prefix]
        return {**converted, "items": item_schemas[0] if len(item_schemas) == 1 else {"anyOf": item_schemas}}


def _convert_string(node: Schema, converted: Schema, *, with_pattern: bool) -> Schema:
    if node.get("format") in _FORMATS:
        converted["format"] = node["format"]
    pattern = node.get("pattern")
    if not isinstance(pattern, str) or not with_pattern:
        return converted
    return (
        note_omissions(converted, node, ("pattern",))
        if _UNSUPPORTED_PATTERN.search(pattern)
        else {**converted, "pattern": pattern}
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


def _add_null(converted: Schema) -> Schema:
    """Return the schema of an optional property, which strict mode can only express as one that may be null."""
    kinds = get_types(converted)
    if "null" in kinds or any("null" in get_types(as_schema(branch)) for branch in as_list(converted.get("anyOf"))):
        return converted
    if "enum" in converted:
        return {**converted, "type": [*kinds, "null"], "enum": [*as_list(converted["enum"]), None]}
    if len(kinds) == 1 and kinds[0] not in ("object", "array"):
        return {**converted, "type": [kinds[0], "null"]}
    if "anyOf" in converted:
        return {**converted, "anyOf": [*as_list(converted["anyOf"]), NULL]}
    annotations = {name: converted[name] for name in _ANNOTATIONS if name in converted}
    return {
        **annotations,
        "anyOf": [{name: value for name, value in converted.items() if name not in annotations}, NULL],
    }


def remove_forced_nulls(value: dict[str, object], schema: Schema) -> dict[str, object]:
    """Return arguments as the original schema means them: without nulls that stand for optional properties."""
    normalized = NormalizedSchema(schema)
    return _remove_nulls_of_object(value, normalized.root, normalized, 0)


def _remove_nulls(value: object, node: Schema, normalized: NormalizedSchema, depth: int) -> object:
    if depth > 3 * MAX_DEPTH:
        return value
    if is_object(value):
        return _remove_nulls_of_object(value, node, normalized, depth)
    return _remove_nulls_of_list(value, node, normalized, depth) if is_list(value) else value


def _remove_nulls_of_list(values: list[object], node: Schema, normalized: NormalizedSchema, depth: int) -> list[object]:
    node = expand_schema(node, normalized)
    schemas = (node, *(as_schema(branch) for branch in as_list(node.get("anyOf"))))
    item_schema = next((items for schema in schemas if (items := as_schema(schema.get("items")))), Schema())
    return [_remove_nulls(item, item_schema, normalized, depth + 1) for item in values]


def _remove_nulls_of_object(
    fields: dict[str, object], node: Schema, normalized: NormalizedSchema, depth: int
) -> dict[str, object]:
    node = expand_schema(node, normalized)
    properties, required = get_properties(node), get_required(node)
    for choice in (expand_schema(as_schema(branch), normalized) for branch in as_list(node.get("anyOf"))):
        if not properties and fields.keys() <= get_properties(choice).keys():
            properties, required = get_properties(choice), get_required(choice)
    return {
        name: _remove_nulls(field, properties.get(name, {}), normalized, depth + 1)
        for name, field in fields.items()
        if field is not None or name in required or _accepts_null(properties.get(name, {}), normalized)
    }


def _accepts_null(node: Schema, normalized: NormalizedSchema) -> bool:
    node = expand_schema(node, normalized)
    if "const" in node or "enum" in node:
        return node.get("const", 0) is None or None in as_list(node.get("enum"))
    if choices := as_list(node.get("anyOf")):
        return any(_accepts_null(as_schema(branch), normalized) for branch in choices)
    return not get_types(node) or "null" in get_types(node)
