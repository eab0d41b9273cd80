"""Sessions of a server beside the one that its callers share, and which of them a request takes.

A request needs a further session where the shared one speaks another era than its client, where it claims other
capabilities than its client has, or where a question is open on it: then it could not be told whose the next one is.
"""

from collections.abc import Iterator
from typing import Protocol

from toolyard.core.caller import Caller
from toolyard.core.errors import Refused
from toolyard.core.mcp_client import Capability, McpClient
from toolyard.core.mcp_servers import ServerSpec
from toolyard.venues.mcp.catalog.caller_views import CallerKey
from toolyard.venues.mcp.catalog.pins import Pin
from toolyard.venues.mcp.outcomes import SHARED, McpConnection, SessionKind

MAX_SESSIONS = 64
"""Of one server, over all its callers."""
SessionKey = tuple[CallerKey, SessionKind]


class SharingServer(Protocol):
    """A server with a session that callers share; see `_server`."""

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
        """Return which session a request takes, of a tool or (without `remote`) of anything else.

        An MCP client is served in its own era where the server speaks it, as if it had connected there itself: a
        server may offer in one era what it does not in the other. A tool that cannot ask in the new era is called in
        the old one.
        """
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
        if legacy.era_refused:
            self._modern_only = True
            self._end(self._server.resolve_caller(caller)[0], kind)
        return SHARED

    def get_claims(self, client: McpClient | None) -> frozenset[Capability]:
        """Return what a call may claim beside elicitation: what its client has, if this server may ask for it."""
        allowed = client is not None and self._spec.sampling
        return client.capabilities - {"elicitation"} if client is not None and allowed else frozenset()

    def get_capabilities(self, client: McpClient | None) -> frozenset[Capability] | None:
        """Return what a request of the new era says that its client can be asked for; None without an MCP client."""
        return None if client is None else self.get_claims(client) | (client.capabilities & {"elicitation"})

    def get(self, caller: Caller, kind: SessionKind) -> McpConnection:
        """Return the session of this kind, opened if there is none. Raise Refused if there are too many in use."""
        if kind == SHARED:
            return self._server.get_connection(caller)
        key = self._server.resolve_caller(caller)[0], kind
        if (link := self._connections.get(key)) is not None:
            return link
        if len(self._connections) >= MAX_SESSIONS:
            self._evict_unused()
        link = self._connections[key] = self._server.open_extra_session(caller, kind)
        return link

    def end_all(self, caller_key: CallerKey | None = None) -> None:
        """End those of one caller, or all."""
        for owner, kind in [key for key in self._connections if caller_key is None or key[0] == caller_key]:
            self._end(owner, kind)

    def _evict_unused(self) -> None:
        unused = next((key for key, link in self._connections.items() if not link.describe().in_flight), None)
        if unused is None:
            raise Refused(f"{MAX_SESSIONS} further sessions of the server {self._id!r} are in use; try later")
        self._end(*unused)

    def _end(self, caller_key: CallerKey, kind: SessionKind) -> None:
        if (link := self._connections.pop((caller_key, kind), None)) is not None:
            link.stop()
