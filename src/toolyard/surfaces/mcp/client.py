"""The client of an MCP request and its capabilities, in both eras of the protocol.

A modern request (2026-07-28) carries both in its `_meta`. A legacy client (until 2025-11-25) sends them once, in
`initialize`, and answers our requests by their id: `OutgoingRequests` holds the handlers of those answers.
"""

import secrets
from collections.abc import Awaitable, Callable

from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.conversation.events import RequestKey
from toolyard.core.json_types import Json
from toolyard.core.tools.mcp_servers import Capability, McpClient
from toolyard.surfaces.mcp.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    UNSUPPORTED_VERSION,
    Id,
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
    """Our requests to a legacy client that it has not answered yet."""

    def __init__(self) -> None:
        self._waiting: dict[Id, ResponseHandler] = {}

    def add(self, handler: ResponseHandler) -> str:
        """Register a handler for an answer and return the id for the request."""
        if len(self._waiting) >= MAX_QUESTIONS:
            raise RpcError(INTERNAL_ERROR, f"{MAX_QUESTIONS} questions wait for an answer already; answer those first")
        request_id = f"ask_{secrets.token_hex(8)}"
        self._waiting[request_id] = handler
        return request_id

    def drop(self, id: Id) -> bool:
        """Forget a request, and return whether it was still unanswered."""
        return self._waiting.pop(id, None) is not None

    async def resolve(self, reply: RpcResponse) -> None:
        """Pass an answer to the handler of its request; ignore an answer that comes too late or twice."""
        if handler := self._waiting.pop(reply.id, None):
            await handler(reply)


class ClientState:
    """The state of one client connection: of a legacy session, or of one modern subscription."""

    def __init__(self) -> None:
        self.questions = OutgoingRequests()
        self.watched_uris: set[str] = set()
        """The resources whose updates the client wants."""
        self.open_calls: set[str] = set()
        """The ids of the calls whose results the client waits for; log lines of their servers are sent to it."""
        self.log_level = "info"
        """The lowest level of server log lines that the client wants."""


_METHOD_BY_CAPABILITY: dict[Capability, str] = {
    "elicitation": "elicitation/create",
    "sampling": "sampling/createMessage",
    "roots": "roots/list",
}


class Peer(Struct, frozen=True, kw_only=True):
    """The client of one request: its caller, its capabilities and its era."""

    caller: Caller
    correlation_id: str
    capabilities: Json = {}
    client_state: ClientState | None = None
    """The session state of a legacy client; None for a modern one, whose requests are independent of each other."""
    accepts_stream: bool = True
    """Whether the client accepts a stream of several messages as the answer."""
    request_key: RequestKey | None = None
    """The Idempotency-Key of the request; such a call goes on when its client disconnects."""

    @property
    def modern(self) -> bool:
        return self.client_state is None

    def find_missing_capability(self, method: str) -> Json:
        """Return the capability that the client lacks to answer a request of this method; empty if it lacks none."""
        match method:
            case "elicitation/create":
                elicitation = self.capabilities.get("elicitation")
                # Revisions before 2025-11-25 declare an empty object and have forms only; later ones name the modes.
                form = isinstance(elicitation, dict) and (not elicitation or "form" in elicitation)
                return {} if form and self.can_be_asked else {"elicitation": {"form": {}}}
            case "sampling/createMessage":
                name = "sampling"
            case _:
                name = "roots"
        declared = isinstance(self.capabilities.get(name), dict) and self.can_be_asked
        return {} if declared else {name: {}}

    @property
    def client(self) -> McpClient:
        """The client as the MCP servers of this server see it."""
        capabilities = frozenset[Capability](
            name for name, method in _METHOD_BY_CAPABILITY.items() if not self.find_missing_capability(method)
        )
        return McpClient(modern=self.modern, capabilities=capabilities)

    @property
    def can_be_asked(self) -> bool:
        """Whether a question can reach the client: on a legacy stream, or in a modern `input_required` result."""
        return self.accepts_stream or self.modern


def read_version(params: Json) -> str | None:
    """Return the protocol version in the `_meta` of a modern request; None if it names none."""
    meta = params.get("_meta")
    version = meta.get(f"{META_PREFIX}protocolVersion") if isinstance(meta, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return version if isinstance(version, str) else None


def parse_modern_peer(params: Json, caller: Caller, correlation_id: str) -> Peer:
    """Return the client of a modern request from its `_meta`. Raise RpcError if that is incomplete."""
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
    """Return the legacy version to use: the client's if it is supported, else the newest one."""
    return requested if isinstance(requested, str) and requested in LEGACY_VERSIONS else LEGACY_VERSIONS[0]
