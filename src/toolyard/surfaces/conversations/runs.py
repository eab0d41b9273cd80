"""`/conversations/{id}/chat`, `…/events` and `…/cancel`: start a run, follow what happens, stop it."""

from typing import Annotated, Literal

from litestar import Response, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody, QueryParameter
from litestar.response import Stream
from msgspec import Meta, Struct
from msgspec.structs import replace

from toolyard.core.commands import Start, Stop
from toolyard.core.conversation_settings import Settings
from toolyard.core.cursor import parse_cursor
from toolyard.core.items import TextPart, UserMessage
from toolyard.core.limits import Limits
from toolyard.engine.service import Service
from toolyard.surfaces.authorization import PathId, admitted, max_turns_of, state_of
from toolyard.surfaces.openapi import ERRORS, EVENTS, OrStream
from toolyard.surfaces.request_context import Visit, Visitor, visit_of
from toolyard.surfaces.run_answer import ChatAnswer, chatted
from toolyard.surfaces.sse import OneRun, as_objects, begun, entry_render, event_stream, stream
from toolyard.surfaces.web_search import Searched

CONVERSATION = "/conversations/{conversation_id:str}"
JSON = "application/json"
AFTER = "The id of the last event seen; the header Last-Event-ID wins. An id beyond the end is refused."
ANSWERED = ResponseSpec(
    data_container=ChatAnswer,
    description="The run ended: it was answered, reached a limit or was stopped. Or its stream, if that was asked for",
    generate_examples=False,
)
NOT_YET = ResponseSpec(
    data_container=ChatAnswer,
    description="The run goes on without an answer yet: it waits for somebody, or is in line",
    generate_examples=False,
)


class ChatBody(Searched, kw_only=True):
    """What the user says. `interrupt` stops the run in front instead of waiting for it."""

    content: Annotated[str, Meta(min_length=1, max_length=1_000_000)]
    tool_choice: Annotated[str, Meta(max_length=100)] = "auto"
    model: Annotated[str, Meta(max_length=500)] = ""
    language: str = ""
    """Of what the server says itself, in place of the conversation's."""
    interrupt: bool = False


class CancelBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """One call, one run, which may still stand in line, or nothing for the run in front."""

    call_id: str = ""
    run_id: str = ""


class Cancelled(Struct, kw_only=True):
    message: str
    success: bool = True


def routes(service: Service) -> list[HTTPRouteHandler]:
    return [*_routes_that_start(service), *_routes_of_runs(service)]


def _routes_that_start(service: Service) -> list[HTTPRouteHandler]:
    @post(
        f"{CONVERSATION}/chat",
        status_code=200,
        responses={**ERRORS, 200: ANSWERED, 202: NOT_YET},
        operation_class=OrStream,
        tags=["runs"],
    )
    async def chat(
        request: Visitor, conversation_id: PathId, data: JSONBody[ChatBody]
    ) -> Response[ChatAnswer] | Stream:
        """Send a message and have it answered: as JSON, or as a stream with `Accept: text/event-stream`.

        Leaving does not stop the run. One that waits for an approval, an answer or the application is told with 202.
        """
        visit = visit_of(request.scope)
        await service.known(conversation_id, visit.caller)
        headers = await admitted(service, visit.caller)
        state = await state_of(service, conversation_id, visit.caller)
        limits = limits_of(state.settings, service.limits(visit.caller))
        start = parse_chat(data, visit, limits, service)
        if request.accept.best_match([JSON, EVENTS]) == EVENTS:
            return await begun(service, conversation_id, start, headers)
        answer = await chatted(service, conversation_id, start, limits)
        unfinished = answer.status in ("waiting", "queued", "running")
        return Response(answer, status_code=202 if unfinished else 200, headers=headers)

    return [chat]


def _routes_of_runs(service: Service) -> list[HTTPRouteHandler]:
    @get(f"{CONVERSATION}/events", media_type=EVENTS, responses=ERRORS, tags=["runs"])
    async def events(
        request: Visitor,
        conversation_id: PathId,
        after: Annotated[str, QueryParameter(description=AFTER)] = "",
        form: Annotated[Literal["objects", "entries"], QueryParameter(name="format")] = "objects",
    ) -> Stream:
        """Everything that happened after a place, then what happens, without end. Any number may read."""
        visit = visit_of(request.scope)
        place = parse_cursor(request.headers.get("last-event-id") or after)
        await state_of(service, conversation_id, visit.caller, "see")
        reader = await service.follow(conversation_id, place, keen=form == "entries")
        try:
            render = await as_objects(service, conversation_id, place) if form == "objects" else entry_render
        except BaseException:
            reader.detach()
            raise
        return event_stream(stream(reader, render, OneRun(), visit.correlation_id))

    @post(f"{CONVERSATION}/cancel", status_code=200, responses=ERRORS, tags=["runs"])
    async def cancel(request: Visitor, conversation_id: PathId, data: JSONBody[CancelBody | None] = None) -> Cancelled:
        """Stop the run, or one call of it: the model's stream is closed and tools are cancelled."""
        visit, named = visit_of(request.scope), data or CancelBody()
        await state_of(service, conversation_id, visit.caller, "decide")
        stop = Stop(by=visit.caller, correlation_id=visit.correlation_id, call_id=named.call_id, run_id=named.run_id)
        await service.submit(conversation_id, stop)
        return Cancelled(message="The call is being stopped" if named.call_id else "The run is being stopped")

    return [events, cancel]


def limits_of(settings: Settings, yard: Limits) -> Limits:
    """The conversation's own, or the yard's with the turns that a chat takes."""
    return settings.limits or replace(yard, turns_per_request=max_turns_of(settings, yard))


def parse_chat(data: ChatBody, visit: Visit, limits: Limits, service: Service) -> Start:
    mint = service.mint
    said = UserMessage(id=mint.id("item"), at=mint.now(), parts=(TextPart(text=data.content),))
    return service.request(
        visit.caller,
        [said],
        correlation_id=visit.correlation_id,
        tool_choice=data.tool_choice,
        model=data.model,
        limits=limits,
        web_search=data.wish,
        language=data.language,
        interrupt=data.interrupt,
    )
