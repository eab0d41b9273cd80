"""What the dialects share: a schema of any draft in the words of 2020-12, its references, and schemas merged into one.

Everything here keeps a schema's meaning or loosens it; nothing makes it stricter.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import cast
from urllib.parse import unquote

import msgspec

Schema = dict[str, object]
MAX_NOTE_CHARACTERS = 600
"""Characters of what could not be expressed that are told in a description."""
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
"""The drafts that brought new words; in an older one those mean nothing."""
_DRAFT = re.compile(r"draft-0\d|20\d\d-\d\d")


class UnsupportedSchema(Exception):
    """The schema has no equal, nor a looser one, in the dialect."""


class NormalizedSchema:
    """One schema in the words of 2020-12, with what it refers to under `$defs`."""

    def __init__(self, schema: Schema) -> None:
        self._source = schema
        found = _DRAFT.search(str(schema.get("$schema", "")))
        draft = found.group() if found else "2020-12"
        self._old = draft.startswith("draft")
        self._unknown = {
            word for since, words in _KEYWORDS_SINCE for word in words if _rank_draft(draft) < _rank_draft(since)
        }
        self._rebased = any(isinstance(one.get("$id"), str) for one in _walk(schema) if one is not schema)
        self._names: dict[str, str] = {}
        self._loosened = 0
        self.defs: dict[str, Schema] = {}
        self.root = self._normalize(schema)

    def resolve(self, reference: object) -> Schema:
        """What a `$ref` of the converted schema leads to."""
        return self.defs.get(str(reference).removeprefix("#/$defs/"), {})

    def _normalize_value(self, node: object) -> Schema:
        if isinstance(node, bool):
            return {} if node else {"not": {}}
        return self._normalize(as_schema(node))

    def _normalize(self, node: Schema) -> Schema:
        if self._unknown & node.keys():
            node = {name: value for name, value in node.items() if name not in self._unknown}
        made: Schema = {name: node[name] for name in _PLAIN_KEYWORDS if name in node}
        if "$ref" in node:
            reference = self._normalize_reference(node["$ref"])
            if self._old:  # what stands beside a reference did not count then
                return {**{name: made[name] for name in _ANNOTATIONS if name in made}, **reference}
            made.update(reference)
        if node.keys() & _LOOSENED:
            self._loosened += 1
        made.update(
            {
                name: [self._normalize_value(one) for one in as_list(node[name])]
                for name in _LIST_KEYWORDS
                if name in node
            }
        )
        made.update({name: self._normalize_map(node[name]) for name in _MAP_KEYWORDS if name in node})
        for name in _SCHEMA_KEYWORDS:
            if name in node and not (name == "items" and isinstance(node[name], list)):
                self._normalize_keyword(name, node, made)
        if "oneOf" in made:
            branches = as_list(made.pop("oneOf"))
            made = {**made, "anyOf": branches} if "anyOf" not in made else made
        _normalize_tuples(node, made, self._normalize_value)
        _normalize_bounds(node, made)
        return made

    def _normalize_keyword(self, name: str, node: Schema, made: Schema) -> None:
        """What is under `not` and the like must not be loosened, for the whole would be stricter."""
        before = self._loosened
        value = self._normalize_value(node[name])
        exact = self._loosened == before and not any("$ref" in one for one in _walk(node[name]))
        if name in ("not", "if", "contains") and not exact:
            return
        if name in ("then", "else") and "if" not in made:
            return
        made[name] = value if not isinstance(node[name], bool) else node[name]

    def _normalize_map(self, value: object) -> dict[str, object]:
        return {name: self._normalize_value(one) for name, one in as_schema(value).items()}

    def _normalize_reference(self, pointer: object) -> Schema:
        """The reference to what the pointer leads to; empty if that cannot be told."""
        found = None if self._rebased or not isinstance(pointer, str) else _resolve_pointer(self._source, pointer)
        if found is None:
            self._loosened += 1
            return {}
        place = str(pointer)
        if place not in self._names:
            self._names[place] = name = _choose_name(place, self.defs)
            self.defs[name] = {}
            self.defs[name] = self._normalize_value(found)
        return {"$ref": f"#/$defs/{self._names[place]}"}


def _rank_draft(draft: str) -> str:
    return draft.removeprefix("draft-").rjust(8)


def as_schema(node: object) -> Schema:
    return cast("Schema", node) if isinstance(node, dict) else {}


def as_list(node: object) -> list[object]:
    return cast("list[object]", node) if isinstance(node, list) else []


def get_types(node: Schema) -> list[str]:
    """The types that it names; none if it names none."""
    given = node.get("type")
    return [str(one) for one in (as_list(given) or ([given] if isinstance(given, str) else []))]


def get_properties(node: Schema) -> dict[str, Schema]:
    return {name: as_schema(one) for name, one in as_schema(node.get("properties")).items()}


def get_required(node: Schema) -> list[str]:
    return [str(name) for name in as_list(node.get("required"))]


def note_omissions(made: Schema, node: Schema, left_out: Sequence[str]) -> Schema:
    """The schema with what was left out of it told in its description."""
    told = {name: node[name] for name in left_out if name in node}
    if not told:
        return made
    words = ", ".join(f"{name}: {msgspec.json.encode(value).decode()}" for name, value in told.items())
    return add_description(made, words)


def add_description(made: Schema, words: str) -> Schema:
    if len(words) > MAX_NOTE_CHARACTERS:
        words = f"{words[:MAX_NOTE_CHARACTERS]}…"
    before = made.get("description")
    return {**made, "description": f"{before} ({words})" if isinstance(before, str) and before else f"({words})"}


def _walk(node: object) -> Iterator[Schema]:
    """Every object in it, itself included. What is no schema may be among them."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield cast("Schema", one)
            waiting += cast("Schema", one).values()
        elif isinstance(one, list):
            waiting += cast("list[object]", one)


def _resolve_pointer(root: Schema, pointer: str) -> object | None:
    path, mark, fragment = pointer.partition("#")
    if path and path != root.get("$id"):
        return None
    if fragment and not fragment.startswith("/"):
        return next((one for one in _walk(root) if one.get("$anchor") == fragment), None)
    found: object = root
    for step in unquote(fragment).split("/")[1:] if mark else ():
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list):
            items = cast("list[object]", found)
            found = items[int(key)] if key.isdecimal() and int(key) < len(items) else None
        else:
            found = as_schema(found).get(key)
    return cast("object", found) if isinstance(found, dict | bool) else None


def _choose_name(pointer: str, taken: dict[str, Schema]) -> str:
    name = re.sub(r"[^a-zA-Z0-9_]", "_", pointer.rsplit("/", 1)[-1])[:48].strip("_") or "whole"
    return name if name not in taken else f"{name}_{len(taken)}"


def _normalize_tuples(node: Schema, made: Schema, normalize: Callable[[object], Schema]) -> None:
    """`items` as a list, as it was before 2020-12."""
    if isinstance(node.get("items"), list):
        made["prefixItems"] = [normalize(one) for one in as_list(node["items"])]
        if "additionalItems" in node:
            rest = node["additionalItems"]
            made["items"] = rest if isinstance(rest, bool) else normalize(rest)


def _normalize_bounds(node: Schema, made: Schema) -> None:
    """`exclusiveMinimum: true`, as it was in draft 4."""
    for name, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        value = node.get(name)
        if value is True and bound in made:
            made[name] = made.pop(bound)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            made[name] = value
