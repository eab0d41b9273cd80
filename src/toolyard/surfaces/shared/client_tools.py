"""The tools that a client declares in its request and runs itself, and the results that it sends."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from toolyard.core.items import Problem
from toolyard.core.json_types import is_object
from toolyard.core.ports import Failure, Value
from toolyard.core.tools.definition import EMPTY_OBJECT, Tool
from toolyard.surfaces.http.errors import invalid_field

LongText = Annotated[str, Meta(max_length=10_000)]


class ClientToolError(Struct, forbid_unknown_fields=True, kw_only=True):
    error: LongText
    error_type: Annotated[str, Meta(min_length=1, max_length=100)] = "execution_error"
    details: dict[str, object] = {}


def parse_client_result(result: object, error: str | ClientToolError | UnsetType, key: str) -> Value | Failure:
    """Return the result or the error. Raise Invalid, with `key` as the field, if both or neither are present."""
    if (result is UNSET) == (error is UNSET):
        raise invalid_field(key, "give either a result or an error")
    match error:
        case UnsetType():
            return Value(value=result)
        case str():
            return Failure(problem=Problem(error=error, error_type="execution_error"))
        case ClientToolError(error=message, error_type=error_type, details=details):
            return Failure(problem=Problem(error=message, error_type=error_type, details=details))


def build_client_tool(
    name: object, description: object, parameters: object, key: str, *, hides_server_tool: bool = True
) -> Tool:
    """Return a tool of the client. Raise Invalid, with `key` as the field, if it has no name or no schema."""
    if not isinstance(name, str) or not name:
        raise invalid_field(key, "has no name")
    schema, text = parameters or dict(EMPTY_OBJECT), description or ""
    if not is_object(schema) or not isinstance(text, str):
        raise invalid_field(key, "needs a description, and its parameters: they must be a JSON Schema")
    return Tool(
        name=name,
        description=text,
        parameters=schema,
        venue="client",
        hides_server_tool=hides_server_tool,
    )
