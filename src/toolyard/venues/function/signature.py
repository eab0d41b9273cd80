"""The JSON Schema of a typed function, and its arguments parsed from JSON. The only module here that uses pydantic."""

import inspect
from collections.abc import Callable
from functools import partial
from types import NoneType, UnionType
from typing import Annotated, Any, NotRequired, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from pydantic import BaseModel, ConfigDict, PydanticUserError, RootModel, TypeAdapter, ValidationError, with_config
from pydantic.errors import PydanticSchemaGenerationError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ErrorDetails, PydanticSerializationError, to_jsonable_python
from typing_extensions import TypedDict

from toolyard.core.errors import Misconfigured
from toolyard.core.items import Problem
from toolyard.core.ports import Context
from toolyard.venues.function.docstring import parse_docstring

MAX_ERRORS = 10
WHOLE = "(the whole)"
ParseJson = Callable[[bytes], object]
_PLAIN_TYPES = frozenset({str, int, bool})
"""Types whose values a strict parser returns as they are."""


class Signature:
    """The parameters of a function: their JSON Schema, a parser, and the name of the context parameter if any.

    If the only other parameter is a pydantic model or a msgspec struct, the arguments are the fields of that model.
    `description` is the function's docstring without what it says about parameters, which is in the schema.
    """

    def __init__(self, function: Callable[..., object], name: str) -> None:
        self.context_parameter = ""
        self.is_coroutine_function = inspect.iscoroutinefunction(function)
        self._function = function
        parameters = _list_parameters(function, name)
        docstring = parse_docstring(inspect.getdoc(function) or "", [parameter.name for parameter, _ in parameters])
        own_parameters: list[tuple[inspect.Parameter, object]] = []
        for parameter, hint in parameters:
            if _is_context(hint):
                self.context_parameter = parameter.name
            else:
                own_parameters.append((parameter, hint))
        self._model_parameter = _find_model_parameter(own_parameters)
        self._plain_types = _find_plain_types(own_parameters)
        self._required = {parameter.name for parameter, _ in own_parameters if parameter.default is parameter.empty}
        if self._model_parameter:
            self._validate_json, self.schema = _build_model_parser(own_parameters[0][1], name)
        else:
            self._validate_json, self.schema = _build_parser(own_parameters, docstring.parameters, name)
        self.description = docstring.description or str(self.schema.get("description", ""))

    def parse_arguments(self, arguments: dict[str, object]) -> dict[str, object]:
        """Return the arguments as the function's own types. Raise a ValidationError, of pydantic or of msgspec."""
        if self._plain_types and self._are_plain(arguments):
            # Nothing to convert. The parser took 20 of the 490 µs of a turn, most of them because its code and data are
            # in no cache of the processor by then.
            return dict(arguments)
        # Encoded again, because a strict parser accepts more from JSON than from Python objects: a date or an enum, for
        # example, can only be a text there.
        parsed = self._validate_json(msgspec.json.encode(arguments))
        return {self._model_parameter: parsed} if self._model_parameter else cast("dict[str, object]", parsed)

    def _are_plain(self, arguments: dict[str, object]) -> bool:
        """Return whether no argument is missing, unknown or of another type than the parameter's own one."""
        for name, value in arguments.items():
            if type(value) is not self._plain_types.get(name):
                return False
        return self._required <= arguments.keys()

    def list_result_fields(self) -> list[str]:
        """Return the fields of the function's result, if its type declares them: a model, struct, dataclass or dict."""
        kind: object = _strip_annotated(get_type_hints(self._function).get("return"))
        if not isinstance(kind, type):
            return []
        return list(kind.model_fields if issubclass(kind, BaseModel) else get_type_hints(cast("type[object]", kind)))

    def validate(self, arguments: dict[str, object]) -> Problem | None:
        """Return a problem that names each wrong field and what was expected there, or None."""
        try:
            self.parse_arguments(arguments)
        except ValidationError as error:
            faults = [
                _describe_fault(fault) for fault in error.errors(include_url=False, include_input=False)[:MAX_ERRORS]
            ]
            return _build_problem(faults)
        except msgspec.ValidationError as error:  # names the first wrong field only
            text, _, path = str(error).partition(" - at `$")
            return _build_problem([{"field": path.strip("`.") or WHOLE, "problem": text, "expected": ""}])
        return None


def _describe_fault(fault: ErrorDetails) -> dict[str, str]:
    path = ".".join(str(part) for part in fault["loc"])
    return {"field": path or WHOLE, "problem": fault["msg"], "expected": fault["type"]}


def _build_problem(faults: list[dict[str, str]]) -> Problem:
    summary = "; ".join(f"{fault['field']}: {fault['problem']}" for fault in faults)
    return Problem(error=f"wrong arguments: {summary}", error_type="validation_error", details={"fields": faults})


def _build_parser(
    parameters: list[tuple[inspect.Parameter, object]], descriptions: dict[str, str], tool: str
) -> tuple[ParseJson, dict[str, object]]:
    """Return a parser of an object with one field for each parameter, and the object's schema."""
    fields: dict[str, Any] = {}
    defaults: dict[str, object] = {}
    for parameter, hint in parameters:
        if parameter.default is inspect.Parameter.empty:
            fields[parameter.name] = hint
        else:
            fields[parameter.name] = NotRequired[hint]
            defaults[parameter.name] = parameter.default
    arguments: Any = with_config(ConfigDict(extra="forbid"))(TypedDict("Arguments", fields))  # pyright: ignore[reportArgumentType, reportGeneralTypeIssues]
    parse, schema = _build_pydantic_parser(arguments, tool)
    return parse, _clean_schema(schema, defaults, descriptions)


def _build_model_parser(hint: Any, tool: str) -> tuple[ParseJson, dict[str, object]]:
    """Return a parser of the fields of a model, and their schema."""
    if issubclass(_strip_annotated(hint), msgspec.Struct):
        try:
            schema = msgspec.json.schema(hint, schema_hook=_describe_any)
        except TypeError as error:
            raise Misconfigured(f"tool {tool!r}: a field's type has no JSON form: {error}") from None
        return msgspec.json.Decoder(hint).decode, _clean_schema(schema, {}, {})
    parse, schema = _build_pydantic_parser(hint, tool)
    return parse, _clean_schema(schema, {}, {})


def _describe_any(kind: type) -> dict[str, object]:
    """Return the schema of `object`, which stands for any value: msgspec has none for it, and takes no empty one."""
    if kind is object:
        return {"description": "Any JSON value"}
    raise NotImplementedError


def _build_pydantic_parser(hint: Any, tool: str) -> tuple[ParseJson, dict[str, Any]]:
    try:
        adapter: TypeAdapter[object] = TypeAdapter(hint)
        schema = adapter.json_schema(schema_generator=_UntitledSchema)
    except (PydanticUserError, PydanticSchemaGenerationError) as error:
        why = str(error).partition("\n")[0]
        raise Misconfigured(f"tool {tool!r}: a parameter's type has no JSON form: {why}") from None
    return partial(adapter.validator.validate_json, strict=True), schema


def _find_model_parameter(parameters: list[tuple[inspect.Parameter, object]]) -> str:
    """Return the name of the only parameter if it is a model with fields and has no default, else an empty text."""
    if len(parameters) != 1:
        return ""
    ((parameter, hint),) = parameters
    kind = _strip_annotated(hint)
    is_model = isinstance(kind, type) and (
        (issubclass(kind, BaseModel) and not issubclass(kind, RootModel))
        or (issubclass(kind, msgspec.Struct) and not kind.__struct_config__.array_like)
    )
    return parameter.name if is_model and parameter.default is inspect.Parameter.empty else ""


def _find_plain_types(parameters: list[tuple[inspect.Parameter, object]]) -> dict[str, type]:
    """Return the type of each parameter; empty if one of them is not plain."""
    plain = {parameter.name: hint for parameter, hint in parameters if isinstance(hint, type) and hint in _PLAIN_TYPES}
    return plain if len(plain) == len(parameters) else {}


def _strip_annotated(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


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
    schema = _inline_reference(schema)
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


def _inline_reference(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema that a schema's own `$ref` names, in its place: a tool's schema has to be an object itself."""
    reference = schema.pop("$ref", None)
    if reference is None:
        return schema
    definitions: dict[str, dict[str, Any]] = schema.pop("$defs")
    name = reference.rpartition("/")[2]
    named = dict(definitions[name])
    if reference.encode() not in msgspec.json.encode(definitions):  # it does not contain itself
        del definitions[name]
    return {**schema, **named, **({"$defs": definitions} if definitions else {})}


class _UntitledSchema(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: object) -> bool:
        return False
