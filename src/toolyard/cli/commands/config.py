"""`toolyard config`: show the settings with where they come from, and export and import those of the store."""

import argparse
import asyncio
import re
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast
from urllib.parse import quote

from msgspec import Struct
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
from toolyard.core.errors import ToolyardError
from toolyard.core.settings.checks import KeyPath
from toolyard.core.settings.runtime import GENERAL, EntryId, RuntimeSettings, build_settings, iter_entries
from toolyard.engine.settings.setting_store import SettingEntry, SettingStore
from toolyard.observability.auditor import current_actor
from toolyard.server.config import Config, load_entries, show, show_stored
from toolyard.server.wiring import open_setting_store

EXAMPLES = """  toolyard config show                            all settings as TOML, with masked secrets
  toolyard config show --sources                  also where each comes from: a line of the file, a variable, the store
  toolyard config export > stored.toml            the settings of the store; each secret becomes a ${VARIABLE}
  toolyard config import stored.toml              put settings into the store; variables are replaced here

The file, TOOLYARD_ variables and flags come before the store. If a server runs, its store is read and changed through
it, which needs the key of an administrator (--key or TOOLYARD_KEY) as soon as there is any key.
"""


class _SettingList(Struct):
    settings: list[SettingEntry]


class StoredSettings:
    """The settings of a running server, or of a store that no server has open."""

    def __init__(self, target: ServerClient | SettingStore) -> None:
        self._target = target

    async def list(self) -> Sequence[SettingEntry]:
        if isinstance(self._target, SettingStore):
            return self._target.list()
        return (await self._target.request("GET", "/settings", _SettingList)).settings

    async def set(self, entry: EntryId, value: object) -> None:
        if isinstance(self._target, SettingStore):
            await self._target.set(entry, value, Caller(user=current_actor.get().user))
        else:
            path = f"/settings/{entry.kind}/{quote(entry.name, safe='')}"
            await self._target.request("PUT", path, dict[str, object], {"value": value})


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
        entry = stored.get(EntryId(kind, names[0]) if names else EntryId(GENERAL, kind))
        return f"the store, set by {entry.changed_by or 'nobody'}" if entry else setup.layers.describe_source(path)

    config = merge_stored(setup.config, _build_usable(stored.values()))
    print(show(config, describe_source if options.sources else None), end="")


def run_export(options: argparse.Namespace) -> None:
    entries = asyncio.run(_list_entries(load_setup(options), options))
    print(show_stored(_build_usable(entry for entry in entries if entry.source == "store"), name_variable), end="")


def run_import(options: argparse.Namespace) -> None:
    setup = load_setup(options)
    settings = load_entries(options.file, read_environment())
    names = asyncio.run(_import_entries(setup, options, settings))
    print(f"{len(names)} settings are in the store: {', '.join(names)}." if names else "The file has no settings.")


async def _list_entries(setup: Setup, options: argparse.Namespace) -> Sequence[SettingEntry]:
    async with _open_settings(setup, options, "empty") as settings:
        return await settings.list()


async def _import_entries(setup: Setup, options: argparse.Namespace, settings: RuntimeSettings) -> Sequence[str]:
    """Store the entries, those that others refer to first. Return their names."""
    act_as_this_user()
    entries = sorted(iter_entries(settings), key=lambda pair: (pair[0].kind == GENERAL, pair[0].kind != "providers"))
    done: list[str] = []
    async with _open_settings(setup, options, "create") as target:
        for entry, value in entries:
            try:
                await target.set(entry, value)
            except ToolyardError as error:
                before = f"; stored before it: {', '.join(done)}" if done else "; nothing was stored"
                raise type(error)(f"{entry}: {error}{before}") from None
            done.append(str(entry))
    return done


@asynccontextmanager
async def _open_settings(
    setup: Setup, options: argparse.Namespace, if_missing: MissingStore
) -> AsyncGenerator[StoredSettings]:
    async with open_server_or_store(setup.config, options.url, options.key, if_missing=if_missing) as target:
        if not isinstance(target, ServerClient):
            target = await open_setting_store(setup.config, setup.layers, target)
        yield StoredSettings(target)


def _build_usable(entries: Iterable[SettingEntry]) -> RuntimeSettings:
    usable = {EntryId(entry.kind, entry.name): entry.value for entry in entries if not entry.problem}
    return build_settings(usable)


def merge_stored(config: Config, stored: RuntimeSettings) -> Config:
    """Return the configuration with the settings of the store, none of which it has itself."""
    merged: dict[str, object] = {}
    for name in RuntimeSettings.__struct_fields__:
        own, other = cast(object, getattr(config, name)), cast(object, getattr(stored, name))
        merged[name] = {**other, **own} if isinstance(own, dict) and isinstance(other, dict) else own or other
    return replace(config, **merged)


def name_variable(path: KeyPath) -> str:
    """Return the variable that stands for a secret in an export."""
    return "${" + re.sub(r"[^A-Z0-9]+", "_", "_".join(map(str, path)).upper()) + "}"
