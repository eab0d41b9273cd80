"""`POST /ai/respond`: a prompt in, a stream of objects out; and whether every tool that is offered can be run."""

from typing import Annotated, Literal

from litestar import get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody
from litestar.response import Stream
from msgspec import Meta, Struct
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.items import Item, TextPart, UserMessage
from toolyard.core.ports import Servers
from toolyard.core.servers import ServerCard, ServerStatus
from toolyard.core.settings import Note
from toolyard.engine.service import Service
from toolyard.surfaces._answers import ERRORS, EVENTS
from toolyard.surfaces._history import add_message, read_history
from toolyard.surfaces._known import admitted
from toolyard.surfaces._messages import Message
from toolyard.surfaces._notes import MOST_NOTES, NoteName, NoteText
from toolyard.surfaces._searching import Searched
from toolyard.surfaces._servers import shown_error
from toolyard.surfaces._sse import begun
from toolyard.surfaces._visit import Visitor, visit_of


class RespondBody(Searched, Struct, kw_only=True):
    """What to answer, and how."""

    prompt: Annotated[str, Meta(min_length=1, max_length=1_000_000)]
    history: list[Message] = []
    conversation_history: list[Message] = []
    mode: Literal["tools+chat", "chat-only"] = "tools+chat"
    conversation_id: str = ""
    model: str = ""
    context: Annotated[dict[NoteName, NoteText], Meta(max_length=MOST_NOTES)] = {}
    tool_choice: str = "auto"
    keep: bool | None = None
    """A conversation whose history came along is kept only if a call has to wait, or if this says so."""


class ToolNames(Struct, kw_only=True):
    total_schemas: int
    total_dispatchers: int
    schema_names: list[str]
    dispatcher_names: list[str]
    schema_only: list[str]
    dispatcher_only: list[str]


class ServerHealth(Struct, kw_only=True):
    """How an MCP server is, really."""

    id: str
    status: ServerStatus
    error: str
    tools: int
    quarantined: int
    restarts: int


class ToolsHealth(Struct, kw_only=True):
    status: Literal["healthy", "warning", "unhealthy"]
    tools: ToolNames
    model: str
    servers: list[ServerHealth] = []


def routes(service: Service, servers: Servers) -> list[HTTPRouteHandler]:
    @post("/ai/respond", status_code=200, media_type=EVENTS, responses=ERRORS, tags=["respond"])
    async def respond(request: Visitor, data: JSONBody[RespondBody]) -> Stream:
        """Answer a prompt as a stream of server-sent events."""
        visit = visit_of(request.scope)
        if data.conversation_id:
            await service.known(data.conversation_id, visit.caller)
        input = await read_input(data, service)
        notes = {name: Note(name=name, text=text) for name, text in data.context.items()}
        carries = bool(data.history or data.conversation_history)
        settings = replace(service.default_settings, ephemeral=carries if data.keep is None else not data.keep)
        start = service.request(
            visit.caller,
            input,
            correlation_id=visit.correlation_id,
            tool_choice="none" if data.mode == "chat-only" else data.tool_choice,
            model=data.model,
            web_search=data.wish,
            settings=replace(settings, context=notes) if notes else settings,
        )
        headers = await admitted(service, visit.caller)
        return await begun(service, data.conversation_id or service.mint.id("conversation"), start, headers)

    @get("/ai/tools/health", responses=ERRORS, tags=["respond"])
    async def tools_health(request: Visitor) -> ToolsHealth:
        """Whether every tool that is offered can be run, and the other way round."""
        return health_of(service, servers, visit_of(request.scope).caller)

    return [respond, tools_health]


async def read_input(data: RespondBody, service: Service) -> list[Item]:
    """Return the history that came along, then the prompt."""
    mint = service.mint
    prompt = UserMessage(id=mint.id("item"), at=mint.now(), parts=(TextPart(text=data.prompt),))
    return [*await read_history([*data.history, *data.conversation_history], mint, add_message), prompt]


def health_of(service: Service, servers: Servers, caller: Caller) -> ToolsHealth:
    """A server that is not as it should be is a warning: what the others offer can be run all the same."""
    health = service.health()
    schemas, dispatchers = health.schemas, health.dispatchers
    names = ToolNames(
        total_schemas=len(schemas),
        total_dispatchers=len(dispatchers),
        schema_names=schemas,
        dispatcher_names=dispatchers,
        schema_only=[name for name in schemas if name not in dispatchers],
        dispatcher_only=[name for name in dispatchers if name not in schemas],
    )
    sound = not (names.schema_only or names.dispatcher_only)
    known = [server_health(card, caller) for card in servers.cards()]
    worried = any(one.status in ("failed", "restarting") or one.quarantined for one in known)
    status = "unhealthy" if not sound else "warning" if worried else "healthy"
    return ToolsHealth(status=status, tools=names, model=health.model, servers=known)


def server_health(card: ServerCard, caller: Caller) -> ServerHealth:
    return ServerHealth(
        id=card.id,
        status=card.status,
        error=shown_error(card, caller),
        tools=sum(tool.state == "accepted" for tool in card.tools),
        quarantined=sum(tool.state in ("new", "changed") for tool in card.tools),
        restarts=card.restarts,
    )
