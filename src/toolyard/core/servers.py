"""What an MCP server is, as it is configured, and as it is told of. It does not know how one is reached."""

from typing import Literal

from msgspec import Struct

INPUT_RESPONSES = "io.modelcontextprotocol/inputResponses"
"""In the content of an answer: what a client said to each of a question's `requests`, in place of one form's fields."""
ServerStatus = Literal["stopped", "starting", "running", "idle", "restarting", "failed"]
"""`idle` until the next call; `restarting` between two attempts; `failed` when so many failed that it is tried only now
and then."""
ServerAction = Literal["start", "stop", "accept", "remove"]
ToolState = Literal["accepted", "new", "changed", "unusable"]
"""`new` and `changed` since the last time somebody accepted them: quarantined, no model is shown them."""


class OAuth(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a server's authorization server is asked for a token."""

    grant: Literal["client_credentials", "authorization_code"] = "client_credentials"
    client_id: str = ""
    client_secret: str = ""
    scope: str = ""
    redirect_url: str = ""
    """Where the authorization server sends the user's browser back to: this server's `/servers/oauth/callback`."""


class ServerSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A server as somebody configured it: a child process (command), or one that is reached over HTTP (url)."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    oauth: OAuth | None = None
    auth: Literal["server", "caller"] = "server"
    """`caller`: a session for each user of each tenant, never shared; `{user}` and `{tenant}` in env and headers."""
    trust: bool = False
    pin: Literal["on", "off"] = "on"
    sampling: bool = False
    connect_s: float = 30.0
    list_s: float = 30.0
    call_s: float = 30.0
    idle_s: float = 0.0
    """How long a session without a call is kept; zero means for ever (ten minutes for a caller's own)."""


class ServerTool(Struct, frozen=True, kw_only=True):
    """A tool as its server lists it, and what became of it here."""

    name: str
    offered_as: str
    """The name that a model sees."""
    definition: dict[str, object]
    """As the server sent it, with fields that nobody here knows."""
    state: ToolState = "accepted"
    why: str = ""
    """For a quarantined one the difference to what was accepted, line by line; for an unusable one the reason."""


class ServerCard(Struct, frozen=True, kw_only=True):
    """What is told of one server."""

    id: str
    spec: ServerSpec
    status: ServerStatus
    created_at: float = 0.0
    started_at: float | None = None
    stopped_at: float | None = None
    error: str = ""
    process_id: int | None = None
    protocol: str = ""
    configured: bool = False
    """It stands in the configuration file, and can be removed only there."""
    authorize_url: str = ""
    """Where somebody has to go to let us in."""
    restarts: int = 0
    sessions: int = 0
    tools: tuple[ServerTool, ...] = ()
