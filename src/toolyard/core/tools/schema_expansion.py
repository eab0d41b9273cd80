"""Measures what a JSON Schema expands to, so that one that nobody could validate or convert is refused. Pure.

A schema of 2 KB can stand for millions: each definition refers twice to the next. So definitions count each time that a
reference or a branch leads to them. Recursion is cut at the second visit, as validators do. Measuring is linear: what a
definition expands to is computed once.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast
from urllib.parse import unquote

import msgspec

from toolyard.core.json_types import is_list, is_object

Schema = dict[str, object]
MAX_SCHEMAS = 20_000
"""The most schemas that one may expand to."""
MAX_DEPTH = 200
_BRANCH_LISTS = ("allOf", "anyOf", "oneOf")
_BRANCHES = ("not", "if", "then", "else")
_BRANCH_MAPS = ("dependentSchemas", "dependencies")
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")
_PART_LISTS = ("prefixItems", "items")
_PARTS = ("items", "additionalItems", "additionalProperties")
_OVERLAPPING_PARTS = ("contains", "propertyNames", "contentSchema", *_UNEVALUATED)
"""Keywords whose schema applies to parts of a value that another keyword's schema may apply to as well."""
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_ANCHORS = ("$anchor", "$dynamicAnchor")
_META_SCHEMA = re.compile(r"https?://json-schema\.org/")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_DRAFT_4 = re.compile(r"draft-0[34]")


class UnboundedSchema(ValueError):
    """A schema that expands to too much, or whose references cannot be followed. The text says which."""


class SchemaExpansion(NamedTuple):
    """What a schema expands to."""

    schemas: int
    """How many schemas it holds, definitions counted each time that they are used."""
    visits: int
    """The most schemas that are applied to one value: the steps of a validation for each value are no more."""


class _Counts(NamedTuple):
    schemas: int
    here: int
    """The schemas that apply to the value itself."""
    inside: int
    """The most schemas that apply to one part of the value."""
    height: int


_ONE = _Counts(1, 1, 1, 1)


def measure_schema(schema: Schema) -> SchemaExpansion:
    """Return what a schema expands to. Raise UnboundedSchema if that is too much."""
    try:
        # A copy is a tree: objects that the original uses in several places are several schemas to a validator.
        copy: object = msgspec.json.decode(msgspec.json.encode(schema))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        raise UnboundedSchema("it cannot be written as JSON, or is nested too deeply") from None
    return _Measurement(_as_schema(copy)).measure()


class _Measurement:
    def __init__(self, schema: Schema) -> None:
        self._root = schema
        self._targets = _SchemaTargets(schema)
        self._steps = 0
        self._target_counts: dict[int, _Counts | None] = {}
        """What the target of a reference expands to; None as long as it is being counted."""
        self._recursive: set[int] = set()
        self._here: dict[int, int] = {}

    def measure(self) -> SchemaExpansion:
        counts = self._count(self._root, 0)
        _check_size(counts.schemas)
        # A validator applies a recursive definition to each value once, however many ways lead to it.
        return SchemaExpansion(counts.schemas, max(counts.here, counts.inside) * (1 + len(self._recursive)))

    def _count(self, node: object, depth: int) -> _Counts:
        self._steps += 1
        _check_size(self._steps)
        _check_depth(depth)
        if not is_object(node):
            return _ONE
        branches = [self._count_target(target, depth + 1) for target in self._list_targets(node)]
        branches += [self._count(branch, depth + 1) for branch in _list_branches(node)]
        parts = [self._count(part, depth + 1) for part in _list_parts(node)]
        overlapping = [self._count(part, depth + 1) for part in _list_overlapping_parts(node)]
        children = (*branches, *parts, *overlapping)
        here = self._count_here(node, depth)
        counts = _Counts(
            schemas=1
            + sum(child.schemas for child in children)
            # These look once more at all that applies to the value.
            + here * sum(name in node for name in _UNEVALUATED),
            here=here,
            inside=sum(branch.inside for branch in branches)
            + max((max(part.here, part.inside) for part in parts), default=0)
            + sum(max(part.here, part.inside) for part in overlapping),
            height=1 + max((child.height for child in children), default=0),
        )
        _check_depth(counts.height)
        return counts

    def _count_target(self, target: object, depth: int) -> _Counts:
        """Return what the target of a reference expands to. The second visit of a recursive one ends there."""
        key = id(target)
        if key in self._target_counts:
            if (counts := self._target_counts[key]) is None:
                self._recursive.add(key)
            return counts or _ONE
        self._target_counts[key] = None
        counts = self._target_counts[key] = self._count(target, depth)
        return counts

    def _count_here(self, node: object, depth: int) -> int:
        """Return how many schemas apply to the same value as this one."""
        if not is_object(node):
            return 1
        if (here := self._here.get(id(node))) is None:
            _check_depth(depth)
            self._here[id(node)] = 0
            branches = (*self._list_targets(node), *_list_branches(node))
            here = 1 + sum(self._count_here(branch, depth + 1) for branch in branches)
            self._here[id(node)] = here
        elif here == 0:
            raise UnboundedSchema("a definition refers to itself for the same value, not for a part of it")
        return here

    def _list_targets(self, node: Schema) -> Iterator[object]:
        for name in _REFERENCES:
            if isinstance(reference := node.get(name), str):
                yield self._targets.resolve(reference)


def _list_branches(node: Schema) -> Iterator[object]:
    """Yield the schemas that apply to the same value as this one."""
    for name in _BRANCH_LISTS:
        yield from _as_list(node.get(name))
    yield from (node[name] for name in _BRANCHES if name in node)
    for name in _BRANCH_MAPS:
        yield from _as_schema(node.get(name)).values()


def _check_size(schemas: int) -> None:
    if schemas > MAX_SCHEMAS:
        raise UnboundedSchema(
            f"it expands to more than {MAX_SCHEMAS:,} schemas, as a definition counts each time that it is used;"
            " use fewer references in anyOf, oneOf and allOf"
        )


def _check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise UnboundedSchema(f"it is nested more than {MAX_DEPTH} levels deep, references included")


def _list_parts(node: Schema) -> Iterator[object]:
    """Yield the schemas of a value's parts of which one at most applies to a part."""
    yield from _as_schema(node.get("properties")).values()
    for name in _PART_LISTS:
        yield from _as_list(node.get(name))
    yield from (node[name] for name in _PARTS if isinstance(node.get(name), dict))


def _list_overlapping_parts(node: Schema) -> Iterator[object]:
    yield from _as_schema(node.get("patternProperties")).values()
    yield from (node[name] for name in _OVERLAPPING_PARTS if name in node)


class _SchemaTargets:
    """What the references of a schema lead to.

    It must be what a validator finds, or a large schema could hide behind a small one. So a reference that has two
    readings is refused.
    """

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._anchors: dict[str, Schema] = {}
        self._ids: dict[str, Schema] = {}
        nodes = list(_walk(root))
        id_keywords = ("$id", "id") if any(_DRAFT_4.search(str(node.get("$schema"))) for node in nodes) else ("$id",)
        for node in nodes:
            for keyword in _ANCHORS:
                if isinstance(name := node.get(keyword), str):
                    _add_unique(self._anchors, name, node)
            for keyword in id_keywords:
                if isinstance(name := node.get(keyword), str):
                    self._add_id(name, node)

    def _add_id(self, name: str, node: Schema) -> None:
        if name.startswith("#"):  # an anchor, before 2019-09
            _add_unique(self._anchors, name[1:], node)
        elif node is not self._root:
            _add_unique(self._ids, name, node)

    def resolve(self, reference: str) -> object:
        """Return the target of a reference. Raise UnboundedSchema if it cannot be found, or could be another one."""
        if _META_SCHEMA.match(reference):
            return True  # built into the validator
        address, _, fragment = reference.partition("#")
        target = self._ids.get(address) if self._ids else self._resolve_fragment(address, fragment)
        if target is None or (self._ids and (fragment or not _PLAIN_NAME.fullmatch(address))):
            raise UnboundedSchema(f"its reference {reference[:80]!r} cannot be followed: use one such as #/$defs/name")
        return target

    def _resolve_fragment(self, address: str, fragment: str) -> object | None:
        if address and address != str(self._root.get("$id", self._root.get("id"))).partition("#")[0]:
            return None
        if fragment and not fragment.startswith("/"):
            return self._anchors.get(unquote(fragment))
        return resolve_pointer(self._root, fragment)


def resolve_pointer(root: object, fragment: str) -> object | None:
    """Return what a JSON pointer, as the fragment of a reference, leads to in a document; None if there is nothing."""
    target = root
    for step in unquote(fragment).split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if is_list(target):
            target = target[int(key)] if re.fullmatch("[0-9]{1,9}", key) and int(key) < len(target) else None
        else:
            target = _as_schema(target).get(key)
    return cast("object", target) if isinstance(target, dict | bool) else None


def _add_unique(names: dict[str, Schema], name: str, node: Schema) -> None:
    if names.setdefault(name, node) is not node:
        raise UnboundedSchema(f"two of its schemas have the name {name[:80]!r}: rename one")


def _walk(root: Schema) -> Iterator[Schema]:
    """Yield every object in a schema, itself included, whether or not it is a schema."""
    pending: list[object] = [root]
    while pending:
        value = pending.pop()
        if is_object(value):
            yield value
            pending += value.values()
        elif is_list(value):
            pending += value


def _as_schema(node: object) -> Schema:
    return node if is_object(node) else {}


def _as_list(node: object) -> Sequence[object]:
    return node if is_list(node) else ()
