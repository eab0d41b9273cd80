"""Parameters of tools as real servers write them, and harder: whatever they say, every provider must take the tool."""

from typing import Any

Schema = dict[str, Any]


def object_schema(properties: Schema, *required: str, **more: Any) -> Schema:
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
    "closed": object_schema({"a": {"type": "integer"}}, "a", additionalProperties=False),
    "draft_07": object_schema(
        {"a": TEXT}, "a", **{"$schema": "http://json-schema.org/draft-07/schema#", "$id": "https://x.org/a"}
    ),
    "recursive": object_schema({"root": {"$ref": "#/$defs/node"}}, "root", **{"$defs": {"node": NODE}}),
    "itself": object_schema({"value": TEXT, "next": {"$ref": "#"}}),
    "old_definitions": object_schema({"a": {"$ref": "#/definitions/a"}}, definitions={"a": {"enum": ["x", "y"]}}),
    "nowhere": object_schema({"a": {"$ref": "#/$defs/gone"}, "b": {"$ref": "https://example.org/b.json"}}),
    "choices": object_schema(
        {"a": {"anyOf": [TEXT, {"type": "null"}]}, "b": {"oneOf": [{"const": 1}, {"const": "one"}]}}
    ),
    "root_choice": {"anyOf": [object_schema({"a": TEXT}, "a"), object_schema({"b": TEXT}, "b")]},
    "both": object_schema({"a": {"allOf": [{"type": "object", "properties": {"x": TEXT}}, {"required": ["x"]}]}}, "a"),
    "tuple": object_schema({"at": {"type": "array", "prefixItems": [{"type": "number"}] * 2, "items": False}}, "at"),
    "old_tuple": object_schema(
        {"at": {"type": "array", "items": [{"type": "number"}, TEXT], "additionalItems": False}}
    ),
    "any_array": object_schema({"a": {"type": "array"}, "b": {"type": ["array", "null"]}}),
    "formats": object_schema(
        {"a": {"type": "string", "format": "uri"}, "b": {"type": "string", "format": "date-time"}}
    ),
    "bounds": object_schema(
        {"a": {"type": "integer", "exclusiveMinimum": 0, "multipleOf": 5}, "b": {"minLength": 1, "type": "string"}}
    ),
    "old_bound": object_schema({"a": {"type": "number", "minimum": 0, "exclusiveMinimum": True}}),
    "pattern": object_schema({"a": {"type": "string", "pattern": "^(?=x)[a-z]+\\d{2}$"}}, "a"),
    "map": object_schema(
        {"env": {"type": "object", "additionalProperties": TEXT, "propertyNames": {"pattern": "^[A-Z]+$"}}}
    ),
    "map_alone": {"type": "object", "additionalProperties": TEXT},
    "anything_alone": {"type": "object", "additionalProperties": True},
    "patterns_alone": {"type": "object", "patternProperties": {"^x-": TEXT}, "additionalProperties": False},
    "patterns": object_schema({"a": {"type": "object", "patternProperties": {"^x-": TEXT}}}),
    "enums": object_schema({"a": {"enum": ["", "x", None, 1, True]}, "b": {"type": "integer", "enum": [1, 2]}}),
    "conditional": object_schema(
        {"kind": TEXT, "a": TEXT},
        "kind",
        **{"if": {"properties": {"kind": {"const": "a"}}}, "then": {"required": ["a"]}},
    ),
    "required_unknown": object_schema({"a": TEXT}, "a", "b"),
    "anything": object_schema({"a": {}, "b": {"description": "whatever"}, "c": True}),
    "deep": object_schema(
        {
            "a": object_schema(
                {
                    "a": object_schema(
                        {"a": object_schema({"a": object_schema({"a": object_schema({"a": TEXT}, "a")}, "a")}, "a")},
                        "a",
                    )
                },
                "a",
            )
        },
        "a",
    ),
    "odd_keys": object_schema({"key with spaces": TEXT, "schlüssel": TEXT, "$ref": TEXT}),
    "defaults": object_schema(
        {"a": {"type": "integer", "default": 3, "examples": [1], "title": "A", "deprecated": True}}
    ),
    "nullable": object_schema(
        {"a": {"type": "string", "nullable": True}, "b": {"type": ["string", "integer", "null"]}}
    ),
    "docs": object_schema(
        {
            "edits": {
                "type": "array",
                "items": object_schema({"oldText": TEXT, "newText": TEXT}, "oldText", "newText"),
            },
            "dryRun": {"type": "boolean", "default": False},
        },
        "edits",
        additionalProperties=False,
    ),
}
