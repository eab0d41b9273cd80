"""The replies to a request to a server, and the interface of a connection. Data only, without the SDK."""

from collections.abc import Callable
from typing import Literal, Protocol

from msgspec import Struct

from toolyard.core.json_types import Json
from toolyard.core.tools.mcp_servers import Capability, ServerStatus


class ProgressCallback(Protocol):
    async def __call__(self, progress: float, total: float | None, message: str | None) -> None: ...


class ResultReply(Struct, frozen=True):
    """The result, as the server sent it."""

    raw: Json
    modern: bool


FORBIDDEN = 403
"""The code of a request that is denied: by an HTTP server for missing scopes, or by us for a tool nobody accepted."""


class ErrorReply(Struct, frozen=True):
    """The server answered with a JSON-RPC error."""

    code: int
    message: str
    data: object = None
    modern: bool = False


class NoReply(Struct, frozen=True):
    """No answer came. `read` tells whether the server may have read the request, and so acted on it."""

    why: str
    read: bool


ServerReply = ResultReply | ErrorReply | NoReply
PreflightCheck = Callable[[], ErrorReply | NoReply | None]
"""Returns the reply if a request must not be sent over the session that is open now, else None."""


Era = Literal["", "legacy", "modern"]
"""The era that a server spoke last: `legacy` is 2025-11-25 or before, `modern` 2026-07-28; empty if unknown."""


class SessionKind(Struct, frozen=True, kw_only=True):
    """The kind of session that a request needs."""

    era: Literal["", "legacy"] = ""
    """Empty for the newest era that both sides speak."""
    claims: frozenset[Capability] = frozenset()
    """Capabilities beside elicitation that a session of the old era announces, once for all its calls."""
    number: int = 0
    """From 1 on: a session for calls that may ask while questions are open on the sessions before it."""


SHARED = SessionKind()
"""The session that all callers share, or (with `auth = "caller"`) all requests of one caller."""


class OpenTimings(Struct, frozen=True):
    """The duration of each step of opening a session."""

    start_s: float = 0.0
    """Until the process was started, or the HTTP client set up."""
    handshake_s: float = 0.0
    list_s: float = 0.0


class ConnectionInfo(Struct, frozen=True, kw_only=True):
    """The state of a connection."""

    error: str = ""
    needs_sign_in: bool = False
    """Whether the connection waits for a person to sign in."""
    process_id: int | None = None
    protocol: str = ""
    sessions: int = 0
    in_flight: int = 0
    timings: OpenTimings = OpenTimings()
    capabilities: Json = {}
    """Those of the current session, or of the last one."""
    log: tuple[str, ...] = ()


class McpRequester(Protocol):
    """The part of a connection that requests need; implemented by `SessionSupervisor`."""

    era_refused: bool
    """Whether the server does not speak the only era that this connection is for."""

    async def get_era(self) -> Era:
        """Return the era that the server speaks, once that is known; empty if no session can be opened."""
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
        """Send a request. `capabilities` are the calling client's: in the new era each request announces them."""
        ...

    def report_timeout(self) -> None:
        """Report that a request was not answered before its deadline."""
        ...


class McpConnection(McpRequester, Protocol):
    """A connection that is reopened when it ends; implemented by `SessionSupervisor`."""

    status: ServerStatus
    describe: Callable[[], ConnectionInfo]

    async def run(self) -> None: ...

    def stop(self) -> None: ...
