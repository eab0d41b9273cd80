"""`POST /v1/chat/completions`."""

from litestar import Response, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody
from litestar.response import Stream

from toolyard.surfaces.http.openapi import JsonOrStreamOperation
from toolyard.surfaces.http.request_context import HttpRequest
from toolyard.surfaces.openai.chat.completion import Completion
from toolyard.surfaces.openai.chat.completions import Completions
from toolyard.surfaces.openai.chat.parse import CompletionBody
from toolyard.surfaces.openai.errors import OPENAI_ERRORS

COMPLETION_RESPONSE = ResponseSpec(
    data_container=Completion, description="The answer, or a stream of its chunks", generate_examples=False
)


@post(
    "/v1/chat/completions",
    status_code=200,
    responses={**OPENAI_ERRORS, 200: COMPLETION_RESPONSE},
    operation_class=JsonOrStreamOperation,
    tags=["openai"],
)
async def complete(request: HttpRequest, data: JSONBody[CompletionBody]) -> Response[Completion] | Stream:
    """Answer a chat as OpenAI does. The server's tools run inside; a call of a tool of yours is in the answer."""
    return await request.backend.share(Completions).create(request, data)


ROUTES = (complete,)
