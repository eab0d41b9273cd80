"""Sessions of legacy clients (until 2025-11-25): the capabilities from `initialize`, and the requests in progress.

Sessions are bounded in number and in idle time. A request for a session that is gone gets a 404, upon which the
protocol has the client initialize again.
"""

import secrets
from collections.abc import Callable, Generator
from contextlib import contextmanager

from toolyard.core.caller import Caller
from toolyard.core.json_types import Json
from toolyard.surfaces.mcp.client import ClientState, Peer
from toolyard.surfaces.mcp.jsonrpc import INVALID_REQUEST, Id, RpcError, RpcNotification
from toolyard.surfaces.mcp.methods import ActiveRequest

MAX_SESSIONS = 4096
MAX_SESSIONS_PER_CALLER = 256
"""How many sessions one caller may have. Beyond that its own idlest one is closed, so that it cannot evict others'."""
MAX_ACTIVE_REQUESTS = 256
MAX_IDLE_S = 3600.0


class LegacySession:
    """A session of one caller; only that caller can use it."""

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
        """Whether a request or a listening stream is open; a busy session does not expire."""
        return bool(self._active) or self._listener_count > 0

    @contextmanager
    def track_listener(self) -> Generator[None]:
        """Keep the session busy while its client listens."""
        self._listener_count += 1
        try:
            yield
        finally:
            self._listener_count -= 1

    def build_peer(self, caller: Caller, correlation_id: str, *, accepts_stream: bool = True) -> Peer:
        """Return the client of a request, with the roles that the caller has now, not at `initialize`."""
        return Peer(
            caller=caller,
            correlation_id=correlation_id,
            capabilities=self._capabilities,
            client_state=self.client_state,
            accepts_stream=accepts_stream,
        )

    def add_request(self, id: Id, request: ActiveRequest) -> None:
        """Register a request, so that it can be cancelled. Raise RpcError for a used id or too many requests."""
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
        """Cancel a request if the notification says so; ignore other notifications and unknown requests."""
        id = notification.params.get("requestId") if notification.method == "notifications/cancelled" else None
        if isinstance(id, str | int) and (active_request := self._active.get(id)):
            await active_request.cancel()


class LegacySessions:
    """All sessions of legacy clients over HTTP."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._sessions: dict[str, LegacySession] = {}
        """Ordered by last use, the least recently used session first."""

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, caller: Caller, capabilities: Json, version: str) -> LegacySession:
        """Open a session, and close the least recently used one if there are too many."""
        self._evict(caller)
        session = LegacySession(secrets.token_urlsafe(24), caller, capabilities, version)
        session.used_at = self._now()
        self._sessions[session.id] = session
        return session

    def find(self, id: str, caller: Caller) -> LegacySession | None:
        """Return the session of this id, or None if there is none of this caller."""
        session = self._sessions.get(id)
        # A session id is not a credential: it is of no use without its caller's key.
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
        caller_sessions = [id for id, session in self._sessions.items() if session.caller.owns(caller)]
        if len(caller_sessions) >= MAX_SESSIONS_PER_CALLER:
            del self._sessions[caller_sessions[0]]
        elif len(self._sessions) >= MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
