"""Errors as HTTP responses, without stack traces or secrets.

There is one body for all of them, unless the surface that answers has a shape of its own.
"""

import logging
from collections.abc import Mapping, MutableMapping
from math import ceil
from typing import cast

import msgspec
from litestar import Request, Response
from litestar.datastructures import State
from litestar.exceptions import HTTPException, ValidationException
from litestar.exceptions.http_exceptions import RequestEntityTooLarge

from toolyard.core.conversation.run_view import RunView
from toolyard.core.errors import (
    Fenced,
    Forbidden,
    Invalid,
    NotFound,
    Outdated,
    RateLimited,
    Refused,
    RequestRepeated,
    RunFailed,
    StoreDown,
    ToolyardError,
    Unauthenticated,
    Unavailable,
)
from toolyard.core.items import Problem
from toolyard.core.json_types import is_list, is_object
from toolyard.core.model_failures import BUDGET_EXCEEDED
from toolyard.surfaces.http.model_failures import describe_failure
from toolyard.surfaces.http.request_context import Scope, Send, get_request_context, get_request_head
from toolyard.surfaces.surface import EncodeError, ErrorAnswer, ErrorBody

_log = logging.getLogger("toolyard.http")

WRONG_FIELDS = "some fields are wrong"
RETRY_AFTER_S = 2
"""How long a client should wait while the store cannot be used or the process stops: another replica may answer."""
ERROR_KEY = "toolyard.error"
"""The key in the ASGI scope under which the error body of a response is kept for the request log."""
ENCODER_KEY = "toolyard.encode_error"
"""The key in the ASGI scope of the `EncodeError` of the surface that answers; absent if it has none."""


class ModelFailed(RunFailed):
    """The run that a caller waited for ended as failed. `describe_failure` says how that is answered."""

    def __init__(self, problem: Problem, run_id: str) -> None:
        super().__init__(problem.error)
        self.answer = describe_failure(problem)
        self.details: dict[str, object] = {"run_id": run_id, "cause": problem.error_type, **self.answer.details}


class FieldNotFound(NotFound):
    """A field of the request names what does not exist for this caller; `details` has the field (HTTP 404)."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.details: dict[str, object] = {"field": field}


class InvalidHead(ToolyardError):
    """The head of a request is ambiguous (HTTP 400)."""


class CompressedBody(ToolyardError):
    """The body of a request is compressed: its size would not be known before it is read (HTTP 415)."""


MAX_BODY_BYTES = 8 * 1024 * 1024
_STATUS_AND_TYPE: dict[type[ToolyardError], tuple[int, str]] = {
    InvalidHead: (400, "invalid_request"),
    CompressedBody: (415, "invalid_request"),
    Unauthenticated: (401, "unauthenticated"),
    Forbidden: (403, "permission_denied"),
    NotFound: (404, "not_found"),
    FieldNotFound: (404, "not_found"),
    Refused: (409, "conflict"),
    RequestRepeated: (409, "conflict"),
    Outdated: (412, "outdated"),
    Invalid: (422, "validation_error"),
    RateLimited: (429, "rate_limited"),
    Fenced: (503, "unavailable"),
    Unavailable: (503, "unavailable"),
    StoreDown: (503, "unavailable"),
}
_TYPE_BY_STATUS = {
    400: "invalid_json",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
    415: "invalid_json",
}


def build_error_response(error: Exception, correlation_id: str) -> tuple[int, ErrorBody, dict[str, str]]:
    """Return the status, the body and the headers for an error."""
    headers: dict[str, str] = {}
    details: dict[str, object] = {}
    message = str(error)
    match error:
        case ValidationException():
            status, kind, message = 422, "validation_error", WRONG_FIELDS
            details["fields"] = error.extra
        case RequestEntityTooLarge():
            status, kind, message = 413, "too_large", f"the body may have {MAX_BODY_BYTES:,} bytes at most"
        case HTTPException():
            status, message = error.status_code, error.detail
            kind = _TYPE_BY_STATUS.get(status, "invalid_request" if status < 500 else "unavailable")
        case ModelFailed(answer=answer):
            status, kind, details, headers = answer.status, answer.error_type, error.details, answer.headers
        case ToolyardError() if type(error) in _STATUS_AND_TYPE:
            status, kind = _STATUS_AND_TYPE[type(error)]
            details = error.details if isinstance(error, Invalid | FieldNotFound) else {}
            headers = _build_error_headers(error)
            if isinstance(error, StoreDown):  # its text names the store's address, its reason does not
                message = f"the store cannot be used now: {error.reason}"
        case UnicodeDecodeError():
            status, kind, message = 400, "invalid_json", "the body is not UTF-8"
        case RecursionError():
            status, kind, message = 400, "invalid_json", "the body is nested too deeply"
        case _:
            _log.error("a request failed", exc_info=error, extra={"correlation_id": correlation_id})
            status, kind = 500, "internal_error"
            message = "internal error; the server's log has the details under this correlation id"
    body = ErrorBody(error=message, error_type=kind, correlation_id=correlation_id, details=details)
    return status, body, headers


def _build_error_headers(error: ToolyardError) -> dict[str, str]:
    """Return when a request may be sent again, for errors that pass by themselves, or how a body has to be sent."""
    if isinstance(error, CompressedBody):
        return {"accept-encoding": "identity"}
    if not isinstance(error, RateLimited):
        return {"retry-after": str(RETRY_AFTER_S)} if isinstance(error, Unavailable | StoreDown | Fenced) else {}
    # Clients take the time of the reset for that of the next request, which is possible long before all of them are.
    after = {"retry-after": str(max(1, ceil(error.retry_after_s)))}
    return after | build_rate_headers(error.per_minute, 0, error.retry_after_s)


def build_rate_headers(per_minute: int, remaining: int, reset_after_s: float) -> dict[str, str]:
    """Return the headers for a caller's remaining allowance and the seconds until it is full again."""
    return {
        "x-ratelimit-limit": str(per_minute),
        "x-ratelimit-remaining": str(remaining),
        "x-ratelimit-reset": str(ceil(reset_after_s)),
    }


def raise_model_failure(view: RunView) -> None:
    """Raise ModelFailed if the run has failed."""
    if (problem := view.problem) is not None:
        raise ModelFailed(problem, view.run_id)


def raise_refusal(view: RunView) -> None:
    """Raise ModelFailed if the run has failed, or if a budget had no room for its next request to the model.

    For answers that are not streams: the end of a stream is a sentence about the budget.
    """
    raise_model_failure(view)
    if view.end is not None and view.end.detail == BUDGET_EXCEEDED and (problem := view.turns[-1].problem):
        raise ModelFailed(problem, view.run_id)


def invalid_field(key: str, message: str) -> Invalid:
    """Return the error for a field whose value has the right type but is not acceptable."""
    return Invalid(f"{key}: {message}", {"fields": [{"key": key, "message": message}]})


def describe_error(body: ErrorBody) -> str:
    """Return the message, with what is wrong in a body of the wrong type: for shapes that have no field for that."""
    fields = body.details.get("fields")
    if body.error != WRONG_FIELDS or not is_list(fields):
        return body.error
    entries = [entry for entry in fields if is_object(entry)]
    return "; ".join(f"{entry.get('key')}: {entry.get('message')}" for entry in entries) or body.error


def answer_error(scope: MutableMapping[str, object], error: Exception, correlation_id: str) -> ErrorAnswer:
    """Return an error in the shape of the surface that answers, and keep the usual body for the request log."""
    status, body, headers = build_error_response(error, correlation_id)
    scope[ERROR_KEY] = body
    encode = cast(EncodeError | None, scope.get(ENCODER_KEY))
    return ErrorAnswer(status=status, body=body, headers=headers) if encode is None else encode(status, body, headers)


def handle_error(request: Request[object, object, State], error: Exception) -> Response[object]:
    """Answer an exception of a route; Litestar calls this for every exception."""
    scope = cast(MutableMapping[str, object], request.scope)
    answer = answer_error(scope, error, get_request_context(request.scope).correlation_id)
    return Response(answer.body, status_code=answer.status, headers=answer.headers)


async def send_error(scope: Scope, send: Send, error: Exception) -> None:
    """Answer a request, or the handshake of a WebSocket, with an error before it reaches a route."""
    head = get_request_head(scope)
    answer = answer_error(scope, error, head.correlation_id)
    body = msgspec.json.encode(answer.body)
    if scope["type"] != "websocket":
        await send_response(send, answer.status, body, answer.headers)
        return
    head.status = answer.status
    if "websocket.http.response" not in cast("dict[str, object]", scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": 1008})
        return
    await send_response(send, answer.status, body, answer.headers, "websocket.http.response")


async def send_response(
    send: Send, status: int, body: bytes, headers: Mapping[str, str], kind: str = "http.response"
) -> None:
    """Send a whole JSON response."""
    content = {"content-type": "application/json", "content-length": str(len(body)), **headers}
    pairs = [(name.encode(), value.encode()) for name, value in content.items()]
    await send({"type": f"{kind}.start", "status": status, "headers": pairs})
    await send({"type": f"{kind}.body", "body": body})
