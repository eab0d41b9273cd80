"""Descriptions of errors and streams for the OpenAPI document."""

from collections.abc import Collection
from dataclasses import dataclass

from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import OpenAPIMediaType, OpenAPIResponse, Operation, Schema

from toolyard.surfaces.surface import ErrorBody

EVENT_STREAM = "text/event-stream"
_DESCRIPTIONS = {
    400: "The body is not JSON, the request has two Host headers, or the provider refuses the content or its length",
    401: "The key is missing or unknown",
    403: "The caller may not do this",
    404: "Not found, or not visible to this caller",
    405: "The path does not support this method",
    409: "The request does not fit the state of the conversation",
    413: "The body is too large",
    415: "The body is not application/json, or it is compressed",
    422: "A field is invalid; details.fields lists each",
    429: "Too many requests here or at the provider, see Retry-After; or no credit there",
    502: "The model failed; the error has the cause",
    503: "The server is stopping, or its store or the provider cannot be reached; see Retry-After",
}


def describe_errors(left_out: Collection[int] = ()) -> dict[int, str]:
    """Return what the statuses of errors mean."""
    return {status: text for status, text in _DESCRIPTIONS.items() if status not in left_out}


ERRORS = {
    status: ResponseSpec(data_container=ErrorBody, description=description, generate_examples=False)
    for status, description in describe_errors().items()
}
CHANGE_ERRORS = {
    **ERRORS,
    412: ResponseSpec(
        data_container=ErrorBody,
        description="Changed since the version of If-Match; details.current is the newer value",
        generate_examples=False,
    ),
}
"""The errors of routes that take `If-Match`."""


@dataclass
class ExportOperation(Operation):
    """An operation whose response is a file: Markdown, or JSON."""

    def __post_init__(self) -> None:
        response = (self.responses or {}).get("200")
        if isinstance(response, OpenAPIResponse):
            response.content = {
                kind: OpenAPIMediaType(schema=Schema()) for kind in ("text/markdown", "application/json")
            }


@dataclass
class JsonOrCsvOperation(Operation):
    """An operation whose response is JSON, or CSV if the request asks for it."""

    def __post_init__(self) -> None:
        response = (self.responses or {}).get("200")
        if isinstance(response, OpenAPIResponse):
            response.content = {**(response.content or {}), "text/csv": OpenAPIMediaType(schema=Schema())}


@dataclass
class JsonOrStreamOperation(Operation):
    """An operation whose response is JSON, or an event stream if the request accepts one."""

    def __post_init__(self) -> None:
        response = (self.responses or {}).get("200")
        if isinstance(response, OpenAPIResponse):
            response.content = {**(response.content or {}), EVENT_STREAM: OpenAPIMediaType(schema=Schema())}
