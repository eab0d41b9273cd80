"""What asking a server can come to. Data only: it knows neither the SDK nor what is done with an answer."""

from collections.abc import Callable
from typing import Literal, Protocol

from msgspec import Struct

from toolyard.core.mcp_client import Capability
from toolyard.core.mcp_servers import ServerStatus

Json = dict[str, object]


class ProgressCallback(Protocol):
    async def __call__(self, progress: float, total: float | None, message: str | None) -> None: ...


class ResultReply(Struct, frozen=True):
    """The answer, as the server sent it."""

    raw: Json
    modern: bool


FORBIDDEN = 403
"""The code of what is rejected for want of rights: an HTTP server's own, and ours where nobody accepted a tool."""


class ErrorReply(Struct, frozen=True):
    """The server answered with an error of the protocol."""

    code: int
    message: str
    data: object = None
    modern: bool = False


class NoReply(Struct, frozen=True):
    """There was no server to ask, or it went before it answered. `read`: it may have read the request, and acted."""

    why: str
    read: bool


ServerReply = ResultReply | ErrorReply | NoReply
PreflightCheck = Callable[[], ErrorReply | NoReply | None]
"""Why a request may not be sent over the session that is open now, if so."""


Era = Literal["", "legacy", "modern"]
"""What a server was found to speak the last time; empty means that it has not been asked."""


class SessionKind(Struct, frozen=True, kw_only=True):
    """Which of a server's sessions a request takes."""

    era: Literal["", "legacy"] = ""
    """Empty for the newest that both speak."""
    claims: frozenset[Capability] = frozenset()
    """What a session of the old era says beside elicitation that we can be asked for. It says so once for all calls."""
    number: int = 0
    """From 1 on: for calls that may ask while a question is open on the sessions before."""


SHARED = SessionKind()
"""The session that all callers share, or all requests of one caller."""


class OpenTimings(Struct, frozen=True):
    """How long the steps took in which a session was opened."""

    start_s: float = 0.0
    """Until there was a process, or a place to connect to."""
    handshake_s: float = 0.0
    list_s: float = 0.0


class ConnectionInfo(Struct, frozen=True, kw_only=True):
    """How a connection is."""

    error: str = ""
    process_id: int | None = None
    protocol: str = ""
    sessions: int = 0
    in_flight: int = 0
    timings: OpenTimings = OpenTimings()
    capabilities: Json = {}
    """Of the session that is open, or was."""
    log: tuple[str, ...] = ()


class McpRequester(Protocol):
    """A connection as a request needs it; see `_link`."""

    era_refused: bool
    """The server does not speak the only era that this connection is for."""

    async def get_era(self) -> Era:
        """Return what is spoken, once that is known; empty if there is no session to be had."""
        ...

    async def ask(
        self,
        method: str,
        params: Json,
        *,
        progress: ProgressCallback | None = None,
        owner: object = None,
        preflight: PreflightCheck | None = None,
        capabilities: frozenset[Capability] | None = None,
    ) -> ServerReply:
        """Ask the server. `capabilities` are the calling client's: in the new era each request says them."""
        ...

    def report_timeout(self) -> None:
        """A request was not answered before its deadline."""
        ...


class McpConnection(McpRequester, Protocol):
    """A connection that is kept up; see `_link`."""

    status: ServerStatus
    describe: Callable[[], ConnectionInfo]

    async def run(self) -> None: ...

    def stop(self) -> None: ...
