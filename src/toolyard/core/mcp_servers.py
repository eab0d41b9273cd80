"""What an MCP server is, as it is configured, and as it is told of. It does not know how one is reached."""

from typing import Literal

from msgspec import Struct

from toolyard.core.caller import Caller

INPUT_RESPONSES = "io.modelcontextprotocol/inputResponses"
"""In the content of an answer: what a client said to each of a question's `requests`, in place of one form's fields."""
ServerStatus = Literal["stopped", "starting", "running", "idle", "restarting", "failed"]
"""`idle` until the next call; `restarting` between two attempts; `failed` when so many failed that it is tried only now
and then."""
STDERR_LABEL = "; its last words: "
"""In the error of a server that ended: what follows is what it said itself."""
ServerAction = Literal["start", "stop", "accept", "reject", "remove"]
ToolState = Literal["accepted", "new", "changed", "rejected", "unusable"]
"""`new` and `changed` since the last time somebody accepted them: quarantined, no model is shown them. `rejected` once
somebody has said no to what is listed now; it waits for nobody, and stays out until it is listed as something else."""


class OAuth(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """As whom a token for a server is asked for, where the server cannot be asked to make somebody up for us."""

    issuer: str
    """The authorization server that they belong to: they are shown to no other."""
    client_id: str
    client_secret: str = ""
    scope: str = ""
    grant: Literal["client_credentials", "authorization_code"] = "client_credentials"
    """`authorization_code`: a person signs in. Without any `oauth` a server that wants a token gets one that way."""


class SignIn(Struct, frozen=True, kw_only=True):
    """A sign-in that somebody has begun: the page to open, and what its answer is known by."""

    url: str
    state: str
    expires_at: float


class SignInAnswer(Struct, frozen=True, kw_only=True):
    """What the page sent the person back with."""

    state: str
    code: str = ""
    iss: str | None = None
    error: str = ""
    error_description: str = ""


class ServerSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A server as somebody configured it: a child process (command), or one that is reached over HTTP (url)."""

    display_name: str = ""
    """What people call it, where that is more than its id says."""
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    oauth: OAuth | None = None
    auth: Literal["server", "caller"] = "server"
    """`caller`: a session for each user of each tenant, never shared; `{user}` and `{tenant}` in env and headers."""
    names: dict[str, str] = {}
    """For tools that are to be offered under another name: what they are called there, and here."""
    trust: bool = False
    pin: Literal["on", "off"] = "on"
    protocol: Literal["auto", "2025-11-25"] = "auto"
    """`2025-11-25` keeps to the old era, without asking the server for the new one."""
    sampling: bool = False
    """It may ask for a model's words, and for roots. Only an MCP client that uses us has them: it is asked."""
    tenants: tuple[str, ...] = ()
    """Only callers of these tenants see it and its tools; empty means all callers."""
    connect_s: float = 30.0
    list_s: float = 30.0
    call_s: float = 30.0
    idle_s: float = 0.0
    """How long a session without a call is kept; zero means for ever (ten minutes for a caller's own)."""

    def serves(self, caller: Caller) -> bool:
        """Whether this caller may know of the server and use its tools."""
        return not self.tenants or caller.tenant in self.tenants

    @property
    def transport(self) -> Literal["stdio", "http"]:
        return "stdio" if self.command else "http"


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
    callers: int = 0
    """How many get it so, where that is not all: then it is nobody else's business, but an administrator's."""


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
    restarts: int = 0
    sessions: int = 0
    tools: tuple[ServerTool, ...] = ()
    log: tuple[str, ...] = ()
    """What it said last beside the protocol."""

    @property
    def name(self) -> str:
        return self.spec.display_name or self.id
