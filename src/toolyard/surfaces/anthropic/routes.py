"""The surface of `/v1/messages`."""

from typing import NoReturn

from litestar import Response, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody
from litestar.response import Stream

from toolyard.core.errors import NotFound
from toolyard.surfaces.anthropic.errors import ANTHROPIC_ERRORS, RATE_HEADERS, encode_error, name_headers
from toolyard.surfaces.anthropic.message import Message
from toolyard.surfaces.anthropic.messages import (
    BETA_HEADER,
    SERVER_TOOLS_HEADER,
    TokenCount,
    count_tokens,
    create_message,
)
from toolyard.surfaces.anthropic.parse import CountBody, MessageBody
from toolyard.surfaces.http.openapi import JsonOrStreamOperation
from toolyard.surfaces.http.request_context import HttpRequest
from toolyard.surfaces.shared.whole_history.model_list import VERSION_HEADER
from toolyard.surfaces.shared.whole_history.run_starter import RunStarter
from toolyard.surfaces.surface import Backend, Surface

PATH = "/v1/messages"
MESSAGE_RESPONSE = ResponseSpec(
    data_container=Message, description="The answer, or a stream of its events", generate_examples=False
)
NO_BATCHES = "there are no batches here: send each request to /v1/messages by itself"


def build_starter(backend: Backend) -> RunStarter:
    return RunStarter(backend, name_headers, (BETA_HEADER, SERVER_TOOLS_HEADER))


@post(
    PATH,
    status_code=200,
    responses={**ANTHROPIC_ERRORS, 200: MESSAGE_RESPONSE},
    operation_class=JsonOrStreamOperation,
    tags=["anthropic"],
)
async def create(request: HttpRequest, data: JSONBody[MessageBody]) -> Response[Message] | Stream:
    """Answer a chat as Anthropic does. The server's tools run inside; calls of your own are in the answer."""
    return await create_message(request.backend.service, request.backend.share(build_starter), request, data)


@post(f"{PATH}/count_tokens", status_code=200, responses=ANTHROPIC_ERRORS, tags=["anthropic"])
async def count(request: HttpRequest, data: JSONBody[CountBody]) -> Response[TokenCount]:
    """Estimate the tokens of a request. Nothing is started."""
    return await count_tokens(request.backend.service, request, data)


@post(f"{PATH}/batches", include_in_schema=False)
async def create_batch() -> NoReturn:
    raise NotFound(NO_BATCHES)


@get(f"{PATH}/batches", include_in_schema=False)
async def list_batches() -> NoReturn:
    raise NotFound(NO_BATCHES)


SURFACE = Surface(
    routes=(create, count, create_batch, list_batches),
    error_paths=frozenset({PATH, f"{PATH}/*"}),
    encode_error=encode_error,
    error_header=VERSION_HEADER,
    shared_paths=frozenset({"/v1/*"}),
    response_headers=("request-id", *RATE_HEADERS),
)
