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
    RpcError,
    RpcResponse,
    read_object,
)

MODERN_VERSIONS = ("2026-07-28",)
LEGACY_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
META_PREFIX = "io.modelcontextprotocol/"
MAX_QUESTIONS = 64
LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

ResponseHandler = Callable[[RpcResponse], Awaitable[None]]


class OutgoingRequests:
    """Requests of ours that a legacy client has not answered yet."""

    def __init__(self) -> None:
        self._waiting: dict[Id, ResponseHandler] = {}

    def add(self, handler: ResponseHandler) -> str:
        """The id to ask under."""
        if len(self._waiting) >= MAX_QUESTIONS:
            raise RpcError(INTERNAL_ERROR, f"{MAX_QUESTIONS} questions wait for an answer already; answer those first")
        asked = f"ask_{secrets.token_hex(8)}"
        self._waiting[asked] = handler
        return asked

    def drop(self, id: Id) -> bool:
        """Whether it was still waited for."""
        return self._waiting.pop(id, None) is not None

    async def resolve(self, reply: RpcResponse) -> None:
        """An answer that nobody waits for (any more) is no harm."""
        if hear := self._waiting.pop(reply.id, None):
            await hear(reply)


class ClientState:
    """What a legacy client has said so far, and what is kept for it as long as its session lasts."""

    def __init__(self) -> None:
        self.questions = OutgoingRequests()
        self.watched_uris: set[str] = set()
        """The resources that it wants to hear of."""
        self.open_calls: set[str] = set()
        """Those that it waits for now."""
        self.log_level = "info"
        """What it wants of a server's log lines, and more serious ones."""


_METHOD_BY_CAPABILITY: dict[Capability, str] = {
    "elicitation": "elicitation/create",
    "sampling": "sampling/createMessage",
    "roots": "roots/list",
}


class Peer(Struct, frozen=True, kw_only=True):
    """A client, as one request of it is served."""

    caller: Caller
    correlation_id: str
    capabilities: Json = {}
    client_state: ClientState | None = None
    """Of a legacy client. A modern one has none: each of its requests says everything."""
    accepts_stream: bool = True
    """Whether it takes more than one message for an answer."""

    @property
    def modern(self) -> bool:
        return self.client_state is None

    def find_missing_capability(self, method: str) -> Json:
        """The capability that a client needs to answer such a request, if this one has not declared it."""
        match method:
            case "elicitation/create":
                known = self.capabilities.get("elicitation")
                form = isinstance(known, dict) and (not known or "form" in known)
                return {} if form and self.can_be_asked else {"elicitation": {"form": {}}}
            case "sampling/createMessage":
                name = "sampling"
            case _:
                name = "roots"
        there = isinstance(self.capabilities.get(name), dict) and self.can_be_asked
        return {} if there else {name: {}}

    @property
    def client(self) -> McpClient:
        """The client as the servers behind us are to see it."""
        capabilities = frozenset[Capability](
            name for name, method in _METHOD_BY_CAPABILITY.items() if not self.find_missing_capability(method)
        )
        return McpClient(modern=self.modern, capabilities=capabilities)

    @property
    def can_be_asked(self) -> bool:
        return self.accepts_stream or self.modern


def read_version(params: Json) -> str | None:
    """The version that a modern request names; None for a request that names none."""
    meta = params.get("_meta")
    found = meta.get(f"{META_PREFIX}protocolVersion") if isinstance(meta, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return found if isinstance(found, str) else None


def parse_modern_peer(params: Json, caller: Caller, correlation_id: str) -> Peer:
    """The client of a modern request, by what the request itself says. Raises RpcError."""
    meta = read_object(params, "_meta")
    version = meta.get(f"{META_PREFIX}protocolVersion")
    if not isinstance(version, str):
        raise RpcError(
            INVALID_PARAMS, f"params._meta must name {META_PREFIX}protocolVersion, such as {MODERN_VERSIONS[0]}"
        )
    if version not in MODERN_VERSIONS:
        data = {"supported": list(MODERN_VERSIONS), "requested": version}
        raise RpcError(UNSUPPORTED_VERSION, f"protocol version {version[:40]!r} is not spoken here", data)
    capabilities = meta.get(f"{META_PREFIX}clientCapabilities")
    if not isinstance(capabilities, dict):
        raise RpcError(INVALID_PARAMS, f"params._meta must hold {META_PREFIX}clientCapabilities, an object")
    return Peer(
        caller=caller,
        correlation_id=correlation_id,
        capabilities=capabilities,  # pyright: ignore[reportUnknownArgumentType]
    )


def negotiate_version(requested: object) -> str:
    """The legacy version to go on with: the client's if we speak it, else our newest."""
    return requested if isinstance(requested, str) and requested in LEGACY_VERSIONS else LEGACY_VERSIONS[0]
