"""Python types as output schemas: the JSON Schema of a type, and a run's final text read as that type.

msgspec knows structs, dataclasses, typed dictionaries and the types of the standard library; pydantic is loaded for its
own models. Providers take schemas of objects only, so any other type is wrapped as `{"value": …}`.
"""

from collections.abc import Callable
from typing import Generic, TypeVar, cast

import msgspec

from toolyard.core.errors import RunFailed
from toolyard.core.settings.models.options import OUTPUT_INVALID

T = TypeVar("T")
Schema = dict[str, object]
WRAPPED_FIELD = "value"
_REFERENCE = "#/$defs/"


class OutputType(Generic[T]):
    """A type of a run's output, with its JSON Schema."""

    def __init__(self, kind: type[T]) -> None:
        """Raise TypeError if the type has no JSON Schema."""
        schema, self._convert = _describe_type(kind)
        schema = _inline_reference(schema)
        self._wrapped = schema.get("type") != "object"
        self.schema: Schema = _wrap(schema) if self._wrapped else schema

    def parse(self, text: str) -> T:
        """Return the value of a text that fits the schema. Raise RunFailed if the type itself does not accept it."""
        try:
            if self._wrapped:
                return self._convert(msgspec.json.decode(text, type=dict[str, object])[WRAPPED_FIELD])
            return self._convert(msgspec.json.decode(text))
        except (ValueError, TypeError, KeyError) as error:  # both libraries' validation errors are ValueErrors
            why = " ".join(str(error).split())  # pydantic writes several lines
            raise RunFailed(f"{OUTPUT_INVALID}: the answer does not fit its type: {why}") from None


def _describe_type(kind: type[T]) -> tuple[Schema, Callable[[object], T]]:
    try:
        return msgspec.json.schema(kind), lambda value: msgspec.convert(value, kind, str_keys=True)
    except TypeError:
        return _describe_with_pydantic(kind)


def _describe_with_pydantic(kind: type[T]) -> tuple[Schema, Callable[[object], T]]:
    """Return the schema and the parser of a type that holds pydantic models, for example in a list."""
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        adapter = TypeAdapter(kind)
        schema: Schema = adapter.json_schema()
    except PydanticUserError as error:
        why = str(error).partition("\n")[0]
        raise TypeError(f"output_type={kind!r} has no JSON Schema: {why}") from None
    # From JSON, not from Python objects: a date, for example, can only be a text there.
    return schema, lambda value: adapter.validate_json(msgspec.json.encode(value))


def _inline_reference(schema: Schema) -> Schema:
    """Return a schema whose root is not a reference: providers want to see its properties."""
    reference, definitions = schema.get("$ref"), cast("dict[str, Schema]", schema.get("$defs", {}))
    if not isinstance(reference, str):
        return schema
    name = reference.removeprefix(_REFERENCE)
    root = definitions[name]
    refers_to_itself = f'"{reference}"'.encode() in msgspec.json.encode(definitions)
    others = {key: value for key, value in definitions.items() if refers_to_itself or key != name}
    return {**root, "$defs": others} if others else root


def _wrap(schema: Schema) -> Schema:
    """Return the schema of an object with one field. Definitions stay at the root, where references point."""
    value = {key: part for key, part in schema.items() if key != "$defs"}
    wrapped: Schema = {
        "type": "object",
        "properties": {WRAPPED_FIELD: value},
        "required": [WRAPPED_FIELD],
        "additionalProperties": False,
    }
    return {**wrapped, "$defs": schema["$defs"]} if "$defs" in schema else wrapped
