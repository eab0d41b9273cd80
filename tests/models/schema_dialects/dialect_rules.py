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
_ONES = ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else")
_WORDS_2020 = {
    *_MAPS, *_LISTS, *_ONES, "$ref", "type", "enum", "const", "format", "title", "description", "default", "examples",
    "deprecated", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength",
    "pattern", "minItems", "maxItems", "uniqueItems", "minContains", "maxContains", "minProperties", "maxProperties",
    "required", "dependentRequired",
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
_TYPES = {"string", "number", "integer", "boolean", "object", "array", "null"}


def inner(node: Schema) -> Iterator[Schema]:
    """The schema and every schema in it."""
    yield node
    for name in _MAPS:
        for one in node.get(name, {}).values():
            yield from inner(one)
    for name in _LISTS:
        for one in node.get(name, []):
            yield from inner(one)
    for name in _ONES:
        if isinstance(node.get(name), dict):
            yield from inner(node[name])


def _words(node: Schema, known: set[str]) -> list[str]:
    found = [f"{word!r} is not supported" for one in inner(node) for word in one.keys() - known]
    kinds = [kind for one in inner(node) for kind in _kinds(one)]
    return found + [f"{kind!r} is no type" for kind in kinds if kind not in _TYPES]


def _kinds(node: Schema) -> list[str]:
    kind = node.get("type", [])
    return cast("list[str]", kind) if isinstance(kind, list) else [kind]


def _top(node: Schema, *forbidden: str) -> list[str]:
    found = [] if node.get("type") == "object" else ["the root must be of type object"]
    return found + [f"{word} is not allowed at the top level" for word in forbidden if word in node]


def _references(node: Schema) -> list[str]:
    targets = {"#", *(f"#/$defs/{name}" for name in node.get("$defs", {}))}
    return [f"{one['$ref']} leads nowhere" for one in inner(node) if "$ref" in one and one["$ref"] not in targets]


def anthropic_faults(node: Schema) -> list[str]:
    found = [*_top(node, "oneOf", "anyOf", "allOf"), *_words(node, _WORDS_2020), *_references(node)]
    keys = [key for one in inner(node) for key in one.get("properties", {})]
    found += [f"property key {key!r} does not match the pattern" for key in keys if not KEY.fullmatch(key)]
    return found + ["items is a list" for one in inner(node) if isinstance(one.get("items"), list)]


def openai_faults(node: Schema) -> list[str]:
    found = [*_top(node, "oneOf", "anyOf", "allOf", "enum", "not"), *_words(node, _WORDS_2020), *_references(node)]
    found += [] if "properties" in node else ["object schema missing properties"]
    return found + [
        "array schema missing items" for one in inner(node) if "array" in _kinds(one) and "items" not in one
    ]


def strict_faults(node: Schema) -> list[str]:
    found = [*_top(node, "anyOf"), *_words(node, _WORDS_STRICT), *_references(node)]
    for one in inner(node):
        if "$ref" in one and len(one) > 1:
            found.append("$ref cannot have other words beside it")
        if not one.keys() & {"type", "$ref", "anyOf"}:
            found.append("a schema needs a type")
        if "object" in _kinds(one):
            if one.get("additionalProperties") is not False:
                found.append("additionalProperties must be false")
            if sorted(one.get("required", [])) != sorted(one.get("properties", {})):
                found.append("required must name every property")
        if "array" in _kinds(one) and "items" not in one:
            found.append("an array needs items")
    return found


def gemini_faults(node: Schema) -> list[str]:
    found = [*_top(node, "anyOf"), *_words(node, _WORDS_GEMINI)]
    for one in inner(node):
        if "anyOf" in one and one.keys() - {"anyOf", "title", "description"}:
            found.append("anyOf must be the only field")
        listed = one.get("enum", [])
        if "enum" in one and (not listed or not all(isinstance(v, str | int | float) and v != "" for v in listed)):
            found.append("enum must list texts or numbers")
        if not set(one.get("required", [])) <= one.get("properties", {}).keys():
            found.append("required names a property that is not defined")
        if "array" in _kinds(one) and "items" not in one:
            found.append("items: missing field")
    return found


FAULTS: dict[str, Callable[[Schema], list[str]]] = {
    "anthropic": anthropic_faults,
    "openai": openai_faults,
    "openai_strict": strict_faults,
    "gemini": gemini_faults,
}
