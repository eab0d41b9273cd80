"""What the routes answer besides their own bodies, as the OpenAPI page tells it."""

from dataclasses import dataclass

from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import OpenAPIMediaType, OpenAPIResponse, Operation, Schema

from toolyard.surfaces.errors import ErrorBody

EVENT_STREAM = "text/event-stream"
_DESCRIPTIONS = {
    400: "The body is not JSON",
    401: "No key, or one that is not known",
    403: "The caller may not do this",
    404: "There is no such thing, as far as this caller may know",
    405: "The path is known, the method is not",
    409: "It does not fit the state of the conversation",
    413: "The body is too large",
    415: "The body is not application/json",
    422: "A field is wrong; details.fields lists each",
    429: "Too many requests; see Retry-After",
    502: "The model failed; the error says how",
    503: "The server is about to stop, or its store cannot be reached",
}

ERRORS = {
    status: ResponseSpec(data_container=ErrorBody, description=said, generate_examples=False)
    for status, said in _DESCRIPTIONS.items()
}


@dataclass
class JsonOrStreamOperation(Operation):
    """A route that answers with JSON, or with a stream where that was asked for."""

    def __post_init__(self) -> None:
        answered = (self.responses or {}).get("200")
        if isinstance(answered, OpenAPIResponse):
            answered.content = {**(answered.content or {}), EVENT_STREAM: OpenAPIMediaType(schema=Schema())}
