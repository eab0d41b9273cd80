"""`POST /chat/v1/conversation`: a conversation whose tools run in the application that asks.

An application sends the whole history each time, or a conversation's id and what is new. Either way a call that it is
handed has an id that leads back to the run that waits for it.
"""

from collections.abc import Sequence
from typing import Annotated

from litestar import Response, post
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody
from litestar.response import Stream
from msgspec import Meta, Struct
from msgspec.structs import replace

from toolyard.core.conversation_settings import Settings, SettingsChange
from toolyard.core.cursor import Cursor, parse_cursor
from toolyard.core.errors import NotFound, Refused
from toolyard.core.limits import Limits
from toolyard.core.notes import to_notes
from toolyard.core.ports import Failure, Value
from toolyard.core.state import State
from toolyard.core.web_search import SearchMode
from toolyard.engine.authentication import Authenticator
from toolyard.engine.service import Service
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
from toolyard.surfaces.app_chat.run_tracker import AppAnswer, RunTracker, parse_call_id
from toolyard.surfaces.app_chat.stream import AppResponse
from toolyard.surfaces.authorization import admit_request
from toolyard.surfaces.errors import invalid_field
from toolyard.surfaces.history import read_history
from toolyard.surfaces.openapi import ERRORS, EVENT_STREAM, JsonOrStreamOperation
from toolyard.surfaces.request_context import HttpRequest, RequestContext, get_request_context
from toolyard.surfaces.run_answer import ANSWER_GRACE_S
from toolyard.surfaces.sse import build_stream_response
from toolyard.surfaces.web_search import WebSearchFields

PATH = "/chat/v1/conversation"
JSON = "application/json"
ANSWER_RESPONSE = ResponseSpec(
    data_container=AppAnswer,
    description="Calls for the application to run, or the model's message. Or a stream that ends with it",
    generate_examples=False,
)
CallResults = dict[str, Value | Failure]


class ConversationBody(WebSearchFields, Struct, kw_only=True, rename="camel"):
    """What is asked (`messages`), or results of calls (`toolResults`), or neither to learn how a run went on.

    With a `conversationId` only the messages after the assistant's last one are new. Without one the messages are the
    whole history; such a conversation is kept only if a call has to wait, or if `keep` says so. A first message alone
    begins a conversation that is kept unless `keep` is false.
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
    web_search: SearchMode = ""
    language: str = ""
    interrupt: bool = False


def routes(service: Service, access: Authenticator) -> list[HTTPRouteHandler]:
    @post(
        PATH,
        status_code=200,
        responses={**ERRORS, 200: ANSWER_RESPONSE},
        operation_class=JsonOrStreamOperation,
        tags=["app"],
    )
    async def converse(request: HttpRequest, data: JSONBody[ConversationBody]) -> Response[AppAnswer] | Stream:
        """Have the model answer, with tools that run in the application: as JSON, or as a stream.

        The answer holds the calls that the application is to run, or the model's message. Leaving stops nothing.
        """
        context = get_request_context(request.scope)
        division = (data.context or {}).get("division") or ""
        if not isinstance(division, str):
            raise invalid_field("context.division", "must be a text")
        if division:
            context = replace(context, caller=access.authenticate_in_division(request.headers, division))
        after = request.headers.get("last-event-id", "")
        place = parse_cursor(after) if after else None
        exchange = await RequestHandler(service, context, place).handle(data)
        if request.accept.best_match([JSON, EVENT_STREAM]) == EVENT_STREAM:
            return build_stream_response(exchange.stream(context.correlation_id), exchange.headers)
        return Response(await exchange.wait_for_answer(), headers=dict(exchange.headers))

    return [converse]


class RequestHandler:
    """Takes one request to the run that it begins, goes on with, or asks about."""

    def __init__(self, service: Service, context: RequestContext, cursor: Cursor | None) -> None:
        self._service = service
        self._caller = context.caller
        self._correlation_id = context.correlation_id
        self._cursor = cursor

    async def handle(self, data: ConversationBody) -> AppResponse:
        if data.tool_results and data.messages:
            raise invalid_field("toolResults", "send results or messages, not both")
        if data.tool_results:
            results = [(one.tool_call_id, parse_tool_result(one, index)) for index, one in enumerate(data.tool_results)]
            return await self._deliver_results(data.conversation_id, results)
        if results := extract_results(data):
            return await self._deliver_results(data.conversation_id, results, whole_history=True)
        if data.messages:
            return await self._start_run(data)
        if data.conversation_id:
            return await self._resume(data.conversation_id)
        raise invalid_field("messages", "send messages, or a conversationId to learn how it went on")

    async def _start_run(self, data: ConversationBody) -> AppResponse:
        service, caller, named = self._service, self._caller, data.conversation_id
        if named:
            await service.require_conversation(named, caller)
        first = find_first_new(data)
        input = await read_history(data.messages[first:], service.clock, add_app_message, first)
        tools = [parse_tool(tool, index) for index, tool in enumerate(data.tools)]
        overridden = service.list_taken_names((tool.name for tool in tools), caller)
        settings = replace(
            parse_settings(data, service.default_settings), ephemeral=not named and not should_keep(data)
        )
        start = service.build_start(
            caller,
            input,
            correlation_id=self._correlation_id,
            tool_choice=data.tool_choice,
            model=data.model,
            limits=None if named else compute_remaining_limits(data.messages, service.limits_for(caller)),
            web_search=data.search_mode,
            language=data.language,
            settings=settings,
            app_tools=[tool for tool in tools if tool.name not in overridden],
            interrupt=data.interrupt,
        )
        headers = await admit_request(service, caller)
        if named:
            await self._update_settings(named, data)
        exchange = await self._open_response(named or service.clock.new_id("conversation"), start.run_id)
        exchange.overridden, exchange.headers = overridden, headers
        exchange.tracker.kept = not settings.ephemeral
        if data.interrupt:
            exchange.tracker.mark_stopped()
        await exchange.perform(service.submit(exchange.conversation, start))
        return exchange

    async def _update_settings(self, conversation: str, data: ConversationBody) -> None:
        """What the app says of itself now holds from this request on."""
        settings = (await self._service.state(conversation)).settings
        wanted = parse_settings(data, settings)
        if wanted != settings:
            change = SettingsChange(system_prompt=wanted.system_prompt, context=wanted.context)
            await self._service.change(
                conversation, self._caller, lambda _: change, correlation_id=self._correlation_id
            )

    async def _deliver_results(
        self, conversation_id: str, results: Sequence[tuple[str, Value | Failure]], *, whole_history: bool = False
    ) -> AppResponse:
        """Hand in results. Where the whole history came, those of this turn that were handed in before are no news."""
        service, caller = self._service, self._caller
        conversation, answers = parse_results(conversation_id, results)
        try:
            await service.require_conversation(conversation, caller, "decide")
        except NotFound:
            if conversation_id:
                raise
            raise Refused("no run waits for these results: it has ended, or never was") from None
        exchange = await self._open_response(conversation)
        if whole_history:
            calls = (await service.state(conversation)).calls
            closed = {call_id for call_id in answers if call_id in calls and calls[call_id].phase == "closed"}
            answers = {call_id: answers[call_id] for call_id in answers if call_id not in closed} or answers
        await exchange.perform(service.deliver(conversation, answers, caller))
        exchange.tracker.mark_delivered(answers)
        return exchange

    async def _resume(self, conversation: str) -> AppResponse:
        """How the run in front goes on, or how the last one ended."""
        await self._service.require_conversation(conversation, self._caller, "decide")
        exchange = await self._open_response(conversation)
        if not exchange.tracker.run_id:
            await exchange.perform(exchange.load_last_run())
        return exchange

    async def _open_response(self, conversation: str, run_id: str = "") -> AppResponse:
        """Follow the conversation from the place that was named, or from now on; the run in front if none is named."""
        service = self._service
        state = await service.state(conversation)
        reader = await service.follow(
            conversation, include_argument_deltas=False
        )  # nothing waits in between: the journal is here
        end = reader.cursor.seq
        if self._cursor is not None:
            reader.detach()
            reader = await service.follow(conversation, self._cursor, include_argument_deltas=False)
        course = RunTracker(conversation, run_id or get_front_run_id(state), state, end, service.texts)
        limits = state.settings.limits or service.limits_for(self._caller)
        return AppResponse(service, conversation, reader, course, limits.run_seconds + ANSWER_GRACE_S)


def get_front_run_id(state: State) -> str:
    return state.run.id if state.run else state.queue[0].id if state.queue else ""


def extract_results(data: ConversationBody) -> list[tuple[str, Value | Failure]]:
    """The results at the end of the messages, if they are for calls that were handed out here."""
    new = select_new_messages(data.messages)
    results = [message for message in new if message.role == "tool"]
    if not results or not (data.conversation_id or any(parse_call_id(one.call_id)[0] for one in results)):
        return []
    if new[-1].role != "tool":
        raise invalid_field(
            f"messages.{len(data.messages) - 1}", "hand in the results first, then send the next message"
        )
    return [(one.call_id, Value(value="" if one.content is None else one.content)) for one in results]


def parse_results(conversation_id: str, results: Sequence[tuple[str, Value | Failure]]) -> tuple[str, CallResults]:
    """The one conversation that these results are for, and the answer to each of its calls."""
    handed = [(*parse_call_id(text), answer) for text, answer in results]
    conversations = {conversation for conversation in (conversation_id, *(one for one, _, _ in handed)) if conversation}
    if not conversations:
        raise invalid_field("conversationId", "is missing, and these ids do not tell it: they were not handed out here")
    answers = {call_id: answer for _, call_id, answer in handed}
    if len(conversations) > 1 or len(answers) < len(handed):
        raise Refused("these results are for calls of several conversations, or there are two for one call")
    return conversations.pop(), answers


def should_keep(data: ConversationBody) -> bool:
    """A request that carries its history is not kept unless it says so; a first message is."""
    return data.keep if data.keep is not None else all(one.role in ("user", "system") for one in data.messages)


def find_first_new(data: ConversationBody) -> int:
    """The index of the first message that is new here. Raises Invalid if the last one leaves nothing to answer."""
    last = len(data.messages) - 1
    if data.messages[last].role == "assistant":
        raise invalid_field(f"messages.{last}", "is the assistant's: there is nothing to answer")
    return last + 1 - len(select_new_messages(data.messages)) if data.conversation_id else 0


def parse_settings(data: ConversationBody, settings: Settings) -> Settings:
    """What the app says of itself, in place of what it said before."""
    prompt = settings.system_prompt if data.system_prompt is None else data.system_prompt
    if data.context is None:
        return replace(settings, system_prompt=prompt)
    others = {key: note for key, note in settings.context.items() if not key.startswith(APP_NOTE_PREFIX)}
    return replace(settings, system_prompt=prompt, context={**others, **to_notes(data.context, APP_NOTE_PREFIX)})


def compute_remaining_limits(messages: Sequence[AppMessage], limits: Limits) -> Limits | None:
    """The limits that are left to a request whose history has tool turns in it already."""
    turns = count_tool_turns(messages)
    if not turns:
        return None
    places = range(len(messages) - 1, -1, -1)
    asked = next((index for index in places if messages[index].role == "user"), 0)
    return replace(
        limits,
        turns_per_conversation=max(0, limits.turns_per_conversation - turns),
        turns_per_request=max(0, limits.turns_per_request - count_tool_turns(messages[asked:])),
    )
