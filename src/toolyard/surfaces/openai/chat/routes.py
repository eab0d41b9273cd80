"""`POST /v1/chat/completions`."""

from collections.abc import AsyncGenerator

from litestar import Response, post
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody
from litestar.response import Stream

from toolyard.engine.service import Service
from toolyard.surfaces.history import read_history
from toolyard.surfaces.openai.chat.completion import Completion, build_completion
from toolyard.surfaces.openai.chat.encoder import CompletionEncoder, encode_failure
from toolyard.surfaces.openai.chat.parse import (
    CompletionBody,
    add_completion_message,
    list_option_fields,
    read_options,
    read_tools,
)
from toolyard.surfaces.openai.models import DEFAULT
from toolyard.surfaces.openai.openapi import OPENAI_ERRORS
from toolyard.surfaces.openai.options import read_tool_choice
from toolyard.surfaces.openai.runs import (
    AdmittedRun,
    RunStarter,
    WholeRequest,
    raise_failure,
    read_server_tools,
    stream_delayed,
    stream_run,
    wait_for_rest,
)
from toolyard.surfaces.openai.waiting_text import describe_waiting
from toolyard.surfaces.openapi import JsonOrStreamOperation
from toolyard.surfaces.request_context import HttpRequest, get_request_context
from toolyard.surfaces.sse import build_stream_response

COMPLETION_RESPONSE = ResponseSpec(
    data_container=Completion, description="The answer, or a stream of its chunks", generate_examples=False
)


def routes(service: Service, starter: RunStarter) -> list[HTTPRouteHandler]:
    @post(
        "/v1/chat/completions",
        status_code=200,
        responses={**OPENAI_ERRORS, 200: COMPLETION_RESPONSE},
        operation_class=JsonOrStreamOperation,
        tags=["openai"],
    )
    async def complete(request: HttpRequest, data: JSONBody[CompletionBody]) -> Response[Completion] | Stream:
        """Answer a chat as OpenAI does. The server's tools run inside; a call of a tool of yours is in the answer."""
        context = get_request_context(request.scope)
        items = await read_history(data.messages, service.clock, add_completion_message)
        whole = WholeRequest(
            items=items,
            tools=read_tools(data.tools),
            model=data.model,
            tool_choice=read_tool_choice(data.tool_choice, "tool_choice"),
            options=read_options(data),
            server_tools=read_server_tools(data.toolyard, service, context.caller),
            keep=bool(data.store),
            is_listed=bool(data.store),
            option_fields=list_option_fields(data),
        )
        model = service.default_model if data.model in ("", DEFAULT) else data.model
        created, base = int(service.clock.now()), str(request.base_url)
        if not data.stream:
            admitted = await starter.start(request, whole)
            view = await wait_for_rest(service, admitted, context.caller, starter.approval_hold_s)
            raise_failure(view)
            body = build_completion(view, model, created, describe_waiting(view, base))
            return Response(body, headers=admitted.headers)

        def stream(admitted: AdmittedRun) -> AsyncGenerator[bytes, None]:
            encoder = CompletionEncoder(
                admitted.view,
                admitted.reader.end,
                model=model,
                created=created,
                describe_waiting=lambda view: describe_waiting(view, base),
                show_tools=bool(data.toolyard and data.toolyard.show_tools),
                include_usage=bool(data.stream_options and data.stream_options.include_usage),
            )
            return stream_run(admitted, encoder, context.correlation_id, starter.approval_hold_s)

        streamed = await starter.start_streamed(request, whole)
        if isinstance(streamed, AdmittedRun):
            return build_stream_response(stream(streamed), streamed.headers)
        pieces = stream_delayed(streamed, stream, lambda error: encode_failure(error, context.correlation_id))
        return build_stream_response(pieces, streamed.headers)

    return [complete]
