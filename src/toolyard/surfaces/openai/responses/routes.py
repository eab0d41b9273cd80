"""`/v1/responses`: create, read, cancel and delete responses."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Literal

from litestar import Response, delete, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromQuery, JSONBody, QueryParameter
from litestar.response import Stream
from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.commands import Delete, RemoveMessage, Stop
from toolyard.core.cursor import START, Cursor
from toolyard.core.errors import NotFound, Refused
from toolyard.core.events import RunQueued
from toolyard.core.run_view import RunView
from toolyard.engine.service import Service
from toolyard.surfaces.authorization import PathId, admit_request
from toolyard.surfaces.call_ids import parse_call_id
from toolyard.surfaces.errors import invalid_field
from toolyard.surfaces.history import read_history
from toolyard.surfaces.openai.errors import rename_rate_headers
from toolyard.surfaces.openai.models import DEFAULT
from toolyard.surfaces.openai.openapi import OPENAI_ERRORS
from toolyard.surfaces.openai.options import read_tool_choice
from toolyard.surfaces.openai.request_keys import identify_request
from toolyard.surfaces.openai.responses.approvals import decide_calls, is_only_approvals, read_decisions
from toolyard.surfaces.openai.responses.continuation import (
    find_continuation,
    find_named_conversation,
    fork_if_needed,
    select_results,
)
from toolyard.surfaces.openai.responses.encoder import ResponseEncoder
from toolyard.surfaces.openai.responses.ids import parse_number, parse_response_id
from toolyard.surfaces.openai.responses.input_items import InputItemList, build_input_items
from toolyard.surfaces.openai.responses.mcp_tools import EVERY_TOOL, McpDeclaration, read_declaration
from toolyard.surfaces.openai.responses.parse import (
    InputReader,
    ResponseBody,
    list_input,
    list_outputs,
    read_options,
    read_tools,
)
from toolyard.surfaces.openai.responses.response import ResponseObject, ResponseTraits, build_response
from toolyard.surfaces.openai.runs import (
    INSTRUCTIONS,
    AdmittedRun,
    RunStarter,
    WholeRequest,
    admit_started,
    raise_failure,
    read_server_tools,
    stream_run,
    wait_for_rest,
)
from toolyard.surfaces.openai.waiting_text import describe_waiting
from toolyard.surfaces.openapi import JsonOrStreamOperation
from toolyard.surfaces.request_context import HttpRequest, get_request_context
from toolyard.surfaces.sse import build_stream_response, stream_events

PATH = "/v1/responses"
RESPONSE_SPEC = ResponseSpec(
    data_container=ResponseObject, description="The response, or a stream of its events", generate_examples=False
)
StartingAfter = Annotated[int | None, QueryParameter(ge=0, le=2**53 - 1)]


class DeletedResponse(Struct, kw_only=True):
    id: str
    object: Literal["response"] = "response"
    deleted: bool = True


def routes(service: Service, starter: RunStarter) -> list[HTTPRouteHandler]:
    responses = Responses(service, starter)

    @post(
        PATH,
        status_code=200,
        responses={**OPENAI_ERRORS, 200: RESPONSE_SPEC},
        operation_class=JsonOrStreamOperation,
        tags=["openai"],
    )
    async def create(request: HttpRequest, data: JSONBody[ResponseBody]) -> Response[ResponseObject] | Stream:
        """Answer as OpenAI's Responses do. The server's tools run inside and are shown as `mcp_call` items."""
        return await responses.create(request, data)

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
        caller = get_request_context(request.scope).caller
        if stream:
            return await responses.resume(request, response_id, starting_after)
        return Response(await responses.load(response_id, caller, str(request.base_url)))

    @delete(f"{PATH}/{{response_id:str}}", status_code=200, responses=OPENAI_ERRORS, tags=["openai"])
    async def remove(request: HttpRequest, response_id: PathId) -> DeletedResponse:
        """Delete a response: its conversation if it holds nothing else, or else its messages."""
        await responses.delete(response_id, get_request_context(request.scope).caller)
        return DeletedResponse(id=response_id)

    @post(f"{PATH}/{{response_id:str}}/cancel", status_code=200, responses=OPENAI_ERRORS, tags=["openai"])
    async def cancel(request: HttpRequest, response_id: PathId) -> ResponseObject:
        """Stop the run of a response. One that has ended is returned as it is."""
        return await responses.cancel(response_id, get_request_context(request.scope).caller, str(request.base_url))

    @get(f"{PATH}/{{response_id:str}}/input_items", responses=OPENAI_ERRORS, tags=["openai"])
    async def input_items(request: HttpRequest, response_id: PathId) -> InputItemList:
        """Return the items that a response was asked with."""
        view, _ = await responses.find_run(response_id, get_request_context(request.scope).caller)
        return build_input_items(view)

    return [create, retrieve, remove, cancel, input_items]


class Responses:
    """Creates and finds responses, which are runs."""

    def __init__(self, service: Service, starter: RunStarter) -> None:
        self._service = service
        self._starter = starter

    async def create(self, request: HttpRequest, data: ResponseBody) -> Response[ResponseObject] | Stream:
        context, base = get_request_context(request.scope), str(request.base_url)
        if data.background and data.store is False:
            raise invalid_field("background", "needs store: nobody could find the response again")
        declaration = read_declaration(data.tools, base)
        admitted = await self._start(request, data, declaration)
        traits = ResponseTraits(
            model=self._service.default_model if data.model in ("", DEFAULT) else data.model,
            created_at=int(self._service.clock.now()),
            instructions=data.instructions,
            metadata=data.metadata or {},
            previous_response_id=data.previous_response_id,
            store=data.store is not False,
            background=bool(data.background),
            parallel_tool_calls=data.parallel_tool_calls is not False,
            conversation=data.conversation_id,
            approval_label=declaration.label if declaration else "",
        )

        def describe(view: RunView) -> str:
            return describe_waiting(view, base, with_approvals=declaration is None)

        # A client that takes approvals as items is to decide them now: it is not kept waiting.
        hold_s = 0.0 if declaration else self._starter.approval_hold_s
        if data.stream:
            encoder = ResponseEncoder(
                admitted.view,
                admitted.log_end,
                start=admitted.reader.cursor if admitted.reader else START,
                before_run=admitted.reader.cursor.seq if admitted.reader else 0,
                build=lambda view, text: build_response(view, traits, text),
                describe_waiting=describe,
                approval_label=traits.approval_label,
            )
            stream = stream_run(admitted, encoder, context.correlation_id, hold_s)
            return build_stream_response(stream, admitted.headers)
        view = admitted.view
        if data.background and admitted.reader is not None:
            admitted.reader.detach()
        else:
            view = await wait_for_rest(self._service, admitted, context.caller, hold_s)
            raise_failure(view)
        return Response(build_response(view, traits, describe(view)), headers=admitted.headers)

    async def _start(self, request: HttpRequest, data: ResponseBody, declaration: McpDeclaration | None) -> AdmittedRun:
        items = list_input(data)
        if not items:
            raise invalid_field("input", "is empty: send a text or items")
        if decided := await self._decide(request, items):
            return decided
        conversation = find_named_conversation(data)
        if not conversation:
            whole = await self._read_request(request, data, items, declaration=declaration)
            return await self._starter.start(request, whole)
        if declaration is not None:
            await self._check_declaration(conversation, declaration)
        service, context, outputs = self._service, get_request_context(request.scope), list_outputs(items)
        if data.toolyard is not None and data.toolyard.server_tools != "all":
            raise invalid_field("toolyard.server_tools", "can be chosen only where a conversation begins")
        identity = await identify_request(request, is_delivery=bool(outputs))
        async with self._starter.hold(conversation):
            if joined := await self._starter.find_joined(identity, context):
                return joined
            continuation = await find_continuation(service, data, context.caller)
            # Another replica may have delivered the same between the two looks: its run answers this request too.
            is_late = identity.is_delivery and continuation.waiting is None
            if is_late and (joined := await self._starter.find_joined(identity, context)):
                return joined
            if continuation.waiting is not None and continuation.waits_for_person:
                headers = {"x-request-id": context.correlation_id}
                return AdmittedRun(view=continuation.waiting, reader=None, headers=headers)
            results = select_results(continuation, outputs)
            delivered = frozenset(call_id for call_id in outputs if parse_call_id(call_id)[1] in results)
            whole = await self._read_request(request, data, items, delivered)
            rate_headers = rename_rate_headers(await admit_request(service, context.caller))
            target = await fork_if_needed(service, continuation, context.caller)
            key = identity.build_key(service.clock)
            admitted = await self._starter.continue_conversation(context, whole, key, target, results)
        return replace(admitted, headers={**admitted.headers, **rate_headers})

    async def _decide(self, request: HttpRequest, items: Sequence[dict[str, object]]) -> AdmittedRun | None:
        """Decide the calls that the input ends with decisions for, and follow their run; None if there are none."""
        context, decisions = get_request_context(request.scope), read_decisions(items)
        started = await decide_calls(self._service, decisions, context) if decisions else None
        if started is None and is_only_approvals(items):
            raise invalid_field("input", "decides nothing: no call of yours with this approval_request_id is here")
        return admit_started(started, {"x-request-id": context.correlation_id}) if started else None

    async def _check_declaration(self, conversation: str, declaration: McpDeclaration) -> None:
        """Raise Invalid if a conversation, whose rules were set when it began, allows more than a declaration."""
        settings = (await self._service.view(conversation)).settings
        allowed, asked = declaration.allowed_tools, declaration.asked_tools
        if allowed is not None and (settings.tools is None or not settings.tools <= allowed):
            raise invalid_field("tools", "allowed_tools can be narrowed only where a conversation begins")
        if asked and not (EVERY_TOOL in settings.asked_tools or asked <= settings.asked_tools):
            raise invalid_field("tools", "require_approval can be tightened only where a conversation begins")

    async def _read_request(
        self,
        request: HttpRequest,
        data: ResponseBody,
        items: Sequence[dict[str, object]],
        delivered: frozenset[str] = frozenset(),
        declaration: McpDeclaration | None = None,
    ) -> WholeRequest:
        service, caller = self._service, get_request_context(request.scope).caller
        server_tools = read_server_tools(data.toolyard, service, caller)
        if declaration is not None and declaration.allowed_tools is not None:
            available = {tool.name for tool in service.list_tools(caller)} if server_tools is None else server_tools
            server_tools = frozenset(available & declaration.allowed_tools)
        return WholeRequest(
            items=await read_history(items, service.clock, InputReader(delivered).add, field="input"),
            tools=read_tools(data.tools),
            model=data.model,
            tool_choice=read_tool_choice(data.tool_choice, "tool_choice"),
            options=read_options(data),
            server_tools=server_tools,
            asked_tools=declaration.asked_tools if declaration else frozenset(),
            instructions=data.instructions or "",
            keep=data.store is not False,
        )

    async def find_run(self, response_id: str, caller: Caller) -> tuple[RunView, int]:
        """Return the run of a response and the time of its request. Raise NotFound."""
        place = parse_response_id(response_id)
        missing = NotFound(f"there is no response {response_id[:80]!r}: it was not stored, or deleted")
        try:
            await self._service.require_conversation(place.conversation, caller)
        except NotFound:
            raise missing from None
        view, created_at = RunView(run_id=place.run, conversation=place.conversation), 0.0
        for entry in await self._service.read_entries(place.conversation):
            if view.apply(entry) and isinstance(entry.event, RunQueued):
                created_at = entry.at
        ids = _list_item_ids(view)
        if view.request is None or (ids and not (await self._service.view(place.conversation)).find_used_ids(ids)):
            raise missing  # there never was one, or its messages were removed
        return view, int(created_at)

    async def load(self, response_id: str, caller: Caller, base: str) -> ResponseObject:
        view, created_at = await self.find_run(response_id, caller)
        return build_response(view, self._find_traits(view, created_at), describe_waiting(view, base))

    def _find_traits(self, view: RunView, created_at: int) -> ResponseTraits:
        note = view.request.context.get(INSTRUCTIONS) if view.request else None
        model = (view.request.model if view.request else "") or self._service.default_model
        return ResponseTraits(model=model, created_at=created_at, instructions=note.text if note else None)

    async def resume(self, request: HttpRequest, response_id: str, starting_after: int | None) -> Stream:
        """Stream the events of a response after a number, or all of them."""
        context, base = get_request_context(request.scope), str(request.base_url)
        whole, created_at = await self.find_run(response_id, context.caller)
        entries = [entry for entry in await self._service.read_entries(whole.conversation) if entry.run == whole.run_id]
        first = entries[0].seq - 1
        after = parse_number(starting_after) if starting_after is not None else None
        start = after.cursor if after is not None and after.cursor.seq >= first else Cursor(first)
        view = RunView(run_id=whole.run_id, conversation=whole.conversation)
        for entry in entries:
            if entry.seq <= start.seq:
                view.apply(entry)
        reader = await self._service.follow(whole.conversation, start, include_argument_deltas=False)
        encoder = ResponseEncoder(
            view,
            reader.end,
            start=start,
            before_run=first,
            build=lambda view, text: build_response(view, self._find_traits(whole, created_at), text),
            describe_waiting=lambda view: describe_waiting(view, base),
            after=after,
        )
        return build_stream_response(
            stream_events(reader, encoder, context.correlation_id), {"x-request-id": context.correlation_id}
        )

    async def cancel(self, response_id: str, caller: Caller, base: str) -> ResponseObject:
        view, _ = await self.find_run(response_id, caller)
        if view.status != "ended":
            with suppress(Refused):  # it has ended meanwhile
                await self._service.submit(view.conversation, Stop(by=caller, run_id=view.run_id))
            await self._wait_for_end(view)
        return await self.load(response_id, caller, base)

    async def _wait_for_end(self, view: RunView) -> None:
        reader = await self._service.follow(view.conversation, START, include_argument_deltas=False)
        ended = RunView(run_id=view.run_id)
        try:
            async for item in reader:
                if ended.apply(item) and ended.status == "ended":
                    return
        finally:
            reader.detach()

    async def delete(self, response_id: str, caller: Caller) -> None:
        view, _ = await self.find_run(response_id, caller)
        card = await self._service.require_conversation(view.conversation, caller)
        entries = await self._service.read_entries(view.conversation)
        runs = {entry.run for entry in entries if isinstance(entry.event, RunQueued)}
        if card.unlisted and runs == {view.run_id}:
            await self._service.submit(view.conversation, Delete(by=caller))
            return
        ids = frozenset((await self._service.view(view.conversation)).find_used_ids(_list_item_ids(view)))
        await self._service.submit(view.conversation, RemoveMessage(by=caller, ids=ids))


def _list_item_ids(view: RunView) -> set[str]:
    return {item.id for item in (*(view.request.input if view.request else ()), *view.list_items())}
