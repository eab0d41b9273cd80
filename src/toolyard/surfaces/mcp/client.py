"""Whom a request of MCP comes from and what that client can do, in both eras of the protocol.

Modern requests (2026-07-28) each say so themselves. A legacy client (until 2025-11-25) said it once, when it
initialized, and answers our own requests by their id: `Questions` keeps what is to become of those answers.
"""

import secrets
from collections.abc import Awaitable, Callable

from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.mcp_client import Capability, McpClient
from toolyard.surfaces.mcp.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    UNSUPPORTED_VERSION,
    Id,
    Json,
    Reply,
    RpcError,
    object_of,
)

MODERN = ("2026-07-28",)
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
OWN = "io.modelcontextprotocol/"
MOST_QUESTIONS = 64
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

Hear = Callable[[Reply], Awaitable[None]]


class Questions:
    """Requests of ours that a legacy client has not answered yet."""

    def __init__(self) -> None:
        self._waiting: dict[Id, Hear] = {}

    def add(self, hear: Hear) -> str:
        """The id to ask under."""
        if len(self._waiting) >= MOST_QUESTIONS:
            raise RpcError(INTERNAL_ERROR, f"{MOST_QUESTIONS} questions wait for an answer already; answer those first")
        asked = f"ask_{secrets.token_hex(8)}"
        self._waiting[asked] = hear
        return asked

    def drop(self, id: Id) -> bool:
        """Whether it was still waited for."""
        return self._waiting.pop(id, None) is not None

    async def hear(self, reply: Reply) -> None:
        """An answer that nobody waits for (any more) is no harm."""
        if hear := self._waiting.pop(reply.id, None):
            await hear(reply)


class Standing:
    """What a legacy client has said so far, and what is kept for it as long as its session lasts."""

    def __init__(self) -> None:
        self.questions = Questions()
        self.watched: set[str] = set()
        """The resources that it wants to hear of."""
        self.calls: set[str] = set()
        """Those that it waits for now."""
        self.log_level = "info"
        """What it wants of a server's log lines, and more serious ones."""


_ASKED_BY: dict[Capability, str] = {
    "elicitation": "elicitation/create",
    "sampling": "sampling/createMessage",
    "roots": "roots/list",
}


class Peer(Struct, frozen=True, kw_only=True):
    """A client, as one request of it is served."""

    caller: Caller
    correlation_id: str
    capabilities: Json = {}
    standing: Standing | None = None
    """Of a legacy client. A modern one has none: each of its requests says everything."""
    streams: bool = True
    """Whether it takes more than one message for an answer."""

    @property
    def modern(self) -> bool:
        return self.standing is None

    def lacks(self, method: str) -> Json:
        """The capability that a client needs to answer such a request, if this one has not declared it."""
        match method:
            case "elicitation/create":
                known = self.capabilities.get("elicitation")
                form = isinstance(known, dict) and (not known or "form" in known)
                return {} if form and self.streams_or_modern else {"elicitation": {"form": {}}}
            case "sampling/createMessage":
                name = "sampling"
            case _:
                name = "roots"
        there = isinstance(self.capabilities.get(name), dict) and self.streams_or_modern
        return {} if there else {name: {}}

    @property
    def client(self) -> McpClient:
        """The client as the servers behind us are to see it."""
        capabilities = frozenset[Capability](name for name, method in _ASKED_BY.items() if not self.lacks(method))
        return McpClient(modern=self.modern, capabilities=capabilities)

    @property
    def streams_or_modern(self) -> bool:
        return self.streams or self.modern


def version_of(params: Json) -> str | None:
    """The version that a modern request names; None for a request that names none."""
    meta = params.get("_meta")
    found = meta.get(f"{OWN}protocolVersion") if isinstance(meta, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return found if isinstance(found, str) else None


def modern_peer(params: Json, caller: Caller, correlation_id: str) -> Peer:
    """The client of a modern request, by what the request itself says. Raises RpcError."""
    meta = object_of(params, "_meta")
    version = meta.get(f"{OWN}protocolVersion")
    if not isinstance(version, str):
        raise RpcError(INVALID_PARAMS, f"params._meta must name {OWN}protocolVersion, such as {MODERN[0]}")
    if version not in MODERN:
        data = {"supported": list(MODERN), "requested": version}
        raise RpcError(UNSUPPORTED_VERSION, f"protocol version {version[:40]!r} is not spoken here", data)
    capabilities = meta.get(f"{OWN}clientCapabilities")
    if not isinstance(capabilities, dict):
        raise RpcError(INVALID_PARAMS, f"params._meta must hold {OWN}clientCapabilities, an object")
    return Peer(
        caller=caller,
        correlation_id=correlation_id,
        capabilities=capabilities,  # pyright: ignore[reportUnknownArgumentType]
    )


def negotiated(asked: object) -> str:
    """The legacy version to go on with: the client's if we speak it, else our newest."""
    return asked if isinstance(asked, str) and asked in LEGACY else LEGACY[0]
