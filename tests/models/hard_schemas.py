"""Schemas that one provider or another refuses as they are."""

from typing import cast

from models.schema_dialects.dialect_rules import Schema


def parameters(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": [*properties]}


TREE: Schema = {
    "$ref": "#/$defs/Node",
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
            },
            "required": ["name"],
        }
    },
}
SHAPES: Schema = {
    "oneOf": [
        {"type": "object", "properties": {"kind": {"const": "dot"}, "x": {"type": "number"}}, "required": ["kind"]},
        {"type": "object", "properties": {"kind": {"const": "line"}, "to": {"type": "number"}}, "required": ["kind"]},
    ]
}
HARD: dict[str, Schema] = {
    "nothing at all": {},
    "no parameters": {"type": "object"},
    "a tree": TREE,
    "a choice of shapes on top": SHAPES,
    "a root that refers to itself": {"type": "object", "properties": {"next": {"$ref": "#"}}},
    "a tuple as of draft 7": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        **parameters(at={"type": "array", "items": [{"type": "number"}, {"type": "number"}], "additionalItems": False}),
    },
    "a tuple": parameters(at={"type": "array", "prefixItems": [{"type": "number"}], "items": False}),
    "an array of anything": parameters(a={"type": "array"}),
    "bounds as of draft 4": {
        "$schema": "http://json-schema.org/draft-04/schema#",
        **parameters(n={"type": "integer", "minimum": 0, "exclusiveMinimum": True}),
    },
    "a map": parameters(a={"type": "object", "additionalProperties": {"type": "integer"}}),
    "a map by pattern": parameters(a={"type": "object", "patternProperties": {"^x-": {"type": "string"}}}),
    "a type or null": parameters(a={"type": ["string", "null"]}, b={"anyOf": [{"type": "integer"}, {"type": "null"}]}),
    "a constant, a format, a pattern": parameters(
        a={"const": 3}, b={"type": "string", "format": "uri"}, c={"type": "string", "pattern": "^(?=x)"}
    ),
    "values of all kinds": parameters(a={"enum": ["x", 1, None, True]}, b={"enum": ["", "y"]}, c={"enum": [{"x": 1}]}),
    "all of two": parameters(
        a={
            "allOf": [
                {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
                {"properties": {"x": {"minimum": 1}, "y": {"type": "string"}}},
            ]
        }
    ),
    "conditions": {**parameters(a={"type": "string"}), "if": {"required": ["b"]}, "then": {"required": ["c"]}},
    "names that are no names": parameters(**{"a b": {"type": "string"}, "x" * 80: {}, "ok": {}}),
    "a reference elsewhere": parameters(a={"$ref": "https://example.org/a.json"}, b={"$ref": "#/nowhere"}),
    "booleans for schemas": parameters(a=cast("Schema", True)),
    "an anchor": {**parameters(a={"$ref": "#here"}), "$defs": {"h": {"$anchor": "here", "type": "string"}}},
    "a very deep one": {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object"}}}},
}
