"""The configuration: its settings, and `load`, which reads the file, the environment and the flags into a `Config`.

Nothing that a configuration names is opened here: `toolyard.server.wiring` builds tools, models and servers from it.
"""

import functools
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct, inspect
from msgspec.structs import replace

from toolyard.core.errors import Misconfigured
from toolyard.core.settings.budgets import RESERVE_OUTPUT_TOKENS, iter_currency_problems
from toolyard.core.settings.checks import KeyPath, SettingProblem
from toolyard.core.settings.divisions import DivisionConfig, ToolChoice, iter_language_problems
from toolyard.core.settings.limits import Budget, LimitsConfig, SessionLimits
from toolyard.core.settings.models.names import matches_any
from toolyard.core.settings.network.addresses import is_loopback
from toolyard.core.settings.network.proxies import parse_network
from toolyard.core.settings.runtime import FixedSetting, ModelOptions, RuntimeSettings, get_runtime_type
from toolyard.core.settings.texts import Texts
from toolyard.core.settings.tool_rules import ToolRules
from toolyard.core.settings.types import (
    Count,
    CountOrZero,
    FilePath,
    Language,
    Name,
    Origin,
    SecondsOrZero,
    Secret,
    ServerName,
    ShortLine,
    StoreUrl,
    ToolSource,
    Url,
)
from toolyard.core.settings.web_search import WebSearchConfig
from toolyard.core.store import Key
from toolyard.core.tools.mcp_json import parse_mcp_servers
from toolyard.core.tools.mcp_servers import AddServers, ServerSpec
from toolyard.core.tools.rules import apply_rules
from toolyard.server.config.check import check_config
from toolyard.server.config.layers import Layers
from toolyard.server.config.paths import ValueExpander, find_data_directory
from toolyard.server.config.show import render_config, render_values
from toolyard.server.config.tool_modules import load_tool_module, load_tools
from toolyard.stores.postgres_settings import PostgresSettings

__all__ = [
    "Config",
    "DivisionConfig",
    "JwtConfig",
    "LimitsConfig",
    "ModelOptions",
    "OidcConfig",
    "ProviderToolsConfig",
    "StoredConfig",
    "TelemetryConfig",
    "ToolChoice",
    "ToolRules",
    "WebSearchConfig",
    "apply_rules",
    "find_config_file",
    "find_data_directory",
    "list_fixed_settings",
    "load",
    "load_entries",
    "load_mcp_servers",
    "load_tool_module",
    "load_tools",
    "load_with_sources",
    "show",
    "show_stored",
]

MIN_SECRET_BYTES = 32


class CodeConfig(Struct, frozen=True, kw_only=True):
    """Programs that models write with `run_code`. Needs the extra `toolyard[code]`."""

    enabled: bool = False


class ProviderToolsConfig(Struct, frozen=True, kw_only=True):
    """The tools that the model's provider may run itself, besides web search."""

    code_execution: bool = False
    file_search: tuple[Name, ...] = ()
    """The stores of files to search, by their ids at the provider."""


class JwtConfig(Struct, frozen=True, kw_only=True):
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

    def iter_problems(self) -> Iterator[tuple[str, str]]:
        key_sources = [name for name in ("secret", "jwks_file", "jwks_url") if getattr(self, name)]
        if self.algorithm == "HS256" and key_sources != ["secret"]:
            yield "algorithm", "HS256 needs a secret, and neither jwks_file nor jwks_url"
        elif self.algorithm == "HS256" and len(self.secret.encode()) < MIN_SECRET_BYTES:
            yield "secret", f"must be at least {MIN_SECRET_BYTES} bytes long, or it can be guessed"
        if self.algorithm == "RS256" and key_sources not in (["jwks_file"], ["jwks_url"]):
            yield "algorithm", "RS256 needs a jwks_file or a jwks_url, one of them, and no secret"
        url = urlsplit(self.jwks_url)
        if url.scheme == "http" and not is_loopback(url.hostname or ""):
            yield "jwks_url", "must begin with https://, or anybody on the way could name the keys"


class OidcConfig(Struct, frozen=True, kw_only=True):
    """The identity provider at which people sign in to the web page, with OpenID Connect."""

    issuer: Url
    client_id: Name
    client_secret: Secret = ""
    """Empty for a public client, which proves itself with PKCE alone."""
    name: ShortLine = "OpenID Connect"
    """How the page names the provider."""
    scopes: tuple[Name, ...] = ("openid", "profile")
    user_claim: Name = "sub"
    groups_claim: Name = "groups"
    roles: dict[Name, tuple[Name, ...]] = {}
    """The roles of the members of a group."""
    tenants: dict[Name, str] = {}
    """The tenant of the members of a group; empty means none."""
    allow_everybody: bool = False
    """Whether people without a group of `roles` or `tenants` may sign in, without any role."""

    @property
    def admin_tenants(self) -> frozenset[str]:
        """The tenants whose administrators may sign in; an empty name stands for the whole server."""
        if not any("admin" in roles for roles in self.roles.values()):
            return frozenset()
        # One group may give the role, and another one the tenant.
        return frozenset(self.tenants.values()) if self.tenants else frozenset({""})

    def iter_problems(self) -> Iterator[tuple[str, str]]:
        url = urlsplit(self.issuer)
        if url.scheme == "http" and not is_loopback(url.hostname or ""):
            yield "issuer", "must begin with https://, or anybody on the way could sign in as anybody"
        if url.query or url.fragment:
            yield "issuer", "must not have a query or a fragment"
        if "openid" not in self.scopes:
            yield "scopes", "must contain openid: without it the provider names no user"
        if not (self.roles or self.tenants or self.allow_everybody):
            yield "allow_everybody", "is not set, and nor are roles and tenants by group: nobody could sign in"


class TelemetryConfig(Struct, frozen=True, kw_only=True):
    otlp_endpoint: Url
    service_name: Name = "toolyard"


class LogConfig(Struct, frozen=True, kw_only=True):
    """The log on standard error."""

    level: Literal["debug", "info", "warning", "error"] | None = None
    """If None, `toolyard serve` logs from info on, and the other commands from error on."""
    format: Literal["text", "json"] = "text"


class StoredConfig(RuntimeSettings, Struct, frozen=True, kw_only=True):
    """What `toolyard config export` prints and `import` takes: the settings and the MCP servers of a store."""

    servers: dict[ServerName, ServerSpec] = {}


class Config(RuntimeSettings, Struct, frozen=True, kw_only=True):
    """All settings. Those of `RuntimeSettings` may also be set while the server runs, and are then in the store."""

    tools: tuple[ToolSource, ...] = ()
    """Modules and files; after `load`, files have absolute paths."""
    store: StoreUrl = "memory:"
    """After `load`, as `open_store` takes it: with an absolute path, and with `synchronous` as a parameter."""
    synchronous: Literal["NORMAL", "FULL"] = "NORMAL"
    postgres: PostgresSettings = PostgresSettings()
    """Settings of a store in PostgreSQL."""
    host: Name = "127.0.0.1"
    port: Annotated[int, Meta(extra={"ge": 0, "le": 65535})] = 8080
    grace_s: SecondsOrZero = 5.0
    """How long running calls may go on once the server stops."""
    drain_s: SecondsOrZero | None = None
    """How long it takes requests after SIGTERM. None means five seconds if replicas share the store, else none."""
    approval_hold_s: Annotated[float, Meta(extra={"ge": 0, "le": 600})] = 0.0
    """How long a request to `/v1` whose run waits for a person stays open, so that the decision continues it."""
    leave_s: Annotated[float, Meta(extra={"ge": 0, "le": 3600})] = 30.0
    """How long the run of a chat completion goes on after its client has left; 0 means until its end."""
    language: Language = ""
    """The language of texts that do not come from a model; empty means the caller's language."""
    texts: dict[Language, Texts] = {}
    """Texts that replace the built-in ones, by language."""
    cors_origins: tuple[Origin, ...] = ()
    trusted_proxies: tuple[Name, ...] = ()
    """Addresses and networks of reverse proxies, whose `X-Forwarded-For` and `X-Forwarded-Proto` count."""
    max_file_bytes: Annotated[int, Meta(extra={"ge": 1, "le": 200_000_000})] = 20_000_000
    """The largest file whose text `POST /files/text` returns."""
    title_model: Name = ""
    """Writes the titles of conversations that were begun in the page: one of `models`. Empty is the answering model."""
    default_tools: ToolChoice = "all"
    keep_requests: bool = False
    """Whether the exact request and answer of each model turn are stored, so that operators can inspect them."""
    keep_audit_days: CountOrZero = 0
    """After how many days entries of the audit log are deleted; 0 keeps all."""
    finding: Budget = Budget()
    """How many tools a model is offered directly, and how many bytes of their schemas; it searches for others."""
    code: CodeConfig = CodeConfig()
    provider_tools: ProviderToolsConfig = ProviderToolsConfig()
    reserve_output_tokens: Count = RESERVE_OUTPUT_TOKENS
    """The limit of an answer under a budget, where neither its request nor its model has one."""
    servers: dict[ServerName, ServerSpec] = {}
    add_servers: AddServers | None = None
    """Which servers administrators may add over HTTP; None means all while there are no keys, else those with a URL."""
    trust_added_servers: bool = False
    """Whether servers that are added over HTTP are trusted unless the request says otherwise."""
    private_addresses: bool | None = None
    """Whether servers that were added over HTTP may be at private addresses; None means while there are no keys."""
    mcp_json: FilePath = ""
    """A file with more servers: `{"mcpServers": {…}}`, or `{"servers": […]}`."""
    keys: tuple[Key, ...] = ()
    jwt: JwtConfig | None = None
    oidc: OidcConfig | None = None
    sessions: SessionLimits = SessionLimits()
    """How long people stay signed in to the web page, and whether they need https."""
    telemetry: TelemetryConfig | None = None
    log: LogConfig = LogConfig()

    def iter_problems(self) -> Iterator[SettingProblem]:
        yield from super().iter_problems()
        yield from iter_currency_problems(self.budgets, self.prices)
        named = (*self.model_names, *self.models)
        if (
            self.title_model
            and self.title_model not in named
            and not matches_any(self.title_model, self.model_patterns)
        ):
            yield "title_model", "must be one of model or models"
        for network in self.trusted_proxies:
            try:
                parse_network(network)
            except ValueError as error:
                yield "trusted_proxies", f"is wrong: {error}"
        for name, times in Counter(key.name for key in self.keys).items():
            if times > 1:
                yield "keys", f"must have names of their own: {times} are named {name[:80]!r}"
        for path, problem in iter_language_problems(self.divisions, self.tenants, self.texts, self.language):
            yield path[0], problem


def load(path: Path | None, environment: Mapping[str, str], flags: Mapping[str, object]) -> Config:
    """Return the configuration of the file, the `TOOLYARD_…` variables and the flags; later layers override earlier.

    A flag has its setting's name (`port`, `limits.run_seconds`); None means that the flag was not given. Raise
    Misconfigured with everything that is wrong.
    """
    return load_with_sources(path, environment, flags)[0]


def load_with_sources(
    path: Path | None, environment: Mapping[str, str], flags: Mapping[str, object]
) -> tuple[Config, Layers]:
    """Return the configuration as `load` does, and the layers that tell where each setting comes from."""
    root = _get_config_type()
    layers = Layers(root, find_config_file(path), environment, flags)
    expander = ValueExpander(layers.get_base, layers.is_from_file, environment)
    tree = check_config(layers.tree, root, expander.expand, layers.locate)
    if "store" not in tree:
        tree["store"] = f"sqlite:///{(find_data_directory(environment, sys.platform) / 'toolyard.db').as_posix()}"
    config = msgspec.convert(tree, Config)
    return replace(config, store=_add_synchronous(config)), layers


def find_config_file(path: Path | None) -> Path | None:
    """Return `path` if it is given, else toolyard.toml of the working directory if it exists, else None."""
    if path is not None:
        return path.absolute()
    default = Path("toolyard.toml").absolute()
    return default if default.exists() else None


def load_mcp_servers(path: Path, environment: Mapping[str, str]) -> dict[str, ServerSpec]:
    """Return the servers of a file in a format of other programs. Raise Misconfigured with what is wrong."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise Misconfigured(f"{path} cannot be read: {error.strerror}") from None
    return parse_mcp_servers(content, str(path), environment, path.parent)


def list_fixed_settings(config: Config, layers: Layers | None = None) -> list[FixedSetting]:
    """Return the values at the top of the configuration that need a restart."""
    runtime_names = {setting.name for setting in get_runtime_type().fields}
    return [
        FixedSetting(name=name, value=text, location=layers.describe_source((name,)) if layers else "")
        for name, text in render_values(config, _get_config_type())
        if name not in runtime_names
    ]


def load_entries(file: Path, environment: Mapping[str, str]) -> StoredConfig:
    """Return the settings of a file for the store, with the variables in its secrets replaced. Raise Misconfigured."""
    root = _get_stored_type()
    layers = Layers(root, file.absolute(), {}, {})
    expander = ValueExpander(layers.get_base, layers.is_from_file, environment)
    return msgspec.convert(check_config(layers.tree, root, expander.expand, layers.locate), StoredConfig)


def show(config: Config, describe_source: Callable[[KeyPath], str] | None = None) -> str:
    """Return the configuration as TOML with every secret masked, and comments that say where each value is set."""
    return render_config(config, _get_config_type(), describe_source)


def show_stored(settings: StoredConfig, show_secret: Callable[[KeyPath], str]) -> str:
    """Return the settings of the store as TOML, without values that are not set."""
    return render_config(settings, _get_stored_type(), show_secret=show_secret, shows_defaults=False)


@functools.cache
def _get_stored_type() -> inspect.StructType:
    kind = inspect.type_info(StoredConfig)
    assert isinstance(kind, inspect.StructType)
    return kind


@functools.cache
def _get_config_type() -> inspect.StructType:
    kind = inspect.type_info(Config)
    assert isinstance(kind, inspect.StructType)
    return kind


def _add_synchronous(config: Config) -> str:
    is_missing = config.synchronous == "FULL" and config.store.startswith("sqlite:") and "?" not in config.store
    return f"{config.store}?synchronous=FULL" if is_missing else config.store
