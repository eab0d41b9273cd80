"""Sessions of legacy clients (until 2025-11-25): the capabilities from `initialize`, and the requests in progress.

Sessions are bounded in number and in idle time. A request for a session that is gone gets a 404, upon which the
protocol has the client initialize again.

Replicas that share a store share what `initialize` said, so that the client's next request may come to any of them.
What lives in one process stays there: requests in progress, our questions to the client, the stream that it listens to,
the resources that it watches and its log level. A client that uses these needs a balancer that keeps its session at one
replica. There, a session that only listens for longer than MAX_IDLE_S, without a request, is over for its next request.
"""

import secrets
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

import msgspec
from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.json_types import Json
from toolyard.core.store import KeyValue, SharedKeyValue
from toolyard.surfaces.mcp.client import ClientState, Peer
from toolyard.surfaces.mcp.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, Id, RpcError, RpcNotification
from toolyard.surfaces.mcp.methods import ActiveRequest

MAX_SESSIONS = 4096
MAX_SESSIONS_PER_CALLER = 256
"""How many sessions one caller may have. Beyond that its own idlest one is closed, so that it cannot evict others'."""
MAX_ACTIVE_REQUESTS = 256
MAX_IDLE_S = 3600.0
SESSIONS = "mcp.sessions"
CHECK_S = 1.0
"""After this time a session of a shared store is looked up again: another replica may have ended it."""
TOUCH_S = 300.0
"""After this time the use of a session is recorded in a shared store."""
MAX_RECORD_BYTES = 65_536
SWEEP_S = 30.0
"""How often a replica deletes stored sessions that are expired or too many."""


class SessionRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a session begins with, as replicas share it."""

    user: str
    tenant: str
    version: str
    capabilities: Json
    used_at: float


_decoder = msgspec.json.Decoder(SessionRecord)


class LegacySession:
    """A session of one caller; only that caller can use it."""

    def __init__(self, id: str, caller: Caller, capabilities: Json, version: str) -> None:
        self.id = id
        self.caller = caller
        self.version = version
        self.used_at = 0.0
        self.checked_at = 0.0
        """When the session was last found in a shared store."""
        self.touched_at = 0.0
        """When its use was last recorded there."""
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

    def build_record(self) -> bytes:
        return msgspec.json.encode(
            SessionRecord(
                user=self.caller.user,
                tenant=self.caller.tenant,
                version=self.version,
                capabilities=self._capabilities,
                used_at=self.used_at,
            )
        )

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

    def __init__(self, now: Callable[[], float], records: SharedKeyValue) -> None:
        self._now = now
        self._records = records if records.is_shared else None
        self._swept_at = 0.0
        self._sessions: dict[str, LegacySession] = {}
        """Ordered by last use, the least recently used session first."""

    def __len__(self) -> int:
        return len(self._sessions)

    async def open(self, caller: Caller, capabilities: Json, version: str) -> LegacySession:
        """Open a session, and close the least recently used one if there are too many."""
        session = LegacySession(secrets.token_urlsafe(24), caller, capabilities, version)
        if self._records is not None and len(session.build_record()) > MAX_RECORD_BYTES:
            raise RpcError(INVALID_PARAMS, f"capabilities may have {MAX_RECORD_BYTES:,} bytes at most")
        self._add(session)
        if self._records is not None:
            await self._touch(self._records, session)
            await self._sweep(self._records)
        return session

    async def find(self, id: str, caller: Caller) -> LegacySession | None:
        """Return the session of this id, or None if there is none of this caller."""
        session = self._sessions.get(id)
        if self._records is not None and (session is None or self._now() - session.checked_at > CHECK_S):
            session = await self._look_up(self._records, id, session)
        # A session id is not a credential: it is of no use without its caller's key.
        if session is None or not session.caller.owns(caller):
            return None
        if self._is_expired(session):
            await self.close(session)
            return None
        session.used_at = self._now()
        self._sessions[id] = self._sessions.pop(id, session)
        if self._records is not None and self._now() - session.touched_at > TOUCH_S:
            await self._touch(self._records, session)
        return session

    async def close(self, session: LegacySession) -> None:
        self._sessions.pop(session.id, None)
        if self._records is not None:
            await self._records.delete_record(SESSIONS, session.id)

    async def _look_up(self, records: KeyValue, id: str, session: LegacySession | None) -> LegacySession | None:
        """Return the session as the store has it, which another replica may have opened, used or ended."""
        body = await records.read_record(SESSIONS, id)
        if body is None:
            self._sessions.pop(id, None)
            return None
        record = _decoder.decode(body)
        if session is None:
            owner = Caller(user=record.user, tenant=record.tenant)
            # Another request may have looked it up meanwhile: requests in progress must be in one object.
            session = self._sessions.get(id) or LegacySession(id, owner, record.capabilities, record.version)
            self._add(session, at=record.used_at)
        session.used_at = max(session.used_at, record.used_at)
        session.checked_at = self._now()
        return session

    async def _touch(self, records: KeyValue, session: LegacySession) -> None:
        await records.set_record(SESSIONS, session.id, session.build_record())
        session.touched_at = session.checked_at = self._now()

    async def _sweep(self, records: KeyValue) -> None:
        """Delete the stored sessions that are expired or too many, those that were not used for longest first."""
        if self._now() - self._swept_at < SWEEP_S:
            return
        self._swept_at = self._now()
        stored = [(id, _decoder.decode(body)) for id, body in await records.list_records(SESSIONS)]
        stored.sort(key=lambda session: session[1].used_at, reverse=True)
        for id in _find_surplus(stored, self._now()):
            if id not in self._sessions or not self._sessions[id].busy:
                await records.delete_record(SESSIONS, id)

    def _add(self, session: LegacySession, at: float | None = None) -> None:
        if session.id not in self._sessions:
            self._evict(session.caller)
            session.used_at = self._now() if at is None else at
            self._sessions[session.id] = session

    def _is_expired(self, session: LegacySession) -> bool:
        return not session.busy and self._now() - session.used_at > MAX_IDLE_S

    def _evict(self, caller: Caller) -> None:
        """Make room. A session that is evicted here stays in a shared store until `_sweep` finds too many there."""
        for id in [id for id, session in self._sessions.items() if self._is_expired(session)]:
            del self._sessions[id]
        caller_sessions = [id for id, session in self._sessions.items() if session.caller.owns(caller)]
        if len(caller_sessions) >= MAX_SESSIONS_PER_CALLER:
            del self._sessions[caller_sessions[0]]
        elif len(self._sessions) >= MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]


def _find_surplus(stored: Sequence[tuple[str, SessionRecord]], now: float) -> list[str]:
    """Return the sessions to delete of these, which are ordered by last use, the latest first."""
    surplus: list[str] = []
    kept_count, counts = 0, dict[tuple[str, str], int]()
    for id, session in stored:
        owner = session.tenant, session.user
        # A session that is in use may be recorded as unused for up to TOUCH_S.
        expired = now - session.used_at > MAX_IDLE_S + TOUCH_S
        if expired or counts.get(owner, 0) >= MAX_SESSIONS_PER_CALLER or kept_count >= MAX_SESSIONS:
            surplus.append(id)
        else:
            kept_count, counts[owner] = kept_count + 1, counts.get(owner, 0) + 1
    return surplus
