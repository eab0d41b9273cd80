"""`/servers`: list, add, remove, start and stop MCP servers, and review and call their tools.

Callers see and call the servers of their tenant; administrators without a tenant see and change all of them.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated, Literal

from litestar import Response, delete, get, post
from litestar.params import FromPath, JSONBody
from msgspec import UNSET, Meta, Struct, UnsetType, convert, to_builtins
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.conversation.run_view import RunView
from toolyard.core.conversation.settings import Settings
from toolyard.core.errors import Forbidden, Invalid, NotFound, Outdated, Unavailable
from toolyard.core.items import Call
from toolyard.core.masking import MASK
from toolyard.core.ports import Servers
from toolyard.core.settings.checks import list_problems
from toolyard.core.tools.mcp_servers import (
    MAX_ID_CHARS,
    SERVER_ID,
    AddServers,
    ServerCard,
    ServerSpec,
    ServerTool,
    build_server_id,
)
from toolyard.engine.run.run import Run
from toolyard.surfaces.http.authorization import require_server_admin
from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.http.idempotency import REPLAYED_HEADERS, admit_once, read_request_key
from toolyard.surfaces.http.openapi import CHANGE_ERRORS, ERRORS
from toolyard.surfaces.http.preconditions import build_etag, read_expected_version
from toolyard.surfaces.http.request_body import LenientBody
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context
from toolyard.surfaces.shared.server_views import (
    ServerAnswer,
    ServerView,
    build_server_view,
    describe_outage,
    describe_status,
    find_server_card,
    list_visible_servers,
)

ServerId = Annotated[str, Meta(min_length=1, max_length=MAX_ID_CHARS, pattern=SERVER_ID)]
DisplayName = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[^/\\\x00-\x1f\x7f]+\Z")]
PathId = FromPath[str]


class NewServerSpec(ServerSpec, frozen=True, kw_only=True):
    """A configuration of a new server, which may leave it to the server's settings whether it is trusted."""

    trust: bool | UnsetType = UNSET  # pyright: ignore[reportIncompatibleVariableOverride]


class NamedServerSpec(NewServerSpec, frozen=True, kw_only=True):
    """A configuration with its name. The `slug` is the server's id; by default it is derived from the name."""

    name: DisplayName
    slug: ServerId | None = None


class NewServer(LenientBody, kw_only=True):
    """A `name` and a `config` with the settings of `[servers.NAME]` in the file, or both together as `server`."""

    name: DisplayName | None = None
    config: NewServerSpec | None = None
    server: NamedServerSpec | None = None


class ServerList(Struct, kw_only=True):
    servers: list[ServerView]
    count: int
    success: bool = True


class ServerToolView(Struct, kw_only=True):
    name: str
    description: str
    input_schema: dict[str, object]
    offered_as: str
    state: str
    difference: str
    reviewed: bool
    """Whether a person has accepted the definition; the first listing of a server is accepted by nobody."""
    hash: str


class ServerTools(Struct, kw_only=True):
    server_id: str
    server_name: str
    status: str
    tools: list[ServerToolView]
    message: str
    success: bool = True


class ToolSelectionBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """The tools to accept or reject; an empty list means all that wait for review.

    `hashes` are those of the definitions that you have seen: 409 if the server lists others by now.
    """

    tools: list[str] = []
    hashes: list[str] = []


class ToolCallBody(LenientBody, Struct, kw_only=True):
    tool_name: Annotated[str, Meta(min_length=1, max_length=1000)]
    arguments: dict[str, object] = {}


class ToolAnswer(Struct, kw_only=True):
    server_id: str
    server_name: str
    tool_name: str
    message: str
    result: str | None = None
    """The result as a model would read it."""
    status: Literal["ended", "waiting"] = "ended"
    outcome: str = ""
    conversation_id: str = ""
    call_id: str = ""
    success: bool = True


class RemovedServer(ServerAnswer, kw_only=True):
    bound_names: list[str]
    """The names of its tools: no other server's tools get them before they are freed."""


class FreedNames(Struct, kw_only=True):
    names: list[str]
    message: str
    success: bool = True


@get("/servers", responses=ERRORS, tags=["servers"])
async def list_servers(request: HttpRequest) -> ServerList:
    """List the servers with their states. Secret values of a configuration are masked."""
    caller = get_request_context(request.scope).caller
    views = [build_server_view(card, caller) for card in list_visible_servers(request.backend.servers, caller)]
    return ServerList(servers=views, count=len(views))


@get("/servers/{server_id:str}", responses=ERRORS, tags=["servers"])
async def get_server(request: HttpRequest, server_id: PathId) -> Response[ServerAnswer]:
    """Return a server with its state, and with the version of its stored configuration as `ETag`."""
    caller = get_request_context(request.scope).caller
    card = find_server_card(request.backend.servers, server_id, caller)
    answer = ServerAnswer(server=build_server_view(card, caller), message=describe_status(card, caller))
    return Response(answer, headers=build_etag(card.version))


@get("/servers/{server_id:str}/tools", responses=ERRORS, tags=["servers"])
async def list_tools(request: HttpRequest, server_id: PathId) -> ServerTools:
    """List the tools of a server, also quarantined ones, with the difference to the accepted definition."""
    caller = get_request_context(request.scope).caller
    card = find_server_card(request.backend.servers, server_id, caller)
    if not caller.administers_server:
        card = replace(card, tools=tuple(tool for tool in card.tools if not tool.callers))
    return build_server_tools(card, f"{len(card.tools)} tools")


@post("/servers", responses=ERRORS, audited_as="server.add", tags=["servers"])
async def add_server(request: HttpRequest, data: JSONBody[NewServer]) -> ServerAnswer:
    """Add a server. Its configuration is stored, and it is started at once."""
    servers, add_servers, trust_added = (
        request.backend.servers,
        request.backend.add_servers,
        request.backend.trust_added_servers,
    )
    admin = require_servers_admin(request)
    server_id, spec = parse_new(data, trust_added=trust_added)
    require_addable(spec, add_servers())
    card = await servers.add(server_id, spec)
    warning = f"; it {spec.version_warning}" if spec.version_warning else ""
    return ServerAnswer(
        server=build_server_view(card, admin),
        message=f"Server {card.name!r} added: {describe_status(card, admin)}{warning}{describe_trust(card)}",
    )


@delete(
    "/servers/{server_id:str}", status_code=200, responses=CHANGE_ERRORS, audited_as="server.remove", tags=["servers"]
)
async def remove_server(request: HttpRequest, server_id: PathId) -> RemovedServer:
    """Stop a server and remove it, together with the record of its accepted tools. Their names stay bound to it.

    If the configuration has a server of this id too, only the stored one is removed. `If-Match` as for PUT.
    """
    servers = request.backend.servers
    admin = require_servers_admin(request)
    with add_current(servers, server_id, admin):
        card = await servers.act(server_id, "remove", expected=read_expected_version(request))
    return RemovedServer(
        server=build_server_view(card, admin),
        message=f"Server {server_id!r} removed",
        bound_names=sorted(servers.list_names(server_id)),
    )


@delete("/servers/{server_id:str}/names", status_code=200, responses=ERRORS, tags=["servers"])
async def free_names(request: HttpRequest, server_id: PathId) -> FreedNames:
    """Free the tool names of a server that was removed. Tools of other servers may get them from now on."""
    require_servers_admin(request)
    names = sorted(await request.backend.servers.free_names(server_id))
    return FreedNames(names=names, message=f"Names of the server {server_id!r} freed: {', '.join(names)}")


@post("/servers/{server_id:str}/start", status_code=200, responses=ERRORS, audited_as="server.start", tags=["servers"])
async def start_server(request: HttpRequest, server_id: PathId) -> ServerAnswer:
    """Start a server that is stopped, or that has failed, without waiting for its next automatic restart."""
    admin = require_servers_admin(request)
    card = await request.backend.servers.act(server_id, "start")
    return ServerAnswer(server=build_server_view(card, admin), message=describe_status(card, admin))


@post("/servers/{server_id:str}/stop", status_code=200, responses=ERRORS, audited_as="server.stop", tags=["servers"])
async def stop_server(request: HttpRequest, server_id: PathId) -> ServerAnswer:
    """Stop a server. Its tools are not offered until it is started again."""
    admin = require_servers_admin(request)
    card = await request.backend.servers.act(server_id, "stop")
    return ServerAnswer(server=build_server_view(card, admin), message=f"Server {server_id!r} stopped")


@post("/servers/{server_id:str}/accept", status_code=200, responses=ERRORS, audited_as="pin.accept", tags=["servers"])
async def accept_tools(
    request: HttpRequest, server_id: PathId, data: JSONBody[ToolSelectionBody | None] = None
) -> ServerTools:
    """Accept new and changed tools of a server: all that wait for review, or those named."""
    require_servers_admin(request)
    selection = data or ToolSelectionBody()
    card = await request.backend.servers.act(server_id, "accept", selection.tools, selection.hashes)
    return build_server_tools(card, "Accepted")


@post("/servers/{server_id:str}/reject", status_code=200, responses=ERRORS, audited_as="pin.reject", tags=["servers"])
async def reject_tools(
    request: HttpRequest, server_id: PathId, data: JSONBody[ToolSelectionBody | None] = None
) -> ServerTools:
    """Reject tools in their present form: all that wait for review, or those named. The decision is stored."""
    require_servers_admin(request)
    selection = data or ToolSelectionBody()
    card = await request.backend.servers.act(server_id, "reject", selection.tools, selection.hashes)
    return build_server_tools(card, "Rejected")


@post("/servers/{server_id:str}/tools/call", status_code=200, responses=ERRORS, tags=["servers"])
async def call_tool(request: HttpRequest, server_id: PathId, data: JSONBody[ToolCallBody]) -> Response[ToolAnswer]:
    """Call a tool directly. It is authorized, run and logged as any other call; the status is 202 if it waits."""
    service, servers = request.backend.service, request.backend.servers
    context = get_request_context(request.scope)
    caller = context.caller
    await service.tools.wait_for(caller, lambda: bool(find_server_card(servers, server_id, caller).tools))
    card = find_server_card(servers, server_id, caller)
    tool = _find_accepted_tool(card, data.tool_name, caller)
    clock = service.clock
    call = Call(id=clock.new_id("call"), at=clock.now(), tool=tool.offered_as, arguments=data.arguments)
    start = service.runs.build_start(
        context.caller,
        (call,),
        correlation_id=context.correlation_id,
        settings=Settings(title=f"{tool.name} on {server_id}", unlisted=True),
        request=await read_request_key(request),
    )
    run = Run(service, "", start)
    async with admit_once(service, context.caller, start.request) as headers:
        answer = _build_answer(await run.wait_for_rest(), card, tool)
    if run.repeated:
        headers = {**headers, **REPLAYED_HEADERS}
    return Response(answer, status_code=202 if answer.status == "waiting" else 200, headers=headers)


ROUTES = (
    list_servers,
    get_server,
    list_tools,
    add_server,
    remove_server,
    free_names,
    start_server,
    stop_server,
    accept_tools,
    reject_tools,
    call_tool,
)


def _build_answer(view: RunView, card: ServerCard, tool: ServerTool) -> ToolAnswer:
    answer = ToolAnswer(
        server_id=card.id, server_name=card.name, tool_name=tool.name, message="", conversation_id=view.conversation
    )
    (call_id,) = view.calls
    if view.status == "waiting":
        message = "the call waits: approve, deny or answer it in its conversation"
        return replace(answer, status="waiting", call_id=call_id, message=message)
    result = view.calls[call_id].result
    if result is None:
        return replace(answer, success=False, message=view.detail)
    succeeded = result.outcome == "ok"
    return replace(
        answer,
        result=result.content,
        outcome=result.outcome,
        success=succeeded,
        message="Tool executed" if succeeded else (result.error.error if result.error else result.outcome),
        call_id=call_id,
    )


@contextmanager
def add_current(servers: Servers, server_id: str, admin: Caller) -> Generator[None]:
    """Add the server as it is now to the error about a change that comes too late."""
    try:
        yield
    except Outdated as error:
        card = find_server_card(servers, server_id, admin)
        raise Outdated(str(error), {"current": to_builtins(build_server_view(card, admin))}) from None


def describe_trust(card: ServerCard) -> str:
    """Return what an untrusted server means for the calls of its tools, and how to change that; empty if trusted."""
    if card.spec.trust:
        return ""
    change = f'PUT /servers/{card.id} {{"trust": true}}'
    return f"; it is not trusted, so every call of its tools asks a person first: {change} trusts it"


def parse_new(data: NewServer, *, trust_added: bool = False) -> tuple[str, ServerSpec]:
    """Return the id and the configuration of a new server. Raise Invalid if they are not valid."""
    spec, name = data.server or data.config, data.server.name if data.server else data.name
    if spec is None or name is None:
        raise invalid_field("server", "give a name and a config, or both in one as server")
    server_id = (data.server.slug if data.server else None) or build_server_id(name)
    if not server_id:
        raise invalid_field("name", "no id can be made of this name: give a slug of letters, digits, '.', '_' and '-'")
    is_trusted = trust_added if spec.trust is UNSET else spec.trust
    spec = replace(convert(to_builtins(spec), ServerSpec), trust=is_trusted)  # without the name and the slug
    check_spec(spec, "server" if data.server else "config")
    return server_id, spec if spec.display_name else replace(spec, display_name=name if name != server_id else "")


def check_spec(spec: ServerSpec, name: str) -> None:
    """Raise Invalid with everything that is wrong with a configuration, by the rules of the configuration file."""
    problems = list_problems(spec, name)
    for field, values in (("env", spec.env), ("headers", spec.headers)):
        masked = (key for key, value in values.items() if value == MASK)
        problems += [(f"{field}.{key}", f"{field}.{key} is not stored: send its value") for key in masked]
    if problems:
        fields = [{"key": key, "message": message} for key, message in problems]
        raise Invalid("; ".join(message for _, message in problems), {"fields": fields})


def require_addable(spec: ServerSpec, allowed: AddServers) -> None:
    """Raise Forbidden for a server that requests may not add or change: a command runs any program on this machine."""
    if allowed == "off":
        raise Forbidden('servers are added in the configuration only here: add_servers = "off"')
    if allowed == "url" and spec.command:
        raise Forbidden(
            "a command would run on this machine, so only servers with a url are added here: "
            'configure this one in the file, or set add_servers = "all"'
        )


def build_server_tools(card: ServerCard, message: str) -> ServerTools:
    return ServerTools(
        server_id=card.id,
        server_name=card.name,
        status=card.status,
        tools=[build_tool_view(tool) for tool in card.tools],
        message=message,
    )


def build_tool_view(tool: ServerTool) -> ServerToolView:
    schema = tool.definition.get("inputSchema")
    return ServerToolView(
        name=tool.name,
        description=str(tool.definition.get("description") or ""),
        input_schema=convert(schema, dict[str, object]) if isinstance(schema, dict) else {},
        offered_as=tool.offered_as,
        state=tool.state,
        difference=tool.why,
        reviewed=tool.reviewed,
        hash=tool.hash,
    )


def _find_accepted_tool(card: ServerCard, name: str, caller: Caller) -> ServerTool:
    """Return the tool of this name. Raise NotFound, or Unavailable if the server has not listed its tools yet."""
    for tool in card.tools:
        if name in (tool.name, tool.offered_as):
            if reason := tool.explain_absence(card.id):
                raise NotFound(reason)
            return tool
    if not card.tools and (outage := describe_outage(card, caller)):
        raise Unavailable(outage)
    raise NotFound(f"there is no tool {name[:80]!r} on the server {card.id!r}")


def require_servers_admin(request: HttpRequest) -> Caller:
    return require_server_admin(request, "servers are shared by all tenants")
