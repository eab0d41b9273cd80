"""What a provider says to the schemas of tools: OpenAI's rules, with and without its strict mode."""

from collections.abc import Iterator
from typing import cast

Schema = dict[str, object]
_COMBINED = ("oneOf", "anyOf", "allOf", "enum", "not")
_STRICT_WORDS = {
    "type", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "const", "description",
    "title", "$ref", "$defs", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
    "multipleOf", "minItems", "maxItems", "minLength", "maxLength",
}  # fmt: skip
STRICT_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
MOST_DEPTH = 10


def openai_faults(name: str, schema: object, *, strict: bool) -> list[str]:
    """Why OpenAI refuses a function of this schema; empty if it takes it."""
    if not isinstance(schema, dict):
        return [f"{name}: the schema is not an object"]
    root = cast("Schema", schema)
    found = [] if root.get("type") == "object" else [f"{name}: schema must be of type 'object'"]
    found += [f"{name}: {word!r} at the top level" for word in _COMBINED if word in root]
    for place, one in walk(root):
        found += [f"{name}{place}: {fault}" for fault in _faults(one, root)]
        if strict:
            found += [f"{name}{place}: {fault}" for fault in _strict_faults(one, place)]
    return found


def walk(schema: Schema, place: str = "") -> Iterator[tuple[str, Schema]]:
    """Every schema inside a schema, with its place."""
    yield place, schema
    for word, value in schema.items():
        if word in ("properties", "$defs", "definitions", "patternProperties") and isinstance(value, dict):
            for key, inner in cast("dict[str, object]", value).items():
                if isinstance(inner, dict):
                    yield from walk(cast("Schema", inner), f"{place}.{key}")
        elif word in ("items", "additionalProperties", "not", "if", "then", "else") and isinstance(value, dict):
            yield from walk(cast("Schema", value), f"{place}.{word}")
        elif word in ("anyOf", "oneOf", "allOf", "prefixItems") and isinstance(value, list):
            for number, inner in enumerate(cast("list[object]", value)):
                if isinstance(inner, dict):
                    yield from walk(cast("Schema", inner), f"{place}.{word}[{number}]")


def _faults(schema: Schema, root: Schema) -> list[str]:
    found: list[str] = []
    if schema.get("type") == "array" and not isinstance(schema.get("items"), dict):
        found.append("array schema missing items")
    reference = schema.get("$ref")
    if isinstance(reference, str) and resolve(reference, root) is None:
        found.append(f"reference {reference!r} leads nowhere")
    return found


def _strict_faults(schema: Schema, place: str) -> list[str]:
    found = [f"{word!r} is not permitted" for word in sorted(schema.keys() - _STRICT_WORDS)]
    properties = schema.get("properties")
    if schema.get("type") == "object" or properties is not None:
        if schema.get("additionalProperties") is not False:
            found.append("'additionalProperties' is required to be supplied and to be false")
        names = set(cast("Schema", properties)) if isinstance(properties, dict) else set[str]()
        required = schema.get("required")
        if names - set(cast("list[str]", required) if isinstance(required, list) else []):
            found.append("'required' is required to be supplied and to include every key in properties")
    if "format" in schema and schema["format"] not in STRICT_FORMATS:
        found.append(f"format {schema['format']!r} is not supported")
    if place.count(".") > MOST_DEPTH * 2:
        found.append("nested too deeply")
    return found


def resolve(reference: str, root: Schema) -> Schema | None:
    """What a local reference points to, or None."""
    if not reference.startswith("#"):
        return None
    found: Schema | None = root
    for step in reference[1:].strip("/").split("/") if reference != "#" else []:
        inner = found.get(step.replace("~1", "/").replace("~0", "~")) if found is not None else None
        found = cast("Schema", inner) if isinstance(inner, dict) else None
    return found
