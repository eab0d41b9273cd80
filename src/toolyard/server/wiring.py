"""A configuration becomes a wiring: names become tools with their rules, models, keys, defaults. It opens nothing."""

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
from toolyard.models.providers import PROVIDERS, UNKNOWN_PROVIDER
from toolyard.models.providers import ProviderPreset as KnownProvider
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
from toolyard.venues.function import ExecutorTool, FunctionTool, as_tool
from toolyard.venues.provider import build_provider_tool

MODEL_KEY_VARIABLE = "TOOLYARD_MODEL_KEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEndpoint:
    """Where a model of a name is to be had, and with which key."""

    base_url: str
    model: str
    provider: str = "openai"
    api_key: str = field(default="", repr=False)
    key_variable: str = ""
    """The variable that must hold the key and does not; empty if nothing is missing."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    known_provider: KnownProvider = UNKNOWN_PROVIDER


def build_wiring(config: Config, base: Path) -> Wiring:
    """What a server of this configuration is put together from. Raises Misconfigured with what to change."""
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
        default_settings=_build_default_settings(config, [one.definition.name for one in tools]),
        keys=[key.key for key in config.keys],
        verify=_load_verifier(config.jwt) if config.jwt else None,
        cors_origins=frozenset(config.cors_origins),
        prices=config.prices,
        windows=_build_windows(config),
        keep_requests=config.keep_requests,
        divisions=_build_divisions(config, [one.definition.name for one in tools]),
        otlp_endpoint=config.telemetry.otlp_endpoint if config.telemetry else "",
        service_name=config.telemetry.service_name if config.telemetry else "toolyard",
    )


def _check_model_patterns(config: Config) -> tuple[str, ...]:
    """Return the patterns of `models`. Raise Misconfigured for one whose provider nobody knows."""
    known = (*PROVIDERS, *config.providers)
    for pattern in config.model_patterns:
        provider = pattern.partition(":")[0]
        if provider not in known:
            raise Misconfigured(f"models: {pattern!r} is of no provider{_suggest(provider, known)}")
    return config.model_patterns


def load_configured_tools(config: Config, base: Path) -> list[FunctionTool | ExecutorTool]:
    """The tools of the configuration, each with the rules that `[tool.NAME]` sets in place of its own."""
    tools = [as_tool(thing) for thing in load_tools(config.tools, base)]
    _require_known(config.tool, "[tool.{}]", tools, config)
    return [_apply_tool_rules(one, config.tool.get(one.definition.name)) for one in tools]


def _build_provider_tools(config: Config) -> list[Tool]:
    wanted = config.provider_tools
    code = [build_provider_tool("code_execution")] if wanted.code_execution else []
    stores = ProviderOptions(stores=wanted.file_search)
    return [*code, build_provider_tool("file_search", stores)] if wanted.file_search else code


def load_configured_servers(config: Config, environment: Mapping[str, str]) -> dict[str, ServerSpec]:
    """The MCP servers of the configuration, and of the file that it names. Raises Misconfigured."""
    own = {name: server.spec for name, server in config.servers.items()}
    if not config.mcp_json:
        return own
    others = load_mcp_servers(Path(config.mcp_json), environment)
    if twice := sorted(own.keys() & others.keys()):
        raise Misconfigured(f"the server {twice[0]!r} stands in the configuration and in {config.mcp_json}: keep one")
    return {**own, **others}


def resolve_model_endpoint(name: str, config: Config, environment: Mapping[str, str]) -> ModelEndpoint:
    """What a model's name stands for. Raises Misconfigured if it stands for nothing."""
    if urlsplit(name).scheme in ("http", "https"):
        base_url, _, model = name.partition("#")
        if not model:
            raise Misconfigured(f"{name!r} names no model: write http://host/v1#model")
        return ModelEndpoint(base_url=base_url, model=model, api_key=environment.get(MODEL_KEY_VARIABLE, ""))
    provider, _, model = name.partition(":")
    set_up, known = config.providers.get(provider, ProviderConfig()), PROVIDERS.get(provider, UNKNOWN_PROVIDER)
    if set_up.wire:
        known = dataclasses.replace(known, wire=set_up.wire, native_wire="")
    base_url = set_up.base_url or known.resolve_base_url(provider, environment)
    if not base_url and known.address_variable and model:
        raise Misconfigured(f"{name!r} needs an address: set the environment variable {known.address_variable}")
    if not base_url or not model:
        names = ", ".join(f"{one}:…" for one in (*PROVIDERS, *(config.providers.keys() - PROVIDERS)))
        raise Misconfigured(f"{name!r} is not a model: use {OFFLINE}, one of {names} or http://host/v1#model")
    api_key = set_up.api_key or known.resolve_key(environment)
    missing = known.key_variable if not api_key and not set_up.headers else ""
    return ModelEndpoint(
        base_url=base_url,
        model=model,
        provider=provider,
        api_key=api_key,
        key_variable=missing,
        headers=set_up.headers,
        known_provider=known,
    )


def build_provider_cards(
    models: Sequence[str], config: Config, environment: Mapping[str, str]
) -> tuple[ProviderCard, ...]:
    """Return the providers of these models. One of a model that cannot be had is left out: asking for it says why."""
    cards: tuple[ProviderCard, ...] = ()
    for name in models:
        with suppress(Misconfigured):
            cards = add_model(cards, _build_provider_card(name, config, environment))
    return cards


def _build_provider_card(name: str, config: Config, environment: Mapping[str, str]) -> ProviderCard:
    provider, _, model = name.partition(":")
    if name == OFFLINE or name.startswith(LOCAL_PREFIX):
        return ProviderCard(id=provider, models=(Path(model).name,))  # where a file lies is nobody's business
    place = resolve_model_endpoint(name, config, environment)
    if provider in ("http", "https"):
        provider = urlsplit(place.base_url).hostname or provider
    has_key = bool(place.api_key or place.headers)
    return ProviderCard(id=provider, base_url=place.base_url, models=(place.model,), has_key=has_key)


def build_model(name: str, config: Config, environment: Mapping[str, str]) -> Model:
    if name == OFFLINE:
        return model_without_configuration(name)
    if name.startswith(LOCAL_PREFIX):
        return make_local_model(name)
    place = resolve_model_endpoint(name, config, environment)
    if place.key_variable:
        raise MissingKey(name, place.key_variable)
    return make_wired_model(
        place.known_provider,
        base_url=place.base_url,
        model=place.model,
        api_key=place.api_key,
        provider=place.provider,
        headers=place.headers,
        options=build_options(name, config),
    )


def build_options(name: str, config: Config) -> Options:
    """How a model of a name is to answer."""
    given = config.model_options.get(name)
    if given is None:
        return DEFAULT_OPTIONS
    return Options(max_tokens=given.max_tokens, temperature=given.temperature, thinking=given.thinking)


def _build_windows(config: Config) -> dict[str, int]:
    """What the models of the options take, as they say or as is known, less what their answers need."""
    found: dict[str, int] = {}
    for name, given in config.model_options.items():
        provider = name.partition(":")[0]
        wire = config.providers.get(provider, ProviderConfig()).wire or PROVIDERS.get(provider, UNKNOWN_PROVIDER).wire
        if window := given.window or find_context_window(name):
            found[name] = compute_usable_window(name, window, wire, build_options(name, config))
    return found


def _build_default_settings(config: Config, tool_names: Collection[str]) -> Settings:
    return Settings(tools=_resolve_tool_choice(config.default_tools, "default_tools", config, tool_names))


def _build_divisions(config: Config, tool_names: Collection[str]) -> Divisions:
    """By tenant and division. In a tenant's division both prompts are said, and tools are those that both may use."""

    def build_division(division: DivisionConfig, shown_as: str) -> Division:
        return Division(
            prompt=division.prompt.strip(),
            tools=_resolve_tool_choice(division.tools, f"[{shown_as}] tools", config, tool_names),
            limits=division.limits.run_limits,
            requests_per_minute=division.limits.requests_per_minute,
            language=division.language,
        )

    found = {("", name): build_division(one, f"divisions.{name}") for name, one in config.divisions.items()}
    for tenant, its in config.tenants.items():
        whole = found[tenant, ""] = build_division(its, f"tenants.{tenant}")
        for name, one in its.divisions.items():
            own = build_division(one, f"tenants.{tenant}.divisions.{name}")
            prompt = "\n\n".join(part for part in (whole.prompt, own.prompt) if part)
            language = own.language or whole.language
            found[tenant, name] = replace(
                own, prompt=prompt, tools=_intersect(whole.tools, own.tools), language=language
            )
    return found


def _intersect(first: frozenset[str] | None, second: frozenset[str] | None) -> frozenset[str] | None:
    """What two choices have in common; None means all."""
    return second if first is None else first if second is None else first & second


def _resolve_tool_choice(
    chosen: ToolChoice, shown_as: str, config: Config, tool_names: Collection[str]
) -> frozenset[str] | None:
    """The names that were chosen, None for all. Raises Misconfigured for one that no tool has."""
    if chosen == "all":
        return None
    names = frozenset[str]() if chosen == "none" else frozenset(chosen)
    unknown = sorted(names - {*tool_names, *PROVIDER_TOOLS})
    if unknown and not (config.servers or config.mcp_json):
        raise Misconfigured(f"{shown_as} names {unknown[0]!r}, which is not a tool{_suggest(unknown[0], tool_names)}")
    return names


def _require_known(
    names: Collection[str], shown_as: str, tools: Collection[FunctionTool | ExecutorTool], config: Config
) -> None:
    """A rule for a tool that is not there would protect nothing. Servers may bring tools of any name."""
    known = [one.definition.name for one in tools]
    for name in names:
        if name not in (*known, *PROVIDER_TOOLS) and not (config.servers or config.mcp_json):
            raise Misconfigured(f"{shown_as.format(name)}: there is no tool named {name!r}{_suggest(name, known)}")


def _suggest(name: str, candidates: Collection[str]) -> str:
    near = difflib.get_close_matches(name, candidates, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _apply_tool_rules(tool: FunctionTool | ExecutorTool, rules: ToolRules | None) -> FunctionTool | ExecutorTool:
    return tool if rules is None else dataclasses.replace(tool, definition=apply_rules(tool.definition, rules))


def _load_verifier(jwt: JwtConfig) -> Callable[[str], Caller]:
    try:
        tokens = importlib.import_module("toolyard.server.jwt")
    except ImportError as error:
        raise Misconfigured(f"[jwt] needs more packages: {install_command('server')} ({error})") from None
    return tokens.verifier(jwt)
