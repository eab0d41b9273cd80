"""Compiles JSON Schemas, and finds the first errors of a value, in bounded time.

A schema is accepted only if what it expands to is bounded, and a value only if it is small enough for its schema. Both
are decided before anything is validated, since the validator cannot be interrupted. References are never fetched.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import jsonschema_rs
import msgspec

from toolyard.core.json_types import is_list, is_object
from toolyard.core.tools.schema_expansion import UnboundedSchema, measure_schema, resolve_pointer

Schema = dict[str, object]
Path = tuple[str | int, ...]
MAX_VISITS = 10_000_000
"""The most steps of a validation, one for each schema that is applied to a value: about half a second."""
MAX_EXPLAINED_VISITS = 1_000_000
"""The most steps of a validation whose errors are looked for: doing so validates parts of the value once more."""
FEW_VISITS = 20
"""A schema with no more visits for each value is that of a usual tool: the values are not counted first."""
MAX_EXPLANATION_CHECKS = 2_000
MAX_SHOWN_CHARS = 80
_BASE = "toolyard:schema"
_FOLLOWED = ("$ref", "allOf", "properties", "prefixItems", "contentSchema")
_OPTIONALLY_FOLLOWED = ("items", "additionalItems", "additionalProperties")
"""Keywords with a schema or a boolean."""
_CHOICES = (
    *("anyOf", "oneOf", "not", "if", "then", "else", "contains", "propertyNames", "patternProperties"),
    *("dependentSchemas", "dependencies", "unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef"),
)
_IGNORED = {"$defs", "definitions", "$id", "id", "$anchor", "$dynamicAnchor", "$schema", "minContains", "maxContains"}


class InvalidSchema(ValueError):
    """Not a valid JSON Schema, or none that can be validated in bounded time. The text says which."""


class SchemaError(NamedTuple):
    """One error of a value."""

    path: Path
    """Where in the value it is."""
    message: str
    schema_path: Path
    """The keyword that the value does not fit."""


class SchemaValidator:
    """A compiled JSON Schema. Raises InvalidSchema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        try:
            self.expansion = measure_schema(schema)
        except UnboundedSchema as error:
            raise InvalidSchema(str(error)) from None
        try:
            self._validator = jsonschema_rs.validator_for(schema, offline=True)
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            raise InvalidSchema(str(error).partition("\n")[0]) from None

    def find_errors(self, value: object, limit: int) -> list[SchemaError]:
        """Return the first errors of a value; none if it fits. A value too large for its schema is one error."""
        if not self._can_visit(value, MAX_VISITS):
            max_values = MAX_VISITS // self.expansion.visits
            return [
                SchemaError(
                    (), f"holds more than {max_values:,} values, too many for a schema with so many choices", ()
                )
            ]
        try:
            if self._validator.is_valid(value):
                return []
        except ValueError as error:  # nested too deeply
            return [SchemaError((), str(error), ())]
        if not self._can_visit(value, MAX_EXPLAINED_VISITS):
            return [SchemaError((), "does not fit the schema", ())]
        return list(islice(self._explanation.find(value), limit))

    def _can_visit(self, value: object, max_visits: int) -> bool:
        visits = self.expansion.visits
        return visits <= FEW_VISITS or _holds_at_most(value, max_visits // visits)

    @cached_property
    def _explanation(self) -> "_Explanation":
        return _Explanation(self.schema)


def _holds_at_most(value: object, limit: int) -> bool:
    """Return whether there are no more values in a value than the limit, itself included."""
    pending, count = [value], 0
    while pending:
        count += 1
        if count > limit:
            return False
        inner = pending.pop()
        if is_object(inner):
            pending += inner.values()
        elif is_list(inner):
            pending += inner
    return True


class _Explanation:
    """Finds the errors of values that do not fit a schema.

    The validator's own list of errors has those of every branch of every choice, each with a copy of the value. Here a
    choice is one error, and only parts that do not fit are looked into, each at most once.
    """

    def __init__(self, schema: Schema) -> None:
        self._root = schema
        self._registry = jsonschema_rs.Registry([(_BASE, schema)])
        self._validators: dict[Path, jsonschema_rs.Validator] = {}

    def find(self, value: object) -> Iterator[SchemaError]:
        """Yield the errors of a value that does not fit the whole schema."""
        try:
            yield from _ErrorSearch(self).search(_Part(self._root, (), value, ()))
        except (ValueError, jsonschema_rs.ReferencingError):
            yield SchemaError((), "does not fit the schema", ())

    def resolve(self, reference: object) -> tuple[object, Path] | None:
        """Return the target of a reference and where it is; None if it is not a pointer into this schema."""
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return (self._root, ()) if reference == "#" else None
        target = resolve_pointer(self._root, reference[1:])
        return None if target is None else (target, tuple(reference[2:].split("/")))

    def fits(self, part: "_Part") -> bool:
        """Return whether a part of a value fits the schema that applies to it."""
        validator = self._validators.get(part.pointer)
        if validator is None:
            pointer = "".join(f"/{step}" for step in part.pointer)
            validator = self._validators[part.pointer] = jsonschema_rs.validator_for(
                {"$ref": f"{_BASE}#{pointer}"}, registry=self._registry, offline=True
            )
        return validator.is_valid(part.value)

    def find_plain_errors(self, plain: Schema, value: object) -> Iterator[jsonschema_rs.ValidationError]:
        """Yield the errors of keywords without schemas inside."""
        draft = {"$schema": self._root["$schema"]} if "$schema" in self._root else {}
        yield from jsonschema_rs.validator_for({**draft, **plain}, offline=True).iter_errors(value)


class _Part(NamedTuple):
    """A part of a value, and one of the schemas that apply to it."""

    schema: object
    pointer: Path
    value: object
    path: Path


class _ErrorSearch:
    """One search for errors. It ends after a number of checks."""

    def __init__(self, explanation: _Explanation) -> None:
        self._explanation = explanation
        self._checks = 0
        self._seen: set[tuple[Path, Path]] = set()

    def search(self, part: _Part) -> Iterator[SchemaError]:
        """Yield the errors of a part that does not fit its schema: those of its own keywords, then those inside."""
        if (part.pointer, part.path) in self._seen:
            return
        self._seen.add((part.pointer, part.path))
        if not is_object(part.schema):
            yield SchemaError(part.path, f"{_show(part.value)} is not allowed here", part.pointer)
            return
        schema = part.schema
        explained = False
        for error in self._explanation.find_plain_errors(_select_plain(schema), part.value):
            explained = True
            yield SchemaError(part.path, error.message, (*part.pointer, *error.schema_path))
        for inner in self._list_inner(part, schema):
            if self._checks >= MAX_EXPLANATION_CHECKS:
                break
            self._checks += 1
            if not self._explanation.fits(inner):
                explained = True
                yield from self.search(inner)
        if not explained:
            yield _describe_choice(part, schema)

    def _list_inner(self, part: _Part, schema: Schema) -> Iterator[_Part]:
        """Yield the parts of a value with their schemas, and the value itself with the schemas that it has to fit."""
        if (target := self._explanation.resolve(schema.get("$ref"))) is not None:
            yield part._replace(schema=target[0], pointer=target[1])
        for index, branch in enumerate(_as_list(schema.get("allOf"))):
            yield part._replace(schema=branch, pointer=(*part.pointer, "allOf", index))
        if is_object(part.value):
            yield from _list_properties(part, schema, part.value)
        elif is_list(part.value):
            yield from _list_items(part, schema, part.value)


def _list_properties(part: _Part, schema: Schema, fields: Schema) -> Iterator[_Part]:
    properties = _as_schema(schema.get("properties"))
    additional = schema.get("additionalProperties") if "patternProperties" not in schema else None
    for name, field in fields.items():
        if name in properties:
            yield _Part(properties[name], (*part.pointer, "properties", _escape(name)), field, (*part.path, name))
        elif is_object(additional):
            pointer = (*part.pointer, "additionalProperties")
            yield _Part(additional, pointer, field, (*part.path, name))


def _list_items(part: _Part, schema: Schema, items: Sequence[object]) -> Iterator[_Part]:
    prefix_keyword = "items" if isinstance(schema.get("items"), list) else "prefixItems"
    prefix = _as_list(schema.get(prefix_keyword))
    for index, (branch, item) in enumerate(zip(prefix, items, strict=False)):
        yield _Part(branch, (*part.pointer, prefix_keyword, index), item, (*part.path, index))
    if isinstance(schema.get("items"), dict):
        for index, item in enumerate(items[len(prefix) :], len(prefix)):
            yield _Part(schema["items"], (*part.pointer, "items"), item, (*part.path, index))


def _select_plain(schema: Schema) -> Schema:
    """Return the keywords that hold no schemas, with the names and positions that `false` as a schema refers to."""
    skipped = {*_IGNORED, *_FOLLOWED, *_CHOICES}
    skipped |= {name for name in _OPTIONALLY_FOLLOWED if isinstance(schema.get(name), dict | list)}
    plain = {name: value for name, value in schema.items() if name not in skipped}
    if plain.get("additionalProperties") is False:
        plain["properties"] = dict.fromkeys(_as_schema(schema.get("properties")), True)
        plain["patternProperties"] = dict.fromkeys(_as_schema(schema.get("patternProperties")), True)
    for name, prefix in (("items", "prefixItems"), ("additionalItems", "items")):
        if plain.get(name) is False:
            plain[prefix] = [True] * len(_as_list(schema.get(prefix)))
    return plain


def _describe_choice(part: _Part, schema: Schema) -> SchemaError:
    name = next((name for name in _CHOICES if name in schema), "")
    match name:
        case "anyOf":
            problem = "is not valid under any of the schemas listed in the 'anyOf' keyword"
        case "oneOf":
            problem = "is not valid under exactly one of the schemas listed in the 'oneOf' keyword"
        case "":
            problem = "does not fit the schema"
        case _:
            problem = f"does not fit the {name!r} keyword"
    return SchemaError(part.path, f"{_show(part.value)} {problem}", (*part.pointer, name) if name else part.pointer)


def _show(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}…"


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1").replace("%", "%25")


def _as_schema(node: object) -> Schema:
    return node if is_object(node) else {}


def _as_list(node: object) -> Sequence[object]:
    return node if is_list(node) else ()
