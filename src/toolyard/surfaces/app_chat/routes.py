"""`POST /chat/v1/conversation`: a conversation whose tools run in the application that sends the request.

An application sends the whole history each time, or a conversation id and the new messages. In both cases the id of a
call that it receives names the conversation, so that the result finds the run that waits for it.
"""

from collections.abc import Sequence
from typing import Annotated

from litestar import Response, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody
from litestar.response import Stream
from msgspec import Meta, Struct
from msgspec.structs import replace

from toolyard.core.conversation.commands import Change
from toolyard.core.conversation.context.notes import to_notes
from toolyard.core.conversation.cursor import Cursor, parse_cursor
from toolyard.core.conversation.events import RequestKey, RunRequest
from toolyard.core.conversation.run_view import OpenRuns
from toolyard.core.conversation.settings import Settings, SettingsChange
from toolyard.core.errors import NotFound, Refused
from toolyard.core.items import Item, UserMessage
from toolyard.core.ports import Failure, Value
from toolyard.core.settings.limits import Limits
from toolyard.core.store import RequestRecord
from toolyard.engine.log.open_runs import load_open_runs
from toolyard.engine.log.readers import Reader
from toolyard.engine.service import Service
from toolyard.surfaces.app_chat.answer import AnswerBuilder, AppAnswer
from toolyard.surfaces.app_chat.parse import (
    APP_NOTE_PREFIX,
    MAX_TOOLS,
    AppMessage,
    AppTool,
    ToolResult,
    add_app_message,
    count_tool_turns,
    parse_tool,
    parse_tool_result,
    select_new_messages,
)
from toolyard.surfaces.app_chat.stream import AppResponse
from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.http.idempotency import REPLAYED_HEADERS, count_once, read_request_key
from toolyard.surfaces.http.openapi import ERRORS, EVENT_STREAM, JsonOrStreamOperation
from toolyard.surfaces.http.request_context import HttpRequest, RequestContext, get_request_context
from toolyard.surfaces.http.sse import build_stream_response
from toolyard.surfaces.shared.answer_options import AnswerFields
from toolyard.surfaces.shared.call_ids import parse_call_id
from toolyard.surfaces.shared.chat_messages import build_title
from toolyard.surfaces.shared.history import find_used_ids, read_history
from toolyard.surfaces.shared.runs.answer import ANSWER_GRACE_S
from toolyard.surfaces.shared.runs.notices import RunNotices, build_notices
from toolyard.surfaces.shared.waiting_sentences import remove_sentences
from toolyard.surfaces.surface import Surface

PATH = "/chat/v1/conversation"
JSON = "application/json"
ANSWER_RESPONSE = ResponseSpec(
    data_container=AppAnswer,
    description="Calls for the application to run, or the model's message. Or a stream that ends with it",
    generate_examples=False,
)
CallResults = dict[str, Value | Failure]


class ConversationBody(AnswerFields, Struct, kw_only=True, rename="camel"):
    """New `messages`, or the results of calls (`toolResults`), or neither of them to ask how a run went on.

    With a `conversationId` only the messages after the assistant's last one are new. Without one the messages are the
    whole history, and the conversation is kept only if a call has to wait or `keep` is true. A conversation that begins
    with a first message is kept unless `keep` is false.
    """

    messages: list[AppMessage] = []
    tools: Annotated[list[AppTool], Meta(max_length=MAX_TOOLS)] = []
    system_prompt: Annotated[str, Meta(max_length=100_000)] | None = None
    context: dict[str, object] | None = None
    conversation_id: Annotated[str, Meta(max_length=200)] = ""
    tool_results: Annotated[list[ToolResult], Meta(max_length=1000)] = []
    keep: bool | None = None
    model: Annotated[str, Meta(max_length=500)] = ""
    tool_choice: Annotated[str, Meta(max_length=100)] = "auto"
    output_schema: dict[str, object] | None = None
    language: str = ""
    interrupt: bool = False


@post(
    PATH,
    status_code=200,
    responses={**ERRORS, 200: ANSWER_RESPONSE},
    operation_class=JsonOrStreamOperation,
    tags=["app"],
)
async def converse(request: HttpRequest, data: JSONBody[ConversationBody]) -> Response[AppAnswer] | Stream:
    """Have the model answer, with tools that run in the application: as JSON, or as a stream.

    The answer holds calls for the application to run, or the model's message. The run goes on if you disconnect.
    """
    service, access = request.backend.service, request.backend.access
    context = get_request_context(request.scope)
    division = (data.context or {}).get("division") or ""
    if not isinstance(division, str):
        raise invalid_field("context.division", "must be a text")
    if division:
        context = replace(context, caller=access.authenticate_in_division(request.headers, division))
    after = request.headers.get("last-event-id", "")
    cursor = parse_cursor(after) if after else None
    key = await read_request_key(request)
    async with service.runs.hold(key):
        response = await RequestHandler(service, context, cursor, key, build_notices(service, request)).handle(data)
    if request.accept.best_match([JSON, EVENT_STREAM]) == EVENT_STREAM:
        return build_stream_response(response.stream(context.correlation_id), response.headers)
    return Response(await response.wait_for_answer(), headers=dict(response.headers))


class RequestHandler:
    """Handles one request: starts a run, delivers results to one, or resumes following one."""

    def __init__(
        self,
        service: Service,
        context: RequestContext,
        cursor: Cursor | None,
        key: RequestKey | None,
        notices: RunNotices,
    ) -> None:
        self._service = service
        self._caller = context.caller
        self._correlation_id = context.correlation_id
        self._cursor = cursor
        self._key = key
        self._notices = notices

    async def handle(self, data: ConversationBody) -> AppResponse:
        if data.tool_results and data.messages:
            raise invalid_field("toolResults", "send results or messages, not both")
        if data.tool_results:
            results = [
                (result.tool_call_id, parse_tool_result(result, index))
                for index, result in enumerate(data.tool_results)
            ]
            return await self._deliver_results(data.conversation_id, results)
        if results := extract_results(data):
            return await self._deliver_results(data.conversation_id, results, whole_history=True)
        if data.messages:
            return await self._start_run(data)
        if data.conversation_id:
            return await self._resume(data.conversation_id)
        raise invalid_field("messages", "send messages, or a conversationId to learn how it went on")

    async def _start_run(self, data: ConversationBody) -> AppResponse:
        service, caller, conversation_id = self._service, self._caller, data.conversation_id
        if conversation_id:
            await service.conversations.require(conversation_id, caller)
        first = find_first_new(data)
        new = data.messages[first:]
        used_ids = await find_used_ids(service, conversation_id, [message.id for message in new])
        history = await read_history(new, service.clock, add_app_message, first, used_ids)
        input, sources = await remove_sentences(service, history, caller)
        tools = [parse_tool(tool, index) for index, tool in enumerate(data.tools)]
        overridden = service.tools.list_taken_names((tool.name for tool in tools), caller)
        settings = replace(
            parse_settings(data, service.default_settings),
            title=find_title(input),
            ephemeral=not conversation_id and not should_keep(data),
        )
        start = service.runs.build_start(
            caller,
            input,
            RunRequest(
                app_tools=tuple(tool for tool in tools if tool.name not in overridden),
                tool_choice=data.tool_choice,
                model=data.model,
                limits=None
                if conversation_id
                else compute_remaining_limits(data.messages, service.runs.limits_for(caller)),
                web_search=data.search_mode,
                options=data.answer_options,
                language=data.language,
            ),
            correlation_id=self._correlation_id,
            settings=settings,
            interrupt=data.interrupt,
            may_open=not conversation_id,
            request=self._key,
        )
        headers = await count_once(service, caller, self._key)
        if conversation_id and await service.conversations.find_request(self._key) is None:
            await self._update_settings(conversation_id, data)
        conversation = conversation_id or service.clock.new_id("conversation")
        for source in sources:
            await service.conversations.copy_blobs(source, conversation, input)
        started = await service.runs.start(
            conversation, start, is_new=not conversation_id, include_argument_deltas=False
        )
        reader = started.reader
        if started.repeated and self._cursor is not None:
            reader.detach()
            reader = await self._follow_again(started.conversation, reader.cursor.seq + 1)
        response = await self._build_response(
            started.conversation, reader, started.run_id, is_stored=not settings.ephemeral
        )
        response.builder.overridden = overridden
        response.headers = {**headers, **REPLAYED_HEADERS} if started.repeated else headers
        return response

    async def _update_settings(self, conversation: str, data: ConversationBody) -> None:
        """Change the conversation's system prompt and context if the request brings other ones."""
        settings = (await self._service.conversations.view(conversation)).settings
        new_settings = parse_settings(data, settings)
        if new_settings != settings:
            change = SettingsChange(system_prompt=new_settings.system_prompt, context=new_settings.context)
            command = Change(by=self._caller, correlation_id=self._correlation_id, change=change)
            await self._service.conversations.submit(conversation, command)

    async def _deliver_results(
        self, conversation_id: str, results: Sequence[tuple[str, Value | Failure]], *, whole_history: bool = False
    ) -> AppResponse:
        """Deliver the results of calls to the run that waits for them.

        With `whole_history` the results are part of the messages: those that were delivered earlier are skipped.
        """
        service, caller = self._service, self._caller
        conversation, answers = parse_results(conversation_id, results)
        try:
            await service.conversations.require(conversation, caller, "decide")
        except NotFound:
            if conversation_id:
                raise
            raise Refused("no run waits for these results: it has ended or does not exist") from None
        if record := await service.conversations.find_request(self._key):
            return await self._join_delivery(record)
        # Open the response before delivering: the run goes on at once, and its next entries must not be missed.
        response = await self._open_response(conversation)
        if whole_history:
            calls = (await service.conversations.view(conversation)).calls
            closed = {call_id for call_id in answers if call_id in calls and calls[call_id].phase == "closed"}
            # If nothing is new, deliver all of them, so that the application is told by Refused.
            answers = {call_id: answers[call_id] for call_id in answers if call_id not in closed} or answers
        record = await self._deliver_once(response, conversation, answers)
        if record is not None:
            response.close()
            return await self._join_delivery(record)
        response.builder.expect_results(answers)
        return response

    async def _deliver_once(
        self, response: AppResponse, conversation: str, answers: CallResults
    ) -> RequestRecord | None:
        """Deliver results, or return the record of a request with the same key that has delivered them."""
        service = self._service
        try:
            return await response.perform(service.runs.deliver(conversation, answers, self._caller, request=self._key))
        except Refused:
            # No call waits any more: the same request, sent to another process, may have delivered just before.
            if record := await service.conversations.find_request(self._key):
                return record
            raise

    async def _follow_again(self, conversation: str, seq: int) -> Reader:
        """Follow what an earlier request with the same key did from entry `seq` on, without the part that was seen."""
        after = Cursor(seq - 1)
        if self._cursor is not None and self._cursor.seq > after.seq:
            after = self._cursor
        return await self._service.conversations.follow(conversation, after, include_argument_deltas=False)

    async def _join_delivery(self, record: RequestRecord) -> AppResponse:
        """Return the response to results that an earlier request with the same key has delivered."""
        reader = await self._follow_again(record.conversation, record.seq)
        response = await self._build_response(record.conversation, reader, record.run)
        response.headers = REPLAYED_HEADERS
        return response

    async def _resume(self, conversation: str) -> AppResponse:
        """Follow the current run, or report how the last one ended."""
        await self._service.conversations.require(conversation, self._caller, "decide")
        return await self._open_response(conversation)

    async def _open_response(self, conversation: str) -> AppResponse:
        """Return a response that follows the current run, or reports how the last one ended.

        It starts at the request's cursor, or now. Raise Refused if no run was ever started.
        """
        service = self._service
        reader = await service.conversations.follow(conversation, self._cursor, include_argument_deltas=False)
        try:
            run_id = find_current_run_id(await load_open_runs(service.conversations, conversation, Cursor(reader.end)))
        except BaseException:
            reader.detach()
            raise
        return await self._build_response(conversation, reader, run_id)

    async def _build_response(
        self, conversation: str, reader: Reader, run_id: str, *, is_stored: bool | None = None
    ) -> AppResponse:
        """Return a response that follows a run from where the reader is. It detaches the reader if that fails."""
        service, end = self._service, reader.end
        try:
            state = await service.conversations.view(conversation)
            builder = AnswerBuilder(
                conversation,
                run_id,
                await load_open_runs(service.conversations, conversation, reader.cursor),
                self._notices,
                seen_seq=reader.cursor.seq,
                end_seq=end,
                is_stored=not state.settings.ephemeral if is_stored is None else is_stored,
            )
        except BaseException:
            reader.detach()
            raise
        limits = state.settings.limits or service.runs.limits_for(self._caller)
        return AppResponse(conversation, reader, builder, limits.run_seconds + ANSWER_GRACE_S)


def find_current_run_id(runs: OpenRuns) -> str:
    """Return the id of the current run, else of the first one in the queue, else of the one that ended last."""
    run = runs.front or next(iter(runs.views.values()), None) or runs.last
    if run is None:
        raise Refused("nothing runs or waits in this conversation: send a message")
    return run.run_id


def extract_results(data: ConversationBody) -> list[tuple[str, Value | Failure]]:
    """Return the tool results at the end of the messages if they are for calls of this server, else nothing."""
    new = select_new_messages(data.messages)
    results = [message for message in new if message.role == "tool"]
    if not results or not (data.conversation_id or any(parse_call_id(message.call_id)[0] for message in results)):
        return []
    if new[-1].role != "tool":
        raise invalid_field(
            f"messages.{len(data.messages) - 1}", "hand in the results first, then send the next message"
        )
    return [(message.call_id, Value(value="" if message.content is None else message.content)) for message in results]


def parse_results(conversation_id: str, results: Sequence[tuple[str, Value | Failure]]) -> tuple[str, CallResults]:
    """Return the conversation that the results are for, and the results by call id. Raise Refused for several."""
    parsed = [(*parse_call_id(text), answer) for text, answer in results]
    conversations = {conversation_id, *(conversation for conversation, _, _ in parsed)} - {""}
    if not conversations:
        raise invalid_field("conversationId", "is missing, and these ids do not tell it: they were not handed out here")
    answers = {call_id: answer for _, call_id, answer in parsed}
    if len(conversations) > 1 or len(answers) < len(parsed):
        raise Refused("these results are for calls of several conversations, or there are two for one call")
    return conversations.pop(), answers


def should_keep(data: ConversationBody) -> bool:
    """Return whether to keep a new conversation: by default only if the request carries no earlier history."""
    return data.keep if data.keep is not None else all(message.role in ("user", "system") for message in data.messages)


def find_first_new(data: ConversationBody) -> int:
    """Return the index of the first new message. Raise Invalid if the last message is the assistant's."""
    last = len(data.messages) - 1
    if data.messages[last].role == "assistant":
        raise invalid_field(f"messages.{last}", "is the assistant's: there is nothing to answer")
    return last + 1 - len(select_new_messages(data.messages)) if data.conversation_id else 0


def parse_settings(data: ConversationBody, settings: Settings) -> Settings:
    """Return the settings with the request's system prompt and context in place of the application's earlier ones."""
    prompt = settings.system_prompt if data.system_prompt is None else data.system_prompt
    if data.context is None:
        return replace(settings, system_prompt=prompt)
    others = {key: note for key, note in settings.context.items() if not key.startswith(APP_NOTE_PREFIX)}
    return replace(settings, system_prompt=prompt, context={**others, **to_notes(data.context, APP_NOTE_PREFIX)})


def find_title(items: Sequence[Item]) -> str:
    """Return a title for a new conversation: the first words of the user."""
    texts = (item.text for item in items if isinstance(item, UserMessage))
    return build_title(next(filter(None, texts), ""))


def compute_remaining_limits(messages: Sequence[AppMessage], limits: Limits) -> Limits | None:
    """Return the limits minus the tool turns that the sent history already has; None if it has none."""
    turns = count_tool_turns(messages)
    if not turns:
        return None
    positions = range(len(messages) - 1, -1, -1)
    last_user_index = next((index for index in positions if messages[index].role == "user"), 0)
    return replace(
        limits,
        turns_per_conversation=max(0, limits.turns_per_conversation - turns),
        turns_per_request=max(0, limits.turns_per_request - count_tool_turns(messages[last_user_index:])),
    )


SURFACE = Surface(routes=(converse,))
