"""`POST /ai/respond`: answer a prompt as a stream; `GET /ai/tools/health`: check the tools and the store."""

from typing import Annotated, Literal

from litestar import get, post
from litestar.params import JSONBody
from litestar.response import Stream
from msgspec import Meta, Struct
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.conversation.context.notes import to_notes
from toolyard.core.conversation.events import RunRequest
from toolyard.core.items import Item, TextPart, UserMessage
from toolyard.core.ports import Servers
from toolyard.core.tools.mcp_servers import ServerCard, ServerStatus
from toolyard.engine.service import Service
from toolyard.surfaces.http.idempotency import admit_once, read_request_key
from toolyard.surfaces.http.openapi import ERRORS, EVENT_STREAM
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context
from toolyard.surfaces.shared.answer_options import AnswerFields
from toolyard.surfaces.shared.chat_messages import ChatMessage, MessageId, build_title
from toolyard.surfaces.shared.history import add_message, find_used_ids, read_history
from toolyard.surfaces.shared.runs.encoder import start_and_stream
from toolyard.surfaces.shared.server_views import describe_outage, get_visible_error, list_visible_servers
from toolyard.surfaces.shared.waiting_sentences import remove_sentences
from toolyard.surfaces.surface import Surface


class RespondBody(AnswerFields, Struct, kw_only=True):
    """A prompt, with its history and options."""

    prompt: Annotated[str, Meta(min_length=1, max_length=1_000_000)]
    """The user's message."""
    history: list[ChatMessage] = []
    """The messages before the prompt, if the client keeps them itself."""
    conversation_history: list[ChatMessage] = []
    """Another name of `history`; if both are sent, the messages of this one come second."""
    mode: Literal["tools+chat", "chat-only"] = "tools+chat"
    """`chat-only` answers without tools."""
    conversation_id: str = ""
    """The conversation to continue; empty for a new one."""
    message_id: MessageId = ""
    """The id of the prompt's message. One that is in the conversation already is refused with 409."""
    model: str = ""
    """One of `GET /models`; empty for the conversation's or the server's."""
    context: dict[str, object] = {}
    """Context for the model, besides the prompt, and for the tools. A new conversation keeps it."""
    tool_choice: str = "auto"
    """`auto`, `none`, `required` or the name of a tool."""
    language: str = ""
    """The language of texts that the server writes itself, in place of the conversation's."""
    keep: bool | None = None
    """Whether to keep a new conversation. By default one that is sent with its history is kept only if a call waits."""


class ToolNames(Struct, kw_only=True):
    total_schemas: int
    total_dispatchers: int
    schema_names: list[str]
    dispatcher_names: list[str]
    schema_only: list[str]
    dispatcher_only: list[str]
    total_built_in: int
    built_in_names: list[str]
    """Tools that come with the server or the model: read_result, find_tools, a provider's own search."""


class ServerHealth(Struct, kw_only=True):
    """The state of an MCP server."""

    id: str
    status: ServerStatus
    error: str
    message: str
    """Why its tools cannot be called now, and what to do; empty if they can be."""
    tools: int
    quarantined: int
    restarts: int


class ToolsHealth(Struct, kw_only=True):
    status: Literal["healthy", "warning", "unhealthy"]
    tools: ToolNames
    model: str
    store: str
    """`ok`, or why the store accepts no writes."""
    servers: list[ServerHealth] = []
    warnings: list[str] = []
    """Problems that an operator should look at."""


@post("/ai/respond", status_code=200, media_type=EVENT_STREAM, responses=ERRORS, tags=["respond"])
async def respond(request: HttpRequest, data: JSONBody[RespondBody]) -> Stream:
    """Start a run for a prompt and stream its events."""
    service = request.backend.service
    context = get_request_context(request.scope)
    if data.conversation_id:
        await service.conversations.require(data.conversation_id, context.caller)
    input, sources = await remove_sentences(service, await read_input(data, service), context.caller)
    has_history = bool(data.history or data.conversation_history)
    notes = to_notes(data.context)
    settings = replace(
        service.default_settings,
        title=build_title(data.prompt),
        context=notes,
        ephemeral=has_history if data.keep is None else not data.keep,
    )
    start = service.runs.build_start(
        context.caller,
        input,
        RunRequest(
            tool_choice="none" if data.mode == "chat-only" else data.tool_choice,
            model=data.model,
            web_search=data.search_mode,
            options=data.answer_options,
            # A new conversation keeps the context in its settings; an existing one has it for this run only.
            context=notes if data.conversation_id else {},
            language=data.language,
        ),
        correlation_id=context.correlation_id,
        settings=settings,
        may_open=not data.conversation_id,
        request=await read_request_key(request),
    )
    conversation = data.conversation_id or service.clock.new_id("conversation")
    async with admit_once(service, context.caller, start.request) as headers:
        for source in sources:
            await service.conversations.copy_blobs(source, conversation, input)
        return await start_and_stream(service, request, conversation, start, headers, is_new=not data.conversation_id)


@get("/ai/tools/health", responses=ERRORS, tags=["respond"])
async def tools_health(request: HttpRequest) -> ToolsHealth:
    """Check that every tool that is offered to the caller can be run, and the reverse, and that the store works."""
    service, servers = request.backend.service, request.backend.servers
    caller = get_request_context(request.scope).caller
    return build_health(service, servers, caller, await service.find_store_problem())


async def read_input(data: RespondBody, service: Service) -> list[Item]:
    """Return the history of the request as items, followed by the prompt."""
    clock = service.clock
    prompt = UserMessage(
        id=data.message_id or clock.new_id("item"), at=clock.now(), parts=(TextPart(text=data.prompt),)
    )
    messages = [*data.history, *data.conversation_history]
    used_ids = await find_used_ids(service, data.conversation_id, [message.id for message in messages])
    return [*await read_history(messages, clock, add_message, used_ids={*used_ids, prompt.id}), prompt]


def build_health(service: Service, servers: Servers, caller: Caller, store_problem: str) -> ToolsHealth:
    """Return the health report. A failed server is only a warning, because the tools of the others still work."""
    audit = service.tools.check_health(caller)
    names = ToolNames(
        total_schemas=len(audit.schemas),
        total_dispatchers=len(audit.dispatchers),
        schema_names=audit.schemas,
        dispatcher_names=audit.dispatchers,
        schema_only=[name for name in audit.schemas if name not in audit.dispatchers],
        dispatcher_only=[name for name in audit.dispatchers if name not in audit.schemas],
        total_built_in=len(audit.built_in),
        built_in_names=audit.built_in,
    )
    cards = list_visible_servers(servers, caller)
    states = [build_server_health(card, caller) for card in cards]
    mismatch = bool(names.schema_only or names.dispatcher_only)
    warnings = [
        *service.tools.warnings(),
        *(warning for card in cards for warning in list_server_warnings(card, caller)),
    ]
    status = "unhealthy" if mismatch or store_problem else "warning" if warnings else "healthy"
    return ToolsHealth(
        status=status,
        tools=names,
        model=service.models.default,
        store=store_problem or "ok",
        servers=states,
        warnings=warnings,
    )


def list_server_warnings(card: ServerCard, caller: Caller) -> list[str]:
    """Return a sentence for each problem of a server. One that is stopped has none: a person has stopped it."""
    outage = describe_outage(card, caller) if card.status in ("failed", "restarting") else ""
    waiting = sum(tool.state in ("new", "changed") for tool in card.tools)
    review = (
        f"{waiting} tools of the server {card.id!r} wait for an administrator: `toolyard servers accept {card.id}`"
        if waiting
        else ""
    )
    # Tools that only some callers get are shown to administrators only, as in the list of tools.
    defects = (
        tool.explain_absence(card.id)
        for tool in card.tools
        if tool.state == "unusable" and (caller.administers_server or not tool.callers)
    )
    return [warning for warning in (outage, review, *defects) if warning]


def build_server_health(card: ServerCard, caller: Caller) -> ServerHealth:
    return ServerHealth(
        id=card.id,
        status=card.status,
        error=get_visible_error(card, caller),
        message=describe_outage(card, caller),
        tools=sum(tool.state == "accepted" for tool in card.tools),
        quarantined=sum(tool.state in ("new", "changed") for tool in card.tools),
        restarts=card.restarts,
    )


SURFACE = Surface(routes=(respond, tools_health), session_paths=frozenset({"/ai/tools/health"}))
