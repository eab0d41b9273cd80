"""`toolyard config`: show the settings with where they come from, and export and import those of the store."""

import argparse
import asyncio
import re
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol, cast

import msgspec
from msgspec import Struct, convert
from msgspec.structs import replace

from toolyard.cli.commands import COMMANDS
from toolyard.cli.common import (
    Commands,
    Setup,
    act_as_this_user,
    add_command,
    add_config_flags,
    add_server_flags,
    load_setup,
    read_environment,
)
from toolyard.cli.server_client import MissingStore, open_server_or_store
from toolyard.cli.usage import UsageError
from toolyard.client.http import ServerClient
from toolyard.core.caller import Caller
from toolyard.core.errors import Misconfigured, Refused, ToolyardError
from toolyard.core.masking import MASK
from toolyard.core.settings.checks import KeyPath
from toolyard.core.settings.runtime import GENERAL, EntryId, RuntimeSettings, build_settings, iter_entries
from toolyard.core.store import Store
from toolyard.core.tools.mcp_servers import ServerSpec, mask_spec
from toolyard.engine.settings.setting_store import SettingEntry, SettingStore
from toolyard.observability.auditor import current_actor
from toolyard.server.config import Config, StoredConfig, load_entries, show, show_stored
from toolyard.server.wiring import load_configured_servers, open_server_records, open_setting_store
from toolyard.venues.mcp.server import ServerRecord
from toolyard.venues.mcp.server_records import build_record

EXAMPLES = """  toolyard config show                            all settings as TOML, with masked secrets
  toolyard config show --sources                  also where each comes from: a line of the file, a variable, the store
  toolyard config export > stored.toml            the settings of the store; each secret becomes a ${VARIABLE}
  toolyard config import stored.toml              put settings into the store; variables are replaced here

The file, TOOLYARD_ variables and flags come before the store. If a server runs, its store is read and changed through
it, which needs the key of an administrator (--key or TOOLYARD_KEY) as soon as there is any key.
"""


class _SettingList(Struct):
    settings: list[SettingEntry]


class _StoredServer(Struct):
    id: str
    name: str
    configured: bool
    config: dict[str, object]


class _StoredServerList(Struct):
    servers: list[_StoredServer]


class StoredSettings(Protocol):
    """The settings and MCP servers of a store. Secrets are masked where they are listed."""

    async def list(self) -> Sequence[SettingEntry]: ...

    async def list_servers(self) -> Mapping[str, ServerSpec]:
        """Return the servers that are used: not those whose ids the configuration has, too."""
        ...

    async def set_all(self, values: Mapping[EntryId, object], servers: Mapping[str, ServerSpec]) -> None:
        """Store settings and servers, also in place of others: all of them, or none if one is refused."""
        ...


class ServedSettings:
    """The settings of a running server."""

    def __init__(self, client: ServerClient) -> None:
        self._client = client

    async def list(self) -> Sequence[SettingEntry]:
        return (await self._client.request("GET", "/settings", _SettingList)).settings

    async def list_servers(self) -> Mapping[str, ServerSpec]:
        rows = (await self._client.request("GET", "/servers", _StoredServerList)).servers
        return {row.id: _read_spec(row) for row in rows if not row.configured}

    async def set_all(self, values: Mapping[EntryId, object], servers: Mapping[str, ServerSpec]) -> None:
        settings = [{"kind": entry.kind, "name": entry.name, "value": value} for entry, value in values.items()]
        body = {"settings": settings, "servers": msgspec.to_builtins(servers)}
        await self._client.request("POST", "/settings/import", dict[str, object], body)


class ClosedSettings:
    """The settings of a store that no server has open."""

    def __init__(self, config: Config, settings: SettingStore, store: Store) -> None:
        self._settings = settings
        self._servers = open_server_records(config, store)
        self._is_shared = store.is_shared
        self._configured = load_configured_servers(config, read_environment())

    async def list(self) -> Sequence[SettingEntry]:
        return self._settings.list()

    async def list_servers(self) -> Mapping[str, ServerSpec]:
        stored = await self._servers.read()
        return {id: mask_spec(record.spec) for id, record in stored.items() if id not in self._configured}

    async def set_all(self, values: Mapping[EntryId, object], servers: Mapping[str, ServerSpec]) -> None:
        stored, caller = await self._servers.read(), Caller(user=current_actor.get().user)
        records = {id: self._build_record(id, spec, stored.get(id)) for id, spec in servers.items()}
        self._servers.check(records)
        await self._settings.set_all(values, caller, dry_run=True)
        await self._servers.set_all(records, {id: record.spec for id, record in stored.items()})
        await self._settings.set_all(values, caller)

    def _build_record(self, id: str, spec: ServerSpec, before: ServerRecord | None) -> ServerRecord:
        if id in self._configured:
            raise Refused(f"servers.{id} is in the configuration, which is used before the store: change it there")
        if self._is_shared and spec.replica_problem:
            raise Refused(f"servers.{id}: {spec.replica_problem}")
        return build_record(spec, before, time.time())


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "config", _require_action, COMMANDS["config"], EXAMPLES)
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    show_action = add_command(actions, "show", run_show, "print all settings with masked secrets", EXAMPLES)
    show_action.add_argument("--sources", action="store_true", help="say after each setting where it comes from")
    export = add_command(actions, "export", run_export, "print the settings of the store", EXAMPLES)
    import_action = add_command(actions, "import", run_import, "put the settings of a file into the store", EXAMPLES)
    import_action.add_argument("file", type=Path, metavar="FILE", help="a TOML file, as `export` prints it")
    for action in (show_action, export, import_action):
        add_config_flags(action, "host", "port", "model", "store", "tools")
        add_server_flags(action)


def _require_action(options: argparse.Namespace) -> None:
    raise UsageError("name an action: toolyard config show, export or import")


def run_show(options: argparse.Namespace) -> None:
    setup = load_setup(options)
    entries = asyncio.run(_list_entries(setup, options))
    stored = {EntryId(entry.kind, entry.name): entry for entry in entries if entry.source == "store"}
    for entry in entries:
        if entry.conflict or entry.problem:
            print(f"# {entry.kind}.{entry.name}: {entry.conflict or entry.problem}")

    def describe_source(path: KeyPath) -> str:
        kind, *names = map(str, path)
        entry = stored.get(EntryId(GENERAL, kind)) or (stored.get(EntryId(kind, names[0])) if names else None)
        return f"the store, set by {entry.changed_by or 'nobody'}" if entry else setup.layers.describe_source(path)

    config = merge_stored(setup.config, _build_usable(stored.values()))
    print(show(config, describe_source if options.sources else None), end="")


def run_export(options: argparse.Namespace) -> None:
    entries, servers = asyncio.run(_list_stored(load_setup(options), options))
    settings = _build_usable(entry for entry in entries if entry.source == "store")
    stored = convert(settings, StoredConfig, from_attributes=True)
    print(show_stored(replace(stored, servers=dict(servers)), name_variable), end="")


def run_import(options: argparse.Namespace) -> None:
    setup = load_setup(options)
    settings = load_entries(options.file, read_environment())
    for id, spec in settings.servers.items():
        if any(MASK in text for text in (spec.url, *spec.args)):
            raise Misconfigured(f"{options.file}: servers.{id} has {MASK} in its url or args: write the secret there")
    names = asyncio.run(_import_entries(setup, options, settings))
    print(f"{len(names)} settings are in the store: {', '.join(names)}." if names else "The file has no settings.")


async def _list_entries(setup: Setup, options: argparse.Namespace) -> Sequence[SettingEntry]:
    async with _open_settings(setup, options, "empty") as settings:
        return await settings.list()


async def _list_stored(
    setup: Setup, options: argparse.Namespace
) -> tuple[Sequence[SettingEntry], Mapping[str, ServerSpec]]:
    async with _open_settings(setup, options, "empty") as settings:
        return await settings.list(), await settings.list_servers()


async def _import_entries(setup: Setup, options: argparse.Namespace, settings: StoredConfig) -> Sequence[str]:
    """Store the settings and the servers, all or none, and return their names."""
    act_as_this_user()
    values = dict(iter_entries(settings))
    async with _open_settings(setup, options, "create") as target:
        try:
            await target.set_all(values, settings.servers)
        except ToolyardError as error:
            raise type(error)(f"{error}; nothing was stored") from None
    return [*map(str, values), *(f"servers.{id}" for id in settings.servers)]


@asynccontextmanager
async def _open_settings(
    setup: Setup, options: argparse.Namespace, if_missing: MissingStore
) -> AsyncGenerator[StoredSettings]:
    async with open_server_or_store(setup.config, options.url, options.key, if_missing=if_missing) as target:
        if isinstance(target, ServerClient):
            yield ServedSettings(target)
        else:
            settings = await open_setting_store(setup.config, setup.layers, target)
            yield ClosedSettings(setup.config, settings, target)


def _read_spec(row: _StoredServer) -> ServerSpec:
    fields = {name: value for name, value in row.config.items() if name in ServerSpec.__struct_fields__}
    return convert({**fields, "display_name": row.name if row.name != row.id else ""}, ServerSpec)


def _build_usable(entries: Iterable[SettingEntry]) -> RuntimeSettings:
    usable = {EntryId(entry.kind, entry.name): entry.value for entry in entries if not entry.problem}
    return build_settings(usable)


def merge_stored(config: Config, stored: RuntimeSettings) -> Config:
    """Return the configuration with the settings of the store, none of which it has itself."""
    merged: dict[str, object] = {}
    default = RuntimeSettings()
    for name in RuntimeSettings.__struct_fields__:
        configured, other = cast(object, getattr(config, name)), cast(object, getattr(stored, name))
        if isinstance(configured, dict) and isinstance(other, dict):
            merged[name] = {**other, **configured}
        else:
            merged[name] = other if configured == getattr(default, name) else configured
    return replace(config, **merged)


def name_variable(path: KeyPath) -> str:
    """Return the variable that stands for a secret in an export."""
    return "${" + re.sub(r"[^A-Z0-9]+", "_", "_".join(map(str, path)).upper()) + "}"
