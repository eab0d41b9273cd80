"""Schemas that stand for many more than they hold, and generated ones."""

from collections.abc import Callable

from hypothesis import strategies as st

Schema = dict[str, object]


def refer(number: int) -> Schema:
    return {"$ref": f"#/$defs/d{number}"}


def chain(depth: int, step: str | Callable[[Schema], Schema] = "anyOf", leaf: Schema | None = None) -> Schema:
    """Return a schema with an `x` that is the first of so many definitions, each made of the next one.

    `step` is the keyword that has two references to the next, or makes a definition from such a reference.
    """

    def double(ref: Schema) -> Schema:
        return {str(step): [ref, ref]}

    build = step if callable(step) else double
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
_LEAVES: list[Schema] = [{"type": "string"}, {"type": "array"}, {"type": "object"}, {"minimum": 1}, {}]
_LISTS = ("anyOf", "oneOf", "allOf")
_BRANCHES = ("not", "if", "then", "else")
_PARTS = ("items", "contains", "additionalProperties", "propertyNames", "unevaluatedProperties", "unevaluatedItems")
_PART_MAPS = ("properties", "patternProperties")


@st.composite
def _definitions(draw: st.DrawFn, number: int) -> Schema:
    """Return a definition. What it says of parts of a value refers to any other, the rest mostly to later ones."""
    first_branch = 0 if draw(st.integers(0, 19)) == 19 else number + 1
    branches = st.sampled_from([*map(refer, range(first_branch, MAX_DEFINITIONS)), *_LEAVES])
    parts = st.sampled_from([*map(refer, range(MAX_DEFINITIONS)), *_LEAVES])
    names = st.sampled_from(["a", "b", "c", "children"])
    keywords: dict[str, st.SearchStrategy[object]] = {
        **dict.fromkeys(_LISTS, st.lists(branches, min_size=2, max_size=3)),
        **dict.fromkeys(_BRANCHES, branches),
        **dict.fromkeys(_PARTS, parts),
        **dict.fromkeys(_PART_MAPS, st.dictionaries(names, parts, min_size=1, max_size=3)),
        "dependentSchemas": st.dictionaries(names, branches, min_size=1, max_size=2),
        "prefixItems": st.lists(parts, min_size=1, max_size=3),
        "type": st.sampled_from(["object", "array", "string"]),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(keywords)), min_size=1, max_size=3, unique=True))
    return {name: draw(keywords[name]) for name in chosen}


@st.composite
def schema_documents(draw: st.DrawFn) -> Schema:
    """Return a schema whose definitions refer to each other at random, in circles too."""
    definitions = {f"d{number}": draw(_definitions(number)) for number in range(MAX_DEFINITIONS)}
    return {"type": "object", "properties": {"x": refer(0), "y": refer(1)}, "$defs": definitions}
