"""The file, a variable and a flag come before the store, for every kind of setting: an entry is never mixed."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from stores.memory_replicas import MemoryDatabase, SharedMemoryStore
from support import TEST_TIMEOUT_S
from surfaces.api_client import ApiClient, Json, connect_api_client
from toolyard import Yard
from toolyard.server.config import load_with_sources
from toolyard.server.wiring import build_wiring

TOOLS = """
from toolyard import tool

@tool
def pay() -> str:
    "Pay."
    return "paid"
"""
STORED: dict[str, Json] = {
    "general/model": "toolyard:offline",
    "general/models": ["openai:gpt-5*"],
    "general/system_prompt": "Of the store.",
    "general/limits": {"turns_per_request": 7},
    "general/trust": {"after_untrusted": "deny"},
    "providers/shop": {"base_url": "https://store.example/v1"},
    "model_options/openai:gpt-5": {"seed": 1},
    "model_access/openai:*": {"roles": ["store"]},
    "tool/pay": {"approval": "always", "roles": ["store"]},
}
TABLE: list[tuple[str, str, dict[str, str], Json]] = [
    ("general/model", 'model = "toolyard:offline"', {}, "toolyard:offline"),
    ("general/models", "", {"TOOLYARD_MODELS": "openai:gpt-4*"}, ["openai:gpt-4*"]),
    ("general/system_prompt", 'system_prompt = "Of the file."', {}, "Of the file."),
    ("general/limits", "[limits]\nrun_tokens = 5", {}, {"run_tokens": 5}),
    ("general/limits", "", {"TOOLYARD_LIMITS__RUN_TOKENS": "6"}, {"run_tokens": 6}),
    ("general/trust", '[trust]\nafter_untrusted = "allow"', {}, {"after_untrusted": "allow"}),
    ("providers/shop", '[providers.shop]\nbase_url = "https://file.example/v1"', {},
     {"base_url": "https://file.example/v1"}),
    ("model_options/openai:gpt-5", '[model_options."openai:gpt-5"]\nseed = 2', {}, {"seed": 2}),
    ("model_access/openai:*", '[model_access."openai:*"]\nroles = ["file"]', {}, {"roles": ["file"]}),
    ("tool/pay", '[tool.pay]\nroles = ["file"]', {}, {"roles": ["file"]}),
    ("tool/pay", "", {"TOOLYARD_TOOL__PAY__APPROVAL": "ask"}, {"approval": "ask"}),
]  # fmt: skip


@asynccontextmanager
async def serve(
    folder: Path, database: MemoryDatabase, toml: str = "", environment: dict[str, str] | None = None
) -> AsyncGenerator[ApiClient]:
    (folder / "my_tools.py").write_text(TOOLS)
    file = folder / "toolyard.toml"
    file.write_text(f"tools = ['./my_tools.py']\nstore = 'memory:'\n{toml}")
    config, layers = load_with_sources(file, {"HOME": str(folder), **(environment or {})}, {})
    wiring = replace(build_wiring(config, folder, layers), opened_store=SharedMemoryStore(database))
    async with asyncio.timeout(TEST_TIMEOUT_S), Yard.from_wiring(wiring) as yard, connect_api_client(yard) as http:
        yield http


@pytest.mark.parametrize(("path", "toml", "environment", "value"), TABLE, ids=lambda part: str(part)[:30])
async def test_what_is_set_at_the_start_comes_before_the_store(
    tmp_path: Path, path: str, toml: str, environment: dict[str, str], value: Json
) -> None:
    database = MemoryDatabase()
    async with serve(tmp_path, database) as http:
        stored = (await http.put(f"/settings/{path}", {"value": STORED[path]}))["setting"]
        assert (stored["source"], stored["value"]) == ("store", STORED[path])
    async with serve(tmp_path, database, toml, environment) as http:
        shown = (await http.get(f"/settings/{path}"))["setting"]
        assert (shown["source"], shown["value"]) == ("file", value)
        assert shown["location"] in environment or "toolyard.toml line" in shown["location"]
        assert "is not used" in shown["conflict"]
        await http.put(f"/settings/{path}", {"value": STORED[path]}, expect=409)
        await http.delete(f"/settings/{path}")  # the stored one
        assert (await http.get(f"/settings/{path}"))["setting"]["conflict"] == ""
    async with serve(tmp_path, database) as http:
        await http.get(f"/settings/{path}", expect=404)


async def test_the_store_adds_nothing_to_a_rule_of_the_file(tmp_path: Path) -> None:
    database = MemoryDatabase()
    async with serve(tmp_path, database) as http:
        await http.put("/settings/tool/pay", {"value": STORED["tool/pay"]})
        assert "needs one of the roles store" in str(await http.get("/access?tool=pay"))
    async with serve(tmp_path, database, "[tool.pay]\ntimeout_s = 5") as http:
        access = str(await http.get("/access?tool=pay"))
        assert "store" not in access and "'allow'" in access


async def test_a_value_that_is_written_out_counts_as_set_also_if_it_is_the_default(tmp_path: Path) -> None:
    async with serve(tmp_path, MemoryDatabase(), "[limits]\nturns_per_request = 50") as http:
        refused = await http.put("/settings/general/limits", {"value": {"turns_per_request": 500}}, expect=409)
        assert "toolyard.toml line" in refused["error"]
