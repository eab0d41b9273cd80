"""The configuration: what there is to set, and how the file, the environment and the flags become one `Config`.

It opens nothing that it names: stores, models, servers and keys are made elsewhere from what stands here.
"""

import functools
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct, inspect
from msgspec.structs import asdict, replace

from toolyard.core.limits import Budget, Limits
from toolyard.core.ports import Key
from toolyard.core.prices import Price
from toolyard.core.servers import ServerSpec
from toolyard.core.tools import Approval, Tool
from toolyard.settings._check import Check, Tree
from toolyard.settings._layers import Layers
from toolyard.settings._mcp_json import mcp_servers
from toolyard.settings._paths import Places, data_directory
from toolyard.settings._show import shown
from toolyard.settings._tool_modules import load_tools

__all__ = [
    "Config",
    "Division",
    "Finding",
    "Jwt",
    "KeyConfig",
    "LimitsConfig",
    "Provider",
    "Server",
    "Telemetry",
    "ToolChoice",
    "ToolRules",
    "WebSearch",
    "data_directory",
    "load",
    "load_tools",
    "located",
    "mcp_servers",
    "ruled",
    "show",
]

LARGEST = 1_000_000_000
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
SHORTEST_SECRET = 32

Name = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=1, le=LARGEST)]
CountOrNone = Annotated[int, Meta(ge=0, le=LARGEST)]
Seconds = Annotated[float, Meta(gt=0, le=LARGEST)]
SecondsOrNone = Annotated[float, Meta(ge=0, le=LARGEST)]
Url = Annotated[
    str, Meta(pattern=r"^https?://[^\s/]\S*\Z", extra={"says": "a URL that begins with http:// or https://"})
]
Secret = Annotated[str, Meta(extra={"is": "secret"})]
"""Never shown; `${VARIABLE}` in it is replaced."""
HeaderSecret = Annotated[str, Meta(extra={"is": "header"})]
"""A secret that is sent as a header: one line."""
Hash = Annotated[str, Meta(min_length=1, extra={"is": "hash"})]
"""Never shown."""
FilePath = Annotated[str, Meta(min_length=1, extra={"is": "path"})]
ToolSource = Annotated[str, Meta(min_length=1, extra={"is": "tools"})]
StoreUrl = Annotated[str, Meta(min_length=1, extra={"is": "store"})]
HeaderName = Annotated[str, Meta(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z", extra={"says": "that of an HTTP header"})]
ServerName = Annotated[str, Meta(pattern=r"^(?!function\Z).", extra={"says": "a text other than function"})]
"""`function` is the server under which function tools appear."""
Origin = Annotated[
    str,
    Meta(pattern=r"^(\*|https?://[^/\s?#@]+)\Z", extra={"says": 'an origin such as "https://shop.example", or "*"'}),
]
ToolName = Annotated[
    str, Meta(pattern=r"^[a-zA-Z0-9_-]{1,64}\Z", extra={"says": "1 to 64 letters, digits, underscores or hyphens"})
]
VariableName = Annotated[str, Meta(pattern=r"^[^=\s]+\Z", extra={"says": "that of a variable"})]
ToolChoice = Literal["all", "none"] | tuple[Name, ...]

_CORE, _BUDGET, _SPEC = Limits(), Budget(), ServerSpec()


class LimitsConfig(Struct, frozen=True, kw_only=True):
    turns_per_request: Count = _CORE.turns_per_request
    turns_per_conversation: Count = _CORE.turns_per_conversation
    requests_per_minute: Count = 30
    """New requests of one caller; tool results and decisions do not count."""
    run_seconds: Seconds = _CORE.run_seconds
    run_tokens: CountOrNone = _CORE.run_tokens
    calls_per_turn: Count = _CORE.calls_per_turn
    parallel_calls: Count = _CORE.parallel_calls
    queued_messages: Count = _CORE.queued_messages

    @property
    def of_a_run(self) -> Limits:
        """The limits that the loop knows; requests per minute are counted before it."""
        return msgspec.convert(self, Limits, from_attributes=True)


class Finding(Struct, frozen=True, kw_only=True):
    """How many tools a model is shown unasked, and how many bytes of their schemas; the others it can find."""

    tools: Count = _BUDGET.tools
    schema_bytes: Count = _BUDGET.schema_bytes

    @property
    def budget(self) -> Budget:
        return msgspec.convert(self, Budget, from_attributes=True)


class WebSearch(Struct, frozen=True, kw_only=True):
    prefer: Literal["auto", "native", "mcp", "off"] = "auto"
    custom_control: bool = False
    full_logging: bool = False


class Provider(Struct, frozen=True, kw_only=True):
    api_key: HeaderSecret = ""
    base_url: Url = ""
    headers: dict[HeaderName, HeaderSecret] = {}
    wire: Literal["chat", "responses", "messages", "gemini", ""] = ""
    """What the provider speaks, if it is not what is known of it."""


class OAuthConfig(Struct, frozen=True, kw_only=True):
    """As whom a token for a server with a url is asked for."""

    issuer: Url
    client_id: Name
    client_secret: Secret = ""
    scope: str = ""
    grant: Literal["client_credentials", "authorization_code"] = "client_credentials"

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.grant == "client_credentials" and not self.client_secret:
            yield "client_secret", 'must be given, or grant = "authorization_code" with which a person signs in'


class Server(Struct, frozen=True, kw_only=True):
    """An MCP server: a child process (command) or one that is reached over HTTP (url)."""

    command: Name = ""
    args: tuple[str, ...] = ()
    env: dict[VariableName, Secret] = {}
    cwd: FilePath = ""
    url: Url = ""
    headers: dict[HeaderName, HeaderSecret] = {}
    oauth: OAuthConfig | None = None
    auth: Literal["server", "caller"] = "server"
    names: dict[Name, ToolName] = {}
    trust: bool = False
    pin: Literal["on", "off"] = "on"
    protocol: Literal["auto", "2025-11-25"] = "auto"
    sampling: bool = False
    connect_s: Seconds = _SPEC.connect_s
    list_s: Seconds = _SPEC.list_s
    call_s: Seconds = _SPEC.call_s
    idle_s: SecondsOrNone = _SPEC.idle_s

    @property
    def spec(self) -> ServerSpec:
        return msgspec.convert(self, ServerSpec, from_attributes=True)

    def problems(self) -> Iterator[tuple[str, str]]:
        if bool(self.command) == bool(self.url):
            yield "command", "and url: give one of them" if self.command else "or url must be given"
        elif self.url:
            for name in ("args", "env", "cwd"):
                if getattr(self, name):
                    yield name, "is for a server with a command, and this one has a url"
        elif self.headers or self.oauth:
            name = "headers" if self.headers else "oauth"
            yield name, "are for a server with a url, and this one has a command"


class ToolRules(Struct, frozen=True, kw_only=True):
    """Rules for one tool, whatever its venue; those that are None stay as the tool has them."""

    enabled: bool | None = None
    roles: frozenset[Name] | None = None
    divisions: frozenset[Name] | None = None
    approval: Approval | None = None
    timeout_s: Seconds | None = None
    approval_s: Seconds | None = None
    client_s: Seconds | None = None
    retries: CountOrNone | None = None
    idempotent: bool | None = None
    exclusive: bool | None = None
    max_result_bytes: Count | None = None


class Division(Struct, frozen=True, kw_only=True):
    prompt: str = ""
    tools: ToolChoice = "all"
    limits: LimitsConfig = LimitsConfig()
    """Complete: what a division does not set is as in `[limits]`."""


class KeyConfig(Struct, frozen=True, kw_only=True):
    name: Name
    hash: Hash
    user: Name
    roles: frozenset[Name] = frozenset()
    tenant: str = ""
    divisions: frozenset[Name] = frozenset()
    trusted: bool = False

    @property
    def key(self) -> Key:
        return msgspec.convert(self, Key, from_attributes=True)


class Jwt(Struct, frozen=True, kw_only=True):
    algorithm: Literal["HS256", "RS256"]
    secret: Secret = ""
    jwks_file: FilePath = ""
    jwks_url: Url = ""
    issuer: str = ""
    audience: str = ""
    user_claim: Name = "sub"
    roles_claim: Name = "roles"
    tenant_claim: Name = "tenant"
    division_claim: Name = "division"

    def problems(self) -> Iterator[tuple[str, str]]:
        given = [name for name in ("secret", "jwks_file", "jwks_url") if getattr(self, name)]
        if self.algorithm == "HS256" and given != ["secret"]:
            yield "algorithm", "HS256 needs a secret, and neither jwks_file nor jwks_url"
        elif self.algorithm == "HS256" and len(self.secret.encode()) < SHORTEST_SECRET:
            yield "secret", f"must be at least {SHORTEST_SECRET} bytes long, or it can be guessed"
        if self.algorithm == "RS256" and given not in (["jwks_file"], ["jwks_url"]):
            yield "algorithm", "RS256 needs a jwks_file or a jwks_url, one of them, and no secret"
        url = urlsplit(self.jwks_url)
        if url.scheme == "http" and url.hostname not in LOOPBACK:
            yield "jwks_url", "must begin with https://, or anybody on the way could name the keys"


class Telemetry(Struct, frozen=True, kw_only=True):
    otlp_endpoint: Url
    service_name: Name = "toolyard"


class Config(Struct, frozen=True, kw_only=True):
    model: Name | tuple[Name, ...] = ""
    """The first is used, the others are fallbacks; empty if none is configured. See `models`."""
    tools: tuple[ToolSource, ...] = ()
    """Modules and files; the files with their whole path."""
    store: StoreUrl = "memory:"
    """As `open_store` takes it: the path is whole, and `synchronous` is in it."""
    synchronous: Literal["NORMAL", "FULL"] = "NORMAL"
    host: Name = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8080
    system_prompt: str = ""
    cors_origins: tuple[Origin, ...] = ()
    default_tools: ToolChoice = "all"
    keep_requests: bool = False
    """Whether the exact request and answer of each model turn is kept, for operators to look at."""
    limits: LimitsConfig = LimitsConfig()
    finding: Finding = Finding()
    web_search: WebSearch = WebSearch()
    providers: dict[Name, Provider] = {}
    prices: dict[Name, Price] = {}
    """By the model's name, as it is configured or as its provider tells it."""
    servers: dict[ServerName, Server] = {}
    mcp_json: FilePath = ""
    """A file of servers in the common form, `{"mcpServers": {…}}`, besides those that stand here."""
    tool: dict[Name, ToolRules] = {}
    divisions: dict[Name, Division] = {}
    keys: tuple[KeyConfig, ...] = ()
    jwt: Jwt | None = None
    telemetry: Telemetry | None = None

    @property
    def models(self) -> tuple[str, ...]:
        return self.model if isinstance(self.model, tuple) else (self.model,) if self.model else ()

    def problems(self) -> Iterator[tuple[str, str]]:
        for name, times in Counter(key.name for key in self.keys).items():
            if times > 1:
                yield "keys", f"must have names of their own: {times} are named {name[:80]!r}"


def load(path: Path | None, environment: Mapping[str, str], flags: Mapping[str, object]) -> Config:
    """The file, then `TOOLYARD_…` variables, then flags; the later wins. Raises Misconfigured with all that is wrong.

    A flag is named as in the file (`port`, `limits.run_seconds`); one that is None was not given.
    """
    root = _config_kind()
    layers = Layers(root, located(path), environment, flags)
    places = Places(layers.base, layers.in_the_file, environment)
    tree = Check(layers.place, places.change, root).tree(layers.tree)
    if "store" not in tree:
        tree["store"] = f"sqlite:///{(data_directory(environment, sys.platform) / 'toolyard.db').as_posix()}"
    config = msgspec.convert(tree, Config)
    return replace(config, divisions=_divisions(config, layers.tree), store=_with_synchronous(config))


def located(path: Path | None) -> Path | None:
    """The configuration file: the one given, else toolyard.toml of the working directory, if it is there."""
    if path is not None:
        return path.absolute()
    here = Path("toolyard.toml").absolute()
    return here if here.exists() else None


def ruled(tool: Tool, rules: ToolRules) -> Tool:
    """The tool with the rules that are given in place of its own."""
    return replace(tool, **{name: value for name, value in asdict(rules).items() if value is not None})


def show(config: Config) -> str:
    """The configuration as TOML, with every secret masked."""
    return shown(config, _config_kind())


@functools.cache
def _config_kind() -> inspect.StructType:
    kind = inspect.type_info(Config)
    assert isinstance(kind, inspect.StructType)
    return kind


def _divisions(config: Config, tree: Tree) -> dict[str, Division]:
    """With the limits of everybody where a division has none of its own."""
    given = msgspec.convert(tree, _Given).divisions
    completed: dict[str, Division] = {}
    for name, division in config.divisions.items():
        own = {limit: getattr(division.limits, limit) for limit in given[name].limits}
        completed[name] = replace(division, limits=replace(config.limits, **own))
    return completed


class _GivenDivision(Struct):
    limits: dict[str, object] = {}


class _Given(Struct):
    """The part of the tree that says which limits each division sets itself."""

    divisions: dict[str, _GivenDivision] = {}


def _with_synchronous(config: Config) -> str:
    wanted = config.synchronous == "FULL" and config.store.startswith("sqlite:") and "?" not in config.store
    return f"{config.store}?synchronous=FULL" if wanted else config.store
