"""`PUT /servers/{id}`: change a server's configuration.

Answers mask secret values. A client may send a masked value back unchanged: the real one is then kept.
"""

from typing import cast
from urllib.parse import urlsplit

import msgspec
from litestar import put
from litestar.params import JSONBody
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.masking import MASK
from toolyard.core.tools.mcp_servers import ServerCard, ServerSpec
from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.http.openapi import CHANGE_ERRORS
from toolyard.surfaces.http.preconditions import read_expected_version
from toolyard.surfaces.http.request_context import HttpRequest
from toolyard.surfaces.operators.servers.servers import (
    DisplayName,
    PathId,
    add_current,
    check_spec,
    describe_trust,
    require_addable,
    require_servers_admin,
)
from toolyard.surfaces.shared.server_views import (
    ServerAnswer,
    build_config_view,
    build_server_view,
    describe_status,
    find_server_card,
)

Fields = dict[str, object]
COMMAND_FIELDS = ("command", "args", "env", "cwd")
URL_FIELDS = ("url", "headers", "oauth")


@put("/servers/{server_id:str}", responses=CHANGE_ERRORS, audited_as="server.change", tags=["servers"])
async def change_server(request: HttpRequest, server_id: PathId, data: JSONBody[Fields]) -> ServerAnswer:
    """Change a server's stored configuration; fields that are left out stay. A running server is restarted.

    With `If-Match`, 412 if its `version` is another one by now, with the server as `details.current`.

    The new values, such as `{"trust": true}`, may stand in the body itself, in `config` or in `server`. A masked
    value that is sent back stays unchanged.
    """
    servers, add_servers = request.backend.servers, request.backend.add_servers
    admin = require_servers_admin(request)
    before = find_server_card(servers, server_id, admin)
    spec = parse_change(data, before, admin)
    if is_another_program(spec, before.spec):
        require_addable(spec, add_servers())
    with add_current(servers, server_id, admin):
        card = await servers.change(server_id, spec, read_expected_version(request))
    return ServerAnswer(
        server=build_server_view(card, admin),
        message=f"Server {card.name!r} changed: {describe_status(card, admin)}{describe_trust(card)}",
    )


ROUTES = (change_server,)


def is_another_program(spec: ServerSpec, before: ServerSpec | None) -> bool:
    """Return whether something else would run or be reached than was added, and not only its name or rules change."""
    return before is None or any(getattr(spec, name) != getattr(before, name) for name in (*COMMAND_FIELDS, "url"))


def parse_change(data: Fields, card: ServerCard, admin: Caller) -> ServerSpec:
    """Return the server's configuration with the changed fields. Raise Invalid if it is not valid."""
    fields = {**_read_fields(data, "config"), **_read_fields(data, "server"), **data}
    field_names = {*ServerSpec.__struct_fields__, "name", "slug"}
    changes = {name: value for name, value in fields.items() if name in field_names and value is not None}
    if not changes:
        raise invalid_field("server", "give the fields to change, as server or as config")
    if changes.get("slug", card.id) != card.id:
        raise invalid_field("slug", "the id of a server cannot change: remove the server and add it again")
    current = _to_plain({name: getattr(card.spec, name) for name in ServerSpec.__struct_fields__})
    hidden = _to_plain(build_config_view(card, admin))
    fields = {
        name: _restore_hidden(value, hidden.get(name), current[name])
        for name, value in changes.items()
        if name in current
    }
    try:
        name = msgspec.convert(changes.get("name", changes.get("display_name") or card.name), DisplayName)
        spec = msgspec.convert({**_drop_other_transport(current, fields), **fields}, ServerSpec)
    except msgspec.ValidationError as error:
        raise invalid_field("server", str(error)) from None
    check_spec(spec, "server")
    _check_kept_secrets(changes, card.spec, spec)
    return replace(spec, display_name=name if name != card.id else "")


def _read_fields(data: Fields, name: str) -> Fields:
    value = data.get(name)
    if value is not None and not isinstance(value, dict):
        raise invalid_field(name, "must be an object")
    return cast(Fields, value or {})


def _check_kept_secrets(changes: Fields, before: ServerSpec, after: ServerSpec) -> None:
    """Raise Invalid if a secret that the client does not know would get to another address or command than before."""
    variables = changes.get("env", dict.fromkeys(before.env, MASK))
    is_another = (before.command, before.args, before.cwd) != (after.command, after.args, after.cwd)
    if is_another and _has_mask(variables) and after.env:
        raise invalid_field("env", "the command changes: send the values of the variables again, or none")
    headers = changes.get("headers", dict.fromkeys(before.headers, MASK))
    if _read_origin(before.url) != _read_origin(after.url) and _has_mask(headers) and after.headers:
        raise invalid_field("headers", "the server's address changes: send the values of the headers again, or none")
    credentials = changes.get("oauth", {"client_secret": MASK})
    is_moved = before.oauth is not None and after.oauth is not None and before.oauth.issuer != after.oauth.issuer
    if is_moved and _has_mask(credentials):
        raise invalid_field("oauth", "the authorization server changes: send the client_secret again")


def _has_mask(fields: object) -> bool:
    return isinstance(fields, dict) and MASK in cast(Fields, fields).values()


def _read_origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.rpartition("@")[2]


def _to_plain(fields: Fields) -> Fields:
    return cast(Fields, msgspec.to_builtins(fields))


def _drop_other_transport(current: Fields, fields: Fields) -> Fields:
    """Return the current fields without those of a command if the change has a URL, and the other way round."""
    unused = COMMAND_FIELDS if fields.get("url") else URL_FIELDS if fields.get("command") else ()
    return {name: value for name, value in current.items() if name not in unused}


def _restore_hidden(value: object, hidden: object, current: object) -> object:
    """Return the current value in place of a masked one, also inside lists and objects."""
    if value == hidden:
        return current
    match value, hidden, current:
        case dict(), dict(), dict():
            masked, actual = cast(Fields, hidden), cast(Fields, current)
            return {
                key: _restore_hidden(entry, masked[key], actual[key]) if key in masked and key in actual else entry
                for key, entry in cast(Fields, value).items()
            }
        case list(), list(), list():
            masked, actual = cast(list[object], hidden), cast(list[object], current)
            # Entries are matched by their position: a masked entry that was moved stays as it was sent.
            pairs = [*zip(masked, actual, strict=True)]
            return [
                _restore_hidden(entry, *pairs[at]) if at < len(pairs) else entry
                for at, entry in enumerate(cast(list[object], value))
            ]
        case _:
            return value
