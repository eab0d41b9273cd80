"""Sessions of legacy clients (until 2025-11-25): what a client said when it initialized, and what is under way for it.

Bounded in number and in idle time. A session that is gone is told with 404, and a client then initializes anew.
"""

import secrets
from collections.abc import Callable, Generator
from contextlib import contextmanager

from toolyard.core.caller import Caller
from toolyard.surfaces.mcp.client import Peer, Standing
from toolyard.surfaces.mcp.jsonrpc import INVALID_REQUEST, Id, Json, Note, RpcError
from toolyard.surfaces.mcp.methods import Exchange

MOST_SESSIONS = 4096
MOST_OF_ONE = 256
"""Sessions that one caller may have: the idlest makes room, so that nobody takes it from others."""
MOST_UNDER_WAY = 256
IDLE_S = 3600.0


class Session:
    def __init__(self, id: str, caller: Caller, capabilities: Json, version: str) -> None:
        self.id = id
        self.caller = caller
        self.version = version
        self.used_at = 0.0
        self._capabilities = capabilities
        self.standing = Standing()
        self._under_way: dict[Id, Exchange] = {}
        self._listening = 0

    @property
    def busy(self) -> bool:
        return bool(self._under_way) or self._listening > 0

    @contextmanager
    def listening(self) -> Generator[None]:
        """While its client listens it is in use."""
        self._listening += 1
        try:
            yield
        finally:
            self._listening -= 1

    def peer(self, caller: Caller, correlation_id: str, *, streams: bool = True) -> Peer:
        """The client, with the roles that its key has now."""
        return Peer(
            caller=caller,
            correlation_id=correlation_id,
            capabilities=self._capabilities,
            standing=self.standing,
            streams=streams,
        )

    def begin(self, id: Id, exchange: Exchange) -> None:
        if id in self._under_way:
            raise RpcError(INVALID_REQUEST, f"a request with the id {str(id)[:80]!r} is under way already")
        if len(self._under_way) >= MOST_UNDER_WAY:
            raise RpcError(INVALID_REQUEST, f"{MOST_UNDER_WAY} requests are under way already; wait for one to end")
        self._under_way[id] = exchange

    def end(self, id: Id) -> None:
        self._under_way.pop(id, None)

    async def hear(self, note: Note) -> None:
        """A notification. One that we do not know, or that comes too late, is no harm."""
        id = note.params.get("requestId") if note.method == "notifications/cancelled" else None
        if isinstance(id, str | int) and (exchange := self._under_way.get(id)):
            await exchange.cancel()


class Sessions:
    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._sessions: dict[str, Session] = {}
        """The one that was used last stands last."""

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, caller: Caller, capabilities: Json, version: str) -> Session:
        self._make_room(caller)
        session = Session(secrets.token_urlsafe(24), caller, capabilities, version)
        session.used_at = self._now()
        self._sessions[session.id] = session
        return session

    def find(self, id: str, caller: Caller) -> Session | None:
        """The session of that id, if it is this caller's."""
        session = self._sessions.get(id)
        if session is None or not session.caller.owns(caller):
            return None
        if self._over(session):
            del self._sessions[id]
            return None
        session.used_at = self._now()
        self._sessions[id] = self._sessions.pop(id)
        return session

    def close(self, session: Session) -> None:
        self._sessions.pop(session.id, None)

    def _over(self, session: Session) -> bool:
        return not session.busy and self._now() - session.used_at > IDLE_S

    def _make_room(self, caller: Caller) -> None:
        for id in [id for id, session in self._sessions.items() if self._over(session)]:
            del self._sessions[id]
        own = [id for id, session in self._sessions.items() if session.caller.owns(caller)]
        if len(own) >= MOST_OF_ONE:
            del self._sessions[own[0]]
        elif len(self._sessions) >= MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
