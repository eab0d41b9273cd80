"""`POST /conversations/{id}/calls`: call one tool without a model. It is a run like any other."""

from typing import Annotated

from litestar import Response, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody
from msgspec import Meta, Struct

from toolyard.core.items import Call
from toolyard.engine.service import Service
from toolyard.surfaces.authorization import PathId, admit_request, load_state
from toolyard.surfaces.openapi import ERRORS
from toolyard.surfaces.request_context import HttpRequest, get_request_context


class DirectCall(Struct, forbid_unknown_fields=True, kw_only=True):
    tool: Annotated[str, Meta(min_length=1, max_length=64)]
    arguments: dict[str, object] = {}


class DirectCallAnswer(Struct, kw_only=True):
    """The ids of the call and its run. The result arrives with the conversation's events, as for every call."""

    call_id: str
    run_id: str
    message: str
    success: bool = True


def routes(service: Service) -> list[HTTPRouteHandler]:
    @post("/conversations/{conversation_id:str}/calls", status_code=202, responses=ERRORS, tags=["calls"])
    async def call(
        request: HttpRequest, conversation_id: PathId, data: JSONBody[DirectCall]
    ) -> Response[DirectCallAnswer]:
        """Call a tool without a model. It is validated, authorized and run as a model's call would be."""
        context, clock = get_request_context(request.scope), service.clock
        await service.require_conversation(conversation_id, context.caller)
        headers = await admit_request(service, context.caller)
        await load_state(service, conversation_id, context.caller)
        new_call = Call(id=clock.new_id("call"), at=clock.now(), tool=data.tool, arguments=data.arguments)
        start = service.build_start(context.caller, [new_call], correlation_id=context.correlation_id)
        await service.submit(conversation_id, start)
        answer = DirectCallAnswer(call_id=new_call.id, run_id=start.run_id, message=f"{data.tool} was called")
        return Response(answer, status_code=202, headers=headers)

    return [call]
