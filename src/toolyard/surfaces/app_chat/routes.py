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
from toolyard.core.web_search import Wish
from toolyard.engine.authentication import Access
from toolyard.engine.service import Service
from toolyard.surfaces.app_chat.parse import (
    MOST_TOOLS,
    OURS,
    AppMessage,
    AppTool,
    ToolResult,
    add_app_message,
    since_last_answer,
    to_result,
    to_tool,
    tool_turns,
)
from toolyard.surfaces.app_chat.run_tracker import AppAnswer, AppCourse, parse_handed
from toolyard.surfaces.app_chat.stream import Exchange
from toolyard.surfaces.authorization import admitted
from toolyard.surfaces.errors import invalid
from toolyard.surfaces.history import read_history
from toolyard.surfaces.openapi import ERRORS, EVENTS, OrStream
from toolyard.surfaces.request_context import Visit, Visitor, visit_of
from toolyard.surfaces.run_answer import PATIENCE_S
from toolyard.surfaces.sse import event_stream
from toolyard.surfaces.web_search import Searched

PATH = "/chat/v1/conversation"
JSON = "application/json"
ANSWERED = ResponseSpec(
    data_container=AppAnswer,
    description="Calls for the application to run, or the model's message. Or a stream that ends with it",
    generate_examples=False,
)
Answers = dict[str, Value | Failure]


class ConversationBody(Searched, Struct, kw_only=True, rename="camel"):
    """What is asked (`messages`), or results of calls (`toolResults`), or neither to learn how a run went on.

    With a `conversationId` only the messages after the assistant's last one are new. Without one the messages are the
    whole history; such a conversation is kept only if a call has to wait, or if `keep` says so. A first message alone
    begins a conversation that is kept unless `keep` is false.
    """

    messages: list[AppMessage] = []
    tools: Annotated[list[AppTool], Meta(max_length=MOST_TOOLS)] = []
    system_prompt: Annotated[str, Meta(max_length=100_000)] | None = None
    context: dict[str, object] | None = None
    conversation_id: Annotated[str, Meta(max_length=200)] = ""
    tool_results: Annotated[list[ToolResult], Meta(max_length=1000)] = []
    keep: bool | None = None
    model: Annotated[str, Meta(max_length=500)] = ""
    tool_choice: Annotated[str, Meta(max_length=100)] = "auto"
    web_search: Wish = ""
    language: str = ""
    interrupt: bool = False


def routes(service: Service, access: Access) -> list[HTTPRouteHandler]:
    @post(PATH, status_code=200, responses={**ERRORS, 200: ANSWERED}, operation_class=OrStream, tags=["app"])
    async def converse(request: Visitor, data: JSONBody[ConversationBody]) -> Response[AppAnswer] | Stream:
        """Have the model answer, with tools that run in the application: as JSON, or as a stream.

        The answer holds the calls that the application is to run, or the model's message. Leaving stops nothing.
        """
        visit = visit_of(request.scope)
        division = (data.context or {}).get("division") or ""
        if not isinstance(division, str):
            raise invalid("context.division", "must be a text")
        if division:
            visit = replace(visit, caller=access.in_division(request.headers, division))
        after = request.headers.get("last-event-id", "")
        place = parse_cursor(after) if after else None
        exchange = await Desk(service, visit, place).taken(data)
        if request.accept.best_match([JSON, EVENTS]) == EVENTS:
            return event_stream(exchange.streamed(visit.correlation_id), exchange.headers)
        return Response(await exchange.answered(), headers=dict(exchange.headers))

    return [converse]


class Desk:
    """Takes one request to the run that it begins, goes on with, or asks about."""

    def __init__(self, service: Service, visit: Visit, place: Cursor | None) -> None:
        self._service = service
        self._caller = visit.caller
        self._correlation_id = visit.correlation_id
        self._place = place

    async def taken(self, data: ConversationBody) -> Exchange:
        if data.tool_results and data.messages:
            raise invalid("toolResults", "send results or messages, not both")
        if data.tool_results:
            results = [(one.tool_call_id, to_result(one, index)) for index, one in enumerate(data.tool_results)]
            return await self._continued(data.conversation_id, results)
        if results := results_in(data):
            return await self._continued(data.conversation_id, results, whole_history=True)
        if data.messages:
            return await self._begun(data)
        if data.conversation_id:
            return await self._resumed(data.conversation_id)
        raise invalid("messages", "send messages, or a conversationId to learn how it went on")

    async def _begun(self, data: ConversationBody) -> Exchange:
        service, caller, named = self._service, self._caller, data.conversation_id
        if named:
            await service.known(named, caller)
        first = first_new(data)
        input = await read_history(data.messages[first:], service.mint, add_app_message, first)
        tools = [to_tool(tool, index) for index, tool in enumerate(data.tools)]
        overridden = service.taken((tool.name for tool in tools), caller)
        settings = replace(parse_settings(data, service.default_settings), ephemeral=not named and not to_keep(data))
        start = service.request(
            caller,
            input,
            correlation_id=self._correlation_id,
            tool_choice=data.tool_choice,
            model=data.model,
            limits=None if named else carried(data.messages, service.limits(caller)),
            web_search=data.wish,
            language=data.language,
            settings=settings,
            app_tools=[tool for tool in tools if tool.name not in overridden],
            interrupt=data.interrupt,
        )
        headers = await admitted(service, caller)
        if named:
            await self._set(named, data)
        exchange = await self._exchange(named or service.mint.id("conversation"), start.run_id)
        exchange.overridden, exchange.headers = overridden, headers
        exchange.course.kept = not settings.ephemeral
        if data.interrupt:
            exchange.course.stopped()
        await exchange.upon(service.submit(exchange.conversation, start))
        return exchange

    async def _set(self, conversation: str, data: ConversationBody) -> None:
        """What the app says of itself now holds from this request on."""
        settings = (await self._service.state(conversation)).settings
        wanted = parse_settings(data, settings)
        if wanted != settings:
            change = SettingsChange(system_prompt=wanted.system_prompt, context=wanted.context)
            await self._service.change(
                conversation, self._caller, lambda _: change, correlation_id=self._correlation_id
            )

    async def _continued(
        self, named: str, results: Sequence[tuple[str, Value | Failure]], *, whole_history: bool = False
    ) -> Exchange:
        """Hand in results. Where the whole history came, those of this turn that were handed in before are no news."""
        service, caller = self._service, self._caller
        conversation, answers = parse_results(named, results)
        try:
            await service.known(conversation, caller, "decide")
        except NotFound:
            if named:
                raise
            raise Refused("no run waits for these results: it has ended, or never was") from None
        exchange = await self._exchange(conversation)
        if whole_history:
            calls = (await service.state(conversation)).calls
            closed = {call_id for call_id in answers if call_id in calls and calls[call_id].phase == "closed"}
            answers = {call_id: answers[call_id] for call_id in answers if call_id not in closed} or answers
        await exchange.upon(service.deliver(conversation, answers, caller))
        exchange.course.answered(answers)
        return exchange

    async def _resumed(self, conversation: str) -> Exchange:
        """How the run in front goes on, or how the last one ended."""
        await self._service.known(conversation, self._caller, "decide")
        exchange = await self._exchange(conversation)
        if not exchange.course.mine:
            await exchange.upon(exchange.look_back())
        return exchange

    async def _exchange(self, conversation: str, run_id: str = "") -> Exchange:
        """Follow the conversation from the place that was named, or from now on; the run in front if none is named."""
        service = self._service
        state = await service.state(conversation)
        reader = await service.follow(conversation, keen=False)  # nothing waits in between: the journal is here
        end = reader.cursor.seq
        if self._place is not None:
            reader.detach()
            reader = await service.follow(conversation, self._place, keen=False)
        course = AppCourse(conversation, run_id or front_of(state), state, end, service.texts)
        limits = state.settings.limits or service.limits(self._caller)
        return Exchange(service, conversation, reader, course, limits.run_seconds + PATIENCE_S)


def front_of(state: State) -> str:
    return state.run.id if state.run else state.queue[0].id if state.queue else ""


def results_in(data: ConversationBody) -> list[tuple[str, Value | Failure]]:
    """The results at the end of the messages, if they are for calls that were handed out here."""
    new = since_last_answer(data.messages)
    results = [message for message in new if message.role == "tool"]
    if not results or not (data.conversation_id or any(parse_handed(one.call_id)[0] for one in results)):
        return []
    if new[-1].role != "tool":
        raise invalid(f"messages.{len(data.messages) - 1}", "hand in the results first, then send the next message")
    return [(one.call_id, Value(value="" if one.content is None else one.content)) for one in results]


def parse_results(named: str, results: Sequence[tuple[str, Value | Failure]]) -> tuple[str, Answers]:
    """The one conversation that these results are for, and the answer to each of its calls."""
    handed = [(*parse_handed(text), answer) for text, answer in results]
    conversations = {conversation for conversation in (named, *(one for one, _, _ in handed)) if conversation}
    if not conversations:
        raise invalid("conversationId", "is missing, and these ids do not tell it: they were not handed out here")
    answers = {call_id: answer for _, call_id, answer in handed}
    if len(conversations) > 1 or len(answers) < len(handed):
        raise Refused("these results are for calls of several conversations, or there are two for one call")
    return conversations.pop(), answers


def to_keep(data: ConversationBody) -> bool:
    """A request that carries its history is not kept unless it says so; a first message is."""
    return data.keep if data.keep is not None else all(one.role in ("user", "system") for one in data.messages)


def first_new(data: ConversationBody) -> int:
    """The index of the first message that is new here. Raises Invalid if the last one leaves nothing to answer."""
    last = len(data.messages) - 1
    if data.messages[last].role == "assistant":
        raise invalid(f"messages.{last}", "is the assistant's: there is nothing to answer")
    return last + 1 - len(since_last_answer(data.messages)) if data.conversation_id else 0


def parse_settings(data: ConversationBody, settings: Settings) -> Settings:
    """What the app says of itself, in place of what it said before."""
    prompt = settings.system_prompt if data.system_prompt is None else data.system_prompt
    if data.context is None:
        return replace(settings, system_prompt=prompt)
    others = {key: note for key, note in settings.context.items() if not key.startswith(OURS)}
    return replace(settings, system_prompt=prompt, context={**others, **to_notes(data.context, OURS)})


def carried(messages: Sequence[AppMessage], limits: Limits) -> Limits | None:
    """The limits that are left to a request whose history has tool turns in it already."""
    turns = tool_turns(messages)
    if not turns:
        return None
    places = range(len(messages) - 1, -1, -1)
    asked = next((index for index in places if messages[index].role == "user"), 0)
    return replace(
        limits,
        turns_per_conversation=max(0, limits.turns_per_conversation - turns),
        turns_per_request=max(0, limits.turns_per_request - tool_turns(messages[asked:])),
    )
