"""Schemas in each dialect: never stricter than the original, and nothing in them that the provider refuses."""

from typing import Any, cast

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from models.hard_schemas import HARD, SHAPES, TREE, parameters
from models.schema_dialects.dialect_rules import FAULTS, Schema
from toolyard.models.schema_dialects import (
    Dialect,
    UnsupportedSchema,
    convert,
    remove_forced_nulls,
)

LOOSE: list[Dialect] = ["openai", "gemini", "anthropic"]
names = st.sampled_from(["a", "b", "c", "key with spaces"])
scalars = st.one_of(st.none(), st.booleans(), st.integers(-2, 3), st.sampled_from(["", "x", "xy", "2020-01-01"]))
values = st.recursive(
    scalars, lambda inside: st.lists(inside, max_size=3) | st.dictionaries(names, inside, max_size=3), max_leaves=8
)
objects = st.dictionaries(names, values, max_size=3)
kinds = st.sampled_from(["string", "number", "integer", "boolean", "object", "array", "null"])


@st.composite
def words(draw: st.DrawFn, inside: st.SearchStrategy[Schema]) -> Schema:
    """A few words of JSON Schema, sensible together or not."""
    word_values = {
        "type": kinds | st.lists(kinds, min_size=1, max_size=3, unique=True),
        "enum": st.lists(scalars, min_size=1, max_size=3, unique_by=repr),
        "const": scalars,
        "minimum": st.integers(-2, 3),
        "exclusiveMaximum": st.integers(-2, 3),
        "minLength": st.integers(0, 2),
        "pattern": st.sampled_from(["^x", "y$"]),
        "format": st.sampled_from(["date", "uri"]),
        "description": st.just("about it"),
        "default": scalars,
        "properties": st.dictionaries(names, inside, max_size=3),
        "required": st.lists(names, max_size=2, unique=True),
        "additionalProperties": st.booleans() | inside,
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b"]), inside, max_size=1),
        "items": inside,
        "prefixItems": st.lists(inside, min_size=1, max_size=2),
        "minItems": st.integers(0, 2),
        "maxItems": st.integers(0, 3),
        "anyOf": st.lists(inside, min_size=1, max_size=2),
        "oneOf": st.lists(inside, min_size=1, max_size=2),
        "allOf": st.lists(inside, min_size=1, max_size=2),
        "not": inside,
        "if": inside,
        "then": inside,
        "$ref": st.sampled_from(["#", "#/$defs/d", "#/definitions/e", "#/properties/a"]),
        "unevaluatedProperties": st.booleans(),
        "minProperties": st.integers(0, 2),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(word_values)), max_size=4, unique=True))
    return {name: draw(word_values[name]) for name in chosen}


schemas = st.recursive(words(st.just({})), words, max_leaves=6)


@st.composite
def roots(draw: st.DrawFn) -> Schema:
    root = {**draw(words(schemas)), "$defs": {"d": draw(schemas)}, "definitions": {"e": draw(schemas)}}
    if draw(st.booleans()):
        root["properties"] = draw(st.dictionaries(names, schemas, max_size=3))
    if "type" in root:
        root["type"] = "object"
    if draw(st.booleans()):
        root["$schema"] = "http://json-schema.org/draft-07/schema#"
    return root


def compile_schema(schema: Schema) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(schema, offline=True)


def is_valid(validator: jsonschema_rs.Validator, value: object) -> bool:
    try:
        return validator.is_valid(value)
    except ValueError:
        return False


many = settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


@pytest.mark.parametrize("dialect", LOOSE)
@many
@given(schema=roots(), tried=st.lists(objects, min_size=1, max_size=8))
def test_what_fits_the_original_fits_the_converted_one(dialect: Dialect, schema: Schema, tried: list[Any]) -> None:
    try:
        original = compile_schema(schema)
    except (ValueError, jsonschema_rs.ReferencingError):
        assume(False)
        return
    converted_schema = convert(schema, dialect)
    assert FAULTS[dialect](converted_schema) == []
    converted = compile_schema(converted_schema)
    for value in tried:
        assert not is_valid(original, value) or is_valid(converted, value), (value, converted_schema)


@many
@given(schema=roots(), tried=st.lists(objects, min_size=1, max_size=8))
def test_a_strict_schema_takes_what_fits_the_original_with_nulls_for_what_is_left_out(
    schema: Schema, tried: list[Any]
) -> None:
    try:
        original, converted_schema = compile_schema(schema), convert(schema, "openai_strict")
    except (ValueError, jsonschema_rs.ReferencingError, UnsupportedSchema):
        assume(False)
        return
    assert FAULTS["openai_strict"](converted_schema) == []
    converted = compile_schema(converted_schema)
    shape = cast("dict[str, Schema]", converted_schema["properties"])
    for value in tried:
        if (
            is_valid(original, value)
            and value.keys() <= shape.keys()
            and not any(isinstance(v, dict) for v in value.values())
        ):
            filled = {name: value.get(name) for name in shape}
            assert any(isinstance(v, list) for v in value.values()) or is_valid(converted, filled), (
                value,
                converted_schema,
            )


@many
@pytest.mark.parametrize("dialect", ["openai_output", "anthropic_output"])
@given(schema=roots(), tried=st.lists(objects, min_size=1, max_size=8))
def test_a_schema_of_an_answer_takes_what_fits_the_original_in_closed_objects(
    dialect: Dialect, schema: Schema, tried: list[Any]
) -> None:
    try:
        original, converted_schema = compile_schema(schema), convert(schema, dialect)
    except (ValueError, jsonschema_rs.ReferencingError, UnsupportedSchema):
        assume(False)
        return
    assert FAULTS[dialect](converted_schema) == []
    converted = compile_schema(converted_schema)
    shape = cast("dict[str, Schema]", converted_schema["properties"])
    for value in tried:
        flat = not any(isinstance(field, dict | list) for field in value.values())
        named = value.keys() == shape.keys() if dialect == "openai_output" else value.keys() <= shape.keys()
        assert not (flat and named and is_valid(original, value)) or is_valid(converted, value), value


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("dialect", LOOSE)
def test_a_hard_schema_is_taken_by_every_provider(dialect: Dialect, name: str) -> None:
    assert FAULTS[dialect](convert(HARD[name], dialect)) == []


def test_a_schema_without_end_is_cut() -> None:
    schema: Schema = {"type": "object"}
    for _ in range(3_000):
        schema = {"type": "object", "properties": {"a": schema}}
    for dialect in LOOSE:
        assert convert(schema, dialect)["type"] == "object"
    with pytest.raises(UnsupportedSchema):
        convert(schema, "openai_strict")


def test_a_schema_is_converted_once() -> None:
    schema = parameters(a={"type": "string"})
    converted_schema = convert(schema, "gemini")
    assert convert(parameters(a={"type": "string"}), "gemini") is converted_schema
    schema["title"] = "Another"
    assert convert(schema, "gemini")["title"] == "Another"
    for _ in range(2):
        with pytest.raises(UnsupportedSchema, match="any properties"):
            convert(parameters(a={"type": "object"}), "openai_strict")


STRICTABLE = {
    "no parameters",
    "a tree",
    "a root that refers to itself",
    "a tuple as of draft 7",
    "a tuple",
    "bounds as of draft 4",
    "a type or null",
    "a constant, a format, a pattern",
    "all of two",
    "an anchor",
    "nothing at all",
    "conditions",
}


@pytest.mark.parametrize("name", HARD)
def test_strict_mode_takes_what_it_can_and_says_so_of_the_rest(name: str) -> None:
    if name in STRICTABLE:
        assert FAULTS["openai_strict"](convert(HARD[name], "openai_strict")) == []
    else:
        with pytest.raises(UnsupportedSchema):
            convert(HARD[name], "openai_strict")


def test_the_meaning_is_kept() -> None:
    assert convert(TREE, "anthropic")["properties"]["children"] == {  # type: ignore[index]
        "type": "array",
        "items": {"$ref": "#/$defs/Node"},
    }
    tree = cast("Any", convert(TREE, "gemini"))
    assert tree["properties"]["children"]["items"]["properties"]["children"]["items"]["properties"]["name"] == {
        "type": "string"
    }
    shapes = cast("Any", convert(SHAPES, "anthropic"))
    assert shapes["required"] == ["kind"] and '"const":"line"' in shapes["description"]
    assert [choice["const"] for choice in shapes["properties"]["kind"]["anyOf"]] == ["dot", "line"]
    both = cast("Any", convert(HARD["all of two"], "gemini"))["properties"]["a"]
    assert both["properties"]["x"] == {"type": "integer", "minimum": 1} and both["required"] == ["x"]
    gemini_schema = cast(
        "Any", convert(parameters(a={"type": "string", "minLength": 3, "description": "Name"}), "gemini")
    )
    assert gemini_schema["properties"]["a"]["description"] == "Name (minLength: 3)"
    odd = cast("Any", convert(HARD["names that are no names"], "anthropic"))
    assert [*odd["properties"]] == ["ok"] and odd["required"] == ["ok"] and '"a b"' in odd["description"]


def test_in_strict_mode_an_optional_property_is_null_and_the_null_is_taken_out_again() -> None:
    schema: Schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "age": {"type": "integer"},
            "nick": {"type": ["string", "null"]},
            "home": {"type": "object", "properties": {"city": {"type": "string"}, "zip": {"type": "string"}}},
            "pets": {"type": "array", "items": {"type": "object", "properties": {"kind": {"enum": ["cat"]}}}},
        },
        "required": ["name"],
    }
    strict_schema = cast("Any", convert(schema, "openai_strict"))
    assert strict_schema["required"] == ["name", "age", "nick", "home", "pets"]
    assert strict_schema["properties"]["age"] == {"type": ["integer", "null"]}
    arguments: dict[str, object] = {
        "name": "Ann",
        "age": None,
        "nick": None,
        "home": {"city": "Bonn", "zip": None},
        "pets": [{"kind": None}, {"kind": "cat"}],
    }
    assert compile_schema(strict_schema).is_valid(arguments)
    meant = {"name": "Ann", "nick": None, "home": {"city": "Bonn"}, "pets": [{}, {"kind": "cat"}]}
    assert remove_forced_nulls(arguments, schema) == meant
    assert compile_schema(schema).is_valid(meant)


@pytest.mark.parametrize(
    ("dialect", "schema", "says"),
    [
        ("anthropic", SHAPES, "oneOf"),
        ("anthropic", HARD["names that are no names"], "does not match"),
        ("openai", {"type": "object"}, "missing properties"),
        ("openai", HARD["an array of anything"], "missing items"),
        ("openai_strict", parameters(a={"type": "string", "minLength": 1}), "minLength"),
        ("openai_strict", parameters(a={"type": "string"}), "additionalProperties"),
        ("gemini", TREE, "$ref"),
        ("gemini", parameters(a={"const": 1}), "const"),
    ],
)
def test_the_providers_rules_do_refuse_what_is_not_converted(dialect: str, schema: Schema, says: str) -> None:
    """A negative control."""
    assert any(says in fault for fault in FAULTS[dialect](schema))
