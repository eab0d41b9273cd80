"""Rewrites a schema of any draft in the keywords of 2020-12, and reads schemas for all dialects.

Everything here keeps a schema's meaning or loosens it; nothing makes it stricter.
"""

import re
from collections.abc import Callable, Iterator, Sequence

import msgspec

from toolyard.core.json_types import is_list, is_object
from toolyard.core.tools.schema_expansion import resolve_pointer

Schema = dict[str, object]
MAX_NOTE_CHARACTERS = 600
"""The longest note about left-out keywords in a description, in characters."""
_SCHEMA_KEYWORDS = ("items", "contains", "additionalProperties", "propertyNames", "if", "then", "else", "not")
_LIST_KEYWORDS = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAP_KEYWORDS = ("properties", "patternProperties", "dependentSchemas")
_PLAIN_KEYWORDS = (
    *("type", "enum", "const", "format", "title", "description", "default", "examples", "deprecated"),
    *("multipleOf", "minimum", "maximum", "minLength", "maxLength", "pattern"),
    *("minItems", "maxItems", "uniqueItems", "minContains", "maxContains"),
    *("minProperties", "maxProperties", "required", "dependentRequired"),
)
_ANNOTATIONS = ("title", "description", "default", "examples", "deprecated")
_LOOSENED = {"oneOf", "$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties", "dependencies"}
_KEYWORDS_SINCE = (
    ("draft-06", ("const", "contains", "propertyNames", "examples")),
    ("draft-07", ("if", "then", "else")),
    ("2019-09", ("dependentSchemas", "dependentRequired", "minContains", "maxContains", "deprecated", "$defs")),
    ("2020-12", ("prefixItems",)),
)
"""The keywords that each draft introduced; in a schema of an older draft they mean nothing."""
_DRAFT = re.compile(r"draft-0\d|20\d\d-\d\d")


class UnsupportedSchema(Exception):
    """The dialect has neither an equal nor a looser schema."""


class NormalizedSchema:
    """A schema in the keywords of 2020-12, with the targets of its references under `$defs`."""

    def __init__(self, schema: Schema) -> None:
        self._source = schema
        match = _DRAFT.search(str(schema.get("$schema", "")))
        draft = match.group() if match else "2020-12"
        self._old = draft.startswith("draft")
        self._unknown = {
            word for since, words in _KEYWORDS_SINCE for word in words if _rank_draft(draft) < _rank_draft(since)
        }
        self._rebased = any(isinstance(node.get("$id"), str) for node in _walk(schema) if node is not schema)
        self._names: dict[str, str] = {}
        self._loosened = 0
        self._anchors = _index_anchors(schema)
        self.expanded: dict[int, tuple[Schema, Schema]] = {}
        """Schemas by their id, each with what it is expanded to."""
        self.defs: dict[str, Schema] = {}
        self.root = self._normalize(schema)

    def resolve(self, reference: object) -> Schema:
        """Return the target of a `$ref` in the normalized schema."""
        return self.defs.get(str(reference).removeprefix("#/$defs/"), {})

    def _normalize_value(self, node: object) -> Schema:
        if isinstance(node, bool):
            return {} if node else {"not": {}}
        return self._normalize(as_schema(node))

    def _normalize(self, node: Schema) -> Schema:
        if self._unknown & node.keys():
            node = {name: value for name, value in node.items() if name not in self._unknown}
        normalized: Schema = {name: node[name] for name in _PLAIN_KEYWORDS if name in node}
        if "$ref" in node:
            reference = self._normalize_reference(node["$ref"])
            if self._old:  # before 2019-09 the keywords beside a reference were ignored
                return {**{name: normalized[name] for name in _ANNOTATIONS if name in normalized}, **reference}
            normalized.update(reference)
        if node.keys() & _LOOSENED:
            self._loosened += 1
        normalized.update(
            {
                name: [self._normalize_value(branch) for branch in as_list(node[name])]
                for name in _LIST_KEYWORDS
                if name in node
            }
        )
        normalized.update({name: self._normalize_map(node[name]) for name in _MAP_KEYWORDS if name in node})
        for name in _SCHEMA_KEYWORDS:
            if name in node and not (name == "items" and isinstance(node[name], list)):
                self._normalize_keyword(name, node, normalized)
        if "oneOf" in normalized:
            # `anyOf` accepts more than `oneOf`. Both together cannot be one keyword, so then `oneOf` is left out.
            branches = as_list(normalized.pop("oneOf"))
            normalized = {**normalized, "anyOf": branches} if "anyOf" not in normalized else normalized
        _normalize_tuples(node, normalized, self._normalize_value)
        _normalize_bounds(node, normalized)
        return normalized

    def _normalize_keyword(self, name: str, node: Schema, normalized: Schema) -> None:
        """Normalize the schema of a keyword; leave out `not`, `if` and `contains` if that loosened it.

        A looser schema below `not` or `if` would make the whole stricter. A reference may be loosened later.
        """
        before = self._loosened
        value = self._normalize_value(node[name])
        if name in ("not", "if", "contains"):
            exact = self._loosened == before and not any("$ref" in inner for inner in _walk(node[name]))
            if not exact:
                return
        if name in ("then", "else") and "if" not in normalized:
            return
        normalized[name] = value if not isinstance(node[name], bool) else node[name]

    def _normalize_map(self, value: object) -> dict[str, object]:
        return {name: self._normalize_value(schema) for name, schema in as_schema(value).items()}

    def _normalize_reference(self, pointer: object) -> Schema:
        """Return the reference to a pointer's target under `$defs`; empty if the target cannot be resolved."""
        target = None if self._rebased or not isinstance(pointer, str) else self._resolve_source(pointer)
        if target is None:
            self._loosened += 1
            return {}
        key = str(pointer)
        if key not in self._names:
            self._names[key] = name = _choose_name(key, self.defs)
            self.defs[name] = {}  # a recursive schema finds its own name taken
            self.defs[name] = self._normalize_value(target)
        return {"$ref": f"#/$defs/{self._names[key]}"}

    def _resolve_source(self, reference: str) -> object | None:
        path, _, fragment = reference.partition("#")
        if path and path != self._source.get("$id"):
            return None
        if fragment and not fragment.startswith("/"):
            return self._anchors.get(fragment)
        return resolve_pointer(self._source, fragment)


def _rank_draft(draft: str) -> str:
    return draft.removeprefix("draft-").rjust(8)


def as_schema(node: object) -> Schema:
    return node if is_object(node) else {}


def as_list(node: object) -> list[object]:
    return node if is_list(node) else []


def get_types(node: Schema) -> list[str]:
    """Return the types that a schema names; none if it names none."""
    types = node.get("type")
    return [str(kind) for kind in (as_list(types) or ([types] if isinstance(types, str) else []))]


def get_properties(node: Schema) -> dict[str, Schema]:
    return {name: as_schema(schema) for name, schema in as_schema(node.get("properties")).items()}


def get_required(node: Schema) -> list[str]:
    return [str(name) for name in as_list(node.get("required"))]


def note_omissions(converted: Schema, node: Schema, left_out: Sequence[str]) -> Schema:
    """Return the schema with the keywords that were left out of it named in its description."""
    omitted = {name: node[name] for name in left_out if name in node}
    if not omitted:
        return converted
    words = ", ".join(f"{name}: {msgspec.json.encode(value).decode()}" for name, value in omitted.items())
    return add_description(converted, words)


def add_description(converted: Schema, words: str) -> Schema:
    if len(words) > MAX_NOTE_CHARACTERS:
        words = f"{words[:MAX_NOTE_CHARACTERS]}…"
    description = converted.get("description")
    return {
        **converted,
        "description": f"{description} ({words})" if isinstance(description, str) and description else f"({words})",
    }


def _walk(node: object) -> Iterator[Schema]:
    """Yield every object in a schema, itself included; some of them, such as those in `enum`, may be no schemas."""
    pending = [node]
    while pending:
        value = pending.pop()
        if is_object(value):
            yield value
            pending += value.values()
        elif is_list(value):
            pending += value


def _index_anchors(root: Schema) -> dict[str, Schema]:
    return {name: node for node in _walk(root) if isinstance(name := node.get("$anchor"), str)}


def _choose_name(pointer: str, taken: dict[str, Schema]) -> str:
    name = re.sub(r"[^a-zA-Z0-9_]", "_", pointer.rsplit("/", 1)[-1])[:48].strip("_") or "whole"
    return name if name not in taken else f"{name}_{len(taken)}"


def _normalize_tuples(node: Schema, normalized: Schema, normalize: Callable[[object], Schema]) -> None:
    """Rewrite `items` as a list, which was `prefixItems` before 2020-12."""
    if isinstance(node.get("items"), list):
        normalized["prefixItems"] = [normalize(schema) for schema in as_list(node["items"])]
        if "additionalItems" in node:
            additional = node["additionalItems"]
            normalized["items"] = additional if isinstance(additional, bool) else normalize(additional)


def _normalize_bounds(node: Schema, normalized: Schema) -> None:
    """Rewrite `exclusiveMinimum: true`, which in draft 4 modified `minimum`."""
    for name, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        value = node.get(name)
        if value is True and bound in normalized:
            normalized[name] = normalized.pop(bound)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            normalized[name] = value
