"""Build a `Wiring` from a configuration: its names become tools with their rules, models, keys and defaults.

The module imports the tools' modules, but opens no store and no connection: `toolyard.app` does, from the wiring.
"""

import dataclasses
import difflib
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from msgspec import to_builtins
from msgspec.structs import replace

from toolyard.app import SystemClock, Wiring
from toolyard.core.caller import Caller
from toolyard.core.conversation.settings import Settings
from toolyard.core.errors import Misconfigured, install_command
from toolyard.core.settings.divisions import DivisionConfig, ToolChoice, iter_division_configs, list_chosen_tools
from toolyard.core.settings.models.names import OFFLINE, is_pattern, parse_model_name
from toolyard.core.settings.runtime import GENERAL, SERVERS, EntryId, RuntimeSettings, iter_entries, mask_entry
from toolyard.core.settings.tool_rules import ToolRules
from toolyard.core.store import KEYS, Store
from toolyard.core.store.audit_chain import hash_content
from toolyard.core.tools.definition import SHIPPED_TOOLS, ProviderOptions, Tool
from toolyard.core.tools.mcp_servers import ServerSpec, mask_spec
from toolyard.core.tools.rules import apply_rules, apply_rules_by_name
from toolyard.core.tools.web_search_rule import SearchRules, build_search_rules
from toolyard.engine.access.provider_sign_in import IdentityProvider
from toolyard.engine.settings.setting_store import ConfiguredEntry, SettingStore
from toolyard.models.configuration import ModelConfiguration, build_options, build_windows
from toolyard.models.providers import PROVIDERS
from toolyard.models.resolver import ModelSettings
from toolyard.observability.auditor import RecordAuditor
from toolyard.server.config import (
    Config,
    JwtConfig,
    OidcConfig,
    list_fixed_settings,
    load_mcp_servers,
    load_tools,
)
from toolyard.server.config.layers import Layers
from toolyard.server.secret_file import find_secret
from toolyard.venues.function import RunnableTool, as_tool
from toolyard.venues.mcp.auth.sealed_records import SealedRecords
from toolyard.venues.mcp.server_records import ServerRecords
from toolyard.venues.provider import build_provider_tool


def build_wiring(config: Config, base: Path, layers: Layers | None = None) -> Wiring:
    """Return the parts of a server with this configuration. Raise Misconfigured with what to change.

    `layers` tell where each setting comes from, for those who look at them.
    """
    tools, servers = load_configured_tools(config, base), load_configured_servers(config, os.environ)
    tool_names = [tool.definition.name for tool in tools]
    models = config.model_names or (OFFLINE,)
    model_settings = build_model_settings(config, os.environ)
    secret, secret_source = find_secret(config.store, os.environ)
    return Wiring(
        model=models,
        model_settings=model_settings,
        allowed_models=frozenset({*models, *(name for name in config.models if not is_pattern(name))}),
        title_model=config.title_model,
        max_file_bytes=config.max_file_bytes,
        model_patterns=_check_model_patterns(config),
        tools=tools,
        store=config.store,
        postgres=config.postgres,
        grace_s=config.grace_s,
        drain_s=config.drain_s,
        approval_hold_s=config.approval_hold_s,
        leave_s=config.leave_s,
        limits=config.limits.run_limits,
        budget=config.finding,
        code=config.code.enabled,
        requests_per_minute=config.limits.requests_per_minute,
        system_prompt=config.system_prompt.strip(),
        language=config.language,
        texts=config.texts,
        web_search=build_search_rules(config.web_search) if config.web_search else SearchRules(),
        provider_tools=_build_provider_tools(config),
        servers=servers,
        config_hashes=hash_config(config, servers),
        add_servers=config.add_servers,
        trust_added_servers=config.trust_added_servers,
        private_addresses=config.private_addresses,
        apply_rules=lambda tool: apply_rules_by_name(tool, config.tool),
        default_settings=_build_default_settings(config, tool_names),
        keys=config.keys,
        verify=_load_verifier(config.jwt) if config.jwt else None,
        token_issuer=config.jwt.issuer if config.jwt else "",
        identity_provider=_load_identity_provider(config.oidc) if config.oidc else None,
        cors_origins=frozenset(config.cors_origins),
        trusted_proxies=config.trusted_proxies,
        sessions=config.sessions,
        trust=config.trust,
        redact=config.redact,
        prices=config.prices,
        published_prices=True,
        budgets=config.budgets,
        reserve_output_tokens=config.reserve_output_tokens,
        windows=build_windows(config, model_settings),
        model_access=config.model_access,
        configured_settings=_list_configured(config, layers),
        fixed_settings=list_fixed_settings(config, layers),
        locations=_list_locations(config, servers, layers) if layers else {},
        secret=secret,
        secret_source=secret_source,
        keep_requests=config.keep_requests,
        keep_audit_days=config.keep_audit_days,
        division_settings=_check_divisions(config, tool_names),
        tenant_settings=config.tenants,
        otlp_endpoint=config.telemetry.otlp_endpoint if config.telemetry else "",
        service_name=config.telemetry.service_name if config.telemetry else "toolyard",
    )


async def open_setting_store(config: Config, layers: Layers, store: Store) -> SettingStore:
    """Return the settings of a store that no server has open, behind those of the configuration."""
    models = _build_model_configuration(config)
    secret, _ = find_secret(config.store, os.environ)
    settings = SettingStore(
        store,
        SystemClock(),
        SealedRecords(store, secret),
        _list_configured(config, layers),
        find_address=models.find_address,
        check=models.check_change,
    )
    await settings.load()
    return settings


def open_server_records(config: Config, store: Store) -> ServerRecords:
    """Return the MCP servers of a store that no server has open."""
    secret, _ = find_secret(config.store, os.environ)
    return ServerRecords(store, RecordAuditor(store, SystemClock()), SealedRecords(store, secret))


def _build_model_configuration(config: Config) -> ModelConfiguration:
    settings = build_model_settings(config, os.environ)
    return ModelConfiguration(
        default=config.model_names or (OFFLINE,),
        settings=settings,
        windows=build_windows(config, settings),
        access=config.model_access,
    )


def _list_configured(config: Config, layers: Layers | None) -> dict[EntryId, ConfiguredEntry]:
    """Return the entries of the configuration that the store cannot replace, with where they are set."""
    entries = dict(iter_entries(config))
    for name in RuntimeSettings.__struct_fields__ if layers else ():
        # A value that is written out counts as set, also if it is the default.
        if layers and name in layers.tree and not isinstance(value := getattr(config, name), dict):
            entries.setdefault(EntryId(GENERAL, name), to_builtins(value))
    return {
        entry: ConfiguredEntry(
            value=mask_entry(entry, value),
            location=layers.describe_source(entry.path) if layers else "the configuration",
        )
        for entry, value in entries.items()
    }


def _list_locations(config: Config, servers: Collection[str], layers: Layers) -> dict[EntryId, str]:
    """Return where the MCP servers and the keys of the configuration are set."""
    places = {EntryId(KEYS, key.name): layers.locate(("keys", at)).name for at, key in enumerate(config.keys)}
    for id in servers:
        in_config = id in config.servers
        places[EntryId(SERVERS, id)] = layers.locate((SERVERS, id)).name if in_config else config.mcp_json
    return places


def _check_model_patterns(config: Config) -> tuple[str, ...]:
    """Return the patterns of `models`. Raise Misconfigured for a pattern of an unknown provider."""
    providers = (*PROVIDERS, *config.providers)
    for pattern in config.model_patterns:
        provider = parse_model_name(pattern).provider
        if provider not in providers:
            raise Misconfigured(f"models: {pattern!r} names no known provider{_suggest(provider, providers)}")
    return config.model_patterns


def load_configured_tools(config: Config, base: Path) -> list[RunnableTool]:
    """Return the tools of the configuration; the rules of `[tool.NAME]` replace those of the tool itself."""
    tools = [as_tool(value) for value in load_tools(config.tools, base)]
    _require_known(config.tool, "[tool.{}]", tools, config)
    return [_apply_tool_rules(tool, config.tool.get(tool.definition.name)) for tool in tools]


def hash_config(config: Config, servers: Mapping[str, ServerSpec]) -> dict[str, str]:
    """Return hashes of those parts of the configuration whose changes are audited. No secret is part of them."""
    jwt = replace(config.jwt, secret="") if config.jwt else None
    parts: dict[str, object] = {
        "rules": (config.tool, config.divisions, config.tenants, config.default_tools, config.trust, config.redact),
        "prompt": config.system_prompt,
        "keys": config.keys,
        "tokens": jwt,
        "identity_provider": replace(config.oidc, client_secret="") if config.oidc else None,
        "servers": {name: mask_spec(spec) for name, spec in servers.items()},
        # Without the last part if it has its default, so that the hash is the one that earlier versions stored.
        "added_servers": (config.add_servers, config.private_addresses, *[True][: config.trust_added_servers]),
    }
    return {name: hash_content(part) for name, part in parts.items()}


def _build_provider_tools(config: Config) -> list[Tool]:
    chosen = config.provider_tools
    code = [build_provider_tool("code_execution")] if chosen.code_execution else []
    stores = ProviderOptions(stores=chosen.file_search)
    return [*code, build_provider_tool("file_search", stores)] if chosen.file_search else code


def load_configured_servers(config: Config, environment: Mapping[str, str]) -> dict[str, ServerSpec]:
    """Return the MCP servers of the configuration and of the file `mcp_json`. Raise Misconfigured."""
    configured = dict(config.servers)
    if not config.mcp_json:
        return configured
    from_file = load_mcp_servers(Path(config.mcp_json), environment)
    if twice := sorted(configured.keys() & from_file.keys()):
        raise Misconfigured(f"the server {twice[0]!r} is in the configuration and in {config.mcp_json}: remove one")
    return {**configured, **from_file}


def build_model_settings(config: Config, environment: Mapping[str, str]) -> ModelSettings:
    """Return what the names of models stand for in this configuration."""
    return ModelSettings(providers=config.providers, options=build_options(config), environment=environment)


def _build_default_settings(config: Config, tool_names: Collection[str]) -> Settings:
    return Settings(tools=_resolve_tool_choice(config.default_tools, "default_tools", config, tool_names))


def _check_divisions(config: Config, tool_names: Collection[str]) -> Mapping[str, DivisionConfig]:
    """Return the divisions of the configuration. Raise Misconfigured if one, or a tenant, names no tool."""
    for path, division in iter_division_configs(config.divisions, config.tenants):
        _resolve_tool_choice(division.tools, f"[{'.'.join(path)}] tools", config, tool_names)
    return config.divisions


def _resolve_tool_choice(
    chosen: ToolChoice, shown_as: str, config: Config, tool_names: Collection[str]
) -> frozenset[str] | None:
    """Return the chosen names, None for all. Raise Misconfigured for a name that no tool has."""
    names = list_chosen_tools(chosen)
    unknown = sorted((names or frozenset()) - {*tool_names, *SHIPPED_TOOLS})
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
        if name not in (*tool_names, *SHIPPED_TOOLS) and not (config.servers or config.mcp_json):
            raise Misconfigured(f"{shown_as.format(name)}: there is no tool named {name!r}{_suggest(name, tool_names)}")


def _suggest(name: str, candidates: Collection[str]) -> str:
    near = difflib.get_close_matches(name, candidates, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _apply_tool_rules(tool: RunnableTool, rules: ToolRules | None) -> RunnableTool:
    return tool if rules is None else dataclasses.replace(tool, definition=apply_rules(tool.definition, rules))


def _load_verifier(jwt: JwtConfig) -> Callable[[str], Caller]:
    try:
        from toolyard.server.jwt import verifier
    except ImportError as error:
        raise Misconfigured(f"[jwt] needs more packages: {install_command('server')} ({error})") from None
    return verifier(jwt)


def _load_identity_provider(oidc: OidcConfig) -> IdentityProvider:
    try:
        from toolyard.server.oidc import OidcProvider
    except ImportError as error:
        raise Misconfigured(f"[oidc] needs more packages: {install_command('server')} ({error})") from None
    return OidcProvider(oidc)
