"""`/v1/responses`: create, read, cancel and delete responses."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from typing import Annotated, Literal

import msgspec
from litestar import Response, delete, get, post, websocket
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromQuery, JSONBody, QueryParameter
from litestar.response import Stream
from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.commands import Delete, RemoveMessage, Stop
from toolyard.core.cursor import START, Cursor
from toolyard.core.errors import NotFound, Refused
from toolyard.core.events import Entry, RunQueued, TurnEnded
from toolyard.core.forks import find_fork_items
from toolyard.core.items import Item, Result, TextPart, UserMessage
from toolyard.core.options import DEFAULT_OPTIONS
from toolyard.core.run_view import RunView
from toolyard.engine.authentication import Authenticator
from toolyard.engine.compaction import MAX_SUMMARY_CHARS, SUMMARY_PROMPT
from toolyard.engine.service import Service
from toolyard.surfaces.authorization import PathId, admit_request
from toolyard.surfaces.call_ids import parse_call_id
from toolyard.surfaces.errors import ModelFailed, invalid_field
from toolyard.surfaces.history import read_history
from toolyard.surfaces.openai.errors import rename_rate_headers
from toolyard.surfaces.openai.models import DEFAULT
from toolyard.surfaces.openai.openapi import OPENAI_ERRORS
from toolyard.surfaces.openai.options import name_sent_fields, read_tool_choice
from toolyard.surfaces.openai.request_keys import identify_request
from toolyard.surfaces.openai.responses.compacted import CompactBody, CompactedResponse, build_compaction
from toolyard.surfaces.openai.responses.continuation import (
    build_missing_error,
    find_continuation,
    find_named_conversation,
    fork_if_needed,
    select_results,
)
from toolyard.surfaces.openai.responses.encoder import ResponseEncoder
from toolyard.surfaces.openai.responses.ids import build_item_id, encode_response_id, parse_number, parse_response_id
from toolyard.surfaces.openai.responses.input_items import InputItemList, build_input_items
from toolyard.surfaces.openai.responses.output import join_reasoning
from toolyard.surfaces.openai.responses.parse import (
    OPTION_FIELDS,
    InputReader,
    ResponseBody,
    list_input,
    list_outputs,
    read_client_fields,
    read_options,
    read_tools,
)
from toolyard.surfaces.openai.responses.response import (
    ClientFields,
    ResponseObject,
    ResponseTraits,
    build_response,
    build_usage,
)
from toolyard.surfaces.openai.responses.websocket import MessageRequest, ResponseSocket, Socket
from toolyard.surfaces.openai.runs import (
    INSTRUCTIONS,
    AdmittedRun,
    RunStarter,
    WholeRequest,
    raise_failure,
    read_server_tools,
    stream_run,
    wait_for_rest,
)
from toolyard.surfaces.openai.waiting_text import describe_waiting
from toolyard.surfaces.openapi import JsonOrStreamOperation
from toolyard.surfaces.request_context import HttpRequest, RequestContext, get_request_context
from toolyard.surfaces.sse import build_stream_response, stream_events
from toolyard.surfaces.surface import Route

PATH = "/v1/responses"
RESPONSE_SPEC = ResponseSpec(
    data_container=ResponseObject, description="The response, or a stream of its events", generate_examples=False
)
StartingAfter = Annotated[int | None, QueryParameter(ge=0, le=2**53 - 1)]


class DeletedResponse(Struct, kw_only=True):
    id: str
    object: Literal["response"] = "response"
    deleted: bool = True


def routes(service: Service, starter: RunStarter, access: Authenticator) -> Sequence[Route]:
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

    @websocket(PATH)
    async def connect(socket: Socket) -> None:
        """Answer `response.create` messages with the events of their responses."""
        correlation_id = get_request_context(socket.scope).correlation_id
        headers = dict(socket.headers.items())

        def open_stream(data: ResponseBody, complete: ResponseBody, body: bytes) -> AsyncGenerator[bytes, None]:
            # Keys can be revoked while a connection is open.
            context = RequestContext(caller=access.authenticate(headers), correlation_id=correlation_id)
            return responses.stream(MessageRequest(socket, body, context), data, complete)

        await ResponseSocket(socket, open_stream, correlation_id).serve()

    @post(f"{PATH}/compact", status_code=200, responses=OPENAI_ERRORS, tags=["openai"])
    async def compact(request: HttpRequest, data: JSONBody[CompactBody]) -> CompactedResponse:
        """Return an item with the model's summary of a history, which later requests send in its place."""
        return await responses.compact(request, data)

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
        found = await responses.find_run(response_id, get_request_context(request.scope).caller)
        return build_input_items(found.view)

    return [create, connect, compact, retrieve, remove, cancel, input_items]


class FoundRun(Struct, frozen=True, kw_only=True):
    """The run of a response, and the log that it was read from."""

    view: RunView
    created_at: int
    """The time of the request."""
    log: Sequence[Entry]


class Responses:
    """Creates and finds responses, which are runs."""

    def __init__(self, service: Service, starter: RunStarter) -> None:
        self._service = service
        self._starter = starter

    async def create(self, request: HttpRequest, data: ResponseBody) -> Response[ResponseObject] | Stream:
        context, base = get_request_context(request.scope), str(request.base_url)
        if data.background and data.store is False:
            raise invalid_field("background", "needs store: nobody could find the response again")
        admitted, traits = await self._start(request, data), self._read_traits(data)
        if data.stream:
            return build_stream_response(self._stream_run(request, admitted, traits), admitted.headers)
        view = admitted.view
        if data.background and admitted.reader is not None:
            admitted.reader.detach()
        else:
            view = await wait_for_rest(self._service, admitted, context.caller)
            raise_failure(view)
        return Response(build_response(view, traits, describe_waiting(view, base)), headers=admitted.headers)

    async def stream(
        self, request: HttpRequest, data: ResponseBody, complete: ResponseBody
    ) -> AsyncGenerator[bytes, None]:
        """Yield the events of the response to a request. Raise ToolyardError before the first of them.

        `complete` is the request with the items of the response that it goes on from, if its client keeps those.
        """
        admitted = await self._start(request, complete)
        async with aclosing(self._stream_run(request, admitted, self._read_traits(data))) as pieces:
            async for piece in pieces:
                yield piece

    def _read_traits(self, data: ResponseBody) -> ResponseTraits:
        return ResponseTraits(
            model=self._service.default_model if data.model in ("", DEFAULT) else data.model,
            created_at=int(self._service.clock.now()),
            instructions=data.instructions,
            metadata=data.metadata or {},
            previous_response_id=data.previous_response_id,
            store=data.store is not False,
            background=bool(data.background),
            parallel_tool_calls=data.parallel_tool_calls is not False,
            conversation=data.conversation_id,
        )

    def _stream_run(
        self, request: HttpRequest, admitted: AdmittedRun, traits: ResponseTraits
    ) -> AsyncGenerator[bytes, None]:
        base = str(request.base_url)
        encoder = ResponseEncoder(
            admitted.view,
            admitted.log_end,
            start=admitted.reader.cursor if admitted.reader else START,
            before_run=admitted.reader.cursor.seq if admitted.reader else 0,
            build=lambda view, text: build_response(view, traits, text),
            describe_waiting=lambda view: describe_waiting(view, base),
        )
        return stream_run(admitted, encoder, get_request_context(request.scope).correlation_id)

    async def compact(self, request: HttpRequest, data: CompactBody) -> CompactedResponse:
        """Ask the model once for a summary of a history, without tools."""
        service, context = self._service, get_request_context(request.scope)
        earlier = await self._load_earlier(data.previous_response_id, context.caller)
        items = list_input(ResponseBody(input=data.input))
        if not items and not earlier:
            raise invalid_field("input", "is empty: send items, or a previous_response_id")
        history = await read_history(items, service.clock, InputReader().add, field="input")
        ask = UserMessage(
            id=service.clock.new_id("item"), at=service.clock.now(), parts=(TextPart(text=SUMMARY_PROMPT),)
        )
        whole = WholeRequest(
            items=[*earlier, *history, ask],
            tools=(),
            model=data.model,
            tool_choice="none",
            options=DEFAULT_OPTIONS,
            server_tools=frozenset(),
            instructions=data.instructions or "",
        )
        admitted = await self._starter.start(request, whole)
        view = await wait_for_rest(service, admitted, context.caller)
        raise_failure(view)
        summary = "".join(text.text for text in view.texts)[:MAX_SUMMARY_CHARS]
        if view.ending != "done" or not summary:
            raise ModelFailed("the model gave no summary", {"run_id": view.run_id})
        return CompactedResponse(
            id=encode_response_id(view.conversation, view.run_id),
            created_at=int(service.clock.now()),
            output=[build_compaction(build_item_id("cmp", view.run_id), summary)],
            usage=build_usage(view.usage),
        )

    async def _load_earlier(self, response_id: str | None, caller: Caller) -> list[Item]:
        """Return the history up to the end of a response. Raise Invalid if there is none, Refused if it goes on."""
        if not response_id:
            return []
        try:
            found = await self.find_run(response_id, caller)
        except NotFound:
            raise build_missing_error(response_id) from None
        state = await self._service.view(found.view.conversation)
        items = await asyncio.to_thread(find_fork_items, state, found.view.run_id, found.log)
        # The whole results stay with their conversation: the summary is made from what the model has read of them.
        return [replace(item, handle="", native="") if isinstance(item, Result) else item for item in items]

    async def _start(self, request: HttpRequest, data: ResponseBody) -> AdmittedRun:
        with name_sent_fields(OPTION_FIELDS):
            return await self._start_or_join(request, data)

    async def _start_or_join(self, request: HttpRequest, data: ResponseBody) -> AdmittedRun:
        items = list_input(data)
        if not items:
            raise invalid_field("input", "is empty: send a text or items")
        conversation = find_named_conversation(data)
        if not conversation:
            return await self._starter.start(request, await self._read_request(request, data, items))
        service, context, outputs = self._service, get_request_context(request.scope), list_outputs(items)
        if data.toolyard is not None and data.toolyard.server_tools != "all":
            raise invalid_field("toolyard.server_tools", "can be chosen only where a conversation begins")
        identity = await identify_request(request, is_delivery=bool(outputs))
        async with self._starter.hold(conversation):
            if joined := await self._starter.find_joined(identity, context):
                return joined
            continuation = await find_continuation(service, data, context.caller)
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

    async def _read_request(
        self,
        request: HttpRequest,
        data: ResponseBody,
        items: Sequence[dict[str, object]],
        delivered: frozenset[str] = frozenset(),
    ) -> WholeRequest:
        service, caller = self._service, get_request_context(request.scope).caller
        return WholeRequest(
            items=await read_history(items, service.clock, InputReader(delivered).add, field="input"),
            tools=read_tools(data.tools),
            model=data.model,
            tool_choice=read_tool_choice(data.tool_choice, "tool_choice"),
            options=read_options(data),
            server_tools=read_server_tools(data.toolyard, service, caller),
            instructions=data.instructions or "",
            keep=data.store is not False,
            client_fields=read_client_fields(data),
        )

    async def find_run(self, response_id: str, caller: Caller) -> FoundRun:
        """Return the run of a response. Raise NotFound."""
        place = parse_response_id(response_id)
        missing = NotFound(f"there is no response {response_id[:80]!r}: it was not stored, or deleted")
        try:
            await self._service.require_conversation(place.conversation, caller)
        except NotFound:
            raise missing from None
        view, created_at = RunView(run_id=place.run, conversation=place.conversation), 0.0
        log = await self._service.read_entries(place.conversation)
        for entry in log:
            if view.apply(entry) and isinstance(entry.event, RunQueued):
                created_at = entry.at
        ids = _list_item_ids(view)
        if view.request is None or (ids and not (await self._service.view(place.conversation)).find_used_ids(ids)):
            raise missing  # there never was one, or its messages were removed
        return FoundRun(view=view, created_at=int(created_at), log=log)

    async def load(self, response_id: str, caller: Caller, base: str) -> ResponseObject:
        found = await self.find_run(response_id, caller)
        return build_response(found.view, self._find_traits(found), describe_waiting(found.view, base))

    def _find_traits(self, found: FoundRun) -> ResponseTraits:
        request = found.view.request
        note = request.context.get(INSTRUCTIONS) if request else None
        model = (request.model if request else "") or self._service.default_model
        fields = msgspec.convert(request.client_fields if request else {}, ClientFields)
        return ResponseTraits(
            model=model,
            created_at=found.created_at,
            instructions=note.text if note else None,
            metadata=fields.metadata,
            previous_response_id=fields.previous_response_id,
            background=fields.background,
            parallel_tool_calls=fields.parallel_tool_calls,
            conversation=fields.conversation,
        )

    async def resume(self, request: HttpRequest, response_id: str, starting_after: int | None) -> Stream:
        """Stream the events of a response after a number, or all of them."""
        context, base = get_request_context(request.scope), str(request.base_url)
        found = await self.find_run(response_id, context.caller)
        whole, traits = found.view, self._find_traits(found)
        entries = [entry for entry in found.log if entry.run == whole.run_id]
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
            build=lambda view, text: build_response(view, traits, text),
            describe_waiting=lambda view: describe_waiting(view, base),
            after=after,
            follows_reasoning=_follows_reasoning(entries, start),
        )
        return build_stream_response(
            stream_events(reader, encoder, context.correlation_id), {"x-request-id": context.correlation_id}
        )

    async def cancel(self, response_id: str, caller: Caller, base: str) -> ResponseObject:
        view = (await self.find_run(response_id, caller)).view
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
        found = await self.find_run(response_id, caller)
        view = found.view
        card = await self._service.require_conversation(view.conversation, caller)
        runs = {entry.run for entry in found.log if isinstance(entry.event, RunQueued)}
        if card.unlisted and runs == {view.run_id}:
            await self._service.submit(view.conversation, Delete(by=caller))
            return
        ids = frozenset((await self._service.view(view.conversation)).find_used_ids(_list_item_ids(view)))
        await self._service.submit(view.conversation, RemoveMessage(by=caller, ids=ids))


def _follows_reasoning(entries: Sequence[Entry], start: Cursor) -> bool:
    """Return whether the text that a place is in has reasoning before it, as its turn tells once it has ended."""
    later = (entry.event for entry in entries if entry.seq > start.seq)
    ended = next((event for event in later if isinstance(event, TurnEnded)), None)
    return bool(start.seen and ended and join_reasoning(ended.items))


def _list_item_ids(view: RunView) -> set[str]:
    return {item.id for item in (*(view.request.input if view.request else ()), *view.list_items())}
