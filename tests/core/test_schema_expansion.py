"""What a JSON Schema expands to, and which ones are refused for it."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings

from hostile_schemas import chain, mutual_recursion, schema_documents
from toolyard.core.tools.schema_expansion import MAX_SCHEMAS, Schema, UnboundedSchema, measure_schema

REF: Schema = {"$ref": "#/$defs/d"}


def test_a_definition_counts_each_time_that_it_is_used() -> None:
    schema: Schema = {"properties": {"a": REF, "b": {"items": REF}}, "$defs": {"d": {"type": "string"}}}
    assert measure_schema(schema).schemas == 1 + 2 + 3  # the root, a with its string, b with its items and their string


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
@pytest.mark.parametrize("depth", [14, 24, 80])
def test_a_chain_of_doubled_references_is_refused_in_words(keyword: str, depth: int) -> None:
    with pytest.raises(UnboundedSchema, match=f"expands to more than {MAX_SCHEMAS:,} schemas.*use fewer references"):
        measure_schema(chain(depth, keyword))


STEPS: list[Callable[[Schema], Schema]] = [
    lambda ref: {"properties": {"a": ref, "b": ref}},
    lambda ref: {"anyOf": [{"items": ref}, {"items": ref}]},
    lambda ref: {"if": ref, "then": ref},
    lambda ref: {"not": {"anyOf": [ref, ref]}},
    lambda ref: {"patternProperties": {"a": ref, "b": ref}},
    lambda ref: {"items": ref, "contains": ref},
    lambda ref: {"prefixItems": [ref, ref]},
    lambda ref: {"items": [ref], "additionalItems": ref},
    lambda ref: {"dependentSchemas": {"a": ref, "b": ref}},
    lambda ref: {"dependencies": {"a": ref, "b": ref}},
    lambda ref: {"propertyNames": ref, "additionalProperties": ref},
    lambda ref: {"unevaluatedProperties": ref, "unevaluatedItems": ref},
    lambda ref: {**ref, "anyOf": [ref]},
]


@pytest.mark.parametrize("step", STEPS)
def test_every_keyword_that_holds_schemas_is_counted(step: Callable[[Schema], Schema]) -> None:
    with pytest.raises(UnboundedSchema, match="expands to"):
        measure_schema(chain(24, step))


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/node", "$defs": {"node": {"properties": {"children": {"items": {"$ref": "#/$defs/node"}}}}}},
        {"properties": {"next": {"$ref": "#"}}},
        {"anyOf": [{"type": "string"}, {"items": {"$ref": "#"}}, {"additionalProperties": {"$ref": "#"}}]},
        {"properties": {"tree": {"$id": "T0", "properties": {"children": {"items": {"$ref": "T0"}}}}}},
        {"$dynamicAnchor": "n", "properties": {"next": {"$dynamicRef": "#n"}}},
        {"properties": {"a": {"anyOf": [{"type": "string"}]}, "b": {"$ref": "#/properties/a/anyOf/0"}}},
        {"properties": {"schema": {"$ref": "http://json-schema.org/draft-07/schema#"}}},
        mutual_recursion(8),
    ],
)
def test_recursive_schemas_and_references_of_all_kinds_are_legal(schema: Schema) -> None:
    expansion = measure_schema(schema)
    assert 1 <= expansion.schemas <= MAX_SCHEMAS // 4


def test_the_schemas_that_apply_to_one_value_are_counted_apart_from_those_of_its_parts() -> None:
    wide: Schema = {"properties": {f"p{number}": {"type": "string"} for number in range(100)}}
    assert measure_schema(wide).visits == 1
    assert measure_schema({"anyOf": [wide, wide]}).visits == 3
    assert measure_schema({"allOf": [{"items": REF}, {"contains": REF}], "$defs": {"d": wide}}).visits == 4


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"$ref": "#"}, "refers to itself for the same value"),
        ({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"},
         "refers to itself"),
        # The cycle is found although a part of the value is looked at first.
        ({"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/b"}, "allOf": [{"$ref": "#/$defs/b"}]},
                                         "b": {"allOf": [{"$ref": "#/$defs/a"}]}}}, "refers to itself"),
        ({"$ref": "#/$defs/missing"}, "cannot be followed"),
        ({"$ref": "https://example.org/s.json"}, "cannot be followed"),
        (chain(300, lambda ref: ref), "nested more than 200 levels deep"),
    ],
)  # fmt: skip
def test_what_says_nothing_or_leads_nowhere_is_refused(schema: Schema, words: str) -> None:
    with pytest.raises(UnboundedSchema, match=words):
        measure_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        # A validator could take either of two schemas of one name.
        {"$defs": {"a": {"$id": "n", "type": "string"}, "b": {"$id": "n", **chain(24)}}, "items": {"$ref": "n"}},
        {"$defs": {"a": {"$anchor": "n"}, "b": {"$anchor": "n", **chain(24)}}, "items": {"$ref": "#n"}},
        # What `#/$defs/d` is depends on where it stands.
        {"$defs": {"d": {}}, "items": {"$id": "https://x/", "$defs": {"d": chain(24)}, "items": {"$ref": "#/$defs/d"}}},
        {"unknown": {"$id": "https://x/", "$defs": {"d": {}}, "x": {"$ref": "#/$defs/d"}}, "$defs": {"d": chain(24)},
         "items": {"$ref": "#/unknown/x"}},
        {"$schema": "http://json-schema.org/draft-04/schema#", "definitions": {"d": {}},
         "items": {"id": "https://x/", "definitions": {"d": chain(24)}, "items": {"$ref": "#/definitions/d"}}},
    ],
)  # fmt: skip
def test_a_large_schema_cannot_hide_behind_a_name(schema: Schema) -> None:
    with pytest.raises(UnboundedSchema):
        measure_schema(schema)


@settings(max_examples=100)
@given(schema=schema_documents())
def test_measuring_ends_whatever_the_schema_is(schema: Schema) -> None:
    try:
        expansion = measure_schema(schema)
    except UnboundedSchema:
        return
    assert 1 <= expansion.schemas <= MAX_SCHEMAS
