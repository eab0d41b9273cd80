"""MCP servers as routes show them. Values that may be secret are masked for everybody."""

from datetime import UTC, datetime

from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.errors import NotFound
from toolyard.core.ports import Servers
from toolyard.core.tools.mcp_servers import ServerCard, mask_spec, select_visible_error
from toolyard.observability.telemetry import mask_secrets


class ServerView(Struct, kw_only=True):
    id: str
    name: str
    slug: str
    config: dict[str, object]
    status: str
    created_at: str | None
    started_at: str | None
    stopped_at: str | None
    error_message: str | None
    process_id: int | None
    protocol: str
    restarts: int
    sessions: int
    tools: int
    quarantined: int
    rejected: int
    unusable: int
    """How many tools cannot be offered, such as for a schema that is not valid; the list of tools says why."""
    configured: bool
    location: str
    """Where the configuration sets it, for administrators; empty for others."""
    version: str
    """The version of its stored configuration, for `If-Match`; empty for a server of the configuration file."""
    conflict: str
    """Says, to administrators, that the store has a server of this id too, which is not used."""
    warning: str
    """What administrators should change in its configuration; empty for others."""
    log: list[str]
    """The last lines that the server wrote to its standard error, for administrators; empty for others."""


class ServerAnswer(Struct, kw_only=True):
    server: ServerView
    message: str
    success: bool = True


def build_server_view(card: ServerCard, caller: Caller) -> ServerView:
    return ServerView(
        id=card.id,
        name=card.name,
        slug=card.id,
        config=build_config_view(card, caller),
        status=card.status,
        created_at=to_iso_time_or_none(card.created_at),
        started_at=to_iso_time_or_none(card.started_at),
        stopped_at=to_iso_time_or_none(card.stopped_at),
        error_message=get_visible_error(card, caller) or None,
        process_id=card.process_id,
        protocol=card.protocol,
        restarts=card.restarts,
        sessions=card.sessions,
        tools=sum(tool.state == "accepted" for tool in card.tools),
        quarantined=sum(tool.state in ("new", "changed") for tool in card.tools),
        rejected=sum(tool.state == "rejected" for tool in card.tools),
        unusable=sum(tool.state == "unusable" for tool in card.tools),
        configured=card.configured,
        location=card.location if caller.administers_server else "",
        version=card.version,
        conflict=card.conflict if caller.administers_server else "",
        warning=card.spec.version_warning if caller.administers_server else "",
        log=[str(mask_secrets(line)) for line in card.log] if caller.administers_server else [],
    )


def build_config_view(card: ServerCard, caller: Caller) -> dict[str, object]:
    """Return a server's configuration: for administrators with secrets masked, for others without how to reach it."""
    spec, names = card.spec, {"name": card.name, "slug": card.id, "transport": card.spec.transport}
    if not caller.administers_server:
        return {**names, "auth": spec.auth, "trust": spec.trust, "pin": spec.pin}
    hidden = mask_spec(spec)
    fields = {name: getattr(hidden, name) for name in spec.__struct_fields__ if name != "display_name"}
    return {**names, **{name: value for name, value in fields.items() if value is not None}}


def get_visible_error(card: ServerCard, caller: Caller) -> str:
    """Return the server's error, with secrets masked; see `select_visible_error`."""
    return str(mask_secrets(select_visible_error(card.error, caller)))


def describe_outage(card: ServerCard, caller: Caller) -> str:
    """Return why the server's tools cannot be called now, and what to do; empty if they can be."""
    return str(mask_secrets(card.describe_outage(caller)))


def describe_status(card: ServerCard, caller: Caller) -> str:
    error = get_visible_error(card, caller)
    return f"it is {card.status}: {error}" if error else f"it is {card.status}"


def to_iso_time_or_none(at: float | None) -> str | None:
    return datetime.fromtimestamp(at, UTC).isoformat() if at else None


def list_visible_servers(servers: Servers, caller: Caller) -> list[ServerCard]:
    """Return the servers that the caller may see: those of its tenant, or all for an administrator of the server."""
    return [card for card in servers.cards() if caller.administers_server or card.spec.serves(caller)]


def find_server_card(servers: Servers, server_id: str, caller: Caller) -> ServerCard:
    """Return the server of this id. Raise NotFound if there is none that the caller may see."""
    for card in list_visible_servers(servers, caller):
        if card.id == server_id:
            return card
    raise NotFound(f"there is no server {server_id[:80]!r}")
