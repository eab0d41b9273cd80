"""The composition root: turns names into adapters and wires them to a service. No other module does so."""

import asyncio
import logging
import os
import secrets
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import to_builtins
from msgspec.structs import asdict

from toolyard.core.caller import Caller
from toolyard.core.conversation.events import CallEnded
from toolyard.core.conversation.settings import Settings
from toolyard.core.errors import Invalid, Misconfigured, NotFound, install_command
from toolyard.core.ports import Model, Policy, Rule
from toolyard.core.settings.budgets import NO_BUDGETS, RESERVE_OUTPUT_TOKENS, Budgets, iter_currency_problems
from toolyard.core.settings.checks import format_path
from toolyard.core.settings.divisions import (
    NO_DIVISIONS,
    DivisionConfig,
    Divisions,
    TenantConfig,
    build_divisions,
    iter_language_problems,
    iter_tool_problems,
)
from toolyard.core.settings.limits import Budget, Limits, LimitsConfig, SessionLimits, SocketLimits
from toolyard.core.settings.models.access import ModelAccess
from toolyard.core.settings.network.proxies import TrustedProxies
from toolyard.core.settings.prices import Price
from toolyard.core.settings.redact_rules import NO_REDACTION, RedactRules
from toolyard.core.settings.runtime import (
    GENERAL,
    SERVERS,
    TENANTS,
    TOOL,
    EntryId,
    FixedSetting,
    RuntimeSettings,
    build_settings,
)
from toolyard.core.settings.texts import NO_TEXTS, CustomTexts
from toolyard.core.settings.tool_rules import DEFAULT_TRUST, TrustRules
from toolyard.core.settings.versions import Versions
from toolyard.core.store import KEYS, Key, Store
from toolyard.core.tools.definition import SHIPPED_TOOLS, Tool
from toolyard.core.tools.mcp_servers import AddServers, ServerSpec
from toolyard.core.tools.web_search_rule import SEARCH_TOOL, SearchRules, build_search_rules
from toolyard.engine.access.authentication import Authenticator, VerifyToken
from toolyard.engine.access.policy_check import PolicyCheck
from toolyard.engine.access.provider_sign_in import IdentityProvider, ProviderSignIns
from toolyard.engine.access.sessions import Sessions
from toolyard.engine.dependencies import Deps
from toolyard.engine.replicas.record_watcher import RecordWatcher
from toolyard.engine.service import Service
from toolyard.engine.settings.setting_store import SETTINGS, ConfiguredEntry, SettingStore
from toolyard.engine.spending.spending import Spending
from toolyard.engine.tools.large_results import ResultEncoder
from toolyard.engine.tools.offers import Offers
from toolyard.engine.tools.redaction import Redaction
from toolyard.engine.tools.registry import Registry
from toolyard.engine.tools.web_search_plan import SearchPlanner
from toolyard.hosting import AsgiApp
from toolyard.models.configuration import ModelConfiguration
from toolyard.models.price_list import PriceList
from toolyard.models.resolver import ModelChoice, ModelResolver, ModelSettings
from toolyard.observability.exporters import find_exporters
from toolyard.observability.log_lines import replace_log_redactor
from toolyard.observability.telemetry import Observer, bind
from toolyard.observability.wire_log import WireLog
from toolyard.policies.ordered import OrderedPolicy
from toolyard.stores.memory import MemoryStore
from toolyard.stores.postgres_settings import PostgresSettings, is_postgres
from toolyard.venues.builtin.find_tools import FindToolsVenue
from toolyard.venues.builtin.read_result import ReadResultVenue
from toolyard.venues.client import ClientVenue
from toolyard.venues.function import FunctionVenue
from toolyard.venues.mcp import Connector, McpManager, McpVenue, unwrap_result
from toolyard.venues.mcp.auth.grants import TOKENS
from toolyard.venues.mcp.auth.sealed_records import SECRET_VARIABLE, SealedRecords
from toolyard.venues.mcp.manager import FOLLOWED_KINDS
from toolyard.venues.mcp.passthrough import McpManagerProxy
from toolyard.venues.provider import ProviderVenue, build_provider_tool

_log = logging.getLogger("toolyard.app")

if TYPE_CHECKING:
    from toolyard.engine.tools.argument_validation import Schemas
    from toolyard.models.model_lists import ModelLists
    from toolyard.models.provider_check import ProviderCheck
    from toolyard.venues.code import CodeVenue

IDS_PER_DRAW = 16


class SystemClock:
    """Random ids and the system's clock."""

    def __init__(self) -> None:
        self._random_digits: list[str] = []
        self._second = 0
        self._second_digits = ""
        """The current second in base 16, formatted once."""

    def new_id(self, prefix: str) -> str:
        """Return a new id: the prefix, the current second and sixteen random digits."""
        # The time comes first, so that rows that are written together are neighbours in the store's index. The random
        # digits are drawn in bulk, as each draw is a system call.
        if not self._random_digits:
            drawn = secrets.token_hex(8 * IDS_PER_DRAW)
            self._random_digits = [drawn[at : at + 16] for at in range(0, len(drawn), 16)]
        second = int(self.now())
        if second != self._second:
            self._second, self._second_digits = second, f"{second:08x}"
        return f"{prefix}_{self._second_digits}{self._random_digits.pop()}"

    now = staticmethod(time.time)


class SharedClock(SystemClock):
    """Random ids and the clock that the replicas of a store share: a deadline that one sets is due for all at once."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store

    def now(self) -> float:  # pyright: ignore[reportIncompatibleMethodOverride]
        return time.time() + self._store.clock_offset


async def open_store(name: str, postgres: PostgresSettings | None = None, *, may_migrate: bool = True) -> Store:
    """Open a store: `memory:`, `sqlite:///relative.db`, `sqlite:////absolute.db` or `postgresql://user@host/database`.

    SQLite also takes `?synchronous=FULL`; `postgres` holds the settings of a PostgreSQL store. Without `may_migrate`
    the tables of a PostgreSQL store are left as they are, and it raises Misconfigured if some are missing.
    """
    if name == "memory:":
        return MemoryStore()
    if is_postgres(name):
        with require_postgres_driver():
            from toolyard.stores.postgres import PostgresStore
        return await PostgresStore.open(name, postgres, may_migrate=may_migrate)
    url = urlsplit(name)
    if url.scheme != "sqlite" or not url.path.strip("/"):
        # Without the address, which may hold a password in a place where nobody expects it.
        raise Misconfigured(
            "this address is not a store: use memory:, sqlite:///path/to/toolyard.db or postgresql://user@host/database"
        )
    if url.query not in ("", "synchronous=NORMAL", "synchronous=FULL"):
        raise Misconfigured(f"{url.query!r} is not a setting of a SQLite store: use synchronous=NORMAL or FULL")
    from toolyard.stores.sqlite import SqliteStore

    return await SqliteStore.open(Path(url.path[1:]), "FULL" if url.query == "synchronous=FULL" else "NORMAL")


@contextmanager
def require_postgres_driver() -> Generator[None]:
    """Raise Misconfigured if the block imports the PostgreSQL store without its driver, which is an extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        raise Misconfigured(f"a PostgreSQL store needs another package: {install_command('postgres')}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """The complete configuration of an App."""

    model: ModelChoice
    tools: Sequence[object] = ()
    store: str = "memory:"
    postgres: PostgresSettings = field(default_factory=PostgresSettings)
    """The settings of `store` if it is in PostgreSQL."""
    opened_store: Store | None = None
    """A store to use instead of `store`, which is closed with the App."""
    limits: Limits = field(default_factory=Limits)
    budget: Budget = field(default_factory=Budget)
    code: bool = False
    """Whether the model may run programs that call tools, with `run_code`."""
    rules: Sequence[Rule] = ()
    system_prompt: str = ""
    language: str = ""
    """The language of the server's own messages to users; empty means the caller's."""
    texts: CustomTexts = field(default_factory=lambda: NO_TEXTS)
    """Messages that replace the built-in ones."""
    threads: int = 32
    grace_s: float = 5.0
    """How long running calls may go on when the App is closed."""
    drain_s: float | None = None
    """How long a server takes requests after SIGTERM. None means five seconds if others share its store, else none."""
    approval_hold_s: float = 0.0
    """How long a request to `/v1` whose run waits for a person stays open."""
    leave_s: float = 30.0
    """How long the run of a chat completion goes on after its client has left; 0 means until its end."""
    socket_limits: SocketLimits = field(default_factory=SocketLimits)
    model_settings: ModelSettings = field(default_factory=ModelSettings)
    """What the names of models stand for."""
    named_model: Callable[[str], Model] | None = None
    """Creates models from their names, in place of the settings."""
    allowed_models: frozenset[str] | None = None
    """The models that a request may name; None means any."""
    model_patterns: Sequence[str] = ()
    """Patterns of further model names that a request may name."""
    max_file_bytes: int = 20_000_000
    """The largest file whose text a server returns."""
    title_model: str = ""
    """Writes the titles of conversations that ask for one; empty means the model that answered."""
    requests_per_minute: int = 0
    default_settings: Settings = field(default_factory=Settings)
    keys: Sequence[Key] = ()
    verify: VerifyToken | None = None
    token_issuer: str = ""
    """Who issues the tokens that `verify` takes. Empty means unknown: any token may be one of them."""
    identity_provider: IdentityProvider | None = None
    """Where people sign in to the web page, besides with keys."""
    cors_origins: frozenset[str] = frozenset()
    trusted_proxies: Sequence[str] = ()
    """Addresses and networks of reverse proxies, whose `X-Forwarded-For` and `X-Forwarded-Proto` count."""
    sessions: SessionLimits = field(default_factory=SessionLimits)
    """How long people stay signed in to the web page."""
    trust: TrustRules = DEFAULT_TRUST
    """How calls are restricted after untrusted content."""
    redact: RedactRules = NO_REDACTION
    """Which secrets are replaced in results."""
    keep_requests: bool = False
    """Whether requests to models and their responses are recorded for operators."""
    keep_audit_days: int = 0
    """After how many days entries of the audit log are deleted; 0 keeps all."""
    model_access: Mapping[str, ModelAccess] = field(default_factory=dict[str, ModelAccess])
    """Who may use which models, by the model's name or a pattern."""
    configured_settings: Mapping[EntryId, ConfiguredEntry] = field(
        default_factory=lambda: {EntryId(GENERAL, "model"): ConfiguredEntry(value=None, location="the program")}
    )
    """The settings that the store cannot replace, with where they are set."""
    fixed_settings: Sequence[FixedSetting] = ()
    """Settings that need a restart, to be shown."""
    locations: Mapping[EntryId, str] = field(default_factory=dict[EntryId, str])
    """Where the MCP servers and the keys of the configuration are set, to be shown."""
    windows: Mapping[str, int] = field(default_factory=dict[str, int])
    """Context windows in tokens, by model name, where they differ from the built-in table."""
    prices: Mapping[str, Price] = field(default_factory=dict[str, Price])
    """Prices by model name."""
    published_prices: bool = False
    """Whether models without a price among these have the published one, which is loaded with the first such model."""
    budgets: Budgets = field(default_factory=lambda: NO_BUDGETS)
    """What runs may cost, by name."""
    reserve_output_tokens: int = RESERVE_OUTPUT_TOKENS
    """The limit of an answer under a budget, where neither its request nor its model has one."""
    divisions: Divisions = field(default_factory=lambda: NO_DIVISIONS)
    """Divisions and tenants of a program, in place of those of the same names that are set elsewhere."""
    division_settings: Mapping[str, DivisionConfig] = field(default_factory=dict[str, DivisionConfig])
    """Divisions of the configuration, by name."""
    tenant_settings: Mapping[str, TenantConfig] = field(default_factory=dict[str, TenantConfig])
    """Tenants of the configuration, by name."""
    otlp_endpoint: str = ""
    """Where spans are sent; empty means that the OTEL_ variables decide."""
    service_name: str = "toolyard"
    web_search: SearchRules = field(default_factory=SearchRules)
    provider_tools: Sequence[Tool] = ()
    """Tools besides web search that the model's provider may run itself."""
    servers: Mapping[str, ServerSpec] = field(default_factory=dict[str, ServerSpec])
    """MCP servers by id. More can be added at run time."""
    awaits_servers: bool = True
    """Whether opening waits for servers that have never listed their tools. Runs wait for them in any case."""
    config_hashes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Hashes of the parts of the configuration whose changes are audited, by name."""
    add_servers: AddServers | None = None
    """Which servers administrators may add over HTTP. None means all while there are no keys, else those with a URL."""
    trust_added_servers: bool = False
    """Whether servers that are added over HTTP are trusted unless the request says otherwise."""
    private_addresses: bool | None = None
    """Whether servers that were added at run time may be at private addresses. None means while there are no keys."""
    apply_rules: Callable[[Tool], Tool] = lambda tool: tool
    """Returns a tool with the rules that the configuration sets for it."""
    secret: str = field(default_factory=lambda: os.environ.get(SECRET_VARIABLE, ""), repr=False)
    """Encrypts the tokens that people obtain by signing in to MCP servers, the same at all replicas."""
    secret_source: str = ""
    """Where `secret` comes from, in words."""
    observers: Sequence[Observer] = ()
    """Called with every entry once it is stored. An observer that fails is logged and affects nothing else."""


def _load_schemas() -> "Schemas":
    """Return the schema validators.

    Loaded on demand: a server of typed functions takes a third less memory without them.
    """
    from toolyard.engine.tools.argument_validation import Schemas

    return Schemas()


def _load_model_lists(configuration: ModelConfiguration, tasks: asyncio.TaskGroup) -> "ModelLists":
    """Return the lists of providers' models, loaded on demand: few servers have patterns of models."""
    from toolyard.models.model_lists import ModelLists

    return ModelLists(configuration.patterns, configuration.settings, tasks)


def _load_code_venue(wiring: Wiring) -> "CodeVenue":
    """Return the venue of `run_code`, whose sandbox is an extra."""
    try:
        from toolyard.venues.code import RUN_CODE, CodeVenue
    except ModuleNotFoundError as error:
        if error.name != "pydantic_monty":
            raise
        raise Misconfigured(f"programs need another package: {install_command('code')}") from None
    return CodeVenue(wiring.apply_rules(RUN_CODE))


def _load_connector() -> Connector:
    """Return the connector to MCP servers, loaded when the first server is started."""
    try:
        from toolyard.venues.mcp.connector import SdkConnector
    except ImportError as error:
        raise Misconfigured(f"MCP servers need more packages: {install_command('mcp')} ({error})") from None
    return SdkConnector()


def _list_configured(wiring: Wiring) -> Mapping[EntryId, ConfiguredEntry]:
    """Return the settings that the store cannot replace, also those that a program sets without a file."""
    values: dict[EntryId, object] = {}
    if wiring.system_prompt:
        values[EntryId(GENERAL, "system_prompt")] = wiring.system_prompt
    for name, value, default in (
        ("limits", wiring.limits, Limits()),
        ("trust", wiring.trust, DEFAULT_TRUST),
        ("redact", wiring.redact, NO_REDACTION),
        ("web_search", wiring.web_search, SearchRules()),
    ):
        if value != default:
            values[EntryId(GENERAL, name)] = to_builtins(value)
    for (tenant, division), value in wiring.divisions.items():
        values[EntryId(TENANTS, tenant) if tenant else EntryId("divisions", division)] = to_builtins(value)
    entries = {entry: ConfiguredEntry(value=value, location="the program") for entry, value in values.items()}
    return {**entries, **wiring.configured_settings}


class App:
    """A service with all that it depends on, closed together."""

    def __init__(self, wiring: Wiring, models: ModelResolver, store: Store, tasks: asyncio.TaskGroup) -> None:
        self.clock = SharedClock(store) if store.is_shared else SystemClock()
        provider = wiring.identity_provider
        self.access = Authenticator(
            store,
            self.clock,
            configured=wiring.keys,
            verify=wiring.verify,
            token_issuer=wiring.token_issuer,
            provider_rights=provider.rights if provider else "",
            provider_admin_tenants=provider.admin_tenants if provider else frozenset(),
        )
        self._wiring = wiring
        self._models = models
        self._store = store
        self._tasks = tasks
        self._model_lists: ModelLists | None = None
        self._import_lock = asyncio.Lock()
        self._awaits_tools = False
        """Whether settings are stored together with servers, which may bring the tools that they name."""
        self._record_watcher = RecordWatcher(store)
        self._record_watcher.subscribe(self.access.load, KEYS)
        self._function = FunctionVenue(wiring.tools, threads=wiring.threads)
        self._policy = policy = OrderedPolicy(wiring.rules, self._build_divisions(RuntimeSettings()))
        searching = SearchPlanner(wiring.web_search, models.native_tools, lambda: models.default)
        configured = [entry.name for entry in wiring.configured_settings if entry.kind == TOOL]
        self.registry = Registry(
            policy,
            ClientVenue(),
            _load_schemas,
            searching,
            configured,
            find_listed=lambda tool, at: self.servers.find_listed(tool, at),
        )
        self._offers = Offers(self.registry, policy, wiring.budget)
        self.registry.add(self._function)
        native = (build_provider_tool(SEARCH_TOOL, wiring.web_search.options), *wiring.provider_tools)
        self.registry.add(ProviderVenue([wiring.apply_rules(tool) for tool in native]))
        self.registry.add(ReadResultVenue(store), on_demand="with_handles")
        find_tools = FindToolsVenue(self._offers.search, with_returns=wiring.code)
        self.registry.add(find_tools, on_demand="with_many_tools")
        self._code = _load_code_venue(wiring) if wiring.code else None
        if self._code is not None:
            self.registry.add(self._code)
        local = frozenset(self.registry.names())
        self.servers = McpManager(
            wiring.servers,
            make_connector=_load_connector,
            store=store,
            clock=self.clock,
            reserved_names=lambda: local,
            apply_rules=wiring.apply_rules,
            find_defect=self.registry.find_defect,
            on_tools_changed=lambda: self.registry.refresh(self._mcp),
            on_trusted=self.registry.rules.note_widening,
            secret=wiring.secret,
            allows_private=self._allows_private,
            locations={entry.name: place for entry, place in wiring.locations.items() if entry.kind == SERVERS},
        )
        self._record_watcher.subscribe(self.servers.follow, *FOLLOWED_KINDS)
        self._record_watcher.subscribe(self.servers.follow_grants, TOKENS)
        self._mcp = McpVenue(self.servers)
        self.registry.add(self._mcp)
        self._base_models = ModelConfiguration(
            default=wiring.model,
            settings=wiring.model_settings,
            windows=wiring.windows,
            allowed=wiring.allowed_models,
            patterns=tuple(wiring.model_patterns),
            access=wiring.model_access,
            is_public_only=lambda: not self._allows_private(),
        )
        self._model_configuration = self._base_models
        self._price_list = PriceList(wiring.prices, published=wiring.published_prices)
        self._deps = deps = self._make_deps(policy)
        self.settings = SettingStore(
            store,
            self.clock,
            SealedRecords(store, wiring.secret),
            _list_configured(wiring),
            find_address=self._base_models.find_address,
            check=self._check_setting,
            apply=self._apply_settings,
        )
        self._record_watcher.subscribe(self.settings.load, SETTINGS)
        self._exporters = find_exporters(wiring.otlp_endpoint, wiring.service_name)
        exporters = (exporter.observe for exporter in self._exporters)
        observers = (*wiring.observers, bind(CallEnded, self._mcp.forget_call), *exporters)
        self.service = Service(deps, store, tasks, McpManagerProxy(self.servers), observers)

    def _allows_private(self) -> bool:
        """Return whether what requests have added may be at private addresses."""
        allowed = self._wiring.private_addresses
        return self.access.is_local if allowed is None else allowed

    def _make_deps(self, policy: Policy) -> Deps:
        wiring, models, store = self._wiring, self._models, self._store
        return Deps(
            registry=self.registry,
            offers=self._offers,
            policy=policy,
            policy_check=PolicyCheck(self._offers, policy, wiring.trust, self.access.find_revocation),
            result_encoder=ResultEncoder(store, self.clock),
            redaction=Redaction(wiring.redact),
            models=models,
            spending=Spending(
                self._price_list,
                self.clock,
                store,
                wiring.budgets,
                model_options=wiring.model_settings.options,
                reserve_output_tokens=wiring.reserve_output_tokens,
            ),
            clock=self.clock,
            limit_versions=Versions(wiring.limits),
            default_model=models.default,
            title_model=wiring.title_model,
            windows=models.context_window,
            allowed_models=wiring.allowed_models,
            model_patterns=wiring.model_patterns,
            model_access=wiring.model_access,
            model_cards=lambda: models.cards(self._model_configuration.allowed or (), self._list_models()),
            model_list_problems=lambda: self._model_lists.problems() if self._model_lists else {},
            default_settings=wiring.default_settings,
            requests_per_minute=wiring.requests_per_minute,
            prompt_versions=Versions(wiring.system_prompt),
            language=wiring.language,
            texts=wiring.texts,
            wire_log=WireLog(store) if wiring.keep_requests else None,
            keep_audit_days=wiring.keep_audit_days,
            division_versions=Versions(self._build_divisions(RuntimeSettings())),
            find_tool_identity=self.servers.find_tool_identity,
            unwrap_delivered=unwrap_result,
            is_shared=store.is_shared,
            ensure_lease=store.ensure_lease,
            read_oldest_format=store.read_oldest_format,
        )

    def _list_models(self) -> list[str]:
        """Return the known models of the providers that the patterns name."""
        if not self._model_configuration.patterns:
            return []
        self._model_lists = self._model_lists or _load_model_lists(self._model_configuration, self._tasks)
        return self._model_lists.names()

    def _check_setting(self, entry: EntryId, before: RuntimeSettings, after: RuntimeSettings) -> None:
        """Raise Invalid or Refused if a changed entry could not be used."""
        self._base_models.check_change(entry, before, after)
        is_unknown = entry.kind == TOOL and entry.name in after.tool and self.registry.find(entry.name) is None
        budgets, prices = {**after.budgets, **self._wiring.budgets}, {**after.prices, **self._wiring.prices}
        for path, problem in iter_currency_problems(budgets, prices) if entry.kind in ("budgets", "prices") else ():
            message = f"{'.'.join(path)} {problem}"
            raise Invalid(message, {"fields": [{"key": "currency", "message": message}]})
        # With MCP servers any name is accepted, as in the file: one of them may bring the tool later.
        if is_unknown and not (self.servers.cards() or self._awaits_tools):
            raise Invalid(f"there is no tool named {entry.name[:80]!r}", {"field": "name"})
        if entry.kind in ("divisions", TENANTS):
            self._check_divisions(entry, after)

    def _check_divisions(self, entry: EntryId, after: RuntimeSettings) -> None:
        """Raise Invalid if a division or a tenant names a tool or a language that there is not."""
        may_name_any = self.servers.cards() or self._awaits_tools
        tool_names = None if may_name_any else {*self.registry.names(), *SHIPPED_TOOLS}
        fields = [
            {"key": format_path(path[2:]), "message": f"{format_path(path)} {problem}"}
            for path, problem in (
                *iter_language_problems(after.divisions, after.tenants, self._wiring.texts),
                *iter_tool_problems(after.divisions, after.tenants, tool_names),
            )
            if path[:2] == entry
        ]
        if fields:
            raise Invalid("; ".join(field["message"] for field in fields), {"fields": fields})

    def _build_divisions(self, stored: RuntimeSettings) -> Divisions:
        """Return the divisions and tenants of the program, the configuration and the store, in this order."""
        wiring = self._wiring
        limits = stored.limits
        if limits == LimitsConfig():
            limits = LimitsConfig(**asdict(wiring.limits), requests_per_minute=wiring.requests_per_minute)
        built = build_divisions(
            {**stored.divisions, **wiring.division_settings}, {**stored.tenants, **wiring.tenant_settings}, limits
        )
        return {**built, **wiring.divisions}

    async def _apply_settings(self, stored: RuntimeSettings) -> None:
        """Use the settings of the file and of the store. A run that has started keeps its model's name."""
        wiring, deps = self._wiring, self._deps
        self._apply_to_runs(stored, self.clock.now())
        deps.requests_per_minute = (
            stored.limits.requests_per_minute if stored.limits != LimitsConfig() else wiring.requests_per_minute
        )
        self._price_list.replace({**stored.prices, **wiring.prices})
        deps.spending.replace_budgets({**stored.budgets, **wiring.budgets})
        await self._apply_models(stored)

    def _apply_to_runs(self, stored: RuntimeSettings, now: float) -> None:
        """Use the settings from which open runs keep what they began with, from this time on."""
        wiring, deps = self._wiring, self._deps
        self.registry.set_rules(stored.tool, now)
        is_stored = stored.limits != LimitsConfig()
        deps.limit_versions.replace(stored.limits.run_limits if is_stored else wiring.limits, now)
        self._apply_divisions(self._build_divisions(stored), now)
        self.registry.set_search_rules(
            wiring.web_search if stored.web_search is None else build_search_rules(stored.web_search), now
        )
        if deps.redaction.replace(stored.redact if stored.redact != NO_REDACTION else wiring.redact, now):
            replace_log_redactor(deps.redaction.current)
        deps.policy_check.trust_versions.replace(stored.trust if stored.trust != DEFAULT_TRUST else wiring.trust, now)
        deps.prompt_versions.replace(stored.system_prompt.strip() or wiring.system_prompt, now)

    def _apply_divisions(self, divisions: Divisions, now: float) -> None:
        deps = self._deps
        if deps.division_versions.replace(divisions, now):
            self._policy.replace_divisions(divisions, now)
            self.registry.note_changed_settings(now)
        deps.limits_changed_at = max(deps.limit_versions.changed_at, deps.division_versions.changed_at)

    async def _apply_models(self, stored: RuntimeSettings) -> None:
        configuration = self._base_models.add_stored(stored)
        if configuration == self._model_configuration:
            return
        self._model_configuration = configuration
        lists, self._model_lists = self._model_lists, None
        # Without a wait in between: no request sees a part of it.
        retired = self._models.reconfigure(configuration.default, configuration.settings, configuration.windows)
        deps, deps.default_model = self._deps, self._models.default
        deps.allowed_models, deps.model_patterns = configuration.allowed, configuration.patterns
        deps.model_access = configuration.access
        for part in (*retired, *([lists] if lists else [])):
            await part.close()

    async def import_settings(
        self, values: Mapping[EntryId, object], servers: Mapping[str, ServerSpec], caller: Caller
    ) -> None:
        """Store settings and MCP servers: all of them, or none if one would be refused."""
        async with self._import_lock:  # one that ends must not stop another from naming the tools of its servers
            await self.servers.set_all(servers, dry_run=True)
            self._awaits_tools = bool(servers)
            try:
                await self.settings.set_all(values, caller, dry_run=True)
                await self.servers.set_all(servers)
                await self.settings.set_all(values, caller)
            finally:
                self._awaits_tools = False

    async def check_provider(self, name: str, value: object, model: str) -> "ProviderCheck":
        """Try a provider with real requests: as it is set or, if a value is given, as it would be with that.

        Raise NotFound for a provider without any settings, and Invalid for a value that could not be stored.
        """
        from toolyard.models.provider_check import check_provider

        settings = self._model_configuration.settings
        if value is not None:
            entry = EntryId("providers", name)
            provider = build_settings({entry: self.settings.restore_secrets(entry, value)})
            self._base_models.check_change(entry, provider, provider)
            settings = self._base_models.add_stored(provider, replaces=True).settings
        elif name not in settings.providers and not settings.find_base_url(name):
            raise NotFound(f"there is no provider {name[:80]!r}")
        return await check_provider(settings, name, model, self.clock)

    async def start(self) -> None:
        """Start the MCP servers, then resume what an earlier process left open."""
        await self.access.load()  # runs that go on are those of keys that were not revoked meanwhile
        for at, stored in await self.settings.read_history():  # for runs that began with earlier ones
            self._apply_to_runs(stored, at)
        await self.settings.load()
        if self._model_configuration.default is self._wiring.model:
            self._models.check()  # not of the store: a server that does not start could not be corrected over HTTP
        await self.service.auditor.record_configuration(self._wiring.config_hashes)
        await self.servers.open()
        if self._wiring.awaits_servers:
            await self.servers.wait_until_listed()
        self._record_watcher.start(self._tasks)
        await self.service.start()

    async def asgi(self) -> AsgiApp:
        """Return the HTTP surfaces as an ASGI application. Needs the extra `toolyard[server]`."""
        await self.access.load()  # again: keys may have been added since the start
        try:
            from toolyard.surfaces.app import asgi
            from toolyard.surfaces.surface import Backend
        except ImportError as error:
            raise Misconfigured(f"the server needs more packages: {install_command('server')} ({error})") from None
        count_failure = self.service.failed_sign_ins.count
        sessions = Sessions(self._store, self.access, self.clock, self._wiring.sessions, count_failure)
        provider = self._wiring.identity_provider
        sign_ins = ProviderSignIns(self._store, sessions, provider, self.clock) if provider else None
        backend = Backend(
            service=self.service,
            access=self.access,
            sessions=sessions,
            servers=self.servers,
            records=self._store,
            settings=self.settings,
            check_provider=self.check_provider,
            import_settings=self.import_settings,
            fixed_settings=self._wiring.fixed_settings,
            locations=self._wiring.locations,
            secret_source=self._wiring.secret_source,
            provider_cards=self._models.provider_cards,
            approval_hold_s=self._wiring.approval_hold_s,
            leave_s=self._wiring.leave_s,
            max_file_bytes=self._wiring.max_file_bytes,
            socket_limits=self._wiring.socket_limits,
            add_servers=lambda: self._wiring.add_servers or ("all" if self.access.is_local else "url"),
            trust_added_servers=self._wiring.trust_added_servers,
            provider_sign_ins=sign_ins,
        )
        return asgi(backend, self._wiring.cors_origins, TrustedProxies(self._wiring.trusted_proxies))

    async def close(self) -> None:
        """Close all parts, even if one fails; the error is raised at the end."""
        self._record_watcher.stop()
        if self._model_lists is not None:
            await self._model_lists.close()
        # Callbacks run in reverse order: the store closes last, as the other parts may still write to it.
        async with AsyncExitStack() as parts:
            code = (self._code,) if self._code else ()
            for part in (self._store, self._models, self._function, self._mcp, *code, *self._exporters):
                parts.push_async_callback(part.close)
            await self.service.close(self._wiring.grace_s)
