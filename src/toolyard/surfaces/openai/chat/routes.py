"""`POST /v1/chat/completions`."""

from litestar import Response, post
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody
from litestar.response import Stream

from toolyard.engine.service import Service
from toolyard.surfaces.http.openapi import JsonOrStreamOperation
from toolyard.surfaces.http.request_context import HttpRequest
from toolyard.surfaces.openai.chat.completion import Completion
from toolyard.surfaces.openai.chat.completions import Completions
from toolyard.surfaces.openai.chat.parse import CompletionBody
from toolyard.surfaces.openai.errors import OPENAI_ERRORS
from toolyard.surfaces.shared.whole_history.run_starter import RunStarter

COMPLETION_RESPONSE = ResponseSpec(
    data_container=Completion, description="The answer, or a stream of its chunks", generate_examples=False
)


def routes(service: Service, starter: RunStarter) -> list[HTTPRouteHandler]:
    completions = Completions(service, starter)

    @post(
        "/v1/chat/completions",
        status_code=200,
        responses={**OPENAI_ERRORS, 200: COMPLETION_RESPONSE},
        operation_class=JsonOrStreamOperation,
        tags=["openai"],
    )
    async def complete(request: HttpRequest, data: JSONBody[CompletionBody]) -> Response[Completion] | Stream:
        """Answer a chat as OpenAI does. The server's tools run inside; a call of a tool of yours is in the answer."""
        return await completions.create(request, data)

    return [complete]
