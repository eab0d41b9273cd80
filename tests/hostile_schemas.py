"""Schemas that stand for many more than they hold, and generated ones."""

from collections.abc import Callable
from typing import cast

from hypothesis import strategies as st

Schema = dict[str, object]


def refer(number: int) -> Schema:
    return {"$ref": f"#/$defs/d{number}"}


def chain(depth: int, step: str | Callable[[Schema], Schema] = "anyOf", leaf: Schema | None = None) -> Schema:
    """Return a schema with an `x` that is the first of so many definitions, each made of the next one.

    `step` is the keyword that has two references to the next, or makes a definition from such a reference.
    """
    build = step if callable(step) else lambda ref: cast("Schema", {step: [ref, ref]})
    definitions = {f"d{number}": build(refer(number + 1)) for number in range(depth)}
    definitions[f"d{depth}"] = {"type": "string"} if leaf is None else leaf
    return {"type": "object", "properties": {"x": refer(0)}, "$defs": definitions}


def mutual_recursion(kinds: int) -> Schema:
    """Return a tree with so many kinds of nodes, each of which may hold all kinds."""
    nodes = {
        f"d{number}": {
            "type": "object",
            "properties": {
                "kind": {"const": f"d{number}"},
                "children": {"type": "array", "items": {"anyOf": [refer(other) for other in range(kinds)]}},
            },
            "required": ["kind"],
        }
        for number in range(kinds)
    }
    return {"type": "object", "properties": {"x": refer(0)}, "$defs": nodes}


MAX_DEFINITIONS = 12
_references = st.integers(0, MAX_DEFINITIONS - 1).map(refer)
_inner = _references | st.sampled_from(
    [{"type": "string"}, {"type": "array"}, {"type": "object"}, {"minimum": 1}, {"required": ["a"]}, {}]
)
_names = st.sampled_from(["a", "b", "c"])
_pairs = st.lists(_inner, min_size=2, max_size=3)
_maps = st.dictionaries(_names, _inner, min_size=1, max_size=3)
_keywords: dict[str, st.SearchStrategy[object]] = {
    **dict.fromkeys(("anyOf", "oneOf", "allOf", "prefixItems"), _pairs),
    **dict.fromkeys(("properties", "patternProperties", "dependentSchemas"), _maps),
    **dict.fromkeys(("not", "if", "then", "else", "items", "contains", "additionalProperties"), _inner),
    **dict.fromkeys(("propertyNames", "unevaluatedProperties", "unevaluatedItems"), _inner),
    "$ref": st.integers(0, MAX_DEFINITIONS - 1).map(lambda number: f"#/$defs/d{number}"),
    "type": st.sampled_from(["object", "array", "string"]),
}
_definitions = st.lists(st.sampled_from(sorted(_keywords)), min_size=1, max_size=3, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: _keywords[name] for name in names})
)


def schema_documents() -> st.SearchStrategy[Schema]:
    """Return schemas whose definitions refer to each other at random, in circles too."""
    all_definitions = st.lists(_definitions, min_size=MAX_DEFINITIONS, max_size=MAX_DEFINITIONS)
    return all_definitions.map(
        lambda definitions: {
            "type": "object",
            "properties": {"x": refer(0), "y": refer(1)},
            "$defs": {f"d{number}": definition for number, definition in enumerate(definitions)},
        }
    )
