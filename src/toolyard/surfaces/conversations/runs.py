"""`/conversations/{id}/chat`, `…/events` and `…/cancel`: start a run, follow its events, stop it."""

from collections.abc import Sequence
from typing import Annotated, Literal

from litestar import Response, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody, QueryParameter
from litestar.response import Stream
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from toolyard.core.conversation.commands import Start, Stop
from toolyard.core.conversation.cursor import parse_cursor
from toolyard.core.conversation.decide import has_question
from toolyard.core.conversation.events import RunRequest
from toolyard.core.conversation.settings import Settings
from toolyard.core.conversation.state import State
from toolyard.core.items import Part, TextPart, UserMessage
from toolyard.core.settings.limits import Limits
from toolyard.engine.log.open_runs import load_open_runs
from toolyard.engine.service import Service
from toolyard.surfaces.conversations.attachments import ChatAttachment, find_attachments, parse_attachments
from toolyard.surfaces.http.authorization import PathId, load_state, resolve_max_turns
from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.http.idempotency import REPLAYED_HEADERS, admit_once, read_request_key
from toolyard.surfaces.http.openapi import ERRORS, EVENT_STREAM, JsonOrStreamOperation
from toolyard.surfaces.http.request_context import HttpRequest, RequestContext, get_request_context
from toolyard.surfaces.http.sse import build_stream_response, stream_events
from toolyard.surfaces.shared.answer_options import AnswerFields
from toolyard.surfaces.shared.chat_messages import MessageId
from toolyard.surfaces.shared.runs.answer import ChatAnswer, wait_for_answer
from toolyard.surfaces.shared.runs.encoder import EntryEncoder, ObjectEncoder, start_and_stream
from toolyard.surfaces.shared.runs.notices import build_notices

CONVERSATION_PATH = "/conversations/{conversation_id:str}"
JSON = "application/json"
AFTER_DESCRIPTION = "The id of the last event seen; the header Last-Event-ID wins. An id beyond the end is refused."
ANSWER_RESPONSE = ResponseSpec(
    data_container=ChatAnswer,
    description="The run ended: it was answered, reached a limit or was stopped. Or its stream, if that was asked for",
    generate_examples=False,
)
PENDING_RESPONSE = ResponseSpec(
    data_container=ChatAnswer,
    description="The run has no answer yet: it waits for somebody, or is queued",
    generate_examples=False,
)


class ChatBody(AnswerFields, kw_only=True):
    """The user's message. `interrupt` stops the current run instead of waiting for it."""

    content: Annotated[str, Meta(max_length=1_000_000)]
    """May be empty after a rewind to a user's message, which is then answered once more."""
    attachments: list[ChatAttachment] = field(default_factory=list[ChatAttachment])
    """Images, PDFs and text files, at most 8 with 5 MiB together."""
    attachments_of: MessageId = ""
    """The id of an earlier message, also of a branch, whose images and files are sent again before `attachments`."""
    attachments_left_out: list[int] = field(default_factory=list[int])
    """Which attachments of that message are not sent again: their positions, from 0."""
    message_id: MessageId = ""
    """The id of the message. One that is in the conversation already is refused with 409."""
    tool_choice: Annotated[str, Meta(max_length=100)] = "auto"
    """`auto`, `none`, `required` or the name of a tool."""
    model: Annotated[str, Meta(max_length=500)] = ""
    """One of `GET /models`; empty for the conversation's or the server's."""
    language: str = ""
    """The language of texts that the server writes itself, in place of the conversation's."""
    interrupt: bool = False
    """Whether to stop the current run instead of waiting for it."""


class CancelBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """What to stop: one call, one run, which may still be queued, or the current run if both are empty."""

    call_id: str = ""
    run_id: str = ""


class CancelAnswer(Struct, kw_only=True):
    message: str
    success: bool = True


@post(
    f"{CONVERSATION_PATH}/chat",
    status_code=200,
    responses={**ERRORS, 200: ANSWER_RESPONSE, 202: PENDING_RESPONSE},
    operation_class=JsonOrStreamOperation,
    tags=["runs"],
)
async def chat(
    request: HttpRequest, conversation_id: PathId, data: JSONBody[ChatBody]
) -> Response[ChatAnswer] | Stream:
    """Send a message and return the answer: as JSON, or as a stream with `Accept: text/event-stream`.

    The run goes on if you disconnect. The status is 202 if it waits for an approval, an answer or the application.
    """
    service = request.backend.service
    context, notices = get_request_context(request.scope), build_notices(service, request)
    # Access is checked before the request counts against the rate limit. `load_state` comes after that wait, since
    # the conversation may have been deleted during it.
    await service.conversations.require(conversation_id, context.caller)
    key = await read_request_key(request)
    async with admit_once(service, context.caller, key) as headers:
        state = await load_state(service, conversation_id, context.caller)
        limits = resolve_limits(state.settings, service.runs.limits_for(context.caller))
        attached = parse_attached(data, state)
        if (
            not data.content
            and not attached
            and not has_question(state.history)
            and await service.conversations.find_request(key) is None
        ):
            raise invalid_field("content", "must not be empty, unless the last message has no answer yet")
        instructions = await service.instructions.read(context.caller)
        start = replace(parse_chat(data, attached, context, limits, service, instructions), request=key)
        if request.accept.best_match([JSON, EVENT_STREAM]) == EVENT_STREAM:
            return await start_and_stream(service, request, conversation_id, start, headers)
        started = await service.runs.start(conversation_id, start, include_argument_deltas=False)
    answer = await wait_for_answer(service, started, limits, notices)
    return Response(
        answer,
        status_code=202 if answer.status in ("waiting", "queued", "running") else 200,
        headers={**headers, **REPLAYED_HEADERS} if started.repeated else headers,
    )


@get(f"{CONVERSATION_PATH}/events", media_type=EVENT_STREAM, responses=ERRORS, tags=["runs"])
async def events(
    request: HttpRequest,
    conversation_id: PathId,
    after: Annotated[str, QueryParameter(description=AFTER_DESCRIPTION)] = "",
    form: Annotated[Literal["objects", "entries"], QueryParameter(name="format")] = "objects",
) -> Stream:
    """Stream all events after an event id, then new ones as they happen, without end. Any number may read."""
    service = request.backend.service
    context = get_request_context(request.scope)
    # A browser's EventSource reconnects to the same URL, whose `after` is outdated; the header has the latest id.
    cursor = parse_cursor(request.headers.get("last-event-id") or after)
    await load_state(service, conversation_id, context.caller, "see")
    reader = await service.conversations.follow(conversation_id, cursor, include_argument_deltas=form == "entries")
    try:
        encoder = (
            ObjectEncoder(
                await load_open_runs(service.conversations, conversation_id, cursor),
                build_notices(service, request),
            )
            if form == "objects"
            else EntryEncoder()
        )
    except BaseException:
        reader.detach()
        raise
    return build_stream_response(stream_events(reader, encoder, context.correlation_id))


@post(f"{CONVERSATION_PATH}/cancel", status_code=200, responses=ERRORS, tags=["runs"])
async def cancel(
    request: HttpRequest, conversation_id: PathId, data: JSONBody[CancelBody | None] = None
) -> CancelAnswer:
    """Stop a run, or one call of it: the model's stream is closed and tools are cancelled."""
    service = request.backend.service
    context, target = get_request_context(request.scope), data or CancelBody()
    await load_state(service, conversation_id, context.caller, "decide")
    stop = Stop(by=context.caller, correlation_id=context.correlation_id, call_id=target.call_id, run_id=target.run_id)
    await service.conversations.submit(conversation_id, stop)
    return CancelAnswer(message="The call is being stopped" if target.call_id else "The run is being stopped")


ROUTES = (chat, events, cancel)


def resolve_limits(settings: Settings, server_limits: Limits) -> Limits:
    """Return the conversation's own limits, or the server's with the default number of turns for a chat."""
    return settings.limits or replace(server_limits, turns_per_request=resolve_max_turns(settings, server_limits))


def parse_attached(data: ChatBody, state: State) -> list[Part]:
    """Return the images and files of the message: those of an earlier message, then new ones. Raise Invalid."""
    earlier: list[Part] = []
    if data.attachments_of:
        earlier_parts = find_attachments(state, data.attachments_of)
        if not set(data.attachments_left_out) <= set(range(len(earlier_parts))):
            why = f"the message has {len(earlier_parts)} attachments, counted from 0"
            raise invalid_field("attachments_left_out", why)
        earlier = [part for index, part in enumerate(earlier_parts) if index not in data.attachments_left_out]
    elif data.attachments_left_out:
        raise invalid_field("attachments_left_out", "needs attachments_of")
    return [*earlier, *parse_attachments(data.attachments, earlier)]


def parse_chat(
    data: ChatBody,
    attached: Sequence[Part],
    context: RequestContext,
    limits: Limits,
    service: Service,
    instructions: str,
) -> Start:
    clock = service.clock
    message_id = data.message_id or clock.new_id("item")
    texts = (TextPart(text=data.content),) if data.content else ()
    parts = (*texts, *attached)
    message = UserMessage(id=message_id, at=clock.now(), parts=parts)
    return service.runs.build_start(
        context.caller,
        [message] if parts else [],
        RunRequest(
            tool_choice=data.tool_choice,
            model=data.model,
            limits=limits,
            web_search=data.search_mode,
            instructions=instructions,
            options=data.answer_options,
            language=data.language,
        ),
        correlation_id=context.correlation_id,
        interrupt=data.interrupt,
        may_open=False,
    )
