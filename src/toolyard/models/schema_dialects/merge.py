"""Several schemas as one that holds at least what they hold. Pure.

`all_of` holds what fits every one of them, `flat` the objects that fit a root with choices; both may hold more.
"""

from collections.abc import Sequence

import msgspec

from toolyard.models.schema_dialects.schema import (
    NormalizedSchema,
    Schema,
    add_description,
    as_list,
    as_schema,
    get_properties,
    get_required,
    get_types,
    note_omissions,
)

_SHAPE = ("properties", "patternProperties", "additionalProperties")
_TUPLE = ("prefixItems", "items")
_LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_SPECIAL = {"type", "enum", "required", *_SHAPE, *_TUPLE, *_LOWER, *_UPPER}
_FAMILIES = ({"if", "then", "else"}, {"contains", "minContains", "maxContains"})
"""Words that say something only together."""
_NOT_ON_TOP = ("allOf", "anyOf", "enum", "const", "not", "$ref", "if", "then", "else")
MAX_BRANCHES = 16
MAX_DEPTH = 32


def expand_schema(node: Schema, modern: NormalizedSchema, seen: tuple[str, ...] = ()) -> Schema:
    """The schema with what it refers to, and what all must fit, merged in; a reference that goes round says nothing."""
    if len(seen) > MAX_DEPTH:
        return {}
    branches = [node]
    reference = node.get("$ref")
    if isinstance(reference, str) and reference not in seen:
        branches.append(expand_schema(modern.resolve(reference), modern, (*seen, reference)))
    branches += [expand_schema(as_schema(one), modern, (*seen, "")) for one in as_list(node.get("allOf"))]
    plain = {name: value for name, value in node.items() if name not in ("$ref", "allOf")}
    return plain if len(branches) == 1 else merge_all([plain, *branches[1:]])


def merge_all(branches: Sequence[Schema]) -> Schema:
    """The first one's words about itself win; of what cannot be merged, the first one's is kept."""
    made: Schema = {}
    for branch in branches:
        made = _merge_two(made, branch)
    return made


def _merge_two(one: Schema, other: Schema) -> Schema:
    if not one or not other:
        return one or other
    theirs = {name for family in _FAMILIES if family & one.keys() for name in family}
    made = {**{name: value for name, value in other.items() if name not in theirs}, **one}
    _merge_types(one, other, made)
    _merge_enums(one, other, made)
    for names, stricter in ((_LOWER, max), (_UPPER, min)):
        for name in names:
            bounds = [bound for side in (one, other) if isinstance(bound := side.get(name), int | float)]
            if bounds:
                made[name] = stricter(bounds)
    if one.get("required") or other.get("required"):
        made["required"] = [*dict.fromkeys([*get_required(one), *get_required(other)])]
    _merge_properties(one, other, made)
    if any(name in one for name in _TUPLE) and any(name in other for name in _TUPLE):
        for name in _TUPLE:
            made.pop(name, None)
            if name in one:
                made[name] = one[name]
    return made


def _merge_types(one: Schema, other: Schema, made: Schema) -> None:
    mine, theirs = get_types(one), get_types(other)
    if mine and theirs:
        both = [kind for kind in mine if kind in theirs or (kind == "integer" and "number" in theirs)]
        both += ["integer"] if "number" in mine and "integer" in theirs and "integer" not in both else []
        made["type"] = (both[0] if len(both) == 1 else both) if both else one["type"]


def _merge_enums(one: Schema, other: Schema, made: Schema) -> None:
    if "enum" in one and "enum" in other:
        kept = [value for value in as_list(one["enum"]) if value in as_list(other["enum"])]
        made["enum"] = kept or one["enum"]


def _merge_properties(one: Schema, other: Schema, made: Schema) -> None:
    """Properties of both. What else an object may have is said only if one side alone has a shape."""
    if not (any(name in one for name in _SHAPE) and any(name in other for name in _SHAPE)):
        return
    for name in _SHAPE:
        made.pop(name, None)
    mine, theirs = get_properties(one), get_properties(other)
    names = dict.fromkeys([*mine, *theirs])
    made["properties"] = {
        name: {"allOf": [mine[name], theirs[name]]}
        if name in mine and name in theirs
        else mine.get(name, theirs.get(name))
        for name in names
    }


def flatten_root(modern: NormalizedSchema) -> Schema:
    """The root as one object: what it refers to is merged in, its choices are laid over each other."""
    whole = expand_schema(modern.root, modern)
    base = {name: value for name, value in whole.items() if name not in _NOT_ON_TOP}
    branches = [expand_schema(as_schema(one), modern) for one in as_list(whole.get("anyOf"))]
    if not branches:
        return note_omissions(base, whole, ("not", "if", "then", "else"))
    if len(branches) <= MAX_BRANCHES and not any("anyOf" in one for one in branches):
        base = merge_all([base, _merge_choices(branches)])
    return add_description(base, f"one of: {msgspec.json.encode(whole['anyOf']).decode()}")


def _merge_choices(branches: Sequence[Schema]) -> Schema:
    """One shape for objects that fit one of these. A property that one of them leaves open is open."""
    shapes = [get_properties(branch) for branch in branches]
    names = dict.fromkeys(name for shape in shapes for name in shape)
    made: Schema = {"properties": {name: _merge_property(name, branches, shapes) for name in names}}
    needed = [name for name in names if all(name in get_required(branch) for branch in branches)]
    if needed:
        made["required"] = needed
    if all(branch.get("additionalProperties") is False and "patternProperties" not in branch for branch in branches):
        made["additionalProperties"] = False
    return made


def _merge_property(name: str, branches: Sequence[Schema], shapes: Sequence[dict[str, Schema]]) -> Schema:
    told = next((shape[name]["description"] for shape in shapes if "description" in shape.get(name, {})), None)
    about: Schema = {} if told is None else {"description": told}
    choices: dict[bytes, Schema] = {}
    for branch, shape in zip(branches, shapes, strict=True):
        if name not in shape and (branch.get("additionalProperties") is not False or "patternProperties" in branch):
            return about
        if name in shape:
            choices[msgspec.json.encode(shape[name], order="deterministic")] = shape[name]
    only = [*choices.values()]
    return only[0] if len(only) == 1 else {**about, "anyOf": only}
