"""`/servers/{id}/login`: sign in to an MCP server whose authorization server requires a person.

There are two steps, so that the person's browser need not reach this server: begin, which returns the page to open,
and finish, with the parameters that the page sent to the loopback of the person's machine. `toolyard servers login`
does both. `/connections` is what the caller has signed in to.
"""

from typing import Annotated

from litestar import delete, get, post
from litestar.params import FromPath, JSONBody
from msgspec import Meta, Struct, convert

from toolyard.core.caller import Caller
from toolyard.core.errors import NotFound
from toolyard.core.ports import Servers
from toolyard.core.tools.mcp_servers import Connection, SignInAnswer
from toolyard.surfaces.http.authorization import require_server_admin
from toolyard.surfaces.http.openapi import ERRORS
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context
from toolyard.surfaces.shared.server_views import (
    ServerAnswer,
    build_server_view,
    describe_status,
    find_server_card,
    to_iso_time_or_none,
)

PathId = FromPath[str]
ShortText = Annotated[str, Meta(max_length=4096)]


class NewSignIn(Struct, forbid_unknown_fields=True, kw_only=True):
    redirect_uri: Annotated[str, Meta(min_length=1, max_length=1000)]
    """Where the page redirects to: an http URL on the loopback of the client's machine, where the client listens."""


class SignInPage(Struct, kw_only=True):
    authorization_url: str
    """The page to open in a browser."""
    state: str
    """The `state` that the redirect must carry; ignore a redirect with another one."""
    expires_at: str | None
    message: str
    success: bool = True


class SignInCallback(Struct, forbid_unknown_fields=True, kw_only=True):
    """The parameters of the redirect, as they are in its URL."""

    state: ShortText
    code: ShortText = ""
    iss: ShortText | None = None
    error: ShortText = ""
    error_description: ShortText = ""


class ConnectionView(Struct, kw_only=True):
    """A server that you have signed in to. Its token is never shown."""

    server_id: str
    server_name: str
    address: str
    issuer: str
    """The authorization server that issued the token."""
    scope: str
    expires_at: str | None
    renewable: bool
    """Whether the token is renewed without you when it expires."""
    shared: bool
    """Whether all callers use it; you see such a connection as an administrator of the server."""
    problem: str


class ConnectionList(Struct, kw_only=True):
    connections: list[ConnectionView]
    count: int
    success: bool = True


class ConnectionRevoked(Struct, kw_only=True):
    message: str
    success: bool = True


@post("/servers/{server_id:str}/login", status_code=200, responses=ERRORS, tags=["servers"])
async def begin_sign_in(request: HttpRequest, server_id: PathId, data: JSONBody[NewSignIn]) -> SignInPage:
    """Begin to sign in and return the page to open. If callers have their own sessions, this is for yours."""
    servers = request.backend.servers
    caller = _require_sign_in_access(request, servers, server_id)
    sign_in = await servers.sign_ins.begin(server_id, caller, data.redirect_uri)
    message = "Open authorization_url, and send the parameters that redirect_uri receives"
    return SignInPage(
        authorization_url=sign_in.url,
        state=sign_in.state,
        expires_at=to_iso_time_or_none(sign_in.expires_at),
        message=message,
    )


@post("/servers/{server_id:str}/login/answer", status_code=200, responses=ERRORS, tags=["servers"])
async def finish_sign_in(request: HttpRequest, server_id: PathId, data: JSONBody[SignInCallback]) -> ServerAnswer:
    """Finish signing in with the parameters of the redirect, and connect to the server with the new token."""
    servers = request.backend.servers
    caller = _require_sign_in_access(request, servers, server_id)
    answer = convert(data, SignInAnswer, from_attributes=True)
    card = await servers.sign_ins.finish(server_id, caller, answer)
    return ServerAnswer(
        server=build_server_view(card, caller),
        message=f"Signed in to {server_id!r}: {describe_status(card, caller)}",
    )


@delete("/servers/{server_id:str}/login", status_code=200, responses=ERRORS, tags=["servers"])
async def sign_out(request: HttpRequest, server_id: PathId) -> ServerAnswer:
    """Sign out: delete the stored token."""
    servers = request.backend.servers
    caller = _require_sign_in_access(request, servers, server_id)
    card = await servers.sign_ins.forget(server_id, caller)
    return ServerAnswer(
        server=build_server_view(card, caller),
        message=f"Signed out of {server_id!r}: {describe_status(card, caller)}",
    )


@get("/connections", responses=ERRORS, tags=["servers"])
async def list_connections(request: HttpRequest) -> ConnectionList:
    """List the servers that you have signed in to, and for administrators those with one sign-in for all callers."""
    caller = get_request_context(request.scope).caller
    connections = await request.backend.servers.sign_ins.list_connections(caller)
    views = [build_connection_view(connection) for connection in connections]
    return ConnectionList(connections=views, count=len(views))


@delete("/connections/{server_id:str}", status_code=200, responses=ERRORS, tags=["servers"])
async def revoke_connection(request: HttpRequest, server_id: PathId) -> ConnectionRevoked:
    """Revoke one of your connections: its stored token is deleted, and its sessions end. 404 if you have none."""
    caller = get_request_context(request.scope).caller
    sign_ins = request.backend.servers.sign_ins
    if not any(connection.server == server_id for connection in await sign_ins.list_connections(caller)):
        raise NotFound(f"you are not signed in to a server {server_id[:80]!r}")
    await sign_ins.forget(server_id, caller)
    return ConnectionRevoked(message=f"Signed out of {server_id!r}: its token is deleted here")


ROUTES = (begin_sign_in, finish_sign_in, sign_out, list_connections, revoke_connection)


def build_connection_view(connection: Connection) -> ConnectionView:
    return ConnectionView(
        server_id=connection.server,
        server_name=connection.name,
        address=connection.address,
        issuer=connection.issuer,
        scope=connection.scope,
        expires_at=to_iso_time_or_none(connection.expires_at),
        renewable=connection.renewable,
        shared=connection.shared,
        problem=connection.problem,
    )


def _require_sign_in_access(request: HttpRequest, servers: Servers, server_id: str) -> Caller:
    """Return the caller if it may sign in: for itself, or as an administrator if all callers share one session."""
    caller = get_request_context(request.scope).caller
    if find_server_card(servers, server_id, caller).spec.auth == "server":
        return require_server_admin(request, "this server has one session for all callers")
    return caller
