"""Parameters of tools as real servers write them, and harder: whatever they say, every provider must take the tool."""

from typing import Any

Schema = dict[str, Any]


def of(properties: Schema, *required: str, **more: Any) -> Schema:
    return {"type": "object", "properties": properties, "required": [*required], **more}


TEXT: Schema = {"type": "string"}
NODE: Schema = {
    "type": "object",
    "properties": {"name": TEXT, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
    "required": ["name"],
}
SCHEMAS: dict[str, Schema] = {
    "nothing": {},
    "no_properties": {"type": "object"},
    "closed": of({"a": {"type": "integer"}}, "a", additionalProperties=False),
    "draft_07": of(
        {"a": TEXT}, "a", **{"$schema": "http://json-schema.org/draft-07/schema#", "$id": "https://x.org/a"}
    ),
    "recursive": of({"root": {"$ref": "#/$defs/node"}}, "root", **{"$defs": {"node": NODE}}),
    "itself": of({"value": TEXT, "next": {"$ref": "#"}}),
    "old_definitions": of({"a": {"$ref": "#/definitions/a"}}, definitions={"a": {"enum": ["x", "y"]}}),
    "nowhere": of({"a": {"$ref": "#/$defs/gone"}, "b": {"$ref": "https://example.org/b.json"}}),
    "choices": of({"a": {"anyOf": [TEXT, {"type": "null"}]}, "b": {"oneOf": [{"const": 1}, {"const": "one"}]}}),
    "root_choice": {"anyOf": [of({"a": TEXT}, "a"), of({"b": TEXT}, "b")]},
    "both": of({"a": {"allOf": [{"type": "object", "properties": {"x": TEXT}}, {"required": ["x"]}]}}, "a"),
    "tuple": of({"at": {"type": "array", "prefixItems": [{"type": "number"}] * 2, "items": False}}, "at"),
    "old_tuple": of({"at": {"type": "array", "items": [{"type": "number"}, TEXT], "additionalItems": False}}),
    "any_array": of({"a": {"type": "array"}, "b": {"type": ["array", "null"]}}),
    "formats": of({"a": {"type": "string", "format": "uri"}, "b": {"type": "string", "format": "date-time"}}),
    "bounds": of(
        {"a": {"type": "integer", "exclusiveMinimum": 0, "multipleOf": 5}, "b": {"minLength": 1, "type": "string"}}
    ),
    "old_bound": of({"a": {"type": "number", "minimum": 0, "exclusiveMinimum": True}}),
    "pattern": of({"a": {"type": "string", "pattern": "^(?=x)[a-z]+\\d{2}$"}}, "a"),
    "map": of({"env": {"type": "object", "additionalProperties": TEXT, "propertyNames": {"pattern": "^[A-Z]+$"}}}),
    "map_alone": {"type": "object", "additionalProperties": TEXT},
    "anything_alone": {"type": "object", "additionalProperties": True},
    "patterns_alone": {"type": "object", "patternProperties": {"^x-": TEXT}, "additionalProperties": False},
    "patterns": of({"a": {"type": "object", "patternProperties": {"^x-": TEXT}}}),
    "enums": of({"a": {"enum": ["", "x", None, 1, True]}, "b": {"type": "integer", "enum": [1, 2]}}),
    "conditional": of(
        {"kind": TEXT, "a": TEXT},
        "kind",
        **{"if": {"properties": {"kind": {"const": "a"}}}, "then": {"required": ["a"]}},
    ),
    "required_unknown": of({"a": TEXT}, "a", "b"),
    "anything": of({"a": {}, "b": {"description": "whatever"}, "c": True}),
    "deep": of({"a": of({"a": of({"a": of({"a": of({"a": of({"a": TEXT}, "a")}, "a")}, "a")}, "a")}, "a")}, "a"),
    "odd_keys": of({"key with spaces": TEXT, "schlüssel": TEXT, "$ref": TEXT}),
    "defaults": of({"a": {"type": "integer", "default": 3, "examples": [1], "title": "A", "deprecated": True}}),
    "nullable": of({"a": {"type": "string", "nullable": True}, "b": {"type": ["string", "integer", "null"]}}),
    "docs": of(
        {
            "edits": {"type": "array", "items": of({"oldText": TEXT, "newText": TEXT}, "oldText", "newText")},
            "dryRun": {"type": "boolean", "default": False},
        },
        "edits",
        additionalProperties=False,
    ),
}
