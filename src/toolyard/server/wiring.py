"""Build a `Wiring` from a configuration: its names become tools with their rules, models, keys and defaults.

The module imports the tools' modules, but opens no store and no connection: `toolyard.app` does, from the wiring.
"""

import dataclasses
import difflib
import importlib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from msgspec.structs import replace

from toolyard.app import LOCAL_PREFIX, OFFLINE, Wiring, make_local_model, make_wired_model
from toolyard.app import make_model as model_without_configuration
from toolyard.core.caller import Caller
from toolyard.core.conversation_settings import Settings
from toolyard.core.division import Division, Divisions
from toolyard.core.errors import Misconfigured, MissingKey, install_command
from toolyard.core.mcp_servers import ServerSpec
from toolyard.core.model_names import is_pattern
from toolyard.core.options import DEFAULT_OPTIONS, Options
from toolyard.core.ports import Model
from toolyard.core.providers import ProviderCard, add_model
from toolyard.core.tools import PROVIDER_TOOLS, ProviderOptions, Tool
from toolyard.core.web_search import SearchRules
from toolyard.models.context_windows import compute_usable_window, find_context_window
from toolyard.models.providers import PROVIDERS, UNKNOWN_PROVIDER, ProviderPreset
from toolyard.server.config import (
    Config,
    DivisionConfig,
    JwtConfig,
    ProviderConfig,
    ToolChoice,
    ToolRules,
    apply_rules,
    load_mcp_servers,
    load_tools,
)
from toolyard.venues.function import RunnableTool, as_tool
from toolyard.venues.provider import build_provider_tool

MODEL_KEY_VARIABLE = "TOOLYARD_MODEL_KEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEndpoint:
    """The address and the key of the model that a name stands for."""

    base_url: str
    model: str
    provider: str = "openai"
    api_key: str = field(default="", repr=False)
    key_variable: str = ""
    """The environment variable that should hold the key and is not set; empty if no key is missing."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    known_provider: ProviderPreset = UNKNOWN_PROVIDER


def build_wiring(config: Config, base: Path) -> Wiring:
    """Return the parts of a server with this configuration. Raise Misconfigured with what to change."""
    tools = load_configured_tools(config, base)
    models = config.model_names or (OFFLINE,)
    return Wiring(
        model=models,
        named_model=partial(build_model, config=config, environment=os.environ),
        allowed_models=frozenset({*models, *(name for name in config.models if not is_pattern(name))}),
        model_patterns=_check_model_patterns(config),
        tools=tools,
        store=config.store,
        limits=config.limits.run_limits,
        budget=config.finding.budget,
        requests_per_minute=config.limits.requests_per_minute,
        system_prompt=config.system_prompt.strip(),
        language=config.language,
        texts={language: texts.texts for language, texts in config.texts.items()},
        web_search=config.web_search.rules if config.web_search else SearchRules(),
        provider_tools=_build_provider_tools(config),
        providers=build_provider_cards(models, config, os.environ),
        servers=load_configured_servers(config, os.environ),
        apply_rules=lambda tool: apply_rules(tool, config.tool[tool.name]) if tool.name in config.tool else tool,
        default_settings=_build_default_settings(config, [tool.definition.name for tool in tools]),
        keys=[key.key for key in config.keys],
        verify=_load_verifier(config.jwt) if config.jwt else None,
        cors_origins=frozenset(config.cors_origins),
        prices=config.prices,
        windows=_build_windows(config),
        keep_requests=config.keep_requests,
        divisions=_build_divisions(config, [tool.definition.name for tool in tools]),
        otlp_endpoint=config.telemetry.otlp_endpoint if config.telemetry else "",
        service_name=config.telemetry.service_name if config.telemetry else "toolyard",
    )


def _check_model_patterns(config: Config) -> tuple[str, ...]:
    """Return the patterns of `models`. Raise Misconfigured for a pattern of an unknown provider."""
    providers = (*PROVIDERS, *config.providers)
    for pattern in config.model_patterns:
        provider = pattern.partition(":")[0]
        if provider not in providers:
            raise Misconfigured(f"models: {pattern!r} names no known provider{_suggest(provider, providers)}")
    return config.model_patterns


def load_configured_tools(config: Config, base: Path) -> list[RunnableTool]:
    """Return the tools of the configuration; the rules of `[tool.NAME]` replace those of the tool itself."""
    tools = [as_tool(value) for value in load_tools(config.tools, base)]
    _require_known(config.tool, "[tool.{}]", tools, config)
    return [_apply_tool_rules(tool, config.tool.get(tool.definition.name)) for tool in tools]


def _build_provider_tools(config: Config) -> list[Tool]:
    chosen = config.provider_tools
    code = [build_provider_tool("code_execution")] if chosen.code_execution else []
    stores = ProviderOptions(stores=chosen.file_search)
    return [*code, build_provider_tool("file_search", stores)] if chosen.file_search else code


def load_configured_servers(config: Config, environment: Mapping[str, str]) -> dict[str, ServerSpec]:
    """Return the MCP servers of the configuration and of the file `mcp_json`. Raise Misconfigured."""
    configured = {name: server.spec for name, server in config.servers.items()}
    if not config.mcp_json:
        return configured
    from_file = load_mcp_servers(Path(config.mcp_json), environment)
    if twice := sorted(configured.keys() & from_file.keys()):
        raise Misconfigured(f"the server {twice[0]!r} is in the configuration and in {config.mcp_json}: remove one")
    return {**configured, **from_file}


def resolve_model_endpoint(name: str, config: Config, environment: Mapping[str, str]) -> ModelEndpoint:
    """Return the endpoint that a model's name stands for. Raise Misconfigured if it is not a model's name."""
    if urlsplit(name).scheme in ("http", "https"):
        base_url, _, model = name.partition("#")
        if not model:
            raise Misconfigured(f"{name!r} names no model: write http://host/v1#model")
        return ModelEndpoint(base_url=base_url, model=model, api_key=environment.get(MODEL_KEY_VARIABLE, ""))
    provider, _, model = name.partition(":")
    provider_config, preset = (
        config.providers.get(provider, ProviderConfig()),
        PROVIDERS.get(provider, UNKNOWN_PROVIDER),
    )
    if provider_config.wire:
        # A configured wire serves every request: without native_wire, requests with provider tools use it as well.
        preset = dataclasses.replace(preset, wire=provider_config.wire, native_wire="")
    base_url = provider_config.base_url or preset.resolve_base_url(provider, environment)
    if not base_url and preset.address_variable and model:
        raise Misconfigured(f"{name!r} needs an address: set the environment variable {preset.address_variable}")
    if not base_url or not model:
        names = ", ".join(f"{provider}:…" for provider in (*PROVIDERS, *(config.providers.keys() - PROVIDERS)))
        raise Misconfigured(f"{name!r} is not a model: use {OFFLINE}, one of {names} or http://host/v1#model")
    api_key = provider_config.api_key or preset.resolve_key(environment)
    # Configured headers may carry the credentials instead of a key, so that no key is missing then.
    missing = preset.key_variable if not api_key and not provider_config.headers else ""
    return ModelEndpoint(
        base_url=base_url,
        model=model,
        provider=provider,
        api_key=api_key,
        key_variable=missing,
        headers=provider_config.headers,
        known_provider=preset,
    )


def build_provider_cards(
    models: Sequence[str], config: Config, environment: Mapping[str, str]
) -> tuple[ProviderCard, ...]:
    """Return the providers of these models. A model that is misconfigured is left out: a request for it says why."""
    cards: tuple[ProviderCard, ...] = ()
    for name in models:
        with suppress(Misconfigured):
            cards = add_model(cards, _build_provider_card(name, config, environment))
    return cards


def _build_provider_card(name: str, config: Config, environment: Mapping[str, str]) -> ProviderCard:
    provider, _, model = name.partition(":")
    if name == OFFLINE or name.startswith(LOCAL_PREFIX):
        return ProviderCard(id=provider, models=(Path(model).name,))  # callers see cards: hide the file's folder
    endpoint = resolve_model_endpoint(name, config, environment)
    if provider in ("http", "https"):
        provider = urlsplit(endpoint.base_url).hostname or provider
    has_key = bool(endpoint.api_key or endpoint.headers)
    return ProviderCard(id=provider, base_url=endpoint.base_url, models=(endpoint.model,), has_key=has_key)


def build_model(name: str, config: Config, environment: Mapping[str, str]) -> Model:
    if name == OFFLINE:
        return model_without_configuration(name)
    if name.startswith(LOCAL_PREFIX):
        return make_local_model(name)
    endpoint = resolve_model_endpoint(name, config, environment)
    if endpoint.key_variable:
        raise MissingKey(name, endpoint.key_variable)
    return make_wired_model(
        endpoint.known_provider,
        base_url=endpoint.base_url,
        model=endpoint.model,
        api_key=endpoint.api_key,
        provider=endpoint.provider,
        headers=endpoint.headers,
        options=build_options(name, config),
    )


def build_options(name: str, config: Config) -> Options:
    """Return the options of the model with this name, the defaults if `[model_options]` has none for it."""
    chosen = config.model_options.get(name)
    if chosen is None:
        return DEFAULT_OPTIONS
    return Options(max_tokens=chosen.max_tokens, temperature=chosen.temperature, thinking=chosen.thinking)


def _build_windows(config: Config) -> dict[str, int]:
    """Return how many tokens of input each model of `[model_options]` takes: its context window less its answer."""
    windows: dict[str, int] = {}
    for name, chosen in config.model_options.items():
        provider = name.partition(":")[0]
        wire = config.providers.get(provider, ProviderConfig()).wire or PROVIDERS.get(provider, UNKNOWN_PROVIDER).wire
        if window := chosen.window or find_context_window(name):
            windows[name] = compute_usable_window(name, window, wire, build_options(name, config))
    return windows


def _build_default_settings(config: Config, tool_names: Collection[str]) -> Settings:
    return Settings(tools=_resolve_tool_choice(config.default_tools, "default_tools", config, tool_names))


def _build_divisions(config: Config, tool_names: Collection[str]) -> Divisions:
    """Return the divisions by tenant and name.

    A division of a tenant combines both: it has both prompts, and only the tools that both may use.
    """

    def build_division(division: DivisionConfig, shown_as: str) -> Division:
        return Division(
            prompt=division.prompt.strip(),
            tools=_resolve_tool_choice(division.tools, f"[{shown_as}] tools", config, tool_names),
            limits=division.limits.run_limits,
            requests_per_minute=division.limits.requests_per_minute,
            language=division.language,
        )

    divisions = {
        ("", name): build_division(division_config, f"divisions.{name}")
        for name, division_config in config.divisions.items()
    }
    for tenant, tenant_config in config.tenants.items():
        of_tenant = divisions[tenant, ""] = build_division(tenant_config, f"tenants.{tenant}")
        for name, division_config in tenant_config.divisions.items():
            division = build_division(division_config, f"tenants.{tenant}.divisions.{name}")
            divisions[tenant, name] = replace(
                division,
                prompt="\n\n".join(prompt for prompt in (of_tenant.prompt, division.prompt) if prompt),
                tools=_intersect(of_tenant.tools, division.tools),
                language=division.language or of_tenant.language,
            )
    return divisions


def _intersect(first: frozenset[str] | None, second: frozenset[str] | None) -> frozenset[str] | None:
    """Return the tools that both choices contain; None stands for all tools."""
    return second if first is None else first if second is None else first & second


def _resolve_tool_choice(
    chosen: ToolChoice, shown_as: str, config: Config, tool_names: Collection[str]
) -> frozenset[str] | None:
    """Return the chosen names, None for all. Raise Misconfigured for a name that no tool has."""
    if chosen == "all":
        return None
    names = frozenset[str]() if chosen == "none" else frozenset(chosen)
    unknown = sorted(names - {*tool_names, *PROVIDER_TOOLS})
    # An MCP server may bring a tool of any name, and it is not connected yet.
    if unknown and not (config.servers or config.mcp_json):
        raise Misconfigured(f"{shown_as} names {unknown[0]!r}, which is not a tool{_suggest(unknown[0], tool_names)}")
    return names


def _require_known(names: Collection[str], shown_as: str, tools: Collection[RunnableTool], config: Config) -> None:
    """Raise Misconfigured for a rule about a tool that does not exist: such a rule would protect nothing.

    With MCP servers every name is accepted, because a server may bring a tool of any name.
    """
    tool_names = [tool.definition.name for tool in tools]
    for name in names:
        if name not in (*tool_names, *PROVIDER_TOOLS) and not (config.servers or config.mcp_json):
            raise Misconfigured(f"{shown_as.format(name)}: there is no tool named {name!r}{_suggest(name, tool_names)}")


def _suggest(name: str, candidates: Collection[str]) -> str:
    near = difflib.get_close_matches(name, candidates, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _apply_tool_rules(tool: RunnableTool, rules: ToolRules | None) -> RunnableTool:
    return tool if rules is None else dataclasses.replace(tool, definition=apply_rules(tool.definition, rules))


def _load_verifier(jwt: JwtConfig) -> Callable[[str], Caller]:
    try:
        module = importlib.import_module("toolyard.server.jwt")
    except ImportError as error:
        raise Misconfigured(f"[jwt] needs more packages: {install_command('server')} ({error})") from None
    return module.verifier(jwt)
