"""Errors in OpenAI's shape. Pure.

Clients of OpenAI repeat a request that was answered with 409, so that a conflict is 400 here.
"""

from collections.abc import Mapping
from typing import Literal, cast

from litestar.openapi.datastructures import ResponseSpec
from msgspec import Struct

from toolyard.core.errors import ToolyardError
from toolyard.core.json_types import is_list, is_object
from toolyard.core.model_failures import BUDGET_EXCEEDED
from toolyard.surfaces.http.errors import build_error_response, describe_error
from toolyard.surfaces.http.openapi import describe_errors
from toolyard.surfaces.surface import ErrorAnswer, ErrorBody

ErrorKind = Literal["invalid_request_error", "rate_limit_error", "insufficient_quota", "server_error"]
MAX_MESSAGE_CHARS = 1_000
"""A message may quote what the request holds, such as an id of any length: it is cut here, once for all of `/v1`."""
MAX_PARAM_CHARS = 200
_STATUSES = {409: 400, 422: 400}
_CODES = {401: "invalid_api_key", 403: "permission_denied", 429: "rate_limit_exceeded"}
_RATE_HEADERS = {
    "x-ratelimit-limit": "x-ratelimit-limit-requests",
    "x-ratelimit-remaining": "x-ratelimit-remaining-requests",
    "x-ratelimit-reset": "x-ratelimit-reset-requests",
}


class OpenAIErrorFields(Struct, frozen=True, kw_only=True):
    """What went wrong: `param` is the field of the request, `code` a word for programs."""

    message: str
    type: ErrorKind
    param: str | None = None
    code: str | None = None


class OpenAIError(Struct, frozen=True, kw_only=True):
    """The body of every response of `/v1` that is not a success."""

    error: OpenAIErrorFields


def encode_error(status: int, body: ErrorBody, headers: dict[str, str]) -> ErrorAnswer:
    """Return an error response in OpenAI's shape."""
    param = _find_field(body.details)
    if status == 422 and param == "model":
        status, code = 404, "model_not_found"
    elif body.error_type == BUDGET_EXCEEDED:
        status, code = 429, "insufficient_quota"
    else:
        status = _STATUSES.get(status, status)
        own_code = body.details.get("code")
        code = own_code if isinstance(own_code, str) else _CODES.get(status, body.error_type)
    kind: ErrorKind = "invalid_request_error"
    if status == 429:
        kind = "insufficient_quota" if code == "insufficient_quota" else "rate_limit_error"
    elif status >= 500:
        kind = "server_error"
    message = _cut(describe_error(body), MAX_MESSAGE_CHARS)
    fields = OpenAIErrorFields(
        message=message, type=kind, param=_cut(param, MAX_PARAM_CHARS) if param else param, code=code
    )
    more = name_headers(body.correlation_id, headers)
    return ErrorAnswer(status=status, body=OpenAIError(error=fields), headers=more)


def build_stream_error(error: ToolyardError, correlation_id: str) -> OpenAIError:
    """Return the error that ends a stream: its status line was sent long ago."""
    answer = encode_error(*build_error_response(error, correlation_id))
    return cast(OpenAIError, answer.body)


def name_headers(correlation_id: str, rate_headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a response: the id of the request, and those of the rate limit."""
    return {"x-request-id": correlation_id, **rename_rate_headers(rate_headers)}


def rename_rate_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with those of the rate limit under OpenAI's names, and durations as OpenAI writes them."""
    renamed = {_RATE_HEADERS.get(name, name): value for name, value in headers.items()}
    reset = _RATE_HEADERS["x-ratelimit-reset"]
    return {**renamed, reset: f"{renamed[reset]}s"} if reset in renamed else renamed


def _find_field(details: dict[str, object]) -> str | None:
    """Return the first field that an error is about."""
    if isinstance(field := details.get("field"), str):
        return field
    fields = details.get("fields")
    first = fields[0] if is_list(fields) and fields else None
    key = first.get("key") if is_object(first) else None
    return key if isinstance(key, str) and key != "data" else None


def _cut(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"


OPENAI_ERRORS = {
    status: ResponseSpec(data_container=OpenAIError, description=description, generate_examples=False)
    for status, description in describe_errors(left_out=(409, 422)).items()
}
