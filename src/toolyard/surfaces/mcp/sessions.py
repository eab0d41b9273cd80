"""Sessions of legacy clients (until 2025-11-25): what a client said when it initialized, and what is under way for it.

Bounded in number and in idle time. A session that is gone is told with 404, and a client then initializes anew.
"""

import secrets
from collections.abc import Callable, Generator
from contextlib import contextmanager

from toolyard.core.caller import Caller
from toolyard.surfaces.mcp.client import ClientState, Peer
from toolyard.surfaces.mcp.jsonrpc import INVALID_REQUEST, Id, Json, RpcError, RpcNotification
from toolyard.surfaces.mcp.methods import ActiveRequest

MAX_SESSIONS = 4096
MAX_SESSIONS_PER_CALLER = 256
"""Sessions that one caller may have: the idlest makes room, so that nobody takes it from others."""
MAX_ACTIVE_REQUESTS = 256
MAX_IDLE_S = 3600.0


class LegacySession:
    def __init__(self, id: str, caller: Caller, capabilities: Json, version: str) -> None:
        self.id = id
        self.caller = caller
        self.version = version
        self.used_at = 0.0
        self._capabilities = capabilities
        self.client_state = ClientState()
        self._active: dict[Id, ActiveRequest] = {}
        self._listener_count = 0

    @property
    def busy(self) -> bool:
        return bool(self._active) or self._listener_count > 0

    @contextmanager
    def track_listener(self) -> Generator[None]:
        """While its client listens it is in use."""
        self._listener_count += 1
        try:
            yield
        finally:
            self._listener_count -= 1

    def build_peer(self, caller: Caller, correlation_id: str, *, accepts_stream: bool = True) -> Peer:
        """The client, with the roles that its key has now."""
        return Peer(
            caller=caller,
            correlation_id=correlation_id,
            capabilities=self._capabilities,
            client_state=self.client_state,
            accepts_stream=accepts_stream,
        )

    def add_request(self, id: Id, request: ActiveRequest) -> None:
        if id in self._active:
            raise RpcError(INVALID_REQUEST, f"a request with the id {str(id)[:80]!r} is under way already")
        if len(self._active) >= MAX_ACTIVE_REQUESTS:
            raise RpcError(
                INVALID_REQUEST, f"{MAX_ACTIVE_REQUESTS} requests are under way already; wait for one to end"
            )
        self._active[id] = request

    def remove_request(self, id: Id) -> None:
        self._active.pop(id, None)

    async def handle_notification(self, notification: RpcNotification) -> None:
        """A notification. One that we do not know, or that comes too late, is no harm."""
        id = notification.params.get("requestId") if notification.method == "notifications/cancelled" else None
        if isinstance(id, str | int) and (exchange := self._active.get(id)):
            await exchange.cancel()


class LegacySessions:
    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._sessions: dict[str, LegacySession] = {}
        """The one that was used last stands last."""

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, caller: Caller, capabilities: Json, version: str) -> LegacySession:
        self._evict(caller)
        session = LegacySession(secrets.token_urlsafe(24), caller, capabilities, version)
        session.used_at = self._now()
        self._sessions[session.id] = session
        return session

    def find(self, id: str, caller: Caller) -> LegacySession | None:
        """The session of that id, if it is this caller's."""
        session = self._sessions.get(id)
        if session is None or not session.caller.owns(caller):
            return None
        if self._is_expired(session):
            del self._sessions[id]
            return None
        session.used_at = self._now()
        self._sessions[id] = self._sessions.pop(id)
        return session

    def close(self, session: LegacySession) -> None:
        self._sessions.pop(session.id, None)

    def _is_expired(self, session: LegacySession) -> bool:
        return not session.busy and self._now() - session.used_at > MAX_IDLE_S

    def _evict(self, caller: Caller) -> None:
        for id in [id for id, session in self._sessions.items() if self._is_expired(session)]:
            del self._sessions[id]
        own = [id for id, session in self._sessions.items() if session.caller.owns(caller)]
        if len(own) >= MAX_SESSIONS_PER_CALLER:
            del self._sessions[own[0]]
        elif len(self._sessions) >= MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
