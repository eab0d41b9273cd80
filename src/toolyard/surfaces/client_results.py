"""What an application hands in for a call that it ran: a result or an error. It does not know any route."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from toolyard.core.items import Problem
from toolyard.core.ports import Failure, Value
from toolyard.surfaces.errors import invalid_field

LongText = Annotated[str, Meta(max_length=10_000)]


class ClientToolError(Struct, forbid_unknown_fields=True, kw_only=True):
    error: LongText
    error_type: Annotated[str, Meta(min_length=1, max_length=100)] = "execution_error"
    details: dict[str, object] = {}


def parse_client_result(result: object, error: str | ClientToolError | UnsetType, key: str) -> Value | Failure:
    """Either the result or the error; `key` is where in the body they stand. Raises Invalid for both or neither."""
    if (result is UNSET) == (error is UNSET):
        raise invalid_field(key, "give either a result or an error")
    match error:
        case UnsetType():
            return Value(value=result)
        case str():
            return Failure(problem=Problem(error=error, error_type="execution_error"))
        case ClientToolError(error=said, error_type=error_type, details=details):
            return Failure(problem=Problem(error=said, error_type=error_type, details=details))
