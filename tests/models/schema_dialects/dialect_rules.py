"""What each provider refuses in a tool's schema, written down on its own: the converter does not know these checks.

Strict servers use them on what they are sent, and the property tests on whatever the converter makes.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, cast

Schema = dict[str, Any]
KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_MAPS = ("properties", "patternProperties", "$defs", "dependentSchemas")
_LISTS = ("anyOf", "allOf", "oneOf", "prefixItems")
_SINGLES = ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else")
_WORDS_2020 = {
    *_MAPS, *_LISTS, *_SINGLES, "$ref", "type", "enum", "const", "format", "title", "description", "default",
    "examples", "deprecated", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength",
    "maxLength", "pattern", "minItems", "maxItems", "uniqueItems", "minContains", "maxContains", "minProperties",
    "maxProperties", "required", "dependentRequired",
}  # fmt: skip
_WORDS_STRICT = {
    "$ref", "$defs", "type", "enum", "const", "title", "description", "anyOf", "properties", "required",
    "additionalProperties", "items", "minItems", "maxItems", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "pattern", "format",
}  # fmt: skip
_WORDS_GEMINI = {
    "type", "format", "title", "description", "enum", "items", "prefixItems", "minItems", "maxItems", "minimum",
    "maximum", "anyOf", "properties", "additionalProperties", "required",
}  # fmt: skip
_UNENFORCED = {
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "maxItems",
    "uniqueItems", "minProperties", "maxProperties", "patternProperties",
}  # fmt: skip
_TYPES = {"string", "number", "integer", "boolean", "object", "array", "null"}


def iter_schemas(node: Schema) -> Iterator[Schema]:
    """The schema and every schema in it."""
    yield node
    for name in _MAPS:
        for child in node.get(name, {}).values():
            yield from iter_schemas(child)
    for name in _LISTS:
        for child in node.get(name, []):
            yield from iter_schemas(child)
    for name in _SINGLES:
        if isinstance(node.get(name), dict):
            yield from iter_schemas(node[name])


def _word_faults(node: Schema, known_words: set[str]) -> list[str]:
    faults = [f"{word!r} is not supported" for schema in iter_schemas(node) for word in schema.keys() - known_words]
    kinds = [kind for schema in iter_schemas(node) for kind in _kinds(schema)]
    return faults + [f"{kind!r} is no type" for kind in kinds if kind not in _TYPES]


def _kinds(node: Schema) -> list[str]:
    kind = node.get("type", [])
    return cast("list[str]", kind) if isinstance(kind, list) else [kind]


def _root_faults(node: Schema, *forbidden: str) -> list[str]:
    faults = [] if node.get("type") == "object" else ["the root must be of type object"]
    return faults + [f"{word} is not allowed at the top level" for word in forbidden if word in node]


def _reference_faults(node: Schema) -> list[str]:
    targets = {"#", *(f"#/$defs/{name}" for name in node.get("$defs", {}))}
    return [
        f"{schema['$ref']} leads nowhere"
        for schema in iter_schemas(node)
        if "$ref" in schema and schema["$ref"] not in targets
    ]


def anthropic_faults(node: Schema) -> list[str]:
    faults = [
        *_root_faults(node, "oneOf", "anyOf", "allOf"),
        *_word_faults(node, _WORDS_2020),
        *_reference_faults(node),
    ]
    keys = [key for schema in iter_schemas(node) for key in schema.get("properties", {})]
    faults += [f"property key {key!r} does not match the pattern" for key in keys if not KEY.fullmatch(key)]
    return faults + ["items is a list" for schema in iter_schemas(node) if isinstance(schema.get("items"), list)]


def openai_faults(node: Schema) -> list[str]:
    faults = [
        *_root_faults(node, "oneOf", "anyOf", "allOf", "enum", "not"),
        *_word_faults(node, _WORDS_2020),
        *_reference_faults(node),
    ]
    faults += [] if "properties" in node else ["object schema missing properties"]
    return faults + [
        "array schema missing items"
        for schema in iter_schemas(node)
        if "array" in _kinds(schema) and "items" not in schema
    ]


def strict_faults(node: Schema) -> list[str]:
    faults = [*_root_faults(node, "anyOf"), *_word_faults(node, _WORDS_STRICT), *_reference_faults(node)]
    for schema in iter_schemas(node):
        if "$ref" in schema and len(schema) > 1:
            faults.append("$ref cannot have other words beside it")
        if not schema.keys() & {"type", "$ref", "anyOf"}:
            faults.append("a schema needs a type")
        if "object" in _kinds(schema):
            if schema.get("additionalProperties") is not False:
                faults.append("additionalProperties must be false")
            if sorted(schema.get("required", [])) != sorted(schema.get("properties", {})):
                faults.append("required must name every property")
        if "array" in _kinds(schema) and "items" not in schema:
            faults.append("an array needs items")
    return faults


def anthropic_output_faults(node: Schema) -> list[str]:
    """What Anthropic refuses in the schema of an answer, which it enforces: open objects, and limits of values."""
    faults: list[str] = []
    for schema in iter_schemas(node):
        if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
            faults.append("'additionalProperties' must be false for objects")
        faults += [f"{name} is not supported" for name in schema.keys() & _UNENFORCED]
    return faults


def gemini_faults(node: Schema) -> list[str]:
    faults = [*_root_faults(node, "anyOf"), *_word_faults(node, _WORDS_GEMINI)]
    for schema in iter_schemas(node):
        if "anyOf" in schema and schema.keys() - {"anyOf", "title", "description"}:
            faults.append("anyOf must be the only field")
        enum_values = schema.get("enum", [])
        if "enum" in schema and (
            not enum_values or not all(isinstance(v, str | int | float) and v != "" for v in enum_values)
        ):
            faults.append("enum must list texts or numbers")
        if not set(schema.get("required", [])) <= schema.get("properties", {}).keys():
            faults.append("required names a property that is not defined")
        if "array" in _kinds(schema) and "items" not in schema:
            faults.append("items: missing field")
    return faults


FAULTS: dict[str, Callable[[Schema], list[str]]] = {
    "anthropic": anthropic_faults,
    "openai": openai_faults,
    "openai_strict": strict_faults,
    "openai_output": strict_faults,
    "anthropic_output": anthropic_output_faults,
    "gemini": gemini_faults,
}
