"""The composition root: turns names into adapters and wires them to a service. No other module does so."""

import asyncio
import importlib
import logging
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from toolyard.core.conversation_settings import Settings
from toolyard.core.division import NO_DIVISIONS, Divisions
from toolyard.core.errors import Misconfigured, MissingKey, install_command
from toolyard.core.limits import Budget, Limits
from toolyard.core.mcp_servers import ServerSpec
from toolyard.core.model_cards import ModelCard, describe_model_problem
from toolyard.core.ports import Model, NativeToolsModel, Policy, Rule
from toolyard.core.prices import Price
from toolyard.core.providers import ProviderCard, build_provider_card
from toolyard.core.store import Key, Store
from toolyard.core.texts import NO_TEXTS, CustomTexts
from toolyard.core.tools import Tool
from toolyard.core.web_search import SEARCH_TOOL, NativeTools, SearchRules
from toolyard.engine.authentication import Authenticator, VerifyToken
from toolyard.engine.dependencies import Deps
from toolyard.engine.journal import Observe
from toolyard.engine.policy_check import PolicyCheck
from toolyard.engine.registry import Registry
from toolyard.engine.result_encoder import ResultEncoder
from toolyard.engine.service import Service
from toolyard.engine.tool_selection.web_search import SearchPlanner
from toolyard.models.context_windows import find_context_window
from toolyard.models.fallback import FallbackModel
from toolyard.models.providers import PROVIDERS, UNKNOWN_PROVIDER, WIRES, ProviderPreset
from toolyard.observability.exporters import find_exporters
from toolyard.observability.wire_log import WireLog
from toolyard.policies.ordered import OrderedPolicy
from toolyard.stores.memory import MemoryStore
from toolyard.venues.builtin.find_tools import FindToolsVenue
from toolyard.venues.builtin.read_result import ReadResultVenue
from toolyard.venues.client import ClientVenue
from toolyard.venues.function import FunctionVenue
from toolyard.venues.mcp import Connector, McpManager, McpVenue, unwrap_result
from toolyard.venues.mcp.passthrough import McpManagerProxy
from toolyard.venues.provider import ProviderVenue, build_provider_tool

_log = logging.getLogger("toolyard.app")

if TYPE_CHECKING:
    from toolyard.engine.argument_validation import Schemas

Message = MutableMapping[str, object]
AsgiApp = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]


ModelChoice = str | Model | Sequence[str]
"""The name of a model, a model, or a chain of names: each is a fallback for those before it."""
OFFLINE = "toolyard:offline"
"""The model of a server that configures none: it needs no key and no network, and is not a language model."""
IDS_PER_DRAW = 16
MAX_MODELS = 256
"""Models that are kept open. With a pattern, requests could name any number."""
LOCAL_PREFIX = "local:"
NO_KEYS: Mapping[str, str] = MappingProxyType({})


class SystemClock:
    """Random ids and the system's clock."""

    def __init__(self) -> None:
        self._random_digits = ""

    def new_id(self, prefix: str) -> str:
        """Return a new id: the prefix, the current second and sixteen random digits."""
        # The time comes first, so that rows that are written together are neighbours in the store's index. The random
        # digits are drawn in bulk, as each draw is a system call.
        if not self._random_digits:
            self._random_digits = secrets.token_hex(8 * IDS_PER_DRAW)
        digits, self._random_digits = self._random_digits[:16], self._random_digits[16:]
        return f"{prefix}_{int(self.now()):08x}{digits}"

    now = staticmethod(time.time)


class Models:
    """Models by name, each created on first use. The default may be a chain: its first name stands for all of it."""

    def __init__(
        self,
        default: "ModelChoice",
        factory: Callable[[str], Model] | None = None,
        windows: Mapping[str, int] | None = None,
    ) -> None:
        self._factory = factory or make_model
        self._windows = windows or {}
        self._models: dict[str, Model] = {}
        if isinstance(default, str | Sequence):
            self._names = (default,) if isinstance(default, str) else tuple(default)
        else:
            self._names, self._models = ("given",), {"given": default}
        self.default = self._names[0]
        self._fallback = FallbackModel(self._names, self._get_model) if len(self._names) > 1 else None

    def __call__(self, name: str) -> Model:
        return self._fallback if self._fallback is not None and name == self.default else self._get_model(name)

    def _get_model(self, name: str) -> Model:
        model = self._models.get(name)
        if model is None:
            if len(self._models) >= MAX_MODELS:
                raise Misconfigured(f"more than {MAX_MODELS} models were named: name one that was used before")
            model = self._models[name] = self._factory(name)
        return model

    def native_tools(self, name: str) -> NativeTools:
        """Return the tools that the provider of a model runs itself; for a chain, those of its first model."""
        try:
            model = self._get_model(name)
        except Misconfigured:
            return NativeTools()
        return model.native if isinstance(model, NativeToolsModel) else NativeTools()

    def context_window(self, name: str) -> int:
        """Return the context window of a model in tokens, the smallest of a chain; 0 if it is unknown."""
        names = self._names if self._fallback is not None and name == self.default else (name,)
        windows = (self._windows.get(model) or find_context_window(model) for model in names)
        return min(filter(None, windows), default=0)

    def cards(self, others: Iterable[str]) -> list[ModelCard]:
        """Return the cards of the default chain, in its order, and of the other models."""
        # Loaded on demand: the module imports a wire, which a server with another model does not need.
        cards = importlib.import_module("toolyard.models.cards")
        names = (*self._names, *sorted(set(others).difference(self._names)))
        return [
            cards.model_card(
                name,
                default=name == self.default,
                context_tokens=self._windows.get(name) or find_context_window(name),
                native=self.native_tools(name),
                problem=self._find_problem(name),
            )
            for name in names
        ]

    def _find_problem(self, name: str) -> str:
        try:
            self._get_model(name)
        except Misconfigured as error:
            return describe_model_problem(error)
        return ""

    def check(self) -> None:
        """Raise Misconfigured if a model of the default chain cannot be created."""
        for name in self._names:
            self._get_model(name)

    async def close(self) -> None:
        for model in self._models.values():
            await model.close()


def make_model(name: str, api_keys: Mapping[str, str] = NO_KEYS) -> Model:
    """Return the model of a name: `toolyard:offline`, `openai:gpt-4o-mini`, `ollama:qwen3` or `http://host/v1#model`.

    A provider's key, from `api_keys` or its environment variable, is sent to that provider only; a server that is named
    by its address gets `TOOLYARD_MODEL_KEY`, if set.
    """
    if name == OFFLINE:
        return importlib.import_module("toolyard.models.offline").Offline()
    if name.startswith(LOCAL_PREFIX):
        return make_local_model(name)
    if urlsplit(name).scheme in ("http", "https"):
        base_url, _, model = name.partition("#")
        if not model:
            raise Misconfigured(f"{name!r} names no model: write http://host/v1#model")
        return make_wired_model(
            UNKNOWN_PROVIDER, base_url=base_url, model=model, api_key=os.environ.get("TOOLYARD_MODEL_KEY", "")
        )
    provider, _, model = name.partition(":")
    if provider not in PROVIDERS or not model:
        prefixes = ", ".join(f"{prefix}:…" for prefix in PROVIDERS)
        raise Misconfigured(f"{name!r} is not a model: use {OFFLINE}, one of {prefixes} or http://host/v1#model")
    preset = PROVIDERS[provider]
    key = api_keys.get(provider) or preset.resolve_key(os.environ)
    base_url = preset.resolve_base_url(provider, os.environ)
    if preset.key_variable and not key:
        raise MissingKey(name, preset.key_variable, ", or give it in api_keys")
    if not base_url:
        raise Misconfigured(f"{name!r} needs an address: set the environment variable {preset.address_variable}")
    return make_wired_model(preset, base_url=base_url, model=model, api_key=key, provider=provider)


def check_api_keys(api_keys: Mapping[str, str]) -> None:
    """Raise Misconfigured for a name that is not a provider's. The message shows no key."""
    for provider in api_keys:
        if provider not in PROVIDERS:
            raise Misconfigured(f"api_keys: {provider!r} is not a provider; those are {', '.join(PROVIDERS)}")


def make_wired_model(preset: ProviderPreset, **options: object) -> Model:
    """Return a model that speaks its provider's wire protocol. The wire's module is loaded here."""
    plain = _load_wire(preset.wire, options)
    if preset.native_wire in ("", preset.wire):
        return plain
    native_router = importlib.import_module("toolyard.models.native_router")
    return native_router.NativeToolRouter(plain, lambda: _load_wire(preset.native_wire, options))


def _load_wire(wire: str, options: Mapping[str, object]) -> Model:
    module, _, name = WIRES[wire].partition(".")
    return getattr(importlib.import_module(f"toolyard.models.{module}"), name)(**options)


def make_local_model(name: str) -> Model:
    """Return the model of a file, such as `local:/models/qwen.gguf`. Needs the extra `toolyard[local]`."""
    return importlib.import_module("toolyard.models.local").Local(name.removeprefix(LOCAL_PREFIX))


async def open_store(name: str) -> Store:
    """Open a store: `memory:`, `sqlite:///relative.db` or `sqlite:////absolute.db`, also with `?synchronous=FULL`."""
    if name == "memory:":
        return MemoryStore()
    url = urlsplit(name)
    if url.scheme != "sqlite" or not url.path.strip("/"):
        raise Misconfigured(f"{name!r} is not a store: use memory: or sqlite:///path/to/toolyard.db")
    if url.query not in ("", "synchronous=NORMAL", "synchronous=FULL"):
        raise Misconfigured(f"{url.query!r} is not a setting of a SQLite store: use synchronous=NORMAL or FULL")
    sqlite = importlib.import_module("toolyard.stores.sqlite")
    return await sqlite.SqliteStore.open(Path(url.path[1:]), synchronous=url.query.partition("=")[2] or "NORMAL")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """The complete configuration of an App."""

    model: ModelChoice
    tools: Sequence[object] = ()
    store: str = "memory:"
    limits: Limits = field(default_factory=Limits)
    budget: Budget = field(default_factory=Budget)
    rules: Sequence[Rule] = ()
    system_prompt: str = ""
    language: str = ""
    """The language of the server's own messages to users; empty means the caller's."""
    texts: CustomTexts = field(default_factory=lambda: NO_TEXTS)
    """Messages that replace the built-in ones."""
    threads: int = 32
    grace_s: float = 5.0
    named_model: Callable[[str], Model] = make_model
    """Creates a model from its name."""
    allowed_models: frozenset[str] | None = None
    """The models that a request may name; None means any."""
    model_patterns: Sequence[str] = ()
    """Patterns of further model names that a request may name."""
    requests_per_minute: int = 0
    default_settings: Settings = field(default_factory=Settings)
    keys: Sequence[Key] = ()
    verify: VerifyToken | None = None
    cors_origins: frozenset[str] = frozenset()
    keep_requests: bool = False
    """Whether requests to models and their responses are recorded for operators."""
    windows: Mapping[str, int] = field(default_factory=dict[str, int])
    """Context windows in tokens, by model name, where they differ from the built-in table."""
    prices: Mapping[str, Price] = field(default_factory=dict[str, Price])
    """Prices by model name: shown, never enforced."""
    divisions: Divisions = field(default_factory=lambda: NO_DIVISIONS)
    otlp_endpoint: str = ""
    """Where spans are sent; empty means that the OTEL_ variables decide."""
    service_name: str = "toolyard"
    web_search: SearchRules = field(default_factory=SearchRules)
    provider_tools: Sequence[Tool] = ()
    """Tools besides web search that the model's provider may run itself."""
    providers: Sequence[ProviderCard] = ()
    """Cards of the configured providers; empty if only the model's name is known."""
    servers: Mapping[str, ServerSpec] = field(default_factory=dict[str, ServerSpec])
    """MCP servers by id. More can be added at run time."""
    apply_rules: Callable[[Tool], Tool] = lambda tool: tool
    """Returns a tool with the rules that the configuration sets for it."""
    observers: Sequence[Observe] = ()
    """Called with every entry once it is stored. An observer that fails is logged and affects nothing else."""


def _load_schemas() -> "Schemas":
    """Return the schema validators.

    Loaded on demand: a server of typed functions takes a third less memory without them.
    """
    return importlib.import_module("toolyard.engine.argument_validation").Schemas()


def _load_connector() -> Connector:
    """Return the connector to MCP servers, loaded when the first server is started."""
    try:
        return importlib.import_module("toolyard.venues.mcp.connector").SdkConnector()
    except ImportError as error:
        raise Misconfigured(f"MCP servers need more packages: {install_command('mcp')} ({error})") from None


class App:
    """A service with all that it depends on, closed together."""

    def __init__(self, wiring: Wiring, models: Models, store: Store, tasks: asyncio.TaskGroup) -> None:
        self.clock = SystemClock()
        self.access = Authenticator(store, self.clock, configured=wiring.keys, verify=wiring.verify)
        self._wiring = wiring
        self._models = models
        self._store = store
        self._function = FunctionVenue(wiring.tools, threads=wiring.threads)
        policy = OrderedPolicy(wiring.rules, wiring.divisions)
        searching = SearchPlanner(wiring.web_search, models.native_tools, models.default)
        self.registry = Registry(policy, ClientVenue(), _load_schemas, wiring.budget, searching)
        self.registry.add(self._function)
        native = (build_provider_tool(SEARCH_TOOL, wiring.web_search.options), *wiring.provider_tools)
        self.registry.add(ProviderVenue([wiring.apply_rules(tool) for tool in native]))
        self.registry.add(ReadResultVenue(store), on_demand="cut")
        self.registry.add(FindToolsVenue(self.registry.search), on_demand="many")
        local = frozenset(self.registry.names())
        self.servers = McpManager(
            wiring.servers,
            make_connector=_load_connector,
            store=store,
            clock=self.clock,
            reserved_names=lambda: local,
            apply_rules=wiring.apply_rules,
            on_tools_changed=lambda: self.registry.refresh(self._mcp),
        )
        self._mcp = McpVenue(self.servers)
        self.registry.add(self._mcp)
        deps = self._make_deps(policy)
        self._exporters = find_exporters(wiring.otlp_endpoint, wiring.service_name)
        observers = (*wiring.observers, self._mcp.observe, *(exporter.observe for exporter in self._exporters))
        self.service = Service(deps, store, tasks, McpManagerProxy(self.servers), observers)

    def _make_deps(self, policy: Policy) -> Deps:
        wiring, models, store = self._wiring, self._models, self._store
        return Deps(
            registry=self.registry,
            policy=policy,
            policy_check=PolicyCheck(self.registry, policy),
            result_encoder=ResultEncoder(store, self.clock),
            models=models,
            clock=self.clock,
            limits=wiring.limits,
            default_model=models.default,
            windows=models.context_window,
            allowed_models=wiring.allowed_models,
            model_patterns=wiring.model_patterns,
            model_cards=lambda: models.cards(wiring.allowed_models or ()),
            default_settings=wiring.default_settings,
            requests_per_minute=wiring.requests_per_minute,
            system_prompt=wiring.system_prompt,
            language=wiring.language,
            texts=wiring.texts,
            prices=wiring.prices,
            wire_log=WireLog(store) if wiring.keep_requests else None,
            divisions=wiring.divisions,
            unwrap_delivered=unwrap_result,
        )

    async def start(self) -> None:
        """Start the MCP servers, then resume what an earlier process left open."""
        await self.servers.open()
        await self.service.start()

    async def asgi(self) -> "AsgiApp":
        """Return the HTTP surfaces as an ASGI application. Needs the extra `toolyard[server]`."""
        await self.access.load()
        try:
            surfaces = importlib.import_module("toolyard.surfaces.app")
        except ImportError as error:
            raise Misconfigured(f"the server needs more packages: {install_command('server')} ({error})") from None
        cards = self._wiring.providers or (build_provider_card(self._models.default),)
        return surfaces.asgi(self.service, self.access, self.servers, self._wiring.cors_origins, cards)

    async def close(self) -> None:
        """Close all parts, even if one fails; the error is raised at the end."""
        # Callbacks run in reverse order: the store closes last, as the other parts may still write to it.
        async with AsyncExitStack() as parts:
            for part in (self._store, self._models, self._function, self._mcp, *self._exporters):
                parts.push_async_callback(part.close)
            await self.service.close(self._wiring.grace_s)
