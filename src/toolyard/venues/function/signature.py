"""The JSON Schema of a typed function, and its arguments parsed from JSON. The only module here that uses pydantic."""

import inspect
from collections.abc import Callable
from types import NoneType, UnionType
from typing import Any, NotRequired, Union, get_args, get_origin, get_type_hints

import msgspec
from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError, with_config
from pydantic.errors import PydanticSchemaGenerationError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ErrorDetails, PydanticSerializationError, to_jsonable_python
from typing_extensions import TypedDict

from toolyard.core.errors import Misconfigured
from toolyard.core.items import Problem
from toolyard.core.ports import Context
from toolyard.venues.function.docstring import parse_docstring

MAX_ERRORS = 10


class Signature:
    """The parameters of a function: their JSON Schema, a parser, and the name of the context parameter if any.

    `description` is the function's docstring without what it says about parameters, which is in the schema.
    """

    def __init__(self, function: Callable[..., object], name: str) -> None:
        self.context_parameter = ""
        self.is_coroutine_function = inspect.iscoroutinefunction(function)
        fields: dict[str, Any] = {}
        defaults: dict[str, object] = {}
        parameters = _list_parameters(function, name)
        docstring = parse_docstring(inspect.getdoc(function) or "", [parameter.name for parameter, _ in parameters])
        self.description = docstring.description
        for parameter, hint in parameters:
            if _is_context(hint):
                self.context_parameter = parameter.name
            elif parameter.default is inspect.Parameter.empty:
                fields[parameter.name] = hint
            else:
                fields[parameter.name] = NotRequired[hint]
                defaults[parameter.name] = parameter.default
        arguments: Any = with_config(ConfigDict(extra="forbid"))(TypedDict("Arguments", fields))  # pyright: ignore[reportArgumentType, reportGeneralTypeIssues]
        try:
            adapter: TypeAdapter[dict[str, object]] = TypeAdapter(arguments)
            schema = adapter.json_schema(schema_generator=_UntitledSchema)
        except (PydanticUserError, PydanticSchemaGenerationError) as error:
            why = str(error).partition("\n")[0]
            raise Misconfigured(f"tool {name!r}: a parameter's type has no JSON form: {why}") from None
        self._validator = adapter.validator
        self.schema = _clean_schema(schema, defaults, docstring.parameters)

    def parse_arguments(self, arguments: dict[str, object]) -> dict[str, object]:
        """Return the arguments as the function's own types. Raise ValidationError."""
        # Encoded again, because pydantic's strict mode accepts more from JSON than from Python objects: a date or an
        # enum, for example, can only be a text there.
        return self._validator.validate_json(msgspec.json.encode(arguments), strict=True)

    def validate(self, arguments: dict[str, object]) -> Problem | None:
        """Return a problem that names each wrong field and what was expected there, or None."""
        try:
            self.parse_arguments(arguments)
        except ValidationError as error:
            faults = [
                _describe_fault(fault) for fault in error.errors(include_url=False, include_input=False)[:MAX_ERRORS]
            ]
            summary = "; ".join(f"{fault['field']}: {fault['problem']}" for fault in faults)
            return Problem(
                error=f"wrong arguments: {summary}", error_type="validation_error", details={"fields": faults}
            )
        return None


def _describe_fault(fault: ErrorDetails) -> dict[str, object]:
    path = ".".join(str(part) for part in fault["loc"])
    return {"field": path or "(the whole)", "problem": fault["msg"], "expected": fault["type"]}


def _list_parameters(function: Callable[..., object], name: str) -> list[tuple[inspect.Parameter, object]]:
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise Misconfigured(f"tool {name!r}: a type in its signature cannot be found: {error}") from None
    parameters: list[tuple[inspect.Parameter, object]] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise Misconfigured(f"tool {name!r}: parameter {parameter} must be an ordinary named one")
        if parameter.name not in hints:
            raise Misconfigured(
                f"tool {name!r}: parameter {parameter.name!r} has no type; write for example {parameter.name}: str"
            )
        parameters.append((parameter, hints[parameter.name]))
    return parameters


def _is_context(hint: object) -> bool:
    """Return whether an annotation is `Context` or `Context | None`."""
    return hint is Context or (get_origin(hint) in (Union, UnionType) and set(get_args(hint)) == {Context, NoneType})


def _clean_schema(
    schema: dict[str, Any], defaults: dict[str, object], descriptions: dict[str, str]
) -> dict[str, object]:
    """Return the schema without its title, which only repeats the name, and with the function's defaults.

    A description of the parameter's own annotation comes before that of the docstring.
    """
    schema.pop("title", None)
    properties: dict[str, dict[str, object]] = schema.setdefault("properties", {})
    for name, value in defaults.items():
        try:
            properties[name].setdefault("default", to_jsonable_python(value))
        except PydanticSerializationError:
            continue  # a default that has no JSON form is left out: the function applies it itself
    for name, description in descriptions.items():
        if name in properties:  # the context parameter is not
            properties[name].setdefault("description", description)
    return schema


class _UntitledSchema(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: object) -> bool:
        return False
