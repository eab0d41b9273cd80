"""OpenAI's strict mode: every object closed and all its properties required, and few other words. See `convert`."""

import re
from typing import cast

from toolyard.models.schema_dialects.merge import MOST_BRANCHES, all_of, opened
from toolyard.models.schema_dialects.schema import (
    Inexpressible,
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
MOST_PROPERTIES = 5_000
MOST_VALUES = 1_000
_KEPT = ("title", "description")
_BOUNDS = {
    "array": ("minItems", "maxItems"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
_TOLD = (
    "minLength",
    "maxLength",
    "default",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "not",
    "dependentRequired",
)
_HARD = re.compile(r"\(\?|\\\d")
"""Looking around and back, which strict mode cannot do."""
NULL: Schema = {"type": "null"}


def strict(given: Schema) -> Schema:
    return _Strict(given).whole()


class _Strict:
    def __init__(self, given: Schema) -> None:
        self._modern = Modern(given)
        self._defs: dict[str, Schema] = {}
        self._properties = 0
        self._values = 0

    def whole(self) -> Schema:
        root = opened(self._modern.root, self._modern)
        if "anyOf" in root or types_of(root) not in ([], ["object"]):
            raise Inexpressible("its root is a choice")
        made = self._object(root, {name: root[name] for name in _KEPT if name in root}, 0)
        return {**made, "$defs": self._defs} if self._defs else made

    def _of(self, node: Schema, depth: int) -> Schema:
        if depth > MOST_DEPTH:
            raise Inexpressible(f"it is nested more than {MOST_DEPTH} levels deep")
        if "$ref" in node and not (node.keys() - {"$ref", *_KEPT, "default", "examples", "deprecated"}):
            return self._reference(str(node["$ref"]), depth)
        node = opened(node, self._modern)
        made: Schema = {name: node[name] for name in _KEPT if isinstance(node.get(name), str)}
        if branches := [as_schema(one) for one in as_list(node.get("anyOf"))]:
            return self._choice(node, made, branches, depth)
        if values := [node["const"]] if "const" in node else as_list(node.get("enum")):
            return self._enum(made, values)
        kinds = types_of(node)
        if not kinds:
            raise Inexpressible("a value may be of any type")
        if len(kinds) == 1:
            return noted(self._typed(node, kinds[0], made, depth), node, _TOLD)
        return {**made, "anyOf": [self._typed(node, kind, {}, depth) for kind in kinds]}

    def _reference(self, reference: str, depth: int) -> Schema:
        name = reference.removeprefix("#/$defs/")
        if name not in self._defs:
            self._defs[name] = {}
            self._defs[name] = self._of(self._modern.target(reference), min(depth, 1) + 1)
        return {"$ref": reference}

    def _choice(self, node: Schema, made: Schema, branches: list[Schema], depth: int) -> Schema:
        base = {name: value for name, value in node.items() if name not in ("anyOf", *_KEPT)}
        if len(branches) > MOST_BRANCHES:
            raise Inexpressible("it is a choice of too many")
        return {**made, "anyOf": [self._of(all_of([base, one]) if base else one, depth + 1) for one in branches]}

    def _enum(self, made: Schema, values: list[object]) -> Schema:
        kinds = [*dict.fromkeys(map(_kind_of, values))]
        self._values += len(values)
        if self._values > MOST_VALUES:
            raise Inexpressible(f"it lists more than {MOST_VALUES:,} values")
        return {**made, "type": kinds[0] if len(kinds) == 1 else kinds, "enum": values}

    def _typed(self, node: Schema, kind: str, made: Schema, depth: int) -> Schema:
        if kind == "object":
            if not (properties_of(node) or node.get("additionalProperties") is False):
                raise Inexpressible("an object may have any properties")
            return self._object(node, made, depth)
        made = {**made, "type": kind, **{name: node[name] for name in _BOUNDS.get(kind, ()) if name in node}}
        if kind == "string":
            return _text(node, made)
        return self._array(node, made, depth) if kind == "array" else made

    def _object(self, node: Schema, made: Schema, depth: int) -> Schema:
        if "patternProperties" in node or node.get("additionalProperties", False) is not False:
            raise Inexpressible("an object may have more properties than it names")
        shape, required = properties_of(node), required_of(node)
        if not set(required) <= shape.keys():
            raise Inexpressible("a property is required of which nothing is said")
        self._properties += len(shape)
        if self._properties > MOST_PROPERTIES:
            raise Inexpressible(f"it has more than {MOST_PROPERTIES:,} properties")
        properties = {name: self._of(one, depth + 1) for name, one in shape.items()}
        closed = {name: one if name in required else _or_null(one) for name, one in properties.items()}
        return {
            **made,
            "type": "object",
            "properties": closed,
            "required": [*shape],
            "additionalProperties": False,
        }

    def _array(self, node: Schema, made: Schema, depth: int) -> Schema:
        rest, first = node.get("items"), [as_schema(one) for one in as_list(node.get("prefixItems"))]
        full = isinstance(most := node.get("maxItems"), int) and most <= len(first)
        if rest is False and first:
            made["maxItems"] = min(len(first), most if isinstance(most, int) else len(first))
        elif not full:
            if not isinstance(rest, dict):
                raise Inexpressible("an array may hold anything")
            first.append(cast("Schema", rest))
        inside = [self._of(one, depth + 1) for one in first]
        return {**made, "items": inside[0] if len(inside) == 1 else {"anyOf": inside}}


def _text(node: Schema, made: Schema) -> Schema:
    if node.get("format") in _FORMATS:
        made["format"] = node["format"]
    pattern = node.get("pattern")
    if not isinstance(pattern, str):
        return made
    return noted(made, node, ("pattern",)) if _HARD.search(pattern) else {**made, "pattern": pattern}


def _kind_of(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    for kind, types in (("string", str), ("integer", int), ("number", float)):
        if isinstance(value, types):
            return kind
    if value is None:
        return "null"
    raise Inexpressible("it lists objects or arrays")


def _or_null(made: Schema) -> Schema:
    """The schema of a property that may be left out, which is to say null."""
    kinds = types_of(made)
    if "null" in kinds or any("null" in types_of(as_schema(one)) for one in as_list(made.get("anyOf"))):
        return made
    if "enum" in made:
        return {**made, "type": [*kinds, "null"], "enum": [*as_list(made["enum"]), None]}
    if len(kinds) == 1 and kinds[0] not in ("object", "array"):
        return {**made, "type": [kinds[0], "null"]}
    if "anyOf" in made:
        return {**made, "anyOf": [*as_list(made["anyOf"]), NULL]}
    about = {name: made[name] for name in _KEPT if name in made}
    return {**about, "anyOf": [{name: one for name, one in made.items() if name not in about}, NULL]}


def without_forced_nulls(value: dict[str, object], schema: Schema) -> dict[str, object]:
    """Arguments as the original schema means them: a null that stands for a property left out is taken out."""
    modern = Modern(schema)
    return cast("dict[str, object]", _freed(value, modern.root, modern, 0))


def _freed(value: object, node: Schema, modern: Modern, depth: int) -> object:
    if depth > 3 * MOST_DEPTH or not isinstance(value, dict | list):
        return value
    node = opened(node, modern)
    choices = [as_schema(one) for one in as_list(node.get("anyOf"))]
    if isinstance(value, list):
        inside = next((found for one in (node, *choices) if (found := as_schema(one.get("items")))), Schema())
        return [_freed(one, inside, modern, depth + 1) for one in cast("list[object]", value)]
    given = cast("dict[str, object]", value)
    shape, required = properties_of(node), required_of(node)
    for choice in (opened(one, modern) for one in choices):
        if not shape and given.keys() <= properties_of(choice).keys():
            shape, required = properties_of(choice), required_of(choice)
    return {
        name: _freed(one, shape.get(name, {}), modern, depth + 1)
        for name, one in given.items()
        if one is not None or name in required or _takes_null(shape.get(name, {}), modern)
    }


def _takes_null(node: Schema, modern: Modern) -> bool:
    node = opened(node, modern)
    if "const" in node or "enum" in node:
        return node.get("const", 0) is None or None in as_list(node.get("enum"))
    if choices := as_list(node.get("anyOf")):
        return any(_takes_null(as_schema(one), modern) for one in choices)
    return not types_of(node) or "null" in types_of(node)
