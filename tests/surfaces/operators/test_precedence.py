"""What counts of a setting that is set twice: a flag, then a variable, then the file, then the store."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from msgspec import inspect
from msgspec.structs import replace

from surfaces.api_client import Json, connect_api_client
from surfaces.unconfigured import PROVIDER, open_unconfigured
from toolyard import Yard
from toolyard.app import SystemClock, Wiring, open_store
from toolyard.core.settings.runtime import GENERAL, EntryId, RuntimeSettings, build_settings, get_runtime_type
from toolyard.engine.settings.setting_store import SettingStore
from toolyard.server.config import load_tools, load_with_sources
from toolyard.server.wiring import build_wiring
from toolyard.venues.mcp.auth.sealed_records import SealedRecords

SECRET = "a secret of at least thirty-two characters"
TOOLS = "from toolyard import tool\n\n@tool\ndef pay() -> str:\n    return 'paid'\n"


class Row(NamedTuple):
    """An entry, and what the store, the file, a variable and a flag say of it; empty where they say nothing."""

    path: str
    stored: Json | str | list[str]
    file: str = ""
    variable: tuple[str, str] | None = None
    flag: tuple[str, str] | None = None

    @property
    def entry(self) -> EntryId:
        kind, _, name = self.path.partition("/")
        return EntryId(kind, name)


ROWS = (
    Row("general/model", "shop:small", 'model = "openai:of-the-file"', flag=("model", "toolyard:offline")),
    Row("general/models", ["shop:large"], 'models = ["toolyard:offline"]'),
    Row("general/system_prompt", "Of the store.", 'system_prompt = "Of the file."'),
    Row("general/limits", {"run_tokens": 7}, "[limits]\nrun_seconds = 9", ("TOOLYARD_LIMITS__RUN_SECONDS", "8")),
    Row("general/trust", {"after_untrusted": "allow"}, '[trust]\nafter_untrusted = "deny"'),
    Row("general/web_search", {"prefer": "off"}, "[web_search]\nmax_uses = 2"),
    Row("general/redact", {"own": {"staff": "EMP-[0-9]{4}"}}, '[redact]\npatterns = ["jwt"]'),
    Row("providers/openai", {"api_key": "stored"}, '[providers.openai]\napi_key = "of-the-file"'),
    Row("model_options/openai:a", {"seed": 1, "window": 9_000}, '[model_options."openai:a"]\nseed = 2'),
    Row("model_access/openai:*", {"roles": ["stored"]}, '[model_access."openai:*"]\nroles = ["file"]'),
    Row("tool/pay", {"approval": "never"}, variable=("TOOLYARD_TOOL__PAY__APPROVAL", "ask")),
    Row("prices/openai:a", {"input": 1, "output": 1}, '[prices."openai:a"]\ninput = 2\noutput = 2'),
    Row("budgets/team", {"amount": 1, "window": "total"}, '[budgets.team]\namount = 2\nwindow = "total"'),
    Row("divisions/food", {"prompt": "Of the store."}, '[divisions.food]\nprompt = "Of the file."'),
    Row("tenants/acme", {"tools": "all"}, '[tenants.acme]\nlanguage = "de"'),
)
OTHERS: Mapping[str, Json] = {
    "providers/shop": {"base_url": "http://127.0.0.1:9/v1"},
    "model_options/openai:b": {"seed": 3},
    "divisions/toys": {"language": "de"},
}
"""Entries that only the store has, of kinds that the file has too."""


def write_file(folder: Path) -> tuple[Path, dict[str, str]]:
    """Write the file; return it, and where each entry of the rows is set first."""
    lines: list[str] = []
    places: dict[str, str] = {}
    file = folder / "toolyard.toml"
    for row in sorted(ROWS, key=lambda row: row.file.startswith("[")):  # values at the top come before the tables
        if row.file:
            places[row.path] = f"{file} line {len(lines) + 1}"
            lines += row.file.splitlines()
    for row in ROWS:
        if row.flag or (row.variable and not row.file):
            places[row.path] = f"--{row.flag[0]}" if row.flag else str(row.variable and row.variable[0])
    file.write_text("\n".join(lines))
    return file, places


def test_the_rows_are_all_kinds_of_settings() -> None:
    fields = get_runtime_type().fields
    kinds = {field.name if isinstance(field.type, inspect.DictType) else f"general/{field.name}" for field in fields}
    assert {row.path if row.entry.kind == GENERAL else row.entry.kind for row in ROWS} == kinds


async def test_an_entry_of_the_file_a_variable_or_a_flag_is_used_before_one_of_the_store(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'yard.db'}"
    (tmp_path / "shop.py").write_text(TOOLS)
    async with open_unconfigured(store=store, secret=SECRET, tools=load_tools(["shop.py"], tmp_path)) as http:
        await http.put(PROVIDER, {"value": OTHERS["providers/shop"]})
        for path, value in (*OTHERS.items(), *((row.path, row.stored) for row in ROWS)):
            await http.put(f"/settings/{path}", {"value": value})
    file, places = write_file(tmp_path)
    environment = {"HOME": str(tmp_path), **dict(row.variable for row in ROWS if row.variable)}
    config, layers = load_with_sources(file, environment, dict(row.flag for row in ROWS if row.flag))
    assert (config.model_names, config.limits.run_seconds, config.limits.run_tokens) == (("toolyard:offline",), 8, 0)
    config = replace(config, store=store, tools=(str(tmp_path / "shop.py"),))
    wiring = dataclasses.replace(build_wiring(config, tmp_path, layers), secret=SECRET)
    assert await load_applied(store, wiring) == build_settings(
        {EntryId(*path.split("/", 1)): value for path, value in OTHERS.items()}
    )
    async with Yard.from_wiring(wiring) as yard, connect_api_client(yard) as http:
        shown = {f"{entry['kind']}/{entry['name']}": entry for entry in (await http.get("/settings"))["settings"]}
        assert set(shown) == {*OTHERS, *(row.path for row in ROWS)}
        assert {path for path, entry in shown.items() if entry["source"] == "store"} == set(OTHERS)
        for row in ROWS:
            entry, path = shown[row.path], f"/settings/{row.path}"
            assert (entry["location"], entry["value"] == row.stored) == (places[row.path], False), row.path
            assert f"the store has {row.entry} too, which is not used" in entry["conflict"]
            refused = await http.put(path, {"value": row.stored}, expect=409)
            assert places[row.path] in refused["error"]
            await http.delete(path)
            assert (await http.get(path))["setting"]["conflict"] == ""
            await http.delete(path, expect=409)


async def load_applied(store: str, wiring: Wiring) -> RuntimeSettings:
    """Return the settings of the store that are applied beside the configuration."""
    applied: list[RuntimeSettings] = []

    async def apply(settings: RuntimeSettings) -> None:
        applied.append(settings)

    opened = await open_store(store)
    try:
        sealer, configured = SealedRecords(opened, SECRET), wiring.configured_settings
        settings = SettingStore(
            opened,
            SystemClock(),
            sealer,
            configured,
            find_address=lambda entry, value: "",
            check=lambda entry, before, after: None,
            apply=apply,
        )
        await settings.load()
    finally:
        await opened.close()
    return applied[0]
