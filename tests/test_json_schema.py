"""Schemas are compiled and values validated in bounded time, and the errors name each field."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings

from bounded_child import BoundedChild
from hostile_schemas import Schema, chain, mutual_recursion, refer, schema_documents
from toolyard.json_schema import MAX_VISITS, InvalidSchema, SchemaValidator

POINT: Schema = {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}


def find(schema: Schema, value: object, limit: int = 10) -> list[tuple[str, str, str]]:
    errors = SchemaValidator(schema).find_errors(value, limit)
    return [("/".join(map(str, e.path)), e.message, "/".join(map(str, e.schema_path))) for e in errors]


CASES: list[tuple[Schema, object, list[tuple[str, str, str]]]] = [
    (POINT, {"x": 1}, []),
    (POINT, 5, [("", '5 is not of type "object"', "type")]),
    (POINT, {}, [("", '"x" is a required property', "required")]),
    (POINT, {"x": "s"}, [("x", '"s" is not of type "number"', "properties/x/type")]),
    (
        {"items": refer(0), "$defs": {"d0": POINT}},
        [{"x": 1}, {"x": "s"}, {}],
        [
            ("1/x", '"s" is not of type "number"', "$defs/d0/properties/x/type"),
            ("2", '"x" is a required property', "$defs/d0/required"),
        ],
    ),
    (
        {"allOf": [POINT, {"required": ["y"]}]},
        {},
        [
            ("", '"x" is a required property', "allOf/0/required"),
            ("", '"y" is a required property', "allOf/1/required"),
        ],
    ),
    (
        {"properties": {"o": {"anyOf": [{"type": "string"}, {"type": "null"}]}}},
        {"o": 5},
        [("o", "5 is not valid under any of the schemas listed in the 'anyOf' keyword", "properties/o/anyOf")],
    ),
    (
        {"oneOf": [{}, {}]},
        5,
        [("", "5 is not valid under exactly one of the schemas listed in the 'oneOf' keyword", "oneOf")],
    ),
    ({"if": {}, "then": {"minimum": 6}}, 5, [("", "5 does not fit the 'if' keyword", "if")]),
    (
        {"properties": {"a/b": {"const": {"c": 1}}}, "additionalProperties": False},
        {"a/b": 2, "z": 3},
        [
            ("", "Additional properties are not allowed ('z' was unexpected)", "additionalProperties"),
            ("a/b", '{"c":1} was expected', "properties/a~1b/const"),
        ],
    ),
    (
        {"prefixItems": [{"type": "string"}], "items": False},
        [1, 2],
        [("", "False schema does not allow 2", "items"), ("0", '1 is not of type "string"', "prefixItems/0/type")],
    ),
    (
        {"additionalProperties": {"type": "integer"}, "properties": {"no": False}},
        {"a": "s", "no": 1},
        [
            ("a", '"s" is not of type "integer"', "additionalProperties/type"),
            ("no", "1 is not allowed here", "properties/no"),
        ],
    ),
]


@pytest.mark.parametrize(("schema", "value", "expected"), CASES)
def test_each_error_names_its_field_and_its_keyword(schema: Schema, value: object, expected: list[object]) -> None:
    assert find(schema, value) == expected


def test_no_more_errors_are_looked_for_than_asked_for() -> None:
    assert [path for path, _, _ in find({"items": {"type": "string"}}, [1] * 100_000, limit=3)] == ["0", "1", "2"]


def test_a_schema_that_expands_to_too_much_is_invalid() -> None:
    with pytest.raises(InvalidSchema, match="expands to more than"):
        SchemaValidator(chain(24))


def test_a_value_that_is_too_large_for_its_schema_is_an_error() -> None:
    validator = SchemaValidator(chain(10, leaf={"type": "array"}))
    assert validator.find_errors({"x": [1, 2]}, 10) == []
    (error,) = validator.find_errors({"x": [0] * (MAX_VISITS // validator.expansion.visits)}, 10)
    assert "too many for a schema with so many choices" in error.message


def test_a_usual_schema_takes_a_large_value() -> None:
    rows: Schema = {"items": {"anyOf": [POINT, {"type": "null"}]}}
    assert find(rows, [{"x": number} for number in range(100_000)]) == []


@pytest.fixture(scope="module")
def child() -> Iterator[BoundedChild]:
    bounded = BoundedChild()
    yield bounded
    bounded.close()


def nest(depth: int, leaf: object, name: str = "") -> object:
    for _ in range(depth):
        leaf = {name: leaf} if name else [leaf]
    return leaf


VALUES = [
    *({"x": value, "y": value} for value in (1, "s", [], {}, [1, [2]], {"a": 1, "b": [2], "c": {"a": 1}})),
    {"x": nest(30, 1), "y": nest(30, 1, "a")},
    {"x": nest(30, 1, "children"), "y": [nest(6, 1)] * 50},
]


@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        *(
            (chain(depth, keyword), "refused")
            for keyword in ("anyOf", "oneOf", "allOf")
            for depth in (16, 24, 60)
        ),
        (chain(12), "accepted"),
        (chain(12, "allOf"), "accepted"),
        (chain(12, lambda ref: {"anyOf": [{"items": ref}, {"items": ref}]}), "refused"),
        (chain(20, lambda ref: {"anyOf": [ref, ref], "unevaluatedProperties": False}), "refused"),
        (chain(8, lambda ref: {"anyOf": [ref, ref], "unevaluatedProperties": False}), "accepted"),
        (chain(24, lambda ref: {"type": "object", "anyOf": [ref, ref]}), "refused"),
        (mutual_recursion(8), "accepted"),
        (mutual_recursion(20), "refused"),
        # Recursion that doubles with each level of the value, and in ten properties at each level.
        (chain(0, leaf={"anyOf": [{"items": refer(0)}, {"items": refer(0)}]}), "accepted"),
        (chain(0, leaf={"allOf": [{"items": refer(0)}, {"items": refer(0), "minItems": 1}]}), "accepted"),
        (chain(0, leaf={"type": "object", "properties": {f"p{n}": refer(0) for n in range(10)}}), "accepted"),
        # Six definitions that refer to each other for the same value.
        ({"properties": {"x": refer(0)},
          "$defs": {f"d{n}": {"allOf": [refer(m) for m in range(6) if m != n]} for n in range(6)}}, "refused"),
    ],
)  # fmt: skip
def test_a_hostile_schema_costs_little_whether_it_is_accepted_or_not(
    child: BoundedChild, schema: Schema, answer: str
) -> None:
    assert child.judge(schema, VALUES) == answer


def test_the_same_schema_kills_a_process_without_these_bounds() -> None:
    undefended = BoundedChild(defended=False)
    assert (undefended.judge(chain(4), VALUES), undefended.judge(chain(24), VALUES)) == ("accepted", "")


@settings(
    max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
@given(schema=schema_documents())
def test_no_generated_schema_costs_much(child: BoundedChild, schema: Schema) -> None:
    assert child.judge(schema, VALUES) in ("accepted", "refused")
