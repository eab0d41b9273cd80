"""`/v1/responses`: create, read, cancel, compact and delete responses."""

from functools import partial
from typing import Annotated, Literal

from litestar import Response, delete, get, post, websocket
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromQuery, JSONBody, QueryParameter
from litestar.response import Stream
from msgspec import Struct

from toolyard.surfaces.http.authorization import PathId
from toolyard.surfaces.http.openapi import JsonOrStreamOperation
from toolyard.surfaces.http.request_context import HttpRequest, get_backend, get_request_context
from toolyard.surfaces.openai.errors import OPENAI_ERRORS
from toolyard.surfaces.openai.responses.compacted import CompactBody, CompactedResponse
from toolyard.surfaces.openai.responses.input_items import InputItemList, build_input_items
from toolyard.surfaces.openai.responses.parse import ResponseBody
from toolyard.surfaces.openai.responses.response import ResponseObject
from toolyard.surfaces.openai.responses.responses import Responses
from toolyard.surfaces.openai.responses.websocket import ResponseSocket, Socket

PATH = "/v1/responses"
RESPONSE_SPEC = ResponseSpec(
    data_container=ResponseObject, description="The response, or a stream of its events", generate_examples=False
)
StartingAfter = Annotated[int | None, QueryParameter(ge=0, le=2**53 - 1)]
PageLimit = Annotated[int, QueryParameter(ge=1, le=100)]
AfterItem = Annotated[str, QueryParameter(max_length=200)]


class InputTokens(Struct, kw_only=True):
    input_tokens: int
    object: Literal["response.input_tokens"] = "response.input_tokens"


class DeletedResponse(Struct, kw_only=True):
    id: str
    object: Literal["response"] = "response"
    deleted: bool = True


@post(
    PATH,
    status_code=200,
    responses={**OPENAI_ERRORS, 200: RESPONSE_SPEC},
    operation_class=JsonOrStreamOperation,
    tags=["openai"],
)
async def create(request: HttpRequest, data: JSONBody[ResponseBody]) -> Response[ResponseObject] | Stream:
    """Answer as OpenAI's Responses API does. The server's tools run inside and are shown as `mcp_call` items."""
    return await request.backend.share(Responses).create(request, data)


@websocket(PATH)
async def connect(socket: Socket) -> None:
    """Answer `response.create` messages with the events of their responses."""
    backend = get_backend(socket.scope)
    authenticate = partial(backend.access.authenticate, dict(socket.headers.items()))
    open_stream = backend.share(Responses).stream
    await ResponseSocket(socket, authenticate, open_stream, backend.service.clock, backend.socket_limits).serve()


@post(f"{PATH}/compact", status_code=200, responses=OPENAI_ERRORS, tags=["openai"])
async def compact(request: HttpRequest, data: JSONBody[CompactBody]) -> CompactedResponse:
    """Return an item with the model's summary of a history, which later requests send in its place."""
    return await request.backend.share(Responses).compact(request, data)


@post(f"{PATH}/input_tokens", status_code=200, responses=OPENAI_ERRORS, tags=["openai"])
async def count_input_tokens(request: HttpRequest, data: JSONBody[ResponseBody]) -> InputTokens:
    """Estimate the tokens of a request without answering it."""
    return InputTokens(input_tokens=await request.backend.share(Responses).count_input_tokens(request, data))


@get(
    f"{PATH}/{{response_id:str}}",
    responses={**OPENAI_ERRORS, 200: RESPONSE_SPEC},
    operation_class=JsonOrStreamOperation,
    tags=["openai"],
)
async def retrieve(
    request: HttpRequest, response_id: PathId, stream: FromQuery[bool] = False, starting_after: StartingAfter = None
) -> Response[ResponseObject] | Stream:
    """Return a response as of now, or its events after a number, then those that follow."""
    responses, caller = request.backend.share(Responses), get_request_context(request.scope).caller
    if stream:
        return await responses.resume(request, response_id, starting_after)
    return Response(await responses.load(response_id, caller, str(request.base_url)))


@delete(f"{PATH}/{{response_id:str}}", status_code=200, responses=OPENAI_ERRORS, tags=["openai"])
async def remove(request: HttpRequest, response_id: PathId) -> DeletedResponse:
    """Delete a response: its conversation if it holds nothing else, or else its messages."""
    await request.backend.share(Responses).delete(response_id, get_request_context(request.scope).caller)
    return DeletedResponse(id=response_id)


@post(f"{PATH}/{{response_id:str}}/cancel", status_code=200, responses=OPENAI_ERRORS, tags=["openai"])
async def cancel(request: HttpRequest, response_id: PathId) -> ResponseObject:
    """Stop the run of a response. An ended response is returned unchanged."""
    caller = get_request_context(request.scope).caller
    return await request.backend.share(Responses).cancel(response_id, caller, str(request.base_url))


@get(f"{PATH}/{{response_id:str}}/input_items", responses=OPENAI_ERRORS, tags=["openai"])
async def input_items(
    request: HttpRequest,
    response_id: PathId,
    order: FromQuery[Literal["asc", "desc"]] = "desc",
    limit: PageLimit = 20,
    after: AfterItem = "",
) -> InputItemList:
    """Return a page of the items that a response was asked with, the last one first unless `order` is `asc`."""
    stored = await request.backend.share(Responses).find_run(response_id, get_request_context(request.scope).caller)
    return build_input_items(stored.view, order=order, limit=limit, after=after)


ROUTES = (create, connect, compact, count_input_tokens, retrieve, remove, cancel, input_items)
