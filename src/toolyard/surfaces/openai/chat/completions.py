"""Answers chat completions: starts the run of a request, and encodes it."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TypeVar

from litestar import Response
from litestar.response import Stream

from toolyard.core.items import Item
from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.http.event_stream import detach_on_disconnect
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context
from toolyard.surfaces.http.sse import build_stream_response
from toolyard.surfaces.openai.chat.completion import Completion, build_completion
from toolyard.surfaces.openai.chat.encoder import CompletionEncoder, encode_failure
from toolyard.surfaces.openai.chat.parse import (
    CompletionBody,
    CompletionMessage,
    add_completion_message,
    find_new_messages,
    list_option_fields,
    list_results,
    read_conversation,
    read_options,
    read_tools,
)
from toolyard.surfaces.openai.continuation import ContinuedRequest, build_starter, find_in_conversation, start_continued
from toolyard.surfaces.openai.options import read_search_mode, read_tool_choice
from toolyard.surfaces.shared.history import ItemBuilder, read_history
from toolyard.surfaces.shared.runs.notices import build_notices
from toolyard.surfaces.shared.whole_history.run_starter import (
    AdmittedRun,
    ParsedRequest,
    raise_failure,
    require_beginning,
    stream_delayed,
    stream_run,
    wait_for_rest,
)
from toolyard.surfaces.shared.whole_history.sent_fields import DEFAULT, build_ignored_header, read_server_tools
from toolyard.surfaces.surface import Backend

A = TypeVar("A")


class Completions:
    """Answers requests for chat completions."""

    def __init__(self, backend: Backend) -> None:
        self._service = backend.service
        self._starter = backend.share(build_starter)

    async def create(self, request: HttpRequest, data: CompletionBody) -> Response[Completion] | Stream:
        service, starter, context = self._service, self._starter, get_request_context(request.scope)
        model = service.models.default if data.model in ("", DEFAULT) else data.model
        created, notices = int(service.clock.now()), build_notices(service, request)
        if not data.stream:
            admitted = await self._start(request, data, starter.start)
            with detach_on_disconnect(request.receive, admitted.reader):
                view = await wait_for_rest(service, admitted, context.caller, starter.approval_hold_s)
            raise_failure(view, list_option_fields(data))
            body = build_completion(view, model, created, notices.describe_waiting(view))
            return Response(body, headers={**admitted.headers, **self._name_ignored(data)})

        def stream(admitted: AdmittedRun) -> AsyncGenerator[bytes, None]:
            encoder = CompletionEncoder(
                admitted.view,
                admitted.reader.end,
                model=model,
                created=created,
                describe_waiting=notices.describe_waiting,
                show_tools=bool(data.toolyard and data.toolyard.show_tools),
                include_usage=bool(data.stream_options and data.stream_options.include_usage),
            )
            return stream_run(admitted, encoder, context.correlation_id, starter.approval_hold_s)

        streamed = await self._start(request, data, starter.start_streamed)
        if isinstance(streamed, AdmittedRun):
            await require_beginning(streamed, list_option_fields(data))
            return build_stream_response(stream(streamed), {**streamed.headers, **self._name_ignored(data)})
        pieces = stream_delayed(streamed, stream, lambda error: encode_failure(error, context.correlation_id))
        return build_stream_response(pieces, {**streamed.headers, **self._name_ignored(data)})

    def _name_ignored(self, data: CompletionBody) -> dict[str, str]:
        return build_ignored_header(self._service, data.model, read_options(data), list_option_fields(data))

    async def _start(
        self,
        request: HttpRequest,
        data: CompletionBody,
        start: Callable[[HttpRequest, ParsedRequest], Awaitable[A]],
    ) -> AdmittedRun | A:
        """Start a run, or join that of an earlier sending. `start` starts one of a request with its whole history."""
        service, caller = self._service, get_request_context(request.scope).caller
        conversation = read_conversation(data)
        if not conversation:
            items = await read_history(data.messages, service.clock, add_completion_message)
            return await start(request, self._build_request(request, data, items))
        first = find_new_messages(data.messages)

        async def read_new(delivered: frozenset[str]) -> ParsedRequest:
            items = await read_history(data.messages[first:], service.clock, _add_new_message, first)
            if not items and not delivered:
                raise invalid_field("messages", "has nothing new after the last answer: send a message")
            return self._build_request(request, data, items)

        continued = ContinuedRequest(
            conversation=conversation,
            outputs=list_results(data.messages, first),
            output_field="messages",
            output_name="tool messages",
            find=lambda: find_in_conversation(service, conversation, caller),
            read=read_new,
        )
        return await start_continued(service, self._starter, request, continued)

    def _build_request(self, request: HttpRequest, data: CompletionBody, items: Sequence[Item]) -> ParsedRequest:
        return ParsedRequest(
            items=items,
            tools=read_tools(data.tools),
            model=data.model,
            tool_choice=read_tool_choice(data.tool_choice, "tool_choice"),
            options=read_options(data),
            server_tools=read_server_tools(
                data.toolyard, data.model, self._service, get_request_context(request.scope).caller
            ),
            web_search=read_search_mode(data, data.toolyard, data.web_search_options),
            ends_without_client=not data.store,
            keep=bool(data.store),
            is_listed=bool(data.store),
            option_fields=list_option_fields(data),
        )


def _add_new_message(builder: ItemBuilder, index: int, message: CompletionMessage) -> None:
    # Results are delivered to the run that waits for them; the log has those of other calls.
    if message.role != "tool":
        add_completion_message(builder, index, message)
