"""Parse the result or the error that an application sends for a call that it ran."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from toolyard.core.items import Problem
from toolyard.core.ports import Failure, Value
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
