"""Sessions of a server beside the shared one, and the choice of the session for a request.

A request needs an extra session if the shared one speaks another era than the calling client, if it announced other
capabilities than that client has, or if a question is open on it: the next question could then belong to either call.
"""

from collections.abc import Iterator
from typing import Protocol

from toolyard.core.caller import Caller
from toolyard.core.errors import Refused
from toolyard.core.tools.mcp_servers import Capability, McpClient, ServerSpec
from toolyard.venues.mcp.catalog.caller_views import CallerKey
from toolyard.venues.mcp.catalog.pins import Pin
from toolyard.venues.mcp.outcomes import SHARED, McpConnection, SessionKind

MAX_SESSIONS = 64
"""The extra sessions of one server, over all its callers."""
SessionKey = tuple[CallerKey, SessionKind]


class SharingServer(Protocol):
    """The part of `ManagedServer` that extra sessions need."""

    def get_connection(self, caller: Caller) -> McpConnection: ...

    def resolve_caller(self, caller: Caller) -> tuple[CallerKey, Caller | None]: ...

    def get_pin(self, remote: str) -> Pin | None: ...

    def open_extra_session(self, caller: Caller, kind: SessionKind) -> McpConnection: ...


class ExtraSessions:
    def __init__(self, server: SharingServer, id: str, spec: ServerSpec) -> None:
        self._server = server
        self._id = id
        self._spec = spec
        self._connections: dict[SessionKey, McpConnection] = {}
        self._modern_only = False

    def __iter__(self) -> Iterator[McpConnection]:
        return iter(self._connections.values())

    async def choose(self, caller: Caller, client: McpClient | None, remote: str = "") -> SessionKind:
        """Return the kind of session for a call of a tool, or (without `remote`) for any other request.

        An MCP client is served in its own era if the server speaks it, as if the client had connected to the server
        itself: a server may offer something in only one era. A tool that cannot ask in the new era is called in the
        old one.
        """
        # Capabilities belong to a session only in the old era, where the handshake announces them once. In the new
        # era each request carries them, so the shared session serves every client.
        claims = self.get_claims(client) if remote else frozenset[Capability]()
        if await self._server.get_connection(caller).get_era() != "modern":
            return SessionKind(claims=claims)
        pin = self._server.get_pin(remote)
        wants_legacy = (client is not None and not client.modern) or (pin is not None and pin.pushes)
        if self._modern_only or not wants_legacy:
            return SHARED
        kind = SessionKind(era="legacy", claims=claims)
        legacy = self.get(caller, kind)
        if await legacy.get_era():
            return kind
        # Remember a refusal of the era for all callers. A connection that merely failed is tried again next time.
        if legacy.era_refused:
            self._modern_only = True
            self._end(self._server.resolve_caller(caller)[0], kind)
        return SHARED

    def get_claims(self, client: McpClient | None) -> frozenset[Capability]:
        """Return the client's capabilities beside elicitation, if the configuration lets this server use them."""
        if client is None or not self._spec.may_sample:
            return frozenset()
        return client.capabilities - {"elicitation"}

    def get_capabilities(self, client: McpClient | None) -> frozenset[Capability] | None:
        """Return the capabilities that a request of the new era announces; None without an MCP client."""
        return None if client is None else self.get_claims(client) | (client.capabilities & {"elicitation"})

    def get(self, caller: Caller, kind: SessionKind) -> McpConnection:
        """Return the session of this kind; open it if there is none. Raise Refused if too many are in use."""
        if kind == SHARED:
            return self._server.get_connection(caller)
        key = self._server.resolve_caller(caller)[0], kind
        if (connection := self._connections.get(key)) is not None:
            return connection
        if len(self._connections) >= MAX_SESSIONS:
            self._evict_unused()
        connection = self._connections[key] = self._server.open_extra_session(caller, kind)
        return connection

    def end_all(self, caller_key: CallerKey | None = None) -> None:
        """End the extra sessions of one caller, or of all."""
        for owner, kind in [key for key in self._connections if caller_key is None or key[0] == caller_key]:
            self._end(owner, kind)

    def _evict_unused(self) -> None:
        unused = next(
            (key for key, connection in self._connections.items() if not connection.describe().in_flight), None
        )
        if unused is None:
            raise Refused(f"{MAX_SESSIONS} extra sessions of the server {self._id!r} are in use; try later")
        self._end(*unused)

    def _end(self, caller_key: CallerKey, kind: SessionKind) -> None:
        if (connection := self._connections.pop((caller_key, kind), None)) is not None:
            connection.stop()
