"""MCP servers and clients as data: configuration, status, capabilities. `venues.mcp` connects to servers."""

import re
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.masking import MASK, mask_addresses, mask_arguments
from toolyard.core.settings.types import (
    FilePath,
    HeaderName,
    HeaderSecret,
    Name,
    OfferedName,
    Seconds,
    SecondsOrZero,
    Secret,
    ShortLine,
    Url,
    VariableName,
)

Capability = Literal["elicitation", "sampling", "roots"]


class McpClient(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An MCP client that uses this server."""

    modern: bool = False
    """Whether it speaks 2026-07-28, rather than 2025-11-25 or older."""
    capabilities: frozenset[Capability] = frozenset()
    """What the client can be asked for."""


INPUT_RESPONSES = "io.modelcontextprotocol/inputResponses"
"""The key, in the content of an answer, of a client's responses to each of a question's `requests`."""
ServerStatus = Literal["stopped", "starting", "running", "idle", "restarting", "failed"]
"""`idle` until the next call; `restarting` between two attempts; `failed` after many failures, with rare attempts."""
STDERR_LABEL = "; its last words: "
"""Comes before the last stderr lines in the error of a server that ended."""
ADDRESS_LABEL = "; its address: "
"""Comes before the address in the error of a server that is reached over HTTP."""
_PACKAGE_RUNNERS = {
    "npx": ("-p", "--package"),
    "bunx": ("-p", "--package"),
    "uvx": ("--from",),
}
"""Programs that fetch a package and run it, and their flags that name it."""
_FIXED_VERSION = re.compile(r"(?:.@|===?)v?\d")
SERVER_ID = r"^(?!function\Z|oauth\Z)[A-Za-z0-9][A-Za-z0-9_.-]*\Z"
MAX_ID_CHARS = 64
ServerAction = Literal["start", "stop", "accept", "reject", "remove"]
ToolState = Literal["accepted", "new", "changed", "rejected", "unusable"]
"""`new` and `changed` since the tools were last accepted: quarantined, no model is shown them. `rejected` once an
administrator has rejected the listed definition; the tool stays hidden until its definition changes."""


AddServers = Literal["all", "url", "off"]
"""Which servers administrators may add or change while the server runs: all, only those with a URL, or none."""


class OAuth(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The OAuth client of a server, where the authorization server does not register clients dynamically."""

    issuer: Url
    """The authorization server that the credentials belong to: they are sent to no other."""
    client_id: Name
    client_secret: Secret = ""
    scope: str = ""
    grant: Literal["client_credentials", "authorization_code"] = "client_credentials"
    """`authorization_code`: a person signs in. A server that needs a token without `oauth` uses this, too."""

    def iter_problems(self) -> Iterator[tuple[str, str]]:
        """Yield the field and what is wrong with it, for each rule that concerns several fields and is broken."""
        if self.grant == "client_credentials" and not self.client_secret:
            yield "client_secret", 'must be given, or grant = "authorization_code" with which a person signs in'


class SignIn(Struct, frozen=True, kw_only=True):
    """A sign-in under way: the page to open, and the `state` that identifies its answer."""

    url: str
    state: str
    expires_at: float


class SignInAnswer(Struct, frozen=True, kw_only=True):
    """The parameters of the redirect after a sign-in."""

    state: str
    code: str = ""
    iss: str | None = None
    error: str = ""
    error_description: str = ""


class Connection(Struct, frozen=True, kw_only=True):
    """A server that somebody has signed in to."""

    server: str
    name: str
    address: str
    issuer: str = ""
    """The authorization server that issued the token."""
    scope: str = ""
    expires_at: float | None = None
    renewable: bool = False
    """Whether the token is renewed without a person when it expires."""
    shared: bool = False
    """Whether the token serves all callers of the server, rather than one."""
    problem: str = ""
    """Why the token cannot be used, and what to do."""


class ServerSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The configuration of a server: a child process (`command`), or a server that is reached over HTTP (`url`)."""

    display_name: ShortLine = ""
    """A name for people; the id if it is empty."""
    command: Name = ""
    args: tuple[str, ...] = ()
    env: dict[VariableName, Secret] = {}
    cwd: FilePath = ""
    url: Url = ""
    headers: dict[HeaderName, HeaderSecret] = {}
    oauth: OAuth | None = None
    auth: Literal["server", "caller"] = "server"
    """`caller`: each user of each tenant has their own session; env and headers may hold `{user}` and `{tenant}`."""
    names: dict[Name, OfferedName] = {}
    """Aliases: the name of a tool on the server, and the name to offer it under."""
    trust: bool = False
    pin: Literal["on", "off", "review"] = "on"
    """`review`: also the tools of the first listing wait until an administrator accepts them."""
    protocol: Literal["auto", "2025-11-25"] = "auto"
    """`2025-11-25` uses that version without asking the server for a newer one."""
    sampling: bool | None = None
    """Whether the server may ask for sampling and roots; None means if it is trusted. Such requests go to the MCP
    client that made the call, and to nobody else."""
    replicas: Literal["one", "each"] = "one"
    """For a command in a store that several replicas share. `each`: every replica starts a process of its own, and
    copies of the process, each with its own state, are fine. With `one` it is not started there."""
    tenants: tuple[Name, ...] = ()
    """Only callers of these tenants see the server and its tools; empty means all callers."""
    connect_s: Seconds = 30.0
    list_s: Seconds = 30.0
    call_s: Seconds = 30.0
    idle_s: SecondsOrZero = 0.0
    """How long a session without calls is kept; zero means for ever (ten minutes for a session of one caller)."""

    def serves(self, caller: Caller) -> bool:
        """Return whether this caller may know of the server and use its tools."""
        return not self.tenants or caller.tenant in self.tenants

    @property
    def has_secrets(self) -> bool:
        """Return whether there are values that nobody is shown, besides those in the address and the arguments."""
        return bool(self.env or self.headers or (self.oauth and self.oauth.client_secret))

    @property
    def may_sample(self) -> bool:
        """Return whether the server may ask the MCP client of a call for sampling and roots."""
        return self.trust if self.sampling is None else self.sampling

    def iter_problems(self) -> Iterator[tuple[str, str]]:
        """Yield the field and what is wrong with it, for each rule that concerns several fields and is broken."""
        if bool(self.command) == bool(self.url):
            yield "command", "and url: give one of them" if self.command else "or url must be given"
        elif self.url:
            if self.replicas == "each":
                yield "replicas", "is for a server with a command, and this one has a url"
            for name in ("args", "env", "cwd"):
                if getattr(self, name):
                    yield name, "is for a server with a command, and this one has a url"
        elif self.headers or self.oauth:
            name = "headers" if self.headers else "oauth"
            yield name, "are for a server with a url, and this one has a command"

    @property
    def replica_problem(self) -> str:
        """Return why replicas that share a store cannot use this server; empty if they can."""
        if not self.command or self.replicas == "each":
            return ""
        return (
            'set replicas = "each", or run it once over HTTP and give its url: this server is a command, several '
            "replicas may share the store, and each would start a copy of the process with a state of its own"
        )

    @property
    def unpinned_package(self) -> str:
        """Return the package that a runner such as npx may fetch in any version; empty if its version is fixed."""
        program = self.command.replace("\\", "/").rpartition("/")[2].removesuffix(".cmd").removesuffix(".exe")
        if program not in _PACKAGE_RUNNERS:
            return ""
        flags, words = _PACKAGE_RUNNERS[program], iter(self.args)
        package = next((word for word in words if word[:1] != "-" or word.partition("=")[0] in flags), "")
        if package.startswith("-"):
            package = package.partition("=")[2] or next(words, "")
        is_local = package.startswith((".", "/", "~"))
        return "" if is_local or _FIXED_VERSION.search(package) else package

    @property
    def version_warning(self) -> str:
        """Return what is wrong with a command that may run other code tomorrow; empty if nothing is."""
        package = mask_addresses(self.unpinned_package)
        return f"runs {package!r} in its latest version: pin a version" if package else ""

    @property
    def transport(self) -> Literal["stdio", "http"]:
        return "stdio" if self.command else "http"


class ServerTrial(Struct, frozen=True, kw_only=True):
    """What a server answered that was tried without being added."""

    ok: bool
    error: str = ""
    needs_sign_in: bool = False
    """Whether a person has to sign in first, which is possible once the server is added."""
    protocol: str = ""
    tools: tuple[dict[str, object], ...] = ()
    """The definitions of its tools, as it lists them."""
    log: tuple[str, ...] = ()
    """The last lines that it wrote to its standard error."""


def mask_spec(spec: ServerSpec) -> ServerSpec:
    """Return the configuration with every value masked that may be secret."""
    return replace(
        spec,
        url=mask_addresses(spec.url, every_parameter=True),
        args=mask_arguments(spec.args),
        env=dict.fromkeys(spec.env, MASK),
        headers=dict.fromkeys(spec.headers, MASK),
        oauth=replace(spec.oauth, client_secret=MASK) if spec.oauth else None,
    )


def build_server_id(name: str) -> str:
    """Return the name if it is valid as an id, else in lower case with hyphens for other characters; empty if none."""
    server_id = name if re.match(SERVER_ID, name) else re.sub(r"[^a-z0-9_.]+", "-", name.lower()).strip("-.")
    return server_id if len(server_id) <= MAX_ID_CHARS and re.match(SERVER_ID, server_id) else ""


def name_address(error: str, url: str) -> str:
    """Return the error of a connection with the address that it was for, without its secrets."""
    return f"{error}{ADDRESS_LABEL}{mask_addresses(url, every_parameter=True)}" if url else error


def select_visible_error(error: str, caller: Caller) -> str:
    """Return a server's error; unless for an administrator without its address and its last standard error lines."""
    if caller.administers_server:
        return error
    return error.partition(STDERR_LABEL)[0].partition(ADDRESS_LABEL)[0]


def describe_outage(server: str, status: ServerStatus, error: str, *, is_startable: bool = True) -> str:
    """Return why a server's tools cannot be called now, and what to do; empty if they can be.

    If it is not startable, the error says what to do: starting it would lead to the same error.
    """
    start = f"`toolyard servers start {server}`"
    if status == "stopped":
        return f"the server {server!r} is stopped; an administrator can start it: {start}"
    if status == "starting":
        return f"the server {server!r} is still starting; try again in a moment"
    if status not in ("failed", "restarting"):
        return ""
    if not is_startable:
        return f"the server {server!r} cannot be used: {error}"
    why = f": {error}" if error else ""
    return f"the server {server!r} does not run{why} (it is tried again by itself, and at once with {start})"


class ServerTool(Struct, frozen=True, kw_only=True):
    """A tool as its server lists it, and whether it is offered."""

    name: str
    offered_as: str
    """The name that models see."""
    definition: dict[str, object]
    """The definition as the server sent it, unknown fields included."""
    state: ToolState = "accepted"
    why: str = ""
    """For a quarantined tool a line diff to the accepted definition, for an unusable one the reason."""
    reviewed: bool = False
    """Whether a person has accepted this definition; the first listing of a server is accepted by nobody."""
    hash: str = ""
    """The hash of the definition. Clients send it back to accept the tool, so that no other definition is accepted."""
    callers: int = 0
    """How many callers get this version; 0 means all. A version of single callers is shown to administrators only."""

    def explain_absence(self, server: str) -> str:
        """Return why the tool is not offered, and what to do; empty if it is offered."""
        if self.state == "accepted":
            return ""
        tool = f"the tool {self.name[:80]!r} of the server {server!r} is"
        if self.state == "unusable":
            return f"{tool} not offered: {self.why}"
        how = "kept out" if self.state == "rejected" else "quarantined"
        return f"{tool} {how}: an administrator has to accept it first"


class ServerCard(Struct, frozen=True, kw_only=True):
    """A server with its status and tools."""

    id: str
    spec: ServerSpec
    status: ServerStatus
    created_at: float = 0.0
    started_at: float | None = None
    stopped_at: float | None = None
    error: str = ""
    is_startable: bool = True
    """Whether starting the server may help after an error: not if a person has to sign in or to configure it first."""
    process_id: int | None = None
    protocol: str = ""
    configured: bool = False
    """Whether the server is in the configuration file, and can be removed only there."""
    location: str = ""
    """Where the configuration sets it."""
    version: str = ""
    """The version of its stored configuration; empty for a server of the configuration file."""
    conflict: str = ""
    """Says that a server of this id is stored too, which is not used."""
    restarts: int = 0
    sessions: int = 0
    tools: tuple[ServerTool, ...] = ()
    log: tuple[str, ...] = ()
    """The last lines that the server wrote outside of the protocol, such as to stderr."""

    @property
    def name(self) -> str:
        return self.spec.display_name or self.id

    def describe_outage(self, caller: Caller) -> str:
        """Return why the server's tools cannot be called now, and what to do; empty if they can be."""
        error = select_visible_error(self.error, caller)
        return describe_outage(self.id, self.status, error, is_startable=self.is_startable)
