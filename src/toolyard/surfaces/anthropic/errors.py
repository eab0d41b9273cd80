"""Errors in Anthropic's shape. Pure.

Clients of Anthropic repeat a request that was answered with 409, so that a conflict is 400 here.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal

from litestar.openapi.datastructures import ResponseSpec
from msgspec import UNSET, Struct, UnsetType

from toolyard.core.errors import ToolyardError
from toolyard.core.model_failures import BUDGET_EXCEEDED
from toolyard.surfaces.http.errors import build_error_response, describe_error
from toolyard.surfaces.http.model_failures import OVERLOADED, OVERLOADED_STATUS
from toolyard.surfaces.http.openapi import describe_errors
from toolyard.surfaces.surface import ErrorAnswer, ErrorBody

ErrorKind = Literal[
    "invalid_request_error",
    "authentication_error",
    "permission_error",
    "not_found_error",
    "request_too_large",
    "rate_limit_error",
    "api_error",
    "overloaded_error",
]
MAX_MESSAGE_CHARS = 1_000
"""A message may quote what the request holds, such as an id of any length."""
_STATUSES = {409: 400, 422: 400}
_KINDS: dict[int, ErrorKind] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    OVERLOADED_STATUS: "overloaded_error",
}
_RATE_PREFIX, _OWN_RATE_PREFIX = "x-ratelimit-", "anthropic-ratelimit-requests-"
RATE_HEADERS = tuple(_OWN_RATE_PREFIX + name for name in ("limit", "remaining", "reset"))


class AnthropicErrorFields(Struct, frozen=True, kw_only=True):
    type: ErrorKind
    message: str
    details: dict[str, object] | UnsetType = UNSET
    """What clients read to go on by themselves: an `error_code`, and what it is about."""


class AnthropicError(Struct, frozen=True, kw_only=True):
    """The body of every response that is not a success, and the last event of a stream that fails."""

    error: AnthropicErrorFields
    request_id: str
    type: Literal["error"] = "error"


def encode_error(status: int, body: ErrorBody, headers: dict[str, str]) -> ErrorAnswer:
    """Return an error response in Anthropic's shape."""
    if body.details.get("code") == OVERLOADED:
        status = OVERLOADED_STATUS
    elif body.error_type == BUDGET_EXCEEDED:
        status = 429
    elif status == 422 and body.details.get("field") == "model":
        status = 404
    status = _STATUSES.get(status, status)
    kind = _KINDS.get(status, "api_error" if status >= 500 else "invalid_request_error")
    text = describe_error(body)
    message = text if len(text) <= MAX_MESSAGE_CHARS else f"{text[: MAX_MESSAGE_CHARS - 1]}…"
    details = {name: value for name, value in body.details.items() if name in ("error_code", "unsupported")}
    if body.error_type == BUDGET_EXCEEDED:
        details["error_code"] = "insufficient_quota"
    fields = AnthropicErrorFields(type=kind, message=message, details=details or UNSET)
    error = AnthropicError(error=fields, request_id=body.correlation_id)
    return ErrorAnswer(status=status, body=error, headers=name_headers(body.correlation_id, headers))


def build_stream_error(error: ToolyardError, correlation_id: str) -> object:
    """Return the error that ends a stream: its status line was sent long ago."""
    return encode_error(*build_error_response(error, correlation_id)).body


def name_headers(correlation_id: str, headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a response under Anthropic's names. The time of a reset is a date there."""
    renamed = {
        f"{_OWN_RATE_PREFIX}{name.removeprefix(_RATE_PREFIX)}" if name.startswith(_RATE_PREFIX) else name: value
        for name, value in headers.items()
    }
    if seconds := headers.get(f"{_RATE_PREFIX}reset"):
        reset = datetime.now(UTC) + timedelta(seconds=int(seconds))
        renamed[f"{_OWN_RATE_PREFIX}reset"] = reset.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"request-id": correlation_id, **renamed}


ANTHROPIC_ERRORS = {
    status: ResponseSpec(data_container=AnthropicError, description=description, generate_examples=False)
    for status, description in {
        **describe_errors(left_out=(409, 422)),
        OVERLOADED_STATUS: "The provider is overloaded; see Retry-After",
    }.items()
}
