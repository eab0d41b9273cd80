"""`POST /servers/test` and `POST /servers/import`: try an MCP server, and add those of an `mcp.json`."""

import asyncio
from pathlib import PurePath

import msgspec
from litestar import post
from litestar.params import JSONBody
from msgspec import Struct

from toolyard.core.errors import Misconfigured, Refused
from toolyard.core.tools.mcp_json import parse_mcp_servers
from toolyard.core.tools.mcp_servers import ServerSpec, ServerTrial
from toolyard.observability.telemetry import mask_secrets
from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.http.openapi import ERRORS
from toolyard.surfaces.http.request_context import HttpRequest
from toolyard.surfaces.operators.servers.servers import (
    NewServer,
    ServerId,
    check_spec,
    parse_new,
    require_addable,
    require_servers_admin,
)
from toolyard.surfaces.shared.server_views import ServerView, build_server_view
from toolyard.surfaces.surface import Backend

PASTED = "the file"
MAX_IMPORTED = 50


class ServerTestAnswer(Struct, kw_only=True):
    test: ServerTrial
    message: str
    success: bool


class ImportedServers(Struct, kw_only=True):
    servers: list[ServerView]
    count: int
    message: str
    success: bool = True


@post("/servers/test", status_code=200, responses=ERRORS, audited_as="server.test", tags=["servers"])
async def test_server(request: HttpRequest, data: JSONBody[NewServer]) -> ServerTestAnswer:
    """Connect to a server and list its tools, for ten seconds at most, without adding it.

    It takes what `POST /servers` takes. `success` is false if the server could not be used, and the message says why.
    """
    admin = require_servers_admin(request)
    backend = request.backend
    server_id, spec = parse_new(data, trust_added=backend.trust_added_servers)
    require_addable(spec, backend.add_servers())
    turn = backend.share(build_trial_lock)
    if turn.locked():
        raise Refused("another server is being tried: try again when that has ended")
    async with turn:
        trial = await backend.servers.test(spec, admin)
    trial = msgspec.structs.replace(
        trial, error=str(mask_secrets(trial.error)), log=tuple(str(mask_secrets(line)) for line in trial.log)
    )
    return ServerTestAnswer(test=trial, message=describe_trial(server_id, trial), success=trial.ok)


@post("/servers/import", status_code=200, responses=ERRORS, audited_as="server.add", tags=["servers"])
async def import_servers(request: HttpRequest, data: JSONBody[dict[str, object]]) -> ImportedServers:
    """Add the servers of an `mcp.json`: `{"mcpServers": {…}}` or `{"servers": […]}`. None is added if one is wrong.

    Variables such as `${TOKEN}` are not replaced: write their values in their place.
    """
    admin = require_servers_admin(request)
    servers, allowed = request.backend.servers, request.backend.add_servers()
    specs = parse_import(data)
    for spec in specs.values():
        require_addable(spec, allowed)
    trust = request.backend.trust_added_servers
    cards = await servers.add_all({id: msgspec.structs.replace(spec, trust=trust) for id, spec in specs.items()})
    views = [build_server_view(card, admin) for card in cards]
    names = ", ".join(f"{card.name} is {card.status}" for card in cards)
    return ImportedServers(servers=views, count=len(views), message=f"{len(views)} servers added: {names}")


ROUTES = (test_server, import_servers)


def parse_import(data: dict[str, object]) -> dict[str, ServerSpec]:
    """Return the servers of an mcp.json by id. Raise Invalid with what is wrong."""
    try:
        specs = parse_mcp_servers(msgspec.json.encode(data), PASTED, {}, PurePath())
    except Misconfigured as error:
        raise invalid_field("servers", str(error)) from None
    if not 0 < len(specs) <= MAX_IMPORTED:
        raise invalid_field("servers", f"must be 1 to {MAX_IMPORTED} that are not disabled, and are {len(specs)}")
    for server_id, spec in specs.items():
        try:
            msgspec.convert(server_id, ServerId)
        except msgspec.ValidationError as error:
            raise invalid_field(server_id[:80], f"is not an id for a server: {error}") from None
        check_spec(spec, server_id)
    return specs


def build_trial_lock(_: Backend) -> asyncio.Lock:
    """Return the lock that lets one server be tried at a time."""
    return asyncio.Lock()


def describe_trial(server_id: str, trial: ServerTrial) -> str:
    if trial.ok:
        count = "1 tool" if len(trial.tools) == 1 else f"{len(trial.tools)} tools"
        return f"{server_id} answers with {count} ({trial.protocol or 'unknown protocol'})"
    if trial.needs_sign_in:
        return f"{server_id} answers, and a person has to sign in: add it, then sign in"
    return f"{server_id} cannot be used: {trial.error}"
