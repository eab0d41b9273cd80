"""Creates, finds, stops and deletes responses, which are runs."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from typing import TypeVar

import msgspec
from litestar import Response
from litestar.response import Stream
from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.conversation.commands import Delete, RemoveMessage, Stop
from toolyard.core.conversation.context.token_estimate import estimate_text_tokens, estimate_tokens
from toolyard.core.conversation.cursor import START, Cursor
from toolyard.core.conversation.events import Entry, RunQueued, TurnEnded, TurnStarted
from toolyard.core.conversation.forks import find_fork_items
from toolyard.core.conversation.history import History
from toolyard.core.conversation.run_view import RunView
from toolyard.core.errors import NotFound, Refused
from toolyard.core.items import Item, Problem, Result, TextPart, UserMessage
from toolyard.core.settings.models.options import DEFAULT_OPTIONS
from toolyard.engine.loop.history_summary import MAX_SUMMARY_CHARS, SUMMARY_PROMPT
from toolyard.surfaces.http.errors import ModelFailed, invalid_field
from toolyard.surfaces.http.model_failures import MODEL_ERROR
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context
from toolyard.surfaces.http.sse import build_stream_response, stream_events
from toolyard.surfaces.openai.continuation import ContinuedRequest, build_starter, find_in_conversation, start_continued
from toolyard.surfaces.openai.options import read_search_mode
from toolyard.surfaces.openai.responses.approvals import (
    DecidedRun,
    check_same_conversation,
    decide_calls,
    read_decisions,
)
from toolyard.surfaces.openai.responses.compacted import (
    CompactBody,
    CompactedResponse,
    HistorySummary,
    build_compaction,
)
from toolyard.surfaces.openai.responses.declared_tools import read_declared_choice
from toolyard.surfaces.openai.responses.encoder import ResponseEncoder, encode_failure, encode_whole
from toolyard.surfaces.openai.responses.ids import (
    EventNumbers,
    build_item_id,
    encode_response_id,
    find_place,
    parse_response_id,
)
from toolyard.surfaces.openai.responses.input_items import replace_references
from toolyard.surfaces.openai.responses.mcp_tools import EVERY_TOOL, McpDeclaration, RequestTools, read_request_tools
from toolyard.surfaces.openai.responses.output import join_reasoning
from toolyard.surfaces.openai.responses.parse import (
    OPTION_FIELDS,
    InputReader,
    ResponseBody,
    list_input,
    list_outputs,
    list_unread_fields,
    read_options,
)
from toolyard.surfaces.openai.responses.previous_response import (
    build_missing_error,
    find_continuation,
    find_named_conversation,
)
from toolyard.surfaces.openai.responses.response import (
    ClientFields,
    ResponseObject,
    ResponseTraits,
    build_empty_response,
    build_response,
    build_usage,
)
from toolyard.surfaces.shared.history import read_history
from toolyard.surfaces.shared.runs.followed_run import follow_run
from toolyard.surfaces.shared.runs.notices import RunNotices
from toolyard.surfaces.shared.whole_history.run_starter import (
    INSTRUCTIONS,
    AdmittedRun,
    ParsedRequest,
    admit_started,
    raise_failure,
    require_beginning,
    stream_delayed,
    stream_run,
    wait_for_rest,
)
from toolyard.surfaces.shared.whole_history.sent_fields import DEFAULT, build_ignored_header, read_server_tools
from toolyard.surfaces.surface import Backend
from toolyard.tool_index.find_tools_result import estimate_tool_bytes

BYTES_PER_TOKEN = 4
A = TypeVar("A")


class StoredRun(Struct, frozen=True, kw_only=True):
    """The run of a response, with the log that it was read from."""

    view: RunView
    created_at: int
    """The time of the request."""
    log: Sequence[Entry]


class Responses:
    """Creates and finds responses, which are runs."""

    def __init__(self, backend: Backend) -> None:
        self._service = backend.service
        self._starter = backend.share(build_starter)

    async def create(self, request: HttpRequest, data: ResponseBody) -> Response[ResponseObject] | Stream:
        context, base = get_request_context(request.scope), str(request.base_url)
        if data.background and data.store is False:
            raise invalid_field("background", "needs store: the response could not be found again")
        if data.generate is False:
            raise invalid_field("generate", "can be false only on a WebSocket, which keeps the input")
        tools = read_request_tools(self._service, request, data)
        traits = self._read_traits(data, tools)
        if data.stream:
            streamed = await self._start(request, data, tools, self._starter.start_streamed)
            if isinstance(streamed, AdmittedRun):
                if not data.background:  # its failure is a response that can be found
                    await require_beginning(streamed, OPTION_FIELDS)
                headers = {**streamed.headers, **self._name_ignored(data)}
                return build_stream_response(self._stream_run(request, streamed, traits), headers)
            pieces = stream_delayed(
                streamed,
                lambda admitted: self._stream_run(request, admitted, traits),
                lambda error: encode_failure(error, context.correlation_id),
            )
            return build_stream_response(pieces, {**streamed.headers, **self._name_ignored(data)})
        admitted = await self._start(request, data, tools, self._starter.start)
        view = admitted.view
        if data.background:
            admitted.reader.detach()
        else:
            view = await wait_for_rest(self._service, admitted, context.caller, self._choose_hold(traits))
            raise_failure(view, OPTION_FIELDS)
        headers = {**admitted.headers, **self._name_ignored(data)}
        return Response(build_response(view, traits, self._describe(view, traits, base)), headers=headers)

    def _name_ignored(self, data: ResponseBody) -> dict[str, str]:
        options = read_options(data)
        # The response repeats the metadata, so that its client finds it again.
        extra = {name: value for name, value in options.extra.items() if name != "metadata"}
        options, unread = replace(options, extra=extra), list_unread_fields(data)
        return build_ignored_header(self._service, data.model, options, OPTION_FIELDS, unread)

    async def stream(
        self, request: HttpRequest, data: ResponseBody, complete: ResponseBody
    ) -> AsyncGenerator[bytes, None]:
        """Yield the events of the response to a request. Raise ToolyardError before the first of them.

        `complete` is the request with the items of the response that it goes on from, if its client keeps those.
        """
        tools = read_request_tools(self._service, request, complete)
        traits = self._read_traits(data, tools)
        if data.generate is False:
            if find_named_conversation(complete):
                raise invalid_field("generate", "cannot be false where a stored response goes on")
            yield encode_whole(build_empty_response(self._service.clock, traits))
            return
        admitted = await self._start(request, complete, tools, self._starter.start)
        await require_beginning(admitted, OPTION_FIELDS)
        async with aclosing(self._stream_run(request, admitted, traits)) as pieces:
            async for piece in pieces:
                yield piece

    def _read_traits(self, data: ResponseBody, tools: RequestTools) -> ResponseTraits:
        return ResponseTraits(
            model=self._service.models.default if data.model in ("", DEFAULT) else data.model,
            created_at=int(self._service.clock.now()),
            instructions=data.instructions,
            store=data.store is not False,
            fields=tools.read_client_fields(data),
        )

    def _choose_hold(self, traits: ResponseTraits) -> float:
        """Return how long an approval is waited for. A client that takes approvals as items is to decide them now."""
        return 0.0 if traits.fields.approval_label else self._starter.approval_hold_s

    def _stream_run(
        self, request: HttpRequest, admitted: AdmittedRun, traits: ResponseTraits
    ) -> AsyncGenerator[bytes, None]:
        base = str(request.base_url)
        encoder = ResponseEncoder(
            admitted.view,
            admitted.reader.end,
            start=admitted.reader.cursor,
            build=lambda view, text: build_response(view, traits, text),
            describe_waiting=lambda view: self._describe(view, traits, base),
            approval_label=traits.fields.approval_label,
        )
        correlation_id = get_request_context(request.scope).correlation_id
        return stream_run(admitted, encoder, correlation_id, self._choose_hold(traits))

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
        whole = ParsedRequest(
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
        raise_failure(view, OPTION_FIELDS)
        text = "".join(text.text for text in view.texts)[:MAX_SUMMARY_CHARS]
        summary = HistorySummary(text=text, untrusted=History(whole.items).sources)
        if view.ending != "done" or not summary.text:
            problem = Problem(error="the model gave no summary", error_type=MODEL_ERROR)
            raise ModelFailed(problem, view.run_id)
        return CompactedResponse(
            id=encode_response_id(view.conversation, view.run_id),
            created_at=int(service.clock.now()),
            output=[build_compaction(build_item_id("cmp", view.run_id), summary)],
            usage=build_usage(view.usage),
        )

    async def count_input_tokens(self, request: HttpRequest, data: ResponseBody) -> int:
        """Estimate the tokens that the first turn of a response would send to the model. Nothing is started."""
        service, caller = self._service, get_request_context(request.scope).caller
        items, conversation = list_input(data), find_named_conversation(data)
        outputs = list_outputs(items) if conversation else {}
        whole = await self._read_request(
            request, data, items, read_request_tools(self._service, request, data), frozenset(outputs)
        )
        history: Sequence[Item] = await self._load_earlier(data.previous_response_id, caller)
        if conversation and not data.previous_response_id:
            await find_in_conversation(service, conversation, caller)
            history = (await service.conversations.view(conversation)).history
        names = whole.server_tools
        tools = [
            *whole.tools,
            *(tool for tool in service.tools.list_usable(caller) if names is None or tool.name in names),
        ]
        texts = (whole.instructions, *(str(output.value) for output in outputs.values()))
        return (
            sum(map(estimate_tokens, (*history, *whole.items)))
            + sum(map(estimate_text_tokens, texts))
            + sum(map(estimate_tool_bytes, tools)) // BYTES_PER_TOKEN
        )

    async def _load_earlier(self, response_id: str | None, caller: Caller) -> list[Item]:
        """Return the history up to the end of a response. Raise Invalid if there is none, Refused if it goes on."""
        if not response_id:
            return []
        try:
            stored = await self.find_run(response_id, caller)
        except NotFound:
            raise build_missing_error(response_id) from None
        state = await self._service.conversations.view(stored.view.conversation)
        items = await asyncio.to_thread(find_fork_items, state, stored.view.run_id, stored.log)
        # The whole results stay with their conversation: the summary is made from what the model has read of them.
        return [replace(item, handle="", native="") if isinstance(item, Result) else item for item in items]

    async def _start(
        self,
        request: HttpRequest,
        data: ResponseBody,
        tools: RequestTools,
        start: Callable[[HttpRequest, ParsedRequest], Awaitable[A]],
    ) -> AdmittedRun | A:
        """Start a run, or join that of an earlier sending. `start` starts one of a request with its whole history."""
        items = list_input(data)
        if not items:
            raise invalid_field("input", "is empty: send a text or items")
        conversation = find_named_conversation(data)
        brought = read_decisions(items, is_continued=bool(conversation))
        if brought.decisions:
            if conversation and brought.others:
                # A request that cannot be read decides nothing.
                await self._read_request(request, data, brought.others, tools)
                check_same_conversation(brought.decisions, conversation)
            decided = await decide_calls(self._service, brought.decisions, get_request_context(request.scope))
            if decided is None and not brought.others:
                raise invalid_field("input", "decides nothing: no call of yours with this approval_request_id is here")
            if decided is not None and not (conversation and brought.others):
                return await self._follow_decided(request, decided)
        if not conversation:
            return await start(request, await self._read_request(request, data, items, tools))
        if tools.mcp is not None:
            await self._check_declaration(conversation, tools.mcp)
        service, caller = self._service, get_request_context(request.scope).caller
        if data.toolyard is not None and data.toolyard.server_tools != "all":
            raise invalid_field("toolyard.server_tools", "can be chosen only where a conversation begins")
        continued = ContinuedRequest(
            conversation=conversation,
            outputs=list_outputs(items),
            output_field="input",
            output_name="function_call_output",
            find=lambda: find_continuation(service, data, caller),
            read=lambda delivered: self._read_request(request, data, items, tools, delivered),
            has_decisions=bool(brought.decisions),
        )
        return await start_continued(service, self._starter, request, continued)

    async def _follow_decided(self, request: HttpRequest, decided: DecidedRun) -> AdmittedRun:
        started = await follow_run(self._service, decided.conversation, decided.run_id)
        return admit_started(started, {"x-request-id": get_request_context(request.scope).correlation_id})

    async def _check_declaration(self, conversation: str, declaration: McpDeclaration) -> None:
        """Raise Invalid if a conversation, whose rules were set when it began, allows more than a declaration."""
        settings = (await self._service.conversations.view(conversation)).settings
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
        tools: RequestTools,
        delivered: frozenset[str] = frozenset(),
    ) -> ParsedRequest:
        service, caller = self._service, get_request_context(request.scope).caller
        server_tools = read_server_tools(data.toolyard, data.model, service, caller)
        conversation = find_named_conversation(data)
        items = await replace_references(service, items, caller, conversation)
        reader = InputReader(delivered, links_approvals=not conversation)
        declared, declaration = tools.declared, tools.mcp
        if declaration is not None and declaration.allowed_tools is not None:
            available = (
                {tool.name for tool in service.tools.list_usable(caller)} if server_tools is None else server_tools
            )
            server_tools = frozenset(available & declaration.allowed_tools)
        return ParsedRequest(
            items=await read_history(items, service.clock, reader.add, field="input"),
            tools=declared.tools,
            model=data.model,
            tool_choice=read_declared_choice(data.tool_choice, declared),
            options=read_options(data),
            server_tools=server_tools,
            asked_tools=declaration.asked_tools if declaration else frozenset(),
            instructions=data.instructions or "",
            web_search=read_search_mode(data, data.toolyard) or ("auto" if declared.asks_search else ""),
            keep=data.store is not False,
            option_fields=OPTION_FIELDS,
            client_fields=msgspec.to_builtins(tools.read_client_fields(data)),
        )

    async def find_run(self, response_id: str, caller: Caller) -> StoredRun:
        """Return the run of a response. Raise NotFound."""
        parsed_id = parse_response_id(response_id)
        missing = NotFound(f"there is no response {response_id[:80]!r}: it was not stored, or deleted")
        try:
            await self._service.conversations.require(parsed_id.conversation, caller)
        except NotFound:
            raise missing from None
        view, created_at = RunView(run_id=parsed_id.run, conversation=parsed_id.conversation), 0.0
        log = await self._service.conversations.read_entries(parsed_id.conversation)
        for entry in log:
            if view.apply(entry) and isinstance(entry.event, RunQueued):
                created_at = entry.at
        ids = _list_item_ids(view)
        if view.request is None or (
            ids and not (await self._service.conversations.view(parsed_id.conversation)).find_used_ids(ids)
        ):
            raise missing  # there never was one, or its messages were removed
        return StoredRun(view=view, created_at=int(created_at), log=log)

    async def load(self, response_id: str, caller: Caller, base: str) -> ResponseObject:
        stored = await self.find_run(response_id, caller)
        traits = self._find_traits(stored)
        return build_response(stored.view, traits, self._describe(stored.view, traits, base))

    def _find_traits(self, stored: StoredRun) -> ResponseTraits:
        request = stored.view.request
        note = request.context.get(INSTRUCTIONS) if request else None
        model = (request.model if request else "") or self._service.models.default
        fields = msgspec.convert(request.client_fields if request else {}, ClientFields)
        instructions = note.text if note else None
        return ResponseTraits(model=model, created_at=stored.created_at, instructions=instructions, fields=fields)

    async def resume(self, request: HttpRequest, response_id: str, starting_after: int | None) -> Stream:
        """Stream the events of a response after a number, or all of them."""
        context, base = get_request_context(request.scope), str(request.base_url)
        stored = await self.find_run(response_id, context.caller)
        whole, traits = stored.view, self._find_traits(stored)
        entries = [entry for entry in stored.log if entry.run == whole.run_id]
        first = entries[0].seq - 1
        after = find_place(entries, first, starting_after) if starting_after is not None else None
        start = after.cursor if after is not None and after.cursor.seq >= first else Cursor(first)
        view = RunView(run_id=whole.run_id, conversation=whole.conversation)
        numbers = EventNumbers()
        for entry in entries:
            if entry.seq <= start.seq:
                view.apply(entry)
                numbers.add(entry)
        has_tools = bool(whole.request and whole.request.app_tools)
        reader = await self._service.conversations.follow(whole.conversation, start, include_argument_deltas=has_tools)
        encoder = ResponseEncoder(
            view,
            reader.end,
            start=start,
            build=lambda view, text: build_response(view, traits, text),
            describe_waiting=lambda view: self._describe(view, traits, base),
            approval_label=traits.fields.approval_label,
            reasonings=_find_reasonings(entries),
            numbers=numbers,
            after=after,
            after_number=-1 if starting_after is None else starting_after,
        )
        return build_stream_response(
            stream_events(reader, encoder, context.correlation_id), {"x-request-id": context.correlation_id}
        )

    async def cancel(self, response_id: str, caller: Caller, base: str) -> ResponseObject:
        view = (await self.find_run(response_id, caller)).view
        if view.status != "ended":
            with suppress(Refused):  # it has ended meanwhile
                await self._service.conversations.submit(view.conversation, Stop(by=caller, run_id=view.run_id))
            await self._wait_for_end(view)
        return await self.load(response_id, caller, base)

    async def _wait_for_end(self, view: RunView) -> None:
        reader = await self._service.conversations.follow(view.conversation, START, include_argument_deltas=False)
        ended = RunView(run_id=view.run_id)
        try:
            async for item in reader:
                if ended.apply(item) and ended.status == "ended":
                    return
        finally:
            reader.detach()

    async def delete(self, response_id: str, caller: Caller) -> None:
        stored = await self.find_run(response_id, caller)
        view = stored.view
        card = await self._service.conversations.require(view.conversation, caller)
        runs = {entry.run for entry in stored.log if isinstance(entry.event, RunQueued)}
        if card.unlisted and runs == {view.run_id}:
            await self._service.conversations.submit(view.conversation, Delete(by=caller))
            return
        ids = frozenset((await self._service.conversations.view(view.conversation)).find_used_ids(_list_item_ids(view)))
        await self._service.conversations.submit(view.conversation, RemoveMessage(by=caller, ids=ids))

    def _describe(self, view: RunView, traits: ResponseTraits, base: str) -> str:
        """Return the sentence for what a run waits for, but for approvals that are items of their own."""
        notices = RunNotices(texts=self._service.texts, base_url=base)
        return notices.describe_waiting(view, with_approvals=not traits.fields.approval_label)


def _find_reasonings(entries: Sequence[Entry]) -> dict[int, str]:
    """Return the reasoning of the turns that have ended, by their numbers."""
    number, reasonings = 0, dict[int, str]()
    for entry in entries:
        if isinstance(entry.event, TurnStarted):
            number = entry.event.number
        elif isinstance(entry.event, TurnEnded):
            reasonings[number] = join_reasoning(entry.event.items)
    return reasonings


def _list_item_ids(view: RunView) -> set[str]:
    return {item.id for item in (*(view.request.input if view.request else ()), *view.list_items())}
