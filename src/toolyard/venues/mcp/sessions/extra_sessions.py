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
from toolyard.venues.mcp.catalog.caller_views import Who
from toolyard.venues.mcp.catalog.pins import Pin
from toolyard.venues.mcp.outcomes import SHARED, SessionKind, Supervised

MAX_SESSIONS = 64
"""Of one server, over all its callers."""
Key = tuple[Who, SessionKind]


class SharingServer(Protocol):
    """A server with a session that callers share; see `_server`."""

    def link(self, caller: Caller) -> Supervised: ...

    def seen_as(self, caller: Caller) -> tuple[Who, Caller | None]: ...

    def pin(self, remote: str) -> Pin | None: ...

    def open_further(self, caller: Caller, kind: SessionKind) -> Supervised: ...


class FurtherSessions:
    def __init__(self, server: SharingServer, id: str, spec: ServerSpec) -> None:
        self._server = server
        self._id = id
        self._spec = spec
        self._links: dict[Key, Supervised] = {}
        self._modern_only = False

    def __iter__(self) -> Iterator[Supervised]:
        return iter(self._links.values())

    async def choose(self, caller: Caller, client: McpClient | None, remote: str = "") -> SessionKind:
        """Return which session a request takes, of a tool or (without `remote`) of anything else.

        An MCP client is served in its own era where the server speaks it, as if it had connected there itself: a
        server may offer in one era what it does not in the other. A tool that cannot ask in the new era is called in
        the old one.
        """
        claims = self.claims(client) if remote else frozenset[Capability]()
        if await self._server.link(caller).era() != "modern":
            return SessionKind(claims=claims)
        pin = self._server.pin(remote)
        wants_legacy = (client is not None and not client.modern) or (pin is not None and pin.pushes)
        if self._modern_only or not wants_legacy:
            return SHARED
        kind = SessionKind(era="legacy", claims=claims)
        legacy = self.get(caller, kind)
        if await legacy.era():
            return kind
        if legacy.era_refused:
            self._modern_only = True
            self._end(self._server.seen_as(caller)[0], kind)
        return SHARED

    def claims(self, client: McpClient | None) -> frozenset[Capability]:
        """Return what a call may claim beside elicitation: what its client has, if this server may ask for it."""
        allowed = client is not None and self._spec.sampling
        return client.capabilities - {"elicitation"} if client is not None and allowed else frozenset()

    def capabilities_of(self, client: McpClient | None) -> frozenset[Capability] | None:
        """Return what a request of the new era says that its client can be asked for; None without an MCP client."""
        return None if client is None else self.claims(client) | (client.capabilities & {"elicitation"})

    def get(self, caller: Caller, kind: SessionKind) -> Supervised:
        """Return the session of this kind, opened if there is none. Raise Refused if there are too many in use."""
        if kind == SHARED:
            return self._server.link(caller)
        key = self._server.seen_as(caller)[0], kind
        if (link := self._links.get(key)) is not None:
            return link
        if len(self._links) >= MAX_SESSIONS:
            self._make_room()
        link = self._links[key] = self._server.open_further(caller, kind)
        return link

    def end_all(self, who: Who | None = None) -> None:
        """End those of one caller, or all."""
        for owner, kind in [key for key in self._links if who is None or key[0] == who]:
            self._end(owner, kind)

    def _make_room(self) -> None:
        unused = next((key for key, link in self._links.items() if not link.told().in_flight), None)
        if unused is None:
            raise Refused(f"{MAX_SESSIONS} further sessions of the server {self._id!r} are in use; try later")
        self._end(*unused)

    def _end(self, who: Who, kind: SessionKind) -> None:
        if (link := self._links.pop((who, kind), None)) is not None:
            link.stop()
