"""`POST /conversations/{id}/calls`: call one tool without a model. It is a run like any other."""

from typing import Annotated

from litestar import Response, post
from litestar.params import JSONBody
from msgspec import Meta, Struct

from toolyard.core.conversation.events import RunQueued
from toolyard.core.errors import NotFound
from toolyard.core.items import Call
from toolyard.core.store import RequestRecord
from toolyard.engine.service import Service
from toolyard.surfaces.http.authorization import PathId, load_state
from toolyard.surfaces.http.idempotency import REPLAYED_HEADERS, admit_once, read_request_key
from toolyard.surfaces.http.openapi import ERRORS
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context


class DirectCall(Struct, forbid_unknown_fields=True, kw_only=True):
    tool: Annotated[str, Meta(min_length=1, max_length=64)]
    arguments: dict[str, object] = {}


class DirectCallAnswer(Struct, kw_only=True):
    """The ids of the call and its run. The result arrives with the conversation's events, as for every call."""

    call_id: str
    run_id: str
    message: str
    success: bool = True


@post("/conversations/{conversation_id:str}/calls", status_code=202, responses=ERRORS, tags=["calls"])
async def call(request: HttpRequest, conversation_id: PathId, data: JSONBody[DirectCall]) -> Response[DirectCallAnswer]:
    """Call a tool without a model. It is validated, authorized and run as a model's call would be."""
    service = request.backend.service
    context, clock = get_request_context(request.scope), service.clock
    await service.conversations.require(conversation_id, context.caller)
    key = await read_request_key(request)
    new_call = Call(id=clock.new_id("call"), at=clock.now(), tool=data.tool, arguments=data.arguments)
    start = service.runs.build_start(
        context.caller, [new_call], correlation_id=context.correlation_id, request=key, may_open=False
    )
    async with admit_once(service, context.caller, key) as headers:
        await load_state(service, conversation_id, context.caller)
        record = await service.conversations.submit_once(conversation_id, start)
    call_id, run_id = (await find_direct_call(service, record)) if record else (new_call.id, start.run_id)
    answer = DirectCallAnswer(call_id=call_id, run_id=run_id, message=f"{data.tool} was called")
    return Response(answer, status_code=202, headers=REPLAYED_HEADERS if record else headers)


ROUTES = (call,)


async def find_direct_call(service: Service, record: RequestRecord) -> tuple[str, str]:
    """Return the ids of the call and the run that an earlier request with the same key has started."""
    entry = await service.conversations.read_entry(record.conversation, record.seq)
    if entry is None or not isinstance(entry.event, RunQueued):
        raise NotFound("the call that was made with this Idempotency-Key was deleted")
    return entry.event.input[0].id, entry.run
